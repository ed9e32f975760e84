//! Drives a trace through a reverse map on several threads.
//!
//! [`check`] compares every state with a plain sequential model; [`time`] measures. Both share the
//! recorded processes out among the threads: each process's events happen in order on one thread, and a
//! process's first event after the event of its parent that started it. Nothing else is ordered by the
//! replay itself, so threads meet in the reverse map of a file and nowhere else.
//!
//! A *process* here has an address space of its own. Threads, and children that share their parent's
//! address space until they `exec` (`vfork`), act on their owner's thread until then: what happens to one
//! address space happens in order.
//!
//! A truncate cuts what the reverse map holds at that moment. The address spaces keep their ranges, as in
//! a kernel, so pieces and copies that are entered later are entered whole.
//!
//! In a check a truncate happens after every event before it in the trace and before every event behind
//! it, so what it saw is known exactly. When timing it is one of its process's events, no more.
//!
//! No number of threads can deadlock: each thread takes its events in the order of the trace and waits only
//! for an earlier one, so the earliest event that has not happened can always happen.

mod check;
mod gate;
mod meeting;
mod model;
pub(crate) mod plan;
mod run;
mod schedule;
mod time;

pub use check::{CheckReport, check, check_map};
pub use time::{TimeReport, time, time_map};

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The most threads that a replay accepts.
pub const MAX_THREADS: usize = 512;

/// The implementations that can be named on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Structure {
    /// [`Locked`](crate::rmap::Locked): `mutex`
    Mutex,
    /// [`LoggedMap`](crate::rmap::LoggedMap): `logged`
    Logged,
    /// [`AbsorbingMap`](crate::rmap::AbsorbingMap): `logged-absorbing`
    LoggedAbsorbing,
}

impl Structure {
    /// All of them, the plainest first.
    pub const ALL: [Structure; 3] = [
        Structure::Mutex,
        Structure::Logged,
        Structure::LoggedAbsorbing,
    ];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Structure::Mutex => "mutex",
            Structure::Logged => "logged",
            Structure::LoggedAbsorbing => "logged-absorbing",
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Structure`]'s.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no structure {0:?}; there are mutex, logged and logged-absorbing")]
pub struct UnknownStructure(pub String);

impl FromStr for Structure {
    type Err = UnknownStructure;

    fn from_str(text: &str) -> Result<Structure, UnknownStructure> {
        Structure::ALL
            .into_iter()
            .find(|structure| structure.name() == text)
            .ok_or_else(|| UnknownStructure(text.to_owned()))
    }
}

/// How far a replay has come: `done` of `total`, in events or in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// So much is done.
    pub done: u64,
    /// So much there is to do.
    pub total: u64,
}

/// Why a replay ended without a report.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Threads that there cannot be.
    #[error("cannot replay on {0} threads; choose 1 to {MAX_THREADS}")]
    Threads(usize),
    /// The operating system refuses a thread.
    #[error("cannot start {threads} threads: {cause}")]
    Spawn {
        /// How many there were to be.
        threads: usize,
        /// What the operating system said.
        cause: String,
    },
    /// A state is not the model's.
    #[error("before event {event}, {file}: {difference}")]
    Differs {
        /// Every event before this one had happened.
        event: usize,
        /// Which file's reverse map it was.
        file: String,
        /// What was found, and what should have been.
        difference: String,
    },
    /// The implementation panicked.
    #[error("the reverse map panicked: {0}")]
    Panicked(String),
}

fn check_threads(threads: usize) -> Result<(), ReplayError> {
    if (1..=MAX_THREADS).contains(&threads) {
        Ok(())
    } else {
        Err(ReplayError::Threads(threads))
    }
}

#[cfg(test)]
mod tests;
