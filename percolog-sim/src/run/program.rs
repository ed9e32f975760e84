//! Finds the program that was asked for, and sees that QEMU can run it before QEMU says so less clearly.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::{ProgramFault, SimulationError};
use super::qemu::Processor;

/// As many interpreters of interpreters as the Linux kernel follows.
const DEEPEST_SCRIPT: usize = 4;

/// What is given to QEMU.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The ELF file.
    pub(super) path: PathBuf,
    /// Whose code it has.
    pub(super) processor: Processor,
    /// What it finds as its own name.
    pub(super) name: OsString,
    /// Arguments before those of the user: what a script's first line adds.
    pub(super) before: Vec<OsString>,
}

/// Finds `typed` as a shell would, and checks it.
pub(super) fn find(typed: &OsStr) -> Result<Program, SimulationError> {
    let path = if typed.as_bytes().contains(&b'/') {
        PathBuf::from(typed)
    } else {
        installed(typed)
            .ok_or_else(|| SimulationError::NotInPath(typed.to_string_lossy().into_owned()))?
    };
    let mut program = Program {
        path,
        processor: Processor::X86_64,
        name: typed.to_owned(),
        before: Vec::new(),
    };
    for _ in 0..=DEEPEST_SCRIPT {
        let fault = |why| SimulationError::Program {
            path: program.path.clone(),
            why,
        };
        match check(&program.path).map_err(fault)? {
            Kind::Elf(processor) => {
                return Ok(Program {
                    processor,
                    ..program
                });
            }
            Kind::Script {
                interpreter,
                argument,
            } => {
                // As the kernel does it: the interpreter, its argument, the script, what the user typed.
                let mut before: Vec<OsString> = argument.into_iter().collect();
                before.push(program.path.into_os_string());
                before.append(&mut program.before);
                program = Program {
                    processor: program.processor,
                    name: interpreter.clone().into_os_string(),
                    path: interpreter,
                    before,
                };
            }
        }
    }
    Err(SimulationError::Program {
        path: PathBuf::from(typed),
        why: ProgramFault::Nested,
    })
}

/// The file that a shell would run for a command of this name, which is no path; `None` if none in `PATH` can be executed.
#[must_use]
pub fn installed(command: impl AsRef<OsStr>) -> Option<PathBuf> {
    in_path(command.as_ref(), std::env::var_os("PATH").as_deref())
}

/// The first executable file of that name in the folders of `path`.
pub(super) fn in_path(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    std::env::split_paths(path?)
        .map(|folder| folder.join(name))
        .find(|candidate| {
            fs::metadata(candidate)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

/// What the kernel would do with a file.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Elf(Processor),
    Script {
        interpreter: PathBuf,
        argument: Option<OsString>,
    },
}

fn check(path: &Path) -> Result<Kind, ProgramFault> {
    let found = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ProgramFault::Missing,
        _ => ProgramFault::Read(error),
    })?;
    if found.is_dir() {
        return Err(ProgramFault::Folder);
    }
    if !found.is_file() {
        return Err(ProgramFault::Special);
    }
    if found.permissions().mode() & 0o111 == 0 {
        return Err(ProgramFault::NotExecutable);
    }
    let mut file = File::open(path)?;
    // As much as the kernel looks at.
    let mut head = Vec::with_capacity(256);
    file.by_ref().take(256).read_to_end(&mut head)?;
    if head.is_empty() {
        Err(ProgramFault::Empty)
    } else if let Some(line) = head.strip_prefix(b"#!") {
        script(line)
    } else if head.starts_with(b"\x7fELF") {
        // SAFETY: neither call has preconditions.
        let own = unsafe { (libc::geteuid(), libc::getegid()) };
        if gives_rights(found.mode(), (found.uid(), found.gid()), own) {
            return Err(ProgramFault::Rights);
        }
        elf(&file, &head).map(Kind::Elf)
    } else {
        Err(ProgramFault::Unknown)
    }
}

/// Whether a program of this mode and this owner has rights that whoever runs it has not.
fn gives_rights(mode: u32, (user, group): (u32, u32), own: (u32, u32)) -> bool {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    (mode & SET_USER != 0 && user != own.0) || (mode & SET_GROUP == SET_GROUP && group != own.1)
}

/// Reads `#! interpreter one-argument`; `rest` is what follows the two signs.
fn script(rest: &[u8]) -> Result<Kind, ProgramFault> {
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or(rest);
    let line = line.trim_ascii();
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(end);
    if interpreter.is_empty() {
        return Err(ProgramFault::Interpreter);
    }
    let argument = argument.trim_ascii();
    Ok(Kind::Script {
        interpreter: PathBuf::from(OsString::from_vec(interpreter.to_vec())),
        argument: (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec())),
    })
}

/// Of an ELF header: 64 bits, little-endian, for a processor that is known, to be executed, and its dynamic linker is there.
fn elf(file: &File, head: &[u8]) -> Result<Processor, ProgramFault> {
    const DAMAGED: ProgramFault = ProgramFault::Kind("a damaged ELF file");
    let byte = |at: usize| head.get(at).copied().ok_or(DAMAGED);
    let half = |at: usize| -> Result<u16, ProgramFault> {
        Ok(u16::from_le_bytes([byte(at)?, byte(at + 1)?]))
    };
    let little = byte(5)? == 1;
    let machine = half(18).map(|machine| {
        if little {
            machine
        } else {
            machine.swap_bytes()
        }
    })?;
    let processor = match (machine, byte(4)?, little) {
        (62, 2, true) => Processor::X86_64,
        (183, 2, true) => Processor::Aarch64,
        // x32 programs are of this machine too.
        (3 | 62, 1, _) => return Err(ProgramFault::Bits),
        (183, 2, false) => {
            let big = "big-endian ARM (aarch64)".to_owned();
            return Err(ProgramFault::Architecture(big));
        }
        (other, ..) => return Err(ProgramFault::Architecture(architecture(other))),
    };
    match half(16)? {
        2 | 3 => {}
        1 => return Err(ProgramFault::Kind("an object file")),
        4 => return Err(ProgramFault::Kind("a core dump")),
        _ => return Err(DAMAGED),
    }
    if head.len() < 64 {
        return Err(DAMAGED);
    }
    let word = |bytes: &[u8], at: usize| -> Option<u64> {
        Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
    };
    let table = word(head, 32).ok_or(DAMAGED)?;
    let (size, count) = (u64::from(half(54)?), u64::from(half(56)?));
    if size < 56 || count == 0 {
        return Err(DAMAGED);
    }
    let mut interpreted = false;
    let mut executable = false;
    for index in 0..count {
        let mut entry = [0_u8; 56];
        let at = table.checked_add(index * size).ok_or(DAMAGED)?;
        file.read_exact_at(&mut entry, at).map_err(|_| DAMAGED)?;
        let kind = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        executable |= kind == 1 && entry[4] & 1 != 0;
        if kind != 3 {
            continue;
        }
        // PT_INTERP: the path of the dynamic linker, closed by a zero.
        let (at, length) = (word(&entry, 8), word(&entry, 32));
        let (Some(at), Some(length @ 1..=4096)) = (at, length) else {
            return Err(DAMAGED);
        };
        let mut linker = vec![0_u8; length as usize];
        file.read_exact_at(&mut linker, at).map_err(|_| DAMAGED)?;
        linker.truncate(linker.iter().position(|byte| *byte == 0).unwrap_or(0));
        let linker = PathBuf::from(OsString::from_vec(linker));
        let among_others = processor.libraries().is_some_and(|folder| {
            let within = linker.strip_prefix("/").unwrap_or(&linker);
            folder.join(within).is_file()
        });
        if !linker.is_file() && !among_others {
            return Err(ProgramFault::Linker(linker));
        }
        interpreted = true;
    }
    // A shared library that nobody can start has no entry point.
    if half(16)? == 3 && !interpreted && word(head, 24) == Some(0) {
        return Err(ProgramFault::Kind("a shared library"));
    }
    if !executable {
        return Err(ProgramFault::Kind("an ELF file without code"));
    }
    Ok(processor)
}

/// The name of an ELF machine.
fn architecture(machine: u16) -> String {
    match machine {
        2 | 18 | 43 => "SPARC",
        8 => "MIPS",
        20 => "32-bit PowerPC",
        21 => "PowerPC",
        22 => "IBM Z",
        40 => "32-bit ARM",
        243 => "RISC-V",
        258 => "LoongArch",
        other => return format!("another processor (ELF machine {other})"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::gives_rights;

    #[test]
    fn a_program_gives_rights_that_are_not_the_callers() {
        assert!(gives_rights(0o4755, (0, 0), (1000, 1000)));
        assert!(!gives_rights(0o4755, (0, 0), (0, 0)), "they are");
        assert!(gives_rights(0o2755, (1000, 5), (1000, 1000)));
        assert!(!gives_rights(0o2745, (1000, 5), (1000, 1000)), "it locks");
        assert!(!gives_rights(0o755, (0, 0), (1000, 1000)));
    }
}
