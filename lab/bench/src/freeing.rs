//! What it costs a reader to free what operations own, and what handing spent operations back saves.
//!
//! One thread queues operations, another one reads: the memory was allocated elsewhere, which is the expensive case
//! for an allocator. Only the read is timed.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use percolog::cpu::{self, CoreId};
use percolog::oplog::{Logged, LoggedBuilder, Mode, Operation};

/// Operations pending at each read: below the limit, so that the reader is the one who merges.
pub const PENDING: u64 = 127;

/// An operation without memory of its own: what merging costs by itself.
#[derive(Debug)]
pub struct Plain(u64);

/// An operation that owns text, freed by whoever merges.
#[derive(Debug)]
pub struct Owning(String);

/// An operation that owns text and goes back to the slot that queued it.
#[derive(Debug)]
pub struct Returning(String);

impl Operation<u64> for Plain {
    fn exec(self, total: &mut u64) {
        *total += self.0;
    }
}

impl Operation<u64> for Owning {
    fn exec(self, total: &mut u64) {
        *total += self.0.len() as u64;
    }
}

impl Operation<u64> for Returning {
    fn exec(self, total: &mut u64) {
        *total += self.0.len() as u64;
    }

    fn exec_keeping(self, total: &mut u64) -> Option<Self> {
        *total += self.0.len() as u64;
        Some(self)
    }
}

/// Which operations are pending when the reader comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A number: nothing to free.
    Plain,
    /// Text, freed by the reader.
    Owning,
    /// Text, handed back to the updater, which uses its memory again.
    Returning,
}

impl Payload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Owning, Self::Returning];

    /// The time that `reads` reads took, each of which merged [`PENDING`] operations of another thread.
    #[must_use]
    pub fn time(self, reads: u64) -> Duration {
        match self {
            Self::Plain => time(reads, |_, turn| Plain(turn % 64)),
            Self::Owning => time(reads, |_, turn| Owning(text(turn))),
            Self::Returning => time(reads, |log: &Logged<u64, Returning>, turn| {
                match log.spent() {
                    Some(Returning(mut used)) => {
                        used.clear();
                        used.push_str(TEXT);
                        Returning(used)
                    }
                    None => Returning(text(turn)),
                }
            }),
        }
    }
}

const TEXT: &str = "a line of some forty bytes, as logs have";

fn text(turn: u64) -> String {
    let mut text = String::with_capacity(TEXT.len() + (turn % 3) as usize);
    text.push_str(TEXT);
    text
}

fn time<O: Operation<u64> + Send>(
    reads: u64,
    make: impl Fn(&Logged<u64, O>, u64) -> O + Sync,
) -> Duration {
    let log: Logged<u64, O> = LoggedBuilder::new().mode(Mode::Deferring).build(0);
    let (to_updater, requests) = std::sync::mpsc::channel();
    let (answer, queued) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let (log, make) = (&log, &make);
        scope.spawn(move || {
            // Another slot than the reader's, even where there is one CPU.
            cpu::bind(CoreId::new(1));
            for () in requests {
                for turn in 0..PENDING {
                    log.queue(make(log, turn));
                }
                if answer.send(()).is_err() {
                    return;
                }
            }
        });
        let mut total = Duration::ZERO;
        for _ in 0..reads {
            // An error means that the updater has panicked, which the scope reports.
            if to_updater.send(()).is_err() || queued.recv().is_err() {
                break;
            }
            let started = Instant::now();
            black_box(*log.synchronize());
            total += started.elapsed();
        }
        drop(to_updater);
        total
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_can_be_timed() {
        for payload in Payload::ALL {
            assert!(payload.time(20) > Duration::ZERO);
        }
    }
}
