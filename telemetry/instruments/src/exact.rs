//! A sum of doubles that does not depend on their order.

/// Units in one: doubles are added up as multiples of 2⁻⁶⁴.
const SCALE: f64 = 18_446_744_073_709_551_616.0;

/// Amounts of at least this size are not turned into units: 2⁶², so that the product with [`SCALE`] fits into an `i128`.
const LIMIT: f64 = 4_611_686_018_427_387_904.0;

/// A sum of doubles.
///
/// *Invariant:* the sum is `units` · 2⁻⁶⁴ + `rest`. `rest` is zero unless something was added that is not finite or has a size of
/// 2⁶² or more, or the units came to 2⁶³.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exact {
    units: i128,
    rest: f64,
}

impl Exact {
    /// The sum of nothing.
    pub(crate) const ZERO: Self = Self {
        units: 0,
        rest: 0.0,
    };

    /// A whole number. Exact.
    pub(crate) fn whole(value: i64) -> Self {
        Self {
            units: i128::from(value) << 64,
            rest: 0.0,
        }
    }

    /// Whether `amount` can be added without `rest`.
    pub(crate) fn fits(amount: f64) -> bool {
        // False for what is not a number, too.
        amount.abs() < LIMIT
    }

    /// Adds `amount`: exactly if it is a multiple of 2⁻⁶⁴, as is every double of this size from 2⁻¹² on; of a smaller one, what is below that is cut off.
    pub(crate) fn add(&mut self, amount: f64) {
        self.add_times(amount, 1);
    }

    /// Adds `amount` `times` times.
    pub(crate) fn add_times(&mut self, amount: f64, times: u64) {
        if !Self::fits(amount) {
            self.rest += amount * times as f64;
            return;
        }
        // The product is exact, since the factor is a power of two; the result is below 2^126.
        let units = (amount * SCALE) as i128;
        match units.checked_mul(i128::from(times)) {
            Some(units) => self.add_units(units),
            None => self.rest += amount * times as f64,
        }
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.add_units(other.units);
        self.rest += other.rest;
    }

    fn add_units(&mut self, units: i128) {
        match self.units.checked_add(units) {
            Some(sum) => self.units = sum,
            None => {
                self.rest += in_ones(self.units);
                self.units = units;
            }
        }
    }

    /// How much more this is than `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> f64 {
        let units = match self.units.checked_sub(earlier.units) {
            Some(units) => in_ones(units),
            None => in_ones(self.units) - in_ones(earlier.units),
        };
        units + (self.rest - earlier.rest)
    }

    /// The sum, rounded once.
    pub(crate) fn value(&self) -> f64 {
        in_ones(self.units) + self.rest
    }
}

fn in_ones(units: i128) -> f64 {
    units as f64 / SCALE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(amounts: &[f64]) -> Exact {
        let mut sum = Exact::ZERO;
        for &amount in amounts {
            sum.add(amount);
        }
        sum
    }

    #[test]
    fn order_makes_no_difference() {
        let mut amounts = vec![0.1, 1e15, -0.3, 7.25, -1e15, 1e-3];
        let forwards = sum(&amounts);
        amounts.reverse();
        assert_eq!(forwards, sum(&amounts));
        // In doubles alone the small amounts would have drowned: 0.1 + 1e15 has none of the tenth's digits but one.
        assert_eq!(forwards.value(), 7.051);
    }

    #[test]
    fn ten_tenths_are_one() {
        assert_eq!(sum(&[0.1; 10]).value(), 1.0);
        let mut at_once = Exact::ZERO;
        at_once.add_times(0.1, 10);
        assert_eq!(at_once, sum(&[0.1; 10]));
    }

    #[test]
    fn what_is_no_number_behaves_as_in_doubles() {
        assert_eq!(sum(&[1.0, f64::INFINITY]).value(), f64::INFINITY);
        assert!(sum(&[f64::NEG_INFINITY, f64::INFINITY]).value().is_nan());
        assert!(sum(&[f64::NAN]).value().is_nan());
        assert_eq!(sum(&[1e300, 1e300]).value(), 2e300);
    }

    #[test]
    fn sums_beyond_the_units_go_on_in_doubles() {
        let almost = LIMIT / 2.0;
        let mut sum = Exact::ZERO;
        for _ in 0..64 {
            sum.add(almost);
        }
        assert_eq!(sum.value(), almost * 64.0);
        let mut other = sum;
        other.merge(&sum);
        assert_eq!(other.value(), almost * 128.0);
        assert_eq!(other.since(&sum), almost * 64.0);
        let mut times = Exact::ZERO;
        times.add_times(almost, 1 << 20);
        assert_eq!(times.value(), almost * f64::from(1 << 20));
    }

    #[test]
    fn differences_are_exact() {
        let mut later = sum(&[1e15]);
        let earlier = later;
        later.add(0.125);
        assert_eq!(later.since(&earlier), 0.125);
        assert_eq!(earlier.since(&later), -0.125);
        assert_eq!(Exact::whole(-3).value(), -3.0);
        assert_eq!(Exact::whole(i64::MIN).value(), i64::MIN as f64);
    }
}
