//! The ordered append beside the physical limit: what a stamp and 32 bytes of memory cost at least.
//!
//! Both take batches that stay below the limit of 128, and what empties the queue is not timed: an append is measured,
//! not what somebody else does with it later.

use std::hint::black_box;
use std::time::{Duration, Instant};

use percolog::cpu::clock;
use percolog::oplog::{Logged, LoggedBuilder, Mode, Operation};

/// Appends in one batch: one less than the default limit, so that no append has to merge.
pub const BATCH: u64 = 127;

/// An operation of 24 bytes whose execution costs next to nothing.
#[derive(Clone, Copy, Debug)]
pub struct Note(pub [u64; 3]);

impl Operation<u64> for Note {
    fn exec(self, sum: &mut u64) {
        *sum = sum.wrapping_add(self.0[0]);
    }
}

/// The object that the appends go to.
pub type NoteLog = Logged<u64, Note>;

/// One that logs always, also for one thread.
#[must_use]
pub const fn note_log() -> NoteLog {
    LoggedBuilder::new().mode(Mode::Deferring).build(0)
}

/// The time of `batches` times [`BATCH`] calls of `queue`.
pub fn queued(log: &NoteLog, batches: u64) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..batches {
        let started = Instant::now();
        for turn in 0..BATCH {
            log.queue(black_box(Note([turn, 1, 2])));
        }
        total += started.elapsed();
        drop(log.synchronize());
    }
    total
}

/// The time of `batches` times [`BATCH`] stamps, each written with 24 more bytes behind the one before.
pub fn limit(batches: u64) -> Duration {
    let mut entries: Vec<(u64, [u64; 3])> = Vec::with_capacity(128);
    let mut total = Duration::ZERO;
    for _ in 0..batches {
        let started = Instant::now();
        for turn in 0..BATCH {
            let stamp = bare_stamp();
            let entry = (stamp, black_box([turn, 1, 2]));
            entries.push(entry);
        }
        total += started.elapsed();
        black_box(&mut entries).clear();
    }
    total
}

/// The processor's counter with a fence before it, and nothing else.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn bare_stamp() -> u64 {
    clock::tsc()
}

/// The processor's counter with a fence before it, and nothing else.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn bare_stamp() -> u64 {
    clock::counter_register()
}

/// Where no counter is known, percolog's own stamp is the least there is.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn bare_stamp() -> u64 {
    clock::stamp()
}
