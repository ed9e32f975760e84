//! What can be put together from shares.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::num::Wrapping;

/// A value that can be merged from the shares of threads: sums, extremes, maps of them, and your own.
///
/// Shares are merged in no particular order, and in any grouping. So that the result does not depend on that,
/// * it must not matter which of two is merged into which, nor how three are grouped: `merge` is associative and commutative, up
///   to what you do not care about (the order of a `Vec`, the last bits of a float);
/// * merging a value that is new ([`Default`]) must change nothing.
///
/// ```
/// use percolog::reduce::{Max, Merge, Sum};
///
/// #[derive(Default)]
/// struct Latency {
///     calls: Sum<u64>,
///     slowest: Max<u64>,
/// }
///
/// impl Merge for Latency {
///     fn merge(&mut self, other: &Self) {
///         self.calls.merge(&other.calls);
///         self.slowest.merge(&other.slowest);
///     }
/// }
/// ```
pub trait Merge {
    /// Takes in what another share has.
    fn merge(&mut self, other: &Self);
}

/// A sum. Of integers it wraps around at the ends of their range; of floats its last bits depend on the order of the additions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sum<T>(pub T);

/// The minimum of all observations; `None` before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Min<T>(pub Option<T>);

/// The maximum of all observations; `None` before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Max<T>(pub Option<T>);

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Sum<$integer> {
            /// Adds an amount, wrapping around.
            #[inline]
            pub fn add(&mut self, amount: $integer) {
                self.0 = self.0.wrapping_add(amount);
            }
        }

        impl Merge for Sum<$integer> {
            #[inline]
            fn merge(&mut self, other: &Self) {
                self.add(other.0);
            }
        }

        impl Merge for Wrapping<$integer> {
            #[inline]
            fn merge(&mut self, other: &Self) {
                *self += *other;
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Sum<$float> {
            /// Adds an amount.
            #[inline]
            pub fn add(&mut self, amount: $float) {
                self.0 += amount;
            }
        }

        impl Merge for Sum<$float> {
            #[inline]
            fn merge(&mut self, other: &Self) {
                self.add(other.0);
            }
        }
    )*};
}

floats!(f32 f64);

macro_rules! extremes {
    ($($extreme:ident $better:tt),*) => {$(
        impl<T: PartialOrd> $extreme<T> {
            /// Takes in an observation. One that is not comparable with what was observed before (a float that is not a
            /// number) changes nothing unless it is the first, and gives way to any other then.
            #[inline]
            pub fn observe(&mut self, value: T) {
                let better = match &self.0 {
                    None => true,
                    #[allow(clippy::eq_op, reason = "what is not equal to itself gives way")]
                    Some(best) => value $better *best || (best != best && value == value),
                };
                if better {
                    self.0 = Some(value);
                }
            }
        }

        impl<T> Default for $extreme<T> {
            fn default() -> Self {
                Self(None)
            }
        }

        impl<T: PartialOrd + Clone> Merge for $extreme<T> {
            #[inline]
            fn merge(&mut self, other: &Self) {
                if let Some(value) = &other.0 {
                    self.observe(value.clone());
                }
            }
        }
    )*};
}

extremes!(Min <, Max >);

/// Nothing there is to merge.
impl Merge for () {
    fn merge(&mut self, (): &Self) {}
}

/// What is there counts; where both are, they are merged.
impl<M: Merge + Clone> Merge for Option<M> {
    fn merge(&mut self, other: &Self) {
        match (self.as_mut(), other) {
            (Some(mine), Some(others)) => mine.merge(others),
            (None, Some(others)) => *self = Some(others.clone()),
            (_, None) => {}
        }
    }
}

/// Each with its counterpart.
impl<M: Merge, const N: usize> Merge for [M; N] {
    fn merge(&mut self, other: &Self) {
        for (mine, others) in self.iter_mut().zip(other) {
            mine.merge(others);
        }
    }
}

macro_rules! tuples {
    ($($name:ident $at:tt),*) => {
        /// Each with its counterpart.
        impl<$($name: Merge),*> Merge for ($($name,)*) {
            fn merge(&mut self, other: &Self) {
                $(self.$at.merge(&other.$at);)*
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);

/// One behind the other: a bag of things, in the order of each thread but in no order of threads.
impl<T: Clone> Merge for Vec<T> {
    fn merge(&mut self, other: &Self) {
        self.extend_from_slice(other);
    }
}

/// All keys of both; the values of a key that both have are merged.
impl<K: Ord + Clone, M: Merge + Clone> Merge for BTreeMap<K, M> {
    fn merge(&mut self, other: &Self) {
        for (key, others) in other {
            match self.get_mut(key) {
                Some(mine) => mine.merge(others),
                None => _ = self.insert(key.clone(), others.clone()),
            }
        }
    }
}

/// All elements of both.
impl<T: Ord + Clone> Merge for BTreeSet<T> {
    fn merge(&mut self, other: &Self) {
        self.extend(other.iter().cloned());
    }
}
