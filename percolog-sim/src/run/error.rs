//! Why a program could not be run under the simulator.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Why a program could not be run under the simulator.
///
/// Each message is one line that says what to do about it, where there is something to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum SimulationError {
    /// The simulator's plugin reads the registers of an x86-64 Linux host; this is another one.
    Host(&'static str),

    /// There is no QEMU of this name.
    NoQemu {
        /// Its name, or where it should be.
        path: PathBuf,
        /// The variable that names another.
        variable: &'static str,
    },

    /// The program that should be QEMU did not say that it is.
    NotQemu {
        /// Where it is.
        path: PathBuf,
        /// What it said.
        said: String,
        /// What it should be.
        expected: &'static str,
        /// The variable that names another.
        variable: &'static str,
    },

    /// The plugin relies on how QEMU keeps the guest's registers; that has been proved with a few versions only.
    QemuVersion {
        /// Where it is.
        path: PathBuf,
        /// What it says it is.
        found: String,
        /// The versions with which it has been.
        proved: &'static [&'static str],
        /// The variable that names another.
        variable: &'static str,
    },

    /// QEMU was built so that it cannot load plugins.
    QemuWithoutPlugins {
        /// Where it is.
        path: PathBuf,
        /// What it says it is.
        found: String,
        /// The variable that names another.
        variable: &'static str,
    },

    /// A program that was named without a slash is in no folder of `PATH`.
    NotInPath(String),

    /// The program cannot be run, on any machine or under the simulator.
    Program {
        /// The program, or the interpreter that its `#!` line names.
        path: PathBuf,
        /// What is wrong with it.
        why: ProgramFault,
    },

    /// The function that should be the region cannot be.
    Function {
        /// What was asked for.
        name: String,
        /// The program.
        program: PathBuf,
        /// What is wrong with it.
        why: FunctionFault,
    },

    /// The description of the machine cannot be simulated.
    Machine {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },

    /// A variable of the guest's environment that no environment can hold.
    Variable(OsString),

    /// The files that the guest and the plugin read could not be written.
    Prepare {
        /// What was being written.
        path: PathBuf,
        /// Why that failed.
        source: io::Error,
    },

    /// QEMU could not be started, or not be waited for.
    Start {
        /// QEMU.
        path: PathBuf,
        /// Why that failed.
        source: io::Error,
    },

    /// A raw result could not be understood.
    Result {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },

    /// The guest ended without any result: the plugin was not loaded, or all was killed.
    NoResult {
        /// How QEMU ended.
        status: ExitStatus,
        /// Whether it was ended because it took too long.
        timed_out: bool,
        /// The last line it wrote to stderr, if that was captured.
        said: Option<String>,
    },
}

impl fmt::Display for SimulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => {
                write!(f, "the simulator runs on x86-64 Linux only; this is {host}")
            }
            Self::NoQemu { path, variable } => write!(
                f,
                "{} is not here; install Debian's package `qemu-user` (version 7.2), or name the program in \
                 {variable}",
                path.display()
            ),
            Self::NotQemu {
                path,
                said,
                expected,
                variable,
            } => write!(
                f,
                "{} is not {expected}: with `--version` it prints {said:?}; name the right one in {variable}",
                path.display()
            ),
            Self::QemuVersion {
                path,
                found,
                proved,
                variable,
            } => write!(
                f,
                "{} is version {found}; the plugin is proved with {} only ({variable} names another program, \
                 PERCOLOG_QEMU_UNPROVED=1 tries this one)",
                path.display(),
                proved.join(" and ")
            ),
            Self::QemuWithoutPlugins {
                path,
                found,
                variable,
            } => write!(
                f,
                "{} (version {found}) was built without plugins, as Debian 13 does; name one with them in {variable}: \
                 Debian 12's, or your own, configured with --enable-plugins",
                path.display()
            ),
            Self::NotInPath(name) => write!(f, "{name}: no such program in PATH"),
            Self::Program { path, why } => write!(f, "{}: {why}", path.display()),
            Self::Function { name, program, why } => why.describe(name, program, f),
            Self::Machine { name, why } => write!(f, "the machine {name:?} {why}"),
            Self::Variable(name) => {
                write!(f, "{name:?} cannot be set in the program's environment")
            }
            Self::Prepare { path, source } => {
                write!(
                    f,
                    "cannot prepare the simulation in {}: {source}",
                    path.display()
                )
            }
            Self::Start { path, source } => write!(f, "cannot run {}: {source}", path.display()),
            Self::Result { path, why } => write!(
                f,
                "the result of the simulation cannot be read: {}: {why}",
                path.display()
            ),
            Self::NoResult {
                status,
                timed_out,
                said,
            } => {
                let so = if *timed_out { "time was up, and " } else { "" };
                write!(f, "{so}the simulation left no result: {}", ending(*status))?;
                match said {
                    Some(said) => write!(f, "; its last line was: {said}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Error for SimulationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Prepare { source, .. } | Self::Start { source, .. } => Some(source),
            Self::Program { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// Why a function cannot be the region.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FunctionFault {
    /// There is none of this name. These have similar ones.
    Absent(Vec<String>),
    /// There are several.
    Ambiguous(Vec<String>),
    /// The compiler has made it a part of its callers.
    Inlined,
    /// The program says no names of functions.
    NoSymbols,
}

impl FunctionFault {
    fn describe(&self, name: &str, program: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = program.display();
        match self {
            Self::Absent(similar) if similar.is_empty() => write!(
                f,
                "{program} and its libraries have no function {name:?} (`nm -C` lists those that they have)"
            ),
            Self::Absent(similar) => write!(
                f,
                "{program} and its libraries have no function {name:?}; there are {}",
                similar.join(", ")
            ),
            Self::Ambiguous(candidates) => write!(
                f,
                "{program} has several functions {name:?}: {}; more of the name decides, or the linker's name",
                candidates.join(", ")
            ),
            Self::Inlined => write!(
                f,
                "the compiler has inlined {name:?} into its callers; name one of them, or forbid it: \
                 `#[inline(never)]`, `__attribute__((noinline))`"
            ),
            Self::NoSymbols => write!(
                f,
                "{program} is stripped: it has no names of functions, and so no {name:?}"
            ),
        }
    }
}

/// What is wrong with a program.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProgramFault {
    /// There is no such file.
    Missing,
    /// It is a folder.
    Folder,
    /// It is a device, a socket or a pipe.
    Special,
    /// It may not be executed.
    NotExecutable,
    /// It is empty.
    Empty,
    /// It is neither an ELF program nor a script.
    Unknown,
    /// Its first line begins with `#!` and names no interpreter.
    Interpreter,
    /// Its interpreter is a script, whose interpreter is a script, and so on.
    Nested,
    /// It is a 32-bit program.
    Bits,
    /// It has the rights of whoever owns it, who is another user.
    Rights,
    /// It is a program for this other kind of processor.
    Architecture(String),
    /// It is this other kind of ELF file.
    Kind(&'static str),
    /// The dynamic linker it asks for is not there.
    Linker(PathBuf),
    /// It could not be read.
    Read(io::Error),
}

impl fmt::Display for ProgramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no such file",
            Self::Folder => "is a folder, not a program",
            Self::Special => "is no regular file",
            Self::NotExecutable => "is not executable (`chmod +x` makes it so)",
            Self::Empty => "is empty",
            Self::Unknown => "is no program: it begins neither as an ELF file nor with `#!`",
            Self::Interpreter => "is a script whose first line names no interpreter",
            Self::Nested => "is a script whose interpreters are scripts too, more than four deep",
            Self::Bits => {
                "is a 32-bit program; only programs for x86-64 and aarch64 can be simulated"
            }
            Self::Rights => {
                "runs with the rights of another user, which it would not have under the simulator: simulate it as that user"
            }
            Self::Architecture(other) => {
                return write!(
                    f,
                    "is a program for {other}; only those for x86-64 and aarch64 can be simulated"
                );
            }
            Self::Kind(kind) => return write!(f, "is {kind}, not a program"),
            Self::Linker(linker) => {
                return write!(
                    f,
                    "needs the dynamic linker {}, which is not here",
                    linker.display()
                );
            }
            Self::Read(error) => return write!(f, "cannot be read: {error}"),
        })
    }
}

impl Error for ProgramFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for ProgramFault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// How a process ended, in words.
pub(crate) fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}
