//! Programs that the guest executes are simulated too.
//!
//! The emulator would let the kernel execute them, beside the simulator. So the call is changed into one that executes
//! the emulator with this plugin, with the program and its arguments behind it. What cannot be followed (another
//! architecture, a program with the rights of another user) runs on the host, and the result names it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::plugin::architecture;
use crate::plugin::files;
use crate::plugin::image::{self, Handed};
use crate::plugin::memory;
use crate::plugin::numbers as n;
use crate::plugin::settings::Settings;
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::{Call, Change, Scratch, Step, Then};

/// How this process was started, and so how its successors are.
#[derive(Debug)]
pub(crate) struct Emulator {
    /// The emulator, and what it is told before the program: everything but the program's name for itself and the plugin.
    command: Vec<Vec<u8>>,
    /// The path of the plugin, unless it lies in memory, and of its settings, as they stand in an option.
    plugin: String,
    config: String,
    /// The file with the plugin for the program that is being executed.
    handed: Option<Handed>,
    /// The guest's program.
    pub(crate) program: Vec<u8>,
}

impl Emulator {
    /// Finds out from this process's own command line, and from the settings where that does not say.
    pub(crate) fn of_this_process(settings: &Settings) -> Emulator {
        let line = fs::read("/proc/self/cmdline").unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        Emulator::from_words(&words, settings)
    }

    fn from_words(words: &[&[u8]], settings: &Settings) -> Emulator {
        let mut command = vec![settings.qemu.clone().into_bytes()];
        let mut at = 1;
        while let Some(&word) = words.get(at).filter(|word| word.first() == Some(&b'-')) {
            if word == b"--" {
                at += 1;
                break;
            }
            // The launcher starts it with options that take a value, and these that take none.
            let alone = matches!(word, b"-singlestep" | b"-strace" | b"-one-insn-per-tb");
            let end = if alone { at + 1 } else { at + 2 };
            if word != b"-0" && word != b"-plugin" {
                command.extend(
                    words[at..end.min(words.len())]
                        .iter()
                        .map(|word| word.to_vec()),
                );
            }
            at = end;
        }
        // In this option a comma ends a path unless it is doubled.
        let [plugin, config] =
            [&settings.plugin, &settings.config].map(|path| path.replace(',', ",,"));
        let program = words.get(at).copied().unwrap_or_default();
        let program = fs::canonicalize(Path::new(OsStr::from_bytes(program))).map_or_else(
            |_| program.to_vec(),
            |path| path.into_os_string().into_encoded_bytes(),
        );
        Emulator {
            command,
            plugin,
            config,
            handed: None,
            program,
        }
    }

    /// The command for a program that is about to be executed.
    fn successor(&mut self) -> std::io::Result<Vec<Vec<u8>>> {
        let plugin = if image::is_here() {
            let handed = self.handed.insert(image::hand_on()?).number();
            let config = &self.config;
            format!("file=/proc/self/fd/{handed},config={config},memory={handed}")
        } else {
            format!("file={},config={}", self.plugin, self.config)
        };
        let mut command = self.command.clone();
        command.extend([b"-plugin".to_vec(), plugin.into_bytes()]);
        Ok(command)
    }

    /// How a forked process was started.
    pub(crate) fn forked(&self) -> Emulator {
        Emulator {
            command: self.command.clone(),
            plugin: self.plugin.clone(),
            config: self.config.clone(),
            handed: None,
            program: self.program.clone(),
        }
    }

    /// The program was not executed after all.
    pub(crate) fn stays(&mut self) {
        self.handed = None;
    }
}

/// What executing a file comes to.
#[derive(Debug, PartialEq, Eq)]
enum Program {
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

fn examine(path: &Path) -> Program {
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

/// `execve` or `execveat`
pub(crate) fn execute(sim: &mut Simulator, call: &Call) -> Step {
    const EMPTY_PATH: u64 = 0x1000;
    const NO_FOLLOW: u64 = 0x100;
    let is_at = call.number == n::EXECVEAT;
    let [path_at, argv, envp] = if is_at {
        [call.arguments[1], call.arguments[2], call.arguments[3]]
    } else {
        [call.arguments[0], call.arguments[1], call.arguments[2]]
    };
    let Some(path) = memory::read_string(path_at, files::LONGEST) else {
        return Step::Quick;
    };
    let folder = if is_at {
        call.arguments[0] as i32
    } else {
        n::AT_FDCWD
    };
    let flags = if is_at { call.arguments[4] } else { 0 };
    let file = if path.is_empty() && flags & EMPTY_PATH != 0 {
        open_file(folder)
    } else if path.is_empty() || flags & NO_FOLLOW != 0 {
        return Step::Quick;
    } else if files::is_own_program(&path) {
        Some(PathBuf::from(OsStr::from_bytes(
            &sim.guest().emulator.program,
        )))
    } else {
        place(folder, &path)
    };
    let shown = || match &file {
        Some(file) => file.display().to_string(),
        None => String::from_utf8_lossy(&path).into_owned(),
    };
    let program = match &file {
        Some(file) => examine(file),
        None => Program::Native("it has no name"),
    };
    let (program, words) = match program {
        Program::Refused => return Step::Quick,
        Program::Native(reason) => return native(sim, &shown(), reason),
        Program::Simulated { .. } if !sim.settings.follow => {
            return native(sim, &shown(), "executed programs are not followed");
        }
        Program::Simulated { program, words } => (program, words),
    };
    let Some(arguments) = pointers(argv) else {
        return Step::Quick;
    };
    let program = program.into_os_string().into_encoded_bytes();
    let Ok(command) = sim.guest().emulator.successor() else {
        return native(sim, &shown(), "there is no open file left for the plugin");
    };
    let layout = Layout::new(&command, &program, &words, &arguments);
    let Some((address, scratch)) = layout.write(call.stack) else {
        sim.guest().emulator.stays();
        return native(
            sim,
            &shown(),
            "there is no room for its arguments below the stack",
        );
    };
    let table = address + layout.table as u64;
    Step::Changed(Change {
        number: Some(n::EXECVE),
        arguments: vec![(0, address), (1, table), (2, envp)],
        scratch: Some(scratch),
        blocks: false,
        then: Then::Executed { is_simulated: true },
    })
}

fn native(sim: &mut Simulator, path: &str, reason: &str) -> Step {
    sim.unsimulated(format!("{path}: {reason}"));
    Step::Changed(Change::followed_by(Then::Executed {
        is_simulated: false,
    }))
}

/// The name of an open file; nothing if it has none any more.
fn open_file(fd: i32) -> Option<PathBuf> {
    let name = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    name.is_file().then_some(name)
}

/// A path relative to an open folder. The folder may be closed by the execution, so it is named.
fn place(folder: i32, path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    if path.is_absolute() || folder == n::AT_FDCWD {
        // Not taken for an option.
        let relative = path.as_os_str().as_bytes().starts_with(b"-");
        return Some(if relative {
            Path::new(".").join(path)
        } else {
            path.to_owned()
        });
    }
    let folder = fs::read_link(format!("/proc/self/fd/{folder}")).ok()?;
    Some(folder.join(path))
}

/// A table of addresses that ends with zero.
fn pointers(table: u64) -> Option<Vec<u64>> {
    /// More than the kernel takes.
    const MOST: usize = 1 << 20;
    let mut pointers = Vec::new();
    if table == 0 {
        return Some(pointers);
    }
    loop {
        let at = table.checked_add(8 * pointers.len() as u64)?;
        let [pointer] = memory::read_words(at)?;
        if pointer == 0 {
            return Some(pointers);
        }
        if pointers.len() == MOST {
            return None;
        }
        pointers.push(pointer);
    }
}

/// An argument of the program to be executed.
enum Argument {
    /// A string that is written, at this offset.
    Written(usize),
    /// A string that the guest has.
    Guests(u64),
}

/// Strings and the table that refers to them, as they will lie in memory.
struct Layout {
    strings: Vec<u8>,
    arguments: Vec<Argument>,
    /// Where the table begins.
    table: usize,
}

impl Layout {
    /// The emulator's command, what the program calls itself, the program, and its arguments. The path of the emulator
    /// comes first.
    fn new(command: &[Vec<u8>], program: &[u8], words: &[Vec<u8>], guests: &[u64]) -> Layout {
        let mut layout = Layout {
            strings: Vec::new(),
            arguments: Vec::new(),
            table: 0,
        };
        for word in command {
            layout.push(word);
        }
        layout.push(b"-0");
        let mut words = words.iter();
        match (words.next(), guests.first()) {
            (Some(name), _) => layout.push(name),
            (None, Some(&name)) => layout.arguments.push(Argument::Guests(name)),
            (None, None) => layout.push(b""),
        }
        layout.push(program);
        for word in words {
            layout.push(word);
        }
        let rest = guests
            .iter()
            .skip(1)
            .map(|&address| Argument::Guests(address));
        layout.arguments.extend(rest);
        layout.table = layout.strings.len().next_multiple_of(8);
        layout
    }

    fn push(&mut self, word: &[u8]) {
        self.arguments.push(Argument::Written(self.strings.len()));
        self.strings.extend_from_slice(word);
        self.strings.push(0);
    }

    fn write(&self, stack: u64) -> Option<(u64, Scratch)> {
        let length = self.table + 8 * (self.arguments.len() + 1);
        let bytes = self.bytes(Scratch::place(stack, length)?);
        Scratch::write(stack, &bytes)
    }

    /// The bytes, for memory at `address`.
    fn bytes(&self, address: u64) -> Vec<u8> {
        let mut bytes = self.strings.clone();
        bytes.resize(self.table, 0);
        for argument in &self.arguments {
            let pointer = match argument {
                Argument::Written(offset) => address + *offset as u64,
                Argument::Guests(pointer) => *pointer,
            };
            bytes.extend(pointer.to_le_bytes());
        }
        bytes.extend([0; 8]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Machine;
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

    #[test]
    fn a_successor_is_started_as_this_process_was() {
        let settings = Settings {
            machine: Machine::flat("follow", 1),
            run_ahead: 0,
            seed: 0,
            result: PathBuf::new(),
            verify: false,
            files: Vec::new(),
            qemu: "/usr/bin/qemu".to_owned(),
            plugin: "/x/plugin.so,2".to_owned(),
            config: "/x/config".to_owned(),
            follow: true,
            chaos: false,
            free_waits: false,
            top_lines: 1,
            free: Vec::new(),
            objects: true,
            skip: crate::plugin::region::Skip::Nothing,
            lasts: None,
            region_functions: Vec::new(),
        };
        let words: [&[u8]; 10] = [
            b"qemu",
            b"-seed",
            b"7",
            b"-0",
            b"sh",
            b"-plugin",
            b"p.so,config=c",
            b"/bin/sh",
            b"-c",
            b"-0",
        ];
        let mut emulator = Emulator::from_words(&words, &settings);
        // Not as it was told then: the plugin may have come in a file that is closed.
        let expected: [&[u8]; 5] = [
            b"/usr/bin/qemu",
            b"-seed",
            b"7",
            b"-plugin",
            b"file=/x/plugin.so,,2,config=/x/config",
        ];
        assert_eq!(emulator.command, expected[..3]);
        let shell = fs::canonicalize("/bin/sh").expect("every system has one");
        assert_eq!(emulator.program, bytes(&shell));
        if !image::is_here() {
            assert_eq!(emulator.successor().expect("no file is needed"), expected);
        }
        let emulator = Emulator::from_words(&[b"test", b"no-such-program"], &settings);
        assert_eq!(emulator.command, expected[..1]);
        assert_eq!(emulator.program, b"no-such-program");
    }

    #[test]
    fn the_table_refers_to_the_strings_before_it() {
        let command = [b"q".to_vec(), b"-plugin".to_vec()];
        let read = |bytes: &[u8], address: u64, layout: &Layout| {
            let words = bytes[layout.table..].chunks_exact(8);
            words
                .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
                .map(|pointer| match pointer.checked_sub(address) {
                    Some(offset) if (offset as usize) < layout.table => {
                        let string = &bytes[offset as usize..];
                        let end = string.iter().position(|&byte| byte == 0).expect("its end");
                        String::from_utf8_lossy(&string[..end]).into_owned()
                    }
                    _ => pointer.to_string(),
                })
                .collect::<Vec<_>>()
        };
        let layout = Layout::new(&command, b"/bin/x", &[], &[11, 12, 13]);
        let bytes = layout.bytes(4096);
        assert_eq!(
            read(&bytes, 4096, &layout),
            ["q", "-plugin", "-0", "11", "/bin/x", "12", "13", "0"]
        );
        let words = [b"/bin/sh".to_vec(), b"-e".to_vec(), b"script".to_vec()];
        let layout = Layout::new(&command, b"/bin/sh", &words, &[11, 12]);
        let bytes = layout.bytes(4096);
        let expected = [
            "q", "-plugin", "-0", "/bin/sh", "/bin/sh", "-e", "script", "12", "0",
        ];
        assert_eq!(read(&bytes, 4096, &layout), expected);
        let layout = Layout::new(&command, b"/bin/x", &[], &[]);
        assert_eq!(
            read(&layout.bytes(8), 8, &layout),
            ["q", "-plugin", "-0", "", "/bin/x", "0"]
        );
    }

    #[test]
    fn a_table_of_addresses_is_read_to_its_end() {
        let table = [3_u64, 4, 0, 5];
        assert_eq!(pointers(table.as_ptr() as u64), Some(vec![3, 4]));
        assert_eq!(pointers(0), Some(Vec::new()));
        assert_eq!(pointers(8), None);
    }
}
