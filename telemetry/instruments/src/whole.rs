//! A gauge in whole numbers.

use percolog::counter::Counter;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A whole number that threads raise and lower without moving a cache line between them, and set now and then.
///
/// ```
/// use percolog_instruments::IntGauge;
///
/// static OPEN: IntGauge = IntGauge::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             OPEN.add(3);
///             OPEN.add(-1);
///         });
///     }
/// });
/// assert_eq!(OPEN.value(), 8);
/// assert_eq!(OPEN.set(100), 8);
/// OPEN.add(1);
/// assert_eq!(OPEN.value(), 101);
/// ```
///
/// # Contract
///
/// * [`value`](Self::value) counts every add that finished before it, and each of those under way or not: a decrement can be
///   counted and an increment on another thread that came before it be missed, if neither had finished when the call began.
/// * [`set`](Self::set) discards every add that finished before it began, and keeps every add that begins after it returned.
///   Those that overlap it are discarded or kept, each for itself; none is half discarded, and none comes back later.
/// * Sets and reads of one gauge happen one after the other.
/// * Arithmetic wraps around at the ends of `i64`.
///
/// # Cost
///
/// *Time:* an add costs what [`Counter::add`] costs, and a look at a word that is written once. A set takes a lock, and
/// collects from every core as [`Counter::sum`] does, unless nothing was ever added: a gauge that is only set costs a lock.
/// *Memory:* 64 bytes, and what a `Counter` takes for each thread.
///
/// *Progress:* adds are wait-free as `Counter`'s are; sets and reads are blocking among themselves, and do not hold up adds.
pub struct IntGauge {
    changes: Counter,
    /// Whether anything was ever added; written once.
    changed: AtomicBool,
    last: Mutex<Set>,
}

/// The last set.
struct Set {
    value: i64,
    /// What the changes summed up to, as the set saw them.
    changes: i64,
}

impl IntGauge {
    /// A gauge at zero. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            changes: Counter::new(),
            changed: AtomicBool::new(false),
            last: Mutex::new(Set {
                value: 0,
                changes: 0,
            }),
        }
    }

    /// Adds `amount`, which may be negative. Wraps around.
    #[inline]
    pub fn add(&self, amount: i64) {
        // Relaxed, here and in `sum`: who must see this add has synchronized with this thread since, and thereby sees the flag.
        if !self.changed.load(Ordering::Relaxed) {
            self.changed.store(true, Ordering::Relaxed);
        }
        self.changes.add(amount);
    }

    /// Sets the gauge, and returns what it would have shown just before.
    pub fn set(&self, value: i64) -> i64 {
        let mut last = self.lock();
        let changes = self.sum();
        let before = shown(&last, changes);
        *last = Set { value, changes };
        before
    }

    /// What was last set, and every change since.
    #[must_use]
    pub fn value(&self) -> i64 {
        let last = self.lock();
        shown(&last, self.sum())
    }

    /// Every change there ever was. Under the lock: a sum taken earlier could be older than the one of the last set, which
    /// would bring back what that has discarded.
    fn sum(&self) -> i64 {
        // Relaxed: see `add`.
        if self.changed.load(Ordering::Relaxed) {
            self.changes.sum()
        } else {
            0
        }
    }

    fn lock(&self) -> MutexGuard<'_, Set> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown(last: &Set, changes: i64) -> i64 {
    last.value.wrapping_add(changes.wrapping_sub(last.changes))
}

impl Default for IntGauge {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the estimate of all changes, and calls it that: a log line should not collect from every core by accident.
impl fmt::Debug for IntGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntGauge")
            .field("changes_estimate", &self.changes.estimate())
            .finish_non_exhaustive()
    }
}
