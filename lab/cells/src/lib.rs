//! What a cell of a figure runs, by name: one workload on one structure, with so many threads.
//!
//! A cell is a process of its own, the program `lab-cell`, started with the words that [`run`] reads: so nothing is left of the cell before,
//! a structure that dies takes one cell with it, and the same words run here and under the coherence simulator. It prints its [`Values`]
//! as one line of JSON.
//!
//! Each module names its programs in a table; a program takes its parameters out of what was [`Given`], and what is left is an error.
//!
//! This crate exists for the laboratory; it promises no stable interface.

mod caches;
mod code;
mod duels;
mod faults;
mod given;
mod locks;
mod mappings;
pub mod memcached;
mod memory;
mod mixture;
mod objects;
mod osdi10;
mod published;
mod reclaim;
mod regret;
mod replays;
mod sections;
mod shared;
mod tables;
mod values;

use std::fmt;

pub use given::{Given, Time};
pub use values::Values;

/// The words by which cargo builds the programs that a cell or a command of the laboratory starts.
pub const BUILT_BY: &str = "--manifest-path lab/Cargo.toml";

/// A workload by name.
#[derive(Clone, Copy)]
pub struct Program {
    /// How the catalogue calls it.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    run: fn(&mut Given) -> Result<Values, ProgramError>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a program gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no program of that name.
    #[error("there is no program {name:?}; there are {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A parameter is missing.
    #[error("`{0}=VALUE` is missing")]
    Missing(&'static str),
    /// A parameter is none of what it can be.
    #[error("`{key}={value}`: {wanted}")]
    Wrong {
        /// Which.
        key: String,
        /// What was given.
        value: String,
        /// What can be given.
        wanted: String,
    },
    /// A parameter is not known to this program.
    #[error("`{0}` is not a parameter of this program")]
    Extra(String),
    /// It ran, and has failed: a wrong state, no threads, no memory.
    #[error("{0}")]
    Failed(String),
}

impl ProgramError {
    /// It ran, and has failed.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The features that contenders may need, of those that are built in.
#[must_use]
pub fn features() -> Vec<String> {
    let mut features = Vec::new();
    if cfg!(feature = "c-peers") {
        features.push("c-peers".to_owned());
    }
    features
}

/// The modules' tables.
const TABLES: [&[Program]; 18] = [
    &duels::PROGRAMS,
    &shared::PROGRAMS,
    &tables::PROGRAMS,
    &reclaim::PROGRAMS,
    &memory::PROGRAMS,
    &published::PROGRAMS,
    &replays::PROGRAMS,
    &locks::PROGRAMS,
    &objects::PROGRAMS,
    &code::PROGRAMS,
    &osdi10::PROGRAMS,
    &sections::PROGRAMS,
    &caches::PROGRAMS,
    &mappings::PROGRAMS,
    &memcached::PROGRAMS,
    &faults::PROGRAMS,
    &mixture::PROGRAMS,
    &regret::PROGRAMS,
];

/// All programs.
pub fn all() -> impl Iterator<Item = &'static Program> {
    TABLES.into_iter().flatten()
}

fn names() -> String {
    let names: Vec<&str> = all().map(|program| program.name).collect();
    names.join(", ")
}

/// Runs the program of that name, with `key=value` pairs.
///
/// # Errors
/// There is none, the pairs are not what it takes, or it has failed.
pub fn run<'a>(
    name: &str,
    pairs: impl IntoIterator<Item = &'a str>,
) -> Result<Values, ProgramError> {
    let program =
        all()
            .find(|program| program.name == name)
            .ok_or_else(|| ProgramError::Unknown {
                name: name.to_owned(),
            })?;
    let mut given = Given::parse(pairs)?;
    let values = (program.run)(&mut given)?;
    given.finish()?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_once() {
        let mut names: Vec<&str> = all().map(|program| program.name).collect();
        let many = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), many);
    }

    #[test]
    fn what_is_not_known_is_named() {
        let error = run("no-such", []).expect_err("there is none");
        assert!(error.to_string().contains("counters"), "{error}");
        let error = run(
            "counters",
            ["threads=1", "milliseconds=1", "structure=atomic", "more=1"],
        )
        .expect_err("there is no such parameter");
        assert_eq!(
            error.to_string(),
            "`more=1` is not a parameter of this program"
        );
        let error = run(
            "counters",
            ["threads=1", "milliseconds=1", "structure=none"],
        )
        .expect_err("there is no such structure");
        assert!(error.to_string().contains("percolog"), "{error}");
    }
}
