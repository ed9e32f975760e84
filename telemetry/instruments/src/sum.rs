//! Amounts that add up.

use crate::exact::Exact;
use crate::slots::PerSlot;
use percolog::counter::Counter;
use std::fmt;

/// The largest whole amount that goes to the counter: up to here every whole number is a double.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// A sum of doubles that any number of threads add to without moving a cache line between them.
///
/// ```
/// use percolog_instruments::FloatSum;
///
/// static SECONDS: FloatSum = FloatSum::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..10 {
///         scope.spawn(|| SECONDS.add(0.1));
///     }
/// });
/// assert_eq!(SECONDS.value(), 1.0); // one by one, in doubles, it would be 0.9999999999999999
/// ```
///
/// # Contract
///
/// * [`value`](Self::value) counts every add that finished before it, and each of those under way or not.
/// * Amounts are added up as multiples of 2⁻⁶⁴ and rounded when read: in whatever order they come, a sum of amounts that
///   have a size of at least 2⁻¹² (0.00024) is the double nearest to the true sum; of each smaller amount, what is below 2⁻⁶⁴ (5 · 10⁻²⁰) is cut off.
/// * Whole amounts whose sum leaves ±2⁶³ wrap around. Amounts from 2⁶² on, infinities and what is not a number are added up
///   as doubles are.
/// * A sum to which nothing negative is added never goes back from one read to the next.
///
/// # Cost
///
/// *Time:* a whole amount costs what [`Counter::add`] costs. Any other takes a lock of the caller's slot: two atomic updates of
/// a line that no other core writes, and is blocking only when a thread lost its processor in the middle.
/// *Memory:* 104 bytes, and what a `Counter` takes for each thread; once a fraction was added 512 more, and 128 for each slot that
/// ever added one.
pub struct FloatSum {
    whole: Counter,
    fractions: PerSlot<Exact>,
}

impl FloatSum {
    /// A sum of nothing. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            whole: Counter::new(),
            fractions: PerSlot::new(),
        }
    }

    /// Adds `amount`, which may be negative.
    #[inline]
    pub fn add(&self, amount: f64) {
        let whole = amount as i64;
        if whole as f64 == amount && amount.abs() <= WHOLE {
            self.whole.add(whole);
        } else {
            self.fractions
                .update(|| Exact::ZERO, |exact| exact.add(amount));
        }
    }

    /// Everything that was added.
    ///
    /// *Progress:* blocking, for as long as a thread in the middle of an add has lost its processor. *Cost:* a
    /// [`Counter::sum`], and a lock of each slot that ever added a fraction.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.exact().value()
    }

    pub(crate) fn exact(&self) -> Exact {
        let mut sum = Exact::whole(self.whole.sum());
        self.fractions.each(|part| sum.merge(part));
        sum
    }
}

impl Default for FloatSum {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the estimate of the whole amounts, and calls it that: a log line should not collect from every core by accident.
impl fmt::Debug for FloatSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FloatSum")
            .field("whole_estimate", &self.whole.estimate())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_fractional_amounts_add_up() {
        let sum = FloatSum::new();
        for amount in [1.0, 0.5, -3.0, 1e15, 0.25, -1e15, 0.0, -0.0] {
            sum.add(amount);
        }
        assert_eq!(sum.value(), -1.25);
    }

    #[test]
    fn large_amounts_lose_no_unit() {
        let sum = FloatSum::new();
        sum.add(WHOLE);
        sum.add(1.0);
        sum.add(-WHOLE);
        // Doubles alone: 2^53 + 1 is 2^53.
        assert_eq!(sum.value(), 1.0);
        sum.add(1e300);
        assert_eq!(sum.value(), 1e300);
        sum.add(f64::INFINITY);
        assert_eq!(sum.value(), f64::INFINITY);
    }
}
