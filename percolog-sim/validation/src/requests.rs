//! A request to a server that counts it, in the four ways of K42's Figure 1 (Appavoo et al. 2007, §1.1).
//!
//! The request itself is plain work: all of it happens on the core that makes it, and nothing is shared. PowerPC increments
//! atomically by a load that reserves the line and a store that succeeds if the reservation has lasted (`larx`, `stcx.`);
//! x86-64 has no such pair. Its bus traffic is that of a load and an atomic addition: one request to read the line, and one to
//! own it. The nearest loop in x86-64's instructions is a load and a compare-and-exchange; but where a failed `stcx.` asks
//! for nothing, a failed compare-and-exchange takes the line. Both are here.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};

use super::alone::Alone;
use super::clock;
use super::crew::{self, CrewError, Shift, Work};
use super::locks::{Lock, McsLock};

/// How requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// One counter under a lock. K42's locks are queue locks after Mellor-Crummey and Scott.
    Locked,
    /// One counter, incremented by a load and an atomic addition.
    Atomic,
    /// One counter, incremented by a load and a compare-and-exchange that are repeated until that succeeds.
    Exchanged,
    /// A counter for each processor, side by side.
    Packed,
    /// A counter for each processor, in lines of their own.
    Padded,
}

/// Each thread makes requests of `trip` cycles, and each request is counted.
///
/// # Errors
/// A thread could not be started, or a request was not counted.
pub fn run(shift: Shift, counting: Counting, trip: u64) -> Result<Work, CrewError> {
    match counting {
        Counting::Locked => {
            let lock = McsLock::new(shift.threads);
            let count = Alone(AtomicU64::new(0));
            percolog_roi::label(&count.0, "counter");
            let work = requests(shift, trip, |thread| {
                lock.lock(thread);
                increment(&count.0);
                lock.unlock(thread);
            })?;
            work.checked(count.0.into_inner(), work.all)
        }
        Counting::Atomic => {
            let count = Alone(AtomicU64::new(0));
            percolog_roi::label(&count.0, "counter");
            let work = requests(shift, trip, |_| {
                hint::black_box(count.0.load(Ordering::Relaxed));
                count.0.fetch_add(1, Ordering::Relaxed);
            })?;
            work.checked(count.0.into_inner(), work.all)
        }
        Counting::Exchanged => {
            let count = Alone(AtomicU64::new(0));
            percolog_roi::label(&count.0, "counter");
            let work = requests(shift, trip, |_| {
                let mut seen = count.0.load(Ordering::Relaxed);
                // As after a failed `stcx.`, it begins again with the load.
                while count
                    .0
                    .compare_exchange_weak(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed)
                    .is_err()
                {
                    seen = count.0.load(Ordering::Relaxed);
                }
            })?;
            work.checked(count.0.into_inner(), work.all)
        }
        Counting::Packed => {
            // Blocks without gaps between them: one array that begins with a line.
            let counts: Vec<Alone<[AtomicU64; BLOCK]>> = (0..shift.threads.div_ceil(BLOCK))
                .map(|_| Alone(std::array::from_fn(|_| AtomicU64::new(0))))
                .collect();
            let work = requests(shift, trip, |thread| {
                increment(&counts[thread / BLOCK].0[thread % BLOCK]);
            })?;
            work.checked(sum(counts.iter().flat_map(|block| &block.0)), work.all)
        }
        Counting::Padded => {
            let counts: Vec<Alone<AtomicU64>> =
                (0..shift.threads).map(|_| Alone::default()).collect();
            let work = requests(shift, trip, |thread| increment(&counts[thread].0))?;
            work.checked(sum(counts.iter().map(|count| &count.0)), work.all)
        }
    }
}

/// Counters that fill an [`Alone`].
const BLOCK: usize = 32;
const _: () = assert!(size_of::<Alone<[AtomicU64; BLOCK]>>() == 8 * BLOCK);

/// An increment that is not atomic: a load, an addition and a store, as on PowerPC; not x86-64's one instruction, which asks
/// for the line once.
#[inline]
fn increment(counter: &AtomicU64) {
    let before = hint::black_box(counter.load(Ordering::Relaxed));
    counter.store(before + 1, Ordering::Relaxed);
}

fn sum<'a>(counters: impl IntoIterator<Item = &'a AtomicU64>) -> u64 {
    counters
        .into_iter()
        .map(|counter| counter.load(Ordering::Relaxed))
        .sum()
}

fn requests(shift: Shift, trip: u64, count: impl Fn(usize) + Sync) -> Result<Work, CrewError> {
    crew::run(shift, |thread| {
        let count = &count;
        move || {
            clock::spin(trip);
            count(thread);
        }
    })
}
