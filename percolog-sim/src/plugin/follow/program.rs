//! What executing a file comes to: a program, a script, or what cannot be simulated.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::plugin::architecture;

/// What executing a file comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// The kernel will refuse it, and knows the error best.
    Refused,
    /// It cannot be simulated, for this reason.
    Native(&'static str),
    /// A program for the simulator. Unless empty, `words` come in the place of its name for itself.
    Simulated {
        program: PathBuf,
        words: Vec<Vec<u8>>,
    },
}

/// Scripts run by scripts: the kernel allows so many.
const NESTED: usize = 5;

/// Looks at the file behind a path.
pub(super) fn examine(path: &Path) -> Program {
    let mut program = path.to_owned();
    let mut words: Vec<Vec<u8>> = Vec::new();
    for _ in 0..NESTED {
        let Ok(metadata) = fs::metadata(&program) else {
            return Program::Refused;
        };
        if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
            return Program::Refused;
        }
        let Ok(head) = head(&program) else {
            return Program::Native("it cannot be read");
        };
        let Some(line) = head.strip_prefix(b"#!") else {
            return match judge(&head, &metadata) {
                None => Program::Simulated { program, words },
                Some(reason) => reason,
            };
        };
        let Some((interpreter, argument)) = interpreter(line) else {
            return Program::Refused;
        };
        // The script takes the place of its name for itself; scripts keep only the rights of whoever runs them.
        let script = program.into_os_string().into_encoded_bytes();
        if words.is_empty() {
            words.push(script);
        } else {
            words[0] = script;
        }
        if let Some(argument) = argument {
            words.insert(0, argument.to_vec());
        }
        words.insert(0, interpreter.to_vec());
        program = PathBuf::from(OsStr::from_bytes(interpreter));
    }
    Program::Refused
}

/// As much of a file as the kernel looks at.
fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    const LOOKED_AT: u64 = 256;
    let mut head = Vec::new();
    File::open(path)?.take(LOOKED_AT).read_to_end(&mut head)?;
    Ok(head)
}

/// What keeps a file from being simulated.
fn judge(head: &[u8], metadata: &fs::Metadata) -> Option<Program> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    if !head.starts_with(b"\x7fELF") {
        // The kernel may know another kind of program; most likely it refuses, and a shell takes it for a script.
        return Some(Program::Refused);
    }
    let machine = architecture::elf_machine().to_le_bytes();
    if head.get(4..6) != Some(&[CLASS_64, LITTLE_ENDIAN]) || head.get(18..20) != Some(&machine[..])
    {
        return Some(Program::Native("it is for another architecture"));
    }
    // SAFETY: neither call has preconditions.
    let (user, group) = unsafe { (geteuid(), getegid()) };
    let mode = metadata.mode();
    if (mode & SET_USER != 0 && metadata.uid() != user)
        || (mode & SET_GROUP == SET_GROUP && metadata.gid() != group)
    {
        return Some(Program::Native("it runs with the rights of another user"));
    }
    None
}

unsafe extern "C" {
    fn geteuid() -> u32;
    fn getegid() -> u32;
}

/// The interpreter that a script's first line names, and the one argument that may follow.
fn interpreter(line: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let end = line
        .iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(line.len());
    let line = line[..end].trim_ascii();
    if line.is_empty() {
        return None;
    }
    let Some(blank) = line.iter().position(|byte| matches!(byte, b' ' | b'\t')) else {
        return Some((line, None));
    };
    Some((&line[..blank], Some(line[blank..].trim_ascii())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder for one test, with the files that it makes.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("percolog-follow-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder for the test");
            Folder(path)
        }

        fn file(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, bytes).expect("a file for the test");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn elf(class: u8, machine: u8) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
        head[16] = 2;
        head[18] = machine;
        head
    }

    fn bytes(path: &Path) -> Vec<u8> {
        path.as_os_str().as_bytes().to_vec()
    }

    #[test]
    fn only_programs_for_this_architecture_are_followed() {
        let folder = Folder::new("kinds");
        let ours = folder.file("ours", &elf(2, 62), 0o755);
        let no_words = Vec::new();
        assert_eq!(
            examine(&ours),
            Program::Simulated {
                program: ours.clone(),
                words: no_words
            }
        );
        for (name, class, machine) in [("arm", 2, 183), ("i386", 1, 3), ("x32", 1, 62)] {
            let other = folder.file(name, &elf(class, machine), 0o755);
            assert!(
                matches!(examine(&other), Program::Native(reason) if reason.contains("architecture"))
            );
        }
        for refused in [
            folder.file("text", b"hello\n", 0o755),
            folder.file("closed", &elf(2, 62), 0o644),
            folder.file("blank", b"#!  \n", 0o755),
            folder.0.clone(),
            folder.0.join("missing"),
        ] {
            assert_eq!(examine(&refused), Program::Refused, "{}", refused.display());
        }
    }

    #[test]
    fn scripts_run_in_their_interpreter_also_if_that_is_a_script() {
        let folder = Folder::new("scripts");
        let shell = folder.file("shell", &elf(2, 62), 0o755);
        let line = [b"#! ", &bytes(&shell)[..], b" -e  -x \nrest\n"].concat();
        let inner = folder.file("inner", &line, 0o755);
        let expected = [bytes(&shell), b"-e  -x".to_vec(), bytes(&inner)].to_vec();
        assert_eq!(
            examine(&inner),
            Program::Simulated {
                program: shell.clone(),
                words: expected
            }
        );

        let line = [b"#!", &bytes(&inner)[..], b"\n"].concat();
        let outer = folder.file("outer", &line, 0o755);
        let expected = vec![
            bytes(&shell),
            b"-e  -x".to_vec(),
            bytes(&inner),
            bytes(&outer),
        ];
        assert_eq!(
            examine(&outer),
            Program::Simulated {
                program: shell,
                words: expected
            }
        );

        let circle = folder.0.join("circle");
        let line = [b"#!", &bytes(&circle)[..]].concat();
        let circle = folder.file("circle", &line, 0o755);
        assert_eq!(examine(&circle), Program::Refused);
    }

    #[test]
    fn the_rights_of_another_user_are_not_taken_away() {
        let folder = Folder::new("rights");
        let own = folder.file("own", &elf(2, 62), 0o4755);
        let head = head(&own).expect("it can be read");
        let metadata = fs::metadata(&own).expect("it is there");
        assert_eq!(
            judge(&head, &metadata),
            None,
            "its owner may run it: these are no other rights"
        );
    }
}
