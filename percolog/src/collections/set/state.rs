//! What a set can be inside.

use alloc::collections::BTreeSet;
#[cfg(feature = "std")]
use core::hash::{BuildHasher, Hash};
#[cfg(feature = "std")]
use std::collections::HashSet;

/// An ordinary set that [`Set`](super::Set) can keep its keys in.
///
/// Given for `BTreeSet`, whose keys are read in order, and for `HashSet` (feature `std`), where each change and question
/// takes the same short time however large the set is. Write it for a set of your own to use that one:
///
/// ```
/// use percolog::collections::{Set, SetState};
///
/// /// The numbers below 64, as bits.
/// #[derive(Default)]
/// struct Bits(u64);
///
/// impl SetState<u8> for Bits {
///     fn insert(&mut self, key: u8) -> bool {
///         let new = !self.contains(&key);
///         self.0 |= 1 << key;
///         new
///     }
///     fn remove(&mut self, key: &u8) -> bool {
///         let there = self.contains(key);
///         self.0 &= !(1 << key);
///         there
///     }
///     fn contains(&self, key: &u8) -> bool { self.0 >> key & 1 == 1 }
///     fn len(&self) -> usize { self.0.count_ones() as usize }
/// }
///
/// let low: Set<u8, Bits> = Set::default();
/// low.extend([1, 5, 63]);
/// low.remove(5);
/// assert_eq!(low.read().0, 1 << 63 | 1 << 1);
/// ```
///
/// Which keys are one and the same must be what their `Eq` says. The methods run while the set is merged, once for each
/// change that nothing has replaced, and must not use the [`Set`](super::Set) they are in.
pub trait SetState<K> {
    /// Adds a key; whether it was not there. If it was, either of the two equal keys may stay.
    fn insert(&mut self, key: K) -> bool;

    /// Removes a key; whether it was there.
    fn remove(&mut self, key: &K) -> bool;

    /// Whether the key is there.
    fn contains(&self, key: &K) -> bool;

    /// How many keys are there.
    fn len(&self) -> usize;

    /// Whether no key is there.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Ord> SetState<K> for BTreeSet<K> {
    #[inline]
    fn insert(&mut self, key: K) -> bool {
        self.insert(key)
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.remove(key)
    }

    #[inline]
    fn contains(&self, key: &K) -> bool {
        self.contains(key)
    }

    #[inline]
    fn len(&self) -> usize {
        self.len()
    }
}

#[cfg(feature = "std")]
impl<K: Hash + Eq, H: BuildHasher> SetState<K> for HashSet<K, H> {
    #[inline]
    fn insert(&mut self, key: K) -> bool {
        self.insert(key)
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.remove(key)
    }

    #[inline]
    fn contains(&self, key: &K) -> bool {
        self.contains(key)
    }

    #[inline]
    fn len(&self) -> usize {
        self.len()
    }
}
