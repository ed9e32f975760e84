//! Drives a trace through the objects of a subsystem on several threads.
//!
//! A [`Load`] is what a trace means to one subsystem. [`check`] compares every state with a plain sequential model;
//! [`time`](time()) measures; [`guest`](guest()) is for a simulator to look at. All share the recorded processes out among the
//! threads: each process's events happen in order on one thread, and a process's first event after the event of its
//! parent that started it. Nothing else is ordered by the replay itself, so threads meet in the objects and nowhere else.
//!
//! A *process* here is a recorded process with all tasks that share its address space or its descriptors: threads, and
//! children until they `exec` (`vfork`), which is a process of its own from then on. So what happens to one address
//! space, or one table of descriptors, happens in order.
//!
//! A truncate cuts what the reverse map holds at that moment. The address spaces keep their ranges, as in
//! a kernel, so pieces and copies that are entered later are entered whole.
//!
//! In a check an event with a read happens after every event before it in the trace and before every event behind
//! it, so what the read saw is known exactly. When timing it is one of its process's events, no more.
//!
//! No number of threads can deadlock: each thread takes its events in the order of the trace and waits only
//! for an earlier one, so the earliest event that has not happened can always happen.

mod check;
mod difference;
mod gate;
mod guest;
mod load;
mod meeting;
mod model;
mod pass;
mod run;
mod schedule;
mod time;
mod work;

pub use check::{CheckReport, MAX_COMPARED, check, check_object};
pub use guest::{GuestReport, guest, guest_object};
pub use load::Load;
pub use time::{Settings, Statistics, TimeReport, time, time_object};

use crate::subsystem::{Implementation, Subsystem};
use difference::difference;
use thiserror::Error;

/// The most threads that a replay accepts.
pub const MAX_THREADS: usize = 512;

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
    #[error("before event {event}, {object}: {difference}")]
    Differs {
        /// Every event before this one had happened.
        event: usize,
        /// Which object it was.
        object: String,
        /// What was found, and what should have been.
        difference: String,
    },
    /// There is more to compare than a check does.
    #[error(
        "there are more than {} entries to compare; replay fewer events or read less often",
        MAX_COMPARED
    )]
    TooMuchToCompare,
    /// The implementation panicked.
    #[error("the implementation panicked: {0}")]
    Panicked(String),
    /// Nobody has made the objects of this subsystem that way.
    #[error("there is no {implementation} for {subsystem}; there are {}", served(*.subsystem))]
    NotMade {
        /// The subsystem.
        subsystem: Subsystem,
        /// What its objects cannot be made of.
        implementation: Implementation,
    },
}

/// The implementations that there are of a subsystem's objects, in words.
fn served(subsystem: Subsystem) -> String {
    let names: Vec<&str> = Implementation::ALL
        .into_iter()
        .filter(|implementation| implementation.serves(subsystem))
        .map(Implementation::name)
        .collect();
    match &names[..] {
        [] => "none".to_owned(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

fn not_made(subsystem: Subsystem, implementation: Implementation) -> ReplayError {
    ReplayError::NotMade {
        subsystem,
        implementation,
    }
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
