//! The machines: TOML files, those that come with the crate and one's own.
//!
//! ```toml
//! name = "pair"                       # letters, digits, - _ .
//! description = "Two chips of four cores"
//! source = ["Where the numbers come from"]
//! megahertz = 2000
//! line_size = 64                      # default 64
//! page_size = 4096                    # default 4096
//! protocol = "moesi"                  # or "mesi"
//! coherence = "directory"             # default; or "bus": one bus that all cores watch
//! chip_directory = false              # default; true: a chip alone serves what only its own caches have
//! adjacent_line_prefetch = false      # default; true: who fetches a line fetches the other one of its pair, too
//! stores = "blocking"                 # default; or "buffered(56)": go on after a store that misses
//!
//! [topology]
//! chips = 2
//! cores_per_chip = 4
//! links = [[0, 1]]                    # hops are the shortest path over these …
//! # chips_per_package = 2             # … or 1 within a package, 2 between packages
//! last_level_cache_kib = 0            # default 0: no limit; what the caches of a chip hold together
//!
//! [latency]                           # cycles
//! transfer = [100, 200]               # a line from another cache: same chip, one hop, …
//! memory = [150, 250]                 # a line from memory, by hops to its home chip
//! memory_occupancy = 0                # default 0: no limit; for how long a line occupies the memory of its chip
//! invalidate_per_sharer = 0           # default; added for each copy to invalidate beyond the first
//! probe = [30, 30]                    # default: 1.5 × `locked`; until whoever has a line has lost it
//! bus = 0                             # default; for how long any request occupies the bus
//!
//! [occupancy]                         # share of a request while its line's home serves no other: 0 to 1
//! read = 1.0
//! write = 1.0
//! upgrade = 1.0
//!
//! [costs]                             # cycles, in steps of 1/16
//! plain = 1.0                         # an instruction that is none of these; or width = 4: so many at a time
//! locked = 20                         # a locked read-modify-write of a line that the core owns
//! fence = 30
//! rdtsc = 20
//! rdtscp = 30
//! pause = 10
//! cpuid = 100
//! syscall = 400
//! switch = 3000                       # giving a core to another thread
//! interrupt = 0                       # default 0: off; what `membarrier` and memory that is unmapped cost the other cores
//!
//! [units]                             # cycles until a core's unit can go on with the next; default 0: never waited for
//! load = 0.5                          # and store, branch, multiply, divide (integers), float, float_divide
//!
//! [scheduling]
//! time_slice_us = 1000                # default 1000; how long a thread keeps a core others wait for
//! ```
//!
//! A chip is a group of cores among which a line moves at the same cost: a die, or on recent
//! processors a core complex.

use crate::model::Machine;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

mod file;
mod modelled;

use file::File;
pub use modelled::{Modelled, modelled, not_modelled};

/// What a machine's file may say, as JSON Schema.
pub const SCHEMA: &str = include_str!("../docs/machine.schema.json");

/// The machine files that come with the crate.
const BUILT_IN: [(&str, &str); 5] = [
    ("opteron-48", include_str!("../machines/opteron-48.toml")),
    ("xeon-40", include_str!("../machines/xeon-40.toml")),
    ("xeon-120", include_str!("../machines/xeon-120.toml")),
    ("s85-24", include_str!("../machines/s85-24.toml")),
    ("epyc-128", include_str!("../machines/epyc-128.toml")),
];

/// A machine and what its file says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// What the model needs.
    pub machine: Machine,
    /// One sentence on what machine it is.
    pub description: String,
    /// Where the numbers come from.
    pub source: Vec<String>,
}

/// Why there is no machine. One line each.
#[derive(Debug)]
#[non_exhaustive]
pub enum MachineError {
    /// The name is not that of a machine that comes with the crate, and there is no such file.
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file could not be read.
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The file is not TOML, or not that of a machine.
    Syntax {
        /// The file, or the built-in machine's name.
        origin: String,
        /// The line, from 1, where there is one to blame.
        line: Option<usize>,
        /// What is wrong there.
        message: String,
    },
    /// The file describes a machine that cannot be.
    Invalid {
        /// The file, or the built-in machine's name.
        origin: String,
        /// Which field, its value, and what it must be.
        message: String,
    },
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineError::Unknown { name } => {
                let known: Vec<&str> = names().collect();
                write!(
                    f,
                    "machine {name:?}: no such machine or file; give a path, or one of {}",
                    known.join(", ")
                )
            }
            MachineError::Read { path, error } => {
                write!(f, "machine file {}: {error}", path.display())
            }
            MachineError::Syntax {
                origin,
                line: Some(line),
                message,
            } => write!(f, "machine {origin}, line {line}: {message}"),
            MachineError::Syntax {
                origin,
                line: None,
                message,
            }
            | MachineError::Invalid { origin, message } => {
                write!(f, "machine {origin}: {message}")
            }
        }
    }
}

impl std::error::Error for MachineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MachineError::Read { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The names of the machines that come with the crate.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The TOML of a machine that comes with the crate: a start for one's own.
pub fn text(name: &str) -> Option<&'static str> {
    BUILT_IN
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// A machine that comes with the crate.
///
/// # Errors
/// If there is none of that name.
pub fn built_in(name: &str) -> Result<Machine, MachineError> {
    let text = text(name).ok_or_else(|| MachineError::Unknown {
        name: name.to_owned(),
    })?;
    parse(name, text).map(|description| description.machine)
}

/// A machine by the name of one that comes with the crate, or else by the path of its file.
///
/// # Errors
/// If there is neither, or the file cannot be read or describes no machine.
pub fn load(name_or_path: &str) -> Result<Description, MachineError> {
    if let Some(text) = text(name_or_path) {
        return parse(name_or_path, text);
    }
    let path = Path::new(name_or_path);
    match read(path) {
        Ok(text) => parse(name_or_path, &text),
        // A bare word that is no file was meant as a name.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && !name_or_path.contains(['/', '.']) =>
        {
            Err(MachineError::Unknown {
                name: name_or_path.to_owned(),
            })
        }
        Err(error) => Err(MachineError::Read {
            path: path.to_owned(),
            error,
        }),
    }
}

/// No machine's file is longer: those that come with the crate have some 3 kB.
const LONGEST_FILE: u64 = 1 << 20;

/// The text of a file, which may be anything: a device that never ends.
fn read(path: &Path) -> io::Result<String> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(LONGEST_FILE + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return refused(format!("is longer than {} MiB", LONGEST_FILE >> 20));
    }
    String::from_utf8(bytes).or_else(|_| refused("is no text in UTF-8".to_owned()))
}

/// Reads a machine from `text`; `origin` is named in errors.
///
/// # Errors
/// If it is not TOML, lacks a field or has one too many, or describes a machine that cannot be.
pub fn parse(origin: &str, text: &str) -> Result<Description, MachineError> {
    let file: File = toml::from_str(text).map_err(|error| MachineError::Syntax {
        origin: origin.to_owned(),
        line: error
            .span()
            .map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count()),
        message: short(error.message()),
    })?;
    file.describe().map_err(|message| MachineError::Invalid {
        origin: origin.to_owned(),
        message: short(&message),
    })
}

/// On one line that is not too long, whatever it quotes from the file.
fn short(message: &str) -> String {
    const LONGEST: usize = 300;
    let line = message.replace('\n', "; ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
