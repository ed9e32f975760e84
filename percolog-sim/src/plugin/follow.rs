//! Programs that the guest executes are simulated too.
//!
//! The emulator would let the kernel execute them, beside the simulator. So the call is changed into one that executes
//! the emulator with this plugin, with the program and its arguments behind it. What cannot be followed (another
//! architecture, a program with the rights of another user) runs on the host, and the result names it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::plugin::files;
use crate::plugin::image::{self, Handed};
use crate::plugin::memory;
use crate::plugin::numbers as n;
use crate::plugin::settings::Settings;
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::{Call, Change, Step, Then};

mod layout;
mod program;

use layout::Layout;
use program::{Program, examine};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Machine;

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
        assert_eq!(
            emulator.program,
            shell.into_os_string().into_encoded_bytes()
        );
        if !image::is_here() {
            assert_eq!(emulator.successor().expect("no file is needed"), expected);
        }
        let emulator = Emulator::from_words(&[b"test", b"no-such-program"], &settings);
        assert_eq!(emulator.command, expected[..1]);
        assert_eq!(emulator.program, b"no-such-program");
    }

    #[test]
    fn a_table_of_addresses_is_read_to_its_end() {
        let table = [3_u64, 4, 0, 5];
        assert_eq!(pointers(table.as_ptr() as u64), Some(vec![3, 4]));
        assert_eq!(pointers(0), Some(Vec::new()));
        assert_eq!(pointers(8), None);
    }
}
