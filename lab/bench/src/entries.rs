//! Timeouts that are set and, nearly always, unset in time: a sorted structure into which every thread puts keys of its own and takes them
//! out again, and which is read in the end.
//!
//! And what single updates cost: [`cancelled`], [`queued`] and [`delivered`] on one thread, beside the locked exchanges that they are made
//! of ([`exchanged`]); and [`plain`], what keeping a note for later costs where no order between threads is asked for.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_skiplist::SkipSet;
use percolog::ldu::{Bag, Deferred, DeferredBuilder, Entry, Sorted, Variant};
use percolog::oplog::Policy;
use percolog::reduce::{Merge, Reducer};

use crate::runner::{self, Cell, RunError, Settings, Workload};

/// A sorted structure of keys, of which each thread uses its own.
pub trait Timeouts: Sync + Sized {
    /// How tables call it.
    const NAME: &'static str;

    /// What a thread needs of a key that it sets and unsets.
    type Key;

    /// Nothing is set.
    fn new() -> Self;

    /// Something to be set.
    fn key(&self, key: u64) -> Self::Key;

    /// Sets a key that is not.
    fn set(&self, key: &Self::Key);

    /// Unsets a key that is set.
    fn unset(&self, key: &Self::Key);

    /// All that are set, in order.
    fn read(&self) -> Vec<u64>;
}

/// [`Deferred`] with a log for each core.
#[derive(Debug)]
pub struct PerCoreEntries(Deferred<Sorted<u64>>);

/// [`Deferred`] with one list for all.
#[derive(Debug)]
pub struct GlobalEntries(Deferred<Sorted<u64>>);

/// The lock-free skip list that a program would take.
pub struct SkipListEntries(SkipSet<u64>);

impl fmt::Debug for SkipListEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkipListEntries").finish_non_exhaustive()
    }
}

macro_rules! deferred {
    ($type:ty, $name:literal, $variant:expr) => {
        impl Timeouts for $type {
            const NAME: &'static str = $name;
            type Key = Entry<u64>;

            fn new() -> Self {
                Self(
                    DeferredBuilder::new()
                        .variant($variant)
                        .build(Sorted::new()),
                )
            }

            fn key(&self, key: u64) -> Entry<u64> {
                Entry::new(key)
            }

            #[inline]
            fn set(&self, key: &Entry<u64>) {
                self.0.insert(key).expect("it is not set");
            }

            #[inline]
            fn unset(&self, key: &Entry<u64>) {
                self.0.remove(key).expect("it is set");
            }

            fn read(&self) -> Vec<u64> {
                self.0.synchronize().iter().copied().collect()
            }
        }
    };
}

deferred!(PerCoreEntries, "Deferred", Variant::PerCore);
deferred!(GlobalEntries, "Deferred, one list", Variant::Global);

impl Timeouts for SkipListEntries {
    const NAME: &'static str = "crossbeam-skiplist";
    type Key = u64;

    fn new() -> Self {
        Self(SkipSet::new())
    }

    fn key(&self, key: u64) -> u64 {
        key
    }

    #[inline]
    fn set(&self, key: &u64) {
        self.0.insert(*key);
    }

    #[inline]
    fn unset(&self, key: &u64) {
        self.0.remove(key);
    }

    fn read(&self) -> Vec<u64> {
        self.0.iter().map(|entry| *entry).collect()
    }
}

/// Keys that each thread sets and unsets, and as many that stay.
const KEYS: u64 = 64;

struct Duel<T>(T);

impl<T: Timeouts> Workload for Duel<T> {
    type Worker = Vec<T::Key>;
    type Left = u64;

    fn worker(&self, thread: usize) -> Vec<T::Key> {
        let first = thread as u64 * 2 * KEYS;
        for at in 0..KEYS {
            self.0.set(&self.0.key(first + 2 * at));
        }
        (0..KEYS).map(|at| self.0.key(first + 2 * at + 1)).collect()
    }

    #[inline]
    fn block(&self, worker: &mut Vec<T::Key>) -> u64 {
        for key in &*worker {
            self.0.set(key);
        }
        for key in &*worker {
            self.0.unset(key);
        }
        2 * worker.len() as u64
    }

    fn leave(&self, worker: Vec<T::Key>) -> u64 {
        worker.len() as u64
    }

    fn settle(&self) {
        black_box(self.0.read());
    }

    fn check(&self, left: &[u64]) -> Result<(), String> {
        let expected: Vec<u64> = (0..left.len() as u64 * KEYS).map(|at| 2 * at).collect();
        let found = self.0.read();
        if found == expected {
            Ok(())
        } else {
            Err(format!(
                "{} keys are set in the end, not the {} that stay",
                found.len(),
                expected.len()
            ))
        }
    }
}

/// Runs one cell on a fresh structure. An operation sets or unsets a key.
///
/// # Errors
/// Other keys are set in the end than those that stay; or a thread could not be started.
pub fn run<T: Timeouts>(settings: Settings) -> Result<Cell, RunError> {
    runner::run(T::NAME, &Duel(T::new()), settings)
}

/// Entries that are queued before somebody looks.
pub const BATCH: u64 = 127;

/// The time of so many updates of one entry that is in the log, each of which cancels the one before, and of the read in the end.
///
/// # Panics
/// If the read does not show the entry.
#[must_use]
pub fn cancelled(updates: u64) -> Duration {
    let container = Deferred::new(Bag::new());
    let entry = Entry::new(0u64);
    container.insert(&entry).expect("it is in no container");
    let started = Instant::now();
    for _ in 0..updates / 2 {
        container.remove(black_box(&entry)).expect("it is there");
        container.insert(black_box(&entry)).expect("it is not");
    }
    let found = container.synchronize().len();
    let elapsed = started.elapsed();
    assert_eq!(found, 1);
    elapsed
}

/// The time of putting [`BATCH`] entries into the log, so many times; and that time with the reads that deliver them.
fn enqueued(batches: u64) -> (Duration, Duration) {
    let container = DeferredBuilder::new()
        .policy(Policy::Grow)
        .build(Bag::new());
    let entries: Vec<_> = (0..BATCH).map(Entry::new).collect();
    let mut queueing = Duration::ZERO;
    let began = Instant::now();
    for batch in 0..batches {
        let started = Instant::now();
        for entry in &entries {
            let outcome = if batch.is_multiple_of(2) {
                container.insert(entry)
            } else {
                container.remove(entry)
            };
            outcome.expect("they come and go by turns");
        }
        queueing += started.elapsed();
        let expected = if batch.is_multiple_of(2) { BATCH } else { 0 };
        assert_eq!(container.synchronize().len() as u64, expected);
    }
    (queueing, began.elapsed())
}

/// The time of putting [`BATCH`] entries into the log, so many times. What takes them out again is not timed.
#[must_use]
pub fn queued(batches: u64) -> Duration {
    enqueued(batches).0
}

/// The same, and what delivers them to the container.
#[must_use]
pub fn delivered(batches: u64) -> Duration {
    enqueued(batches).1
}

/// The time of so many exchanges of a word that nobody else uses, each of which depends on the one before.
#[must_use]
pub fn exchanged(exchanges: u64) -> Duration {
    let word = AtomicU64::new(0);
    let started = Instant::now();
    for _ in 0..exchanges {
        let word = black_box(&word);
        let now = word.load(Ordering::Acquire);
        let exchanged = word.compare_exchange(now, now ^ 1, Ordering::AcqRel, Ordering::Relaxed);
        black_box(exchanged.is_ok());
    }
    started.elapsed()
}

/// Notes that are kept before somebody takes them.
pub const NOTES: u64 = 2048;

/// Notes of one thread, or of all, with room for as many as there are between two looks.
struct Notes(Vec<(u64, u64)>);

impl Default for Notes {
    fn default() -> Self {
        Self(Vec::with_capacity(NOTES as usize))
    }
}

impl Merge for Notes {
    fn merge(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }
}

/// The time of [`NOTES`] notes of 16 bytes, each put without a stamp behind the last one that its thread has kept, and of taking them
/// all; so many times. Every thread is the only writer of what it keeps, so there is no lock either: a [`Reducer`] of lists.
///
/// # Panics
/// If what is taken is not what was kept.
#[must_use]
pub fn plain(batches: u64) -> Duration {
    let notes: Reducer<Notes> = Reducer::new();
    let started = Instant::now();
    for _ in 0..batches {
        for turn in 0..NOTES {
            let by = black_box(1);
            notes.update(|kept| kept.0.push((turn, by)));
        }
        let sum = notes.take().0.iter().fold(0u64, |sum, (_, by)| sum + by);
        assert_eq!(sum, NOTES);
    }
    started.elapsed()
}
