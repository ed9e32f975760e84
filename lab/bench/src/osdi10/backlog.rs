//! Connections that come in on all cores and are accepted on all of them (§4.2).
//!
//! A core accepts what came in on it if there is anything; where the network card gives some cores nothing, they steal.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use percolog::collections::PerCoreList;

use super::Alone;
use percolog_validation::clock;
use percolog_validation::crew::{self, CrewError, Shift, Work};
use percolog_validation::locks::Spun;

/// What connections wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BacklogKind {
    /// One queue behind a spin lock, as Linux had it: a ticket lock.
    Spun,
    /// One queue behind a mutex.
    Mutex,
    /// `crossbeam_channel::unbounded`, which all may receive from.
    Channel,
    /// [`PerCoreList`].
    Percolog,
}

/// Where connections come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// As many on each core.
    Even,
    /// Twice as many on every other core, and none on those between: these have to steal.
    Uneven,
}

impl Arrivals {
    /// How many come in on this core for each that it accepts.
    fn on(self, thread: usize, threads: usize) -> u64 {
        match self {
            Self::Even => 1,
            Self::Uneven if thread % 2 == 1 => 0,
            // The last one of an odd number has no neighbour.
            Self::Uneven => 1 + u64::from(thread + 1 < threads),
        }
    }
}

/// What all backlogs do.
trait Backlog: Sync {
    fn push(&self, thread: usize, connection: u64);
    fn pop(&self, thread: usize) -> Option<u64>;
}

impl Backlog for Spun<VecDeque<u64>> {
    fn push(&self, thread: usize, connection: u64) {
        self.with(thread, |queue| queue.push_back(connection));
    }

    fn pop(&self, thread: usize) -> Option<u64> {
        self.with(thread, VecDeque::pop_front)
    }
}

impl Backlog for Mutex<VecDeque<u64>> {
    fn push(&self, _: usize, connection: u64) {
        let mut queue = self.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(connection);
    }

    fn pop(&self, _: usize) -> Option<u64> {
        let mut queue = self.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }
}

impl Backlog for (Sender<u64>, Receiver<u64>) {
    fn push(&self, _: usize, connection: u64) {
        // The receiver is there as long as the sender is.
        let _ = self.0.send(connection);
    }

    fn pop(&self, _: usize) -> Option<u64> {
        self.1.try_recv().ok()
    }
}

impl Backlog for PerCoreList<u64> {
    fn push(&self, _: usize, connection: u64) {
        PerCoreList::push(self, connection);
    }

    fn pop(&self, _: usize) -> Option<u64> {
        PerCoreList::pop(self)
    }
}

/// On each core connections come in and are accepted, with `work` cycles for each that is. An operation is a connection accepted.
///
/// # Errors
/// A thread could not be started, or a connection was lost.
pub fn run(
    shift: Shift,
    kind: BacklogKind,
    arrivals: Arrivals,
    work: u64,
) -> Result<Work, CrewError> {
    match kind {
        BacklogKind::Spun => drive(shift, Spun::new(VecDeque::new()), arrivals, work),
        BacklogKind::Mutex => drive(shift, Mutex::new(VecDeque::new()), arrivals, work),
        BacklogKind::Channel => drive(shift, crossbeam_channel::unbounded(), arrivals, work),
        BacklogKind::Percolog => drive(shift, PerCoreList::new(), arrivals, work),
    }
}

fn drive(
    shift: Shift,
    backlog: impl Backlog,
    arrivals: Arrivals,
    work: u64,
) -> Result<Work, CrewError> {
    let backlog = Alone(backlog);
    percolog_roi::label(&backlog.0, "backlog");
    let backlog = &backlog.0;
    // Sums of all that has come in, and of all that was accepted.
    let (came, accepted) = (AtomicU64::new(0), AtomicU64::new(0));
    let done = crew::run_counting(shift, |thread| {
        // Changed by calls alone: of a structure whose numbers it changes, a closure takes those, and leaves the rest to be dropped here.
        let mut acceptor = Acceptor {
            came: 0,
            accepted: 0,
            all_came: &came,
            all_accepted: &accepted,
        };
        let arriving = arrivals.on(thread, shift.threads);
        let mut number = (thread as u64) << 40;
        move || {
            for _ in 0..arriving {
                number += 1;
                backlog.push(thread, number);
                acceptor.comes(number);
            }
            let found = backlog.pop(thread);
            acceptor.accepts(found.unwrap_or(0));
            clock::spin(work);
            u64::from(found.is_some())
        }
    })?;
    // Wrapping, as the sums above.
    let mut sum = accepted.into_inner();
    while let Some(connection) = backlog.pop(0) {
        sum = sum.wrapping_add(connection);
    }
    done.checked(sum, came.into_inner())
}

/// A thread's sums, which are told when it has ended.
struct Acceptor<'a> {
    came: u64,
    accepted: u64,
    all_came: &'a AtomicU64,
    all_accepted: &'a AtomicU64,
}

impl Acceptor<'_> {
    fn comes(&mut self, connection: u64) {
        self.came = self.came.wrapping_add(connection);
    }

    fn accepts(&mut self, connection: u64) {
        self.accepted = self.accepted.wrapping_add(connection);
    }
}

impl Drop for Acceptor<'_> {
    fn drop(&mut self) {
        // Relaxed: read after the thread has been joined.
        self.all_came.fetch_add(self.came, Ordering::Relaxed);
        self.all_accepted
            .fetch_add(self.accepted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_is_lost() {
        let shift = Shift {
            threads: 2,
            warm_up: 20_000,
            cycles: 200_000,
        };
        for kind in [
            BacklogKind::Spun,
            BacklogKind::Mutex,
            BacklogKind::Channel,
            BacklogKind::Percolog,
        ] {
            for arrivals in [Arrivals::Even, Arrivals::Uneven] {
                let work = run(shift, kind, arrivals, 100)
                    .unwrap_or_else(|error| panic!("{kind:?}, {arrivals:?}: {error}"));
                // A thread that loses its processor comes to none in so short a time.
                assert!(work.all >= 2, "{kind:?}, {arrivals:?}");
            }
        }
    }

    #[test]
    fn as_many_come_in_as_can_be_accepted() {
        for threads in 1..5 {
            for arrivals in [Arrivals::Even, Arrivals::Uneven] {
                let all: u64 = (0..threads)
                    .map(|thread| arrivals.on(thread, threads))
                    .sum();
                assert_eq!(all, threads as u64, "{arrivals:?}");
            }
        }
    }
}
