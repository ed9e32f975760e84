//! A gauge with fractions.

use crate::exact::Exact;
use crate::sum::FloatSum;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A double that threads raise and lower without moving a cache line between them, and set now and then.
///
/// ```
/// use percolog_instruments::Gauge;
///
/// static LOAD: Gauge = Gauge::new();
///
/// LOAD.set(20.5);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| LOAD.add(0.25));
///     }
/// });
/// assert_eq!(LOAD.value(), 21.5);
/// ```
///
/// # Contract
///
/// * [`value`](Self::value) counts every add that finished before it, and each of those under way or not.
/// * [`set`](Self::set) discards every add that finished before it began, and keeps every add that begins after it returned.
///   Those that overlap it are discarded or kept, each for itself.
/// * Sets and reads of one gauge happen one after the other.
/// * What was added since the last set is summed up as [`FloatSum`] says, exactly but for very small amounts, rounded, and added to
///   what was set. An infinity, or what is not a number, stays until the next set, as in any double.
///
/// # Cost
///
/// *Time:* an add costs what [`FloatSum::add`] costs: whole amounts (`increment(1.0)`) what a `Counter` does. Infinities and amounts from 2⁶² on
/// take a lock. A set takes that lock, and collects from every core as [`FloatSum::value`] does, unless nothing was ever added: a gauge that is
/// only set costs a lock. *Memory:* 176 bytes, and what a [`FloatSum`] takes for each thread and slot.
///
/// *Progress:* sets and reads are blocking among themselves, and do not hold up adds of finite amounts.
pub struct Gauge {
    changes: FloatSum,
    /// Whether anything was ever added to `changes`; written once.
    changed: AtomicBool,
    last: Mutex<Set>,
}

/// The last set.
struct Set {
    value: f64,
    /// What the changes summed up to, as the set saw them.
    changes: Exact,
}

impl Gauge {
    /// A gauge at zero. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            changes: FloatSum::new(),
            changed: AtomicBool::new(false),
            last: Mutex::new(Set {
                value: 0.0,
                changes: Exact::ZERO,
            }),
        }
    }

    /// Adds `amount`, which may be negative.
    #[inline]
    pub fn add(&self, amount: f64) {
        if !Exact::fits(amount) {
            // Kept with what was set, so that the next set takes it away again.
            self.lock().value += amount;
            return;
        }
        // Relaxed, here and in `sum`: who must see this add has synchronized with this thread since, and thereby sees the flag.
        if !self.changed.load(Ordering::Relaxed) {
            self.changed.store(true, Ordering::Relaxed);
        }
        self.changes.add(amount);
    }

    /// Sets the gauge, and returns what it would have shown just before.
    pub fn set(&self, value: f64) -> f64 {
        let mut last = self.lock();
        let changes = self.sum();
        let before = last.value + changes.since(&last.changes);
        *last = Set { value, changes };
        before
    }

    /// What was last set, and every change since.
    #[must_use]
    pub fn value(&self) -> f64 {
        let last = self.lock();
        last.value + self.sum().since(&last.changes)
    }

    /// Every change there ever was. Under the lock: a sum taken earlier could be older than the one of the last set, which
    /// would bring back what that has discarded.
    fn sum(&self) -> Exact {
        // Relaxed: see `add`.
        if self.changed.load(Ordering::Relaxed) {
            self.changes.exact()
        } else {
            Exact::ZERO
        }
    }

    fn lock(&self) -> MutexGuard<'_, Set> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Gauge {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the sum of all changes as it estimates it: a log line should not collect from every core by accident.
impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauge")
            .field("changes", &self.changes)
            .finish_non_exhaustive()
    }
}
