//! One change of a set, on its way there.

use super::state::SetState;
use crate::oplog::{Absorb, Operation};
use core::hash::{Hash, Hasher};

/// A change of one key. What counts is the last one on each key.
pub(super) enum Change<K> {
    /// The key is to be in the set.
    Insert(K),
    /// The key is not to be in the set.
    Remove(K),
}

impl<K> Change<K> {
    #[inline(always)]
    fn key(&self) -> &K {
        match self {
            Self::Insert(key) | Self::Remove(key) => key,
        }
    }

    pub(super) fn into_key(self) -> K {
        match self {
            Self::Insert(key) | Self::Remove(key) => key,
        }
    }
}

impl<K: Hash + Eq + Send, S: SetState<K>> Operation<S> for Change<K> {
    const ABSORBS: bool = true;

    #[inline]
    fn exec(self, set: &mut S) {
        match self {
            Self::Insert(key) => _ = set.insert(key),
            Self::Remove(key) => _ = set.remove(&key),
        }
    }

    #[inline]
    fn absorb(&self) -> Absorb<'_> {
        let mut hasher = Folding(0);
        self.key().hash(&mut hasher);
        Absorb::Replace(hasher.finish())
    }

    #[inline]
    fn replaces(&self, earlier: &Self) -> bool {
        self.key() == earlier.key()
    }
}

/// Hashes a key for the index of a queue, which spreads the result again.
///
/// A change pays for this while it has the slot's queue, so it is one multiplication a word, with nothing random in it.
/// Keys that an enemy makes collide are found by comparing those that do: at most as many as a queue holds.
struct Folding(u64);

impl Folding {
    #[inline(always)]
    fn fold(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0x9fb2_1c65_1e98_df25;
        // The odd rotation keeps a first word of zero from vanishing behind one that is not there.
        self.0 = ((wide >> 64) as u64 ^ wide as u64).rotate_left(23) ^ 0x2545_f491_4f6c_dd1d;
    }
}

impl Hasher for Folding {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut full = [0; 8];
            full.copy_from_slice(word);
            self.fold(u64::from_le_bytes(full));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            // Tells zeros that are there from those that fill up; a rest has seven bytes at most.
            last[7] = rest.len() as u8;
            self.fold(u64::from_le_bytes(last));
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.fold(u64::from(number));
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.fold(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.fold(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.fold(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt::Debug;
    use std::vec::Vec;

    fn hash<K: Hash + Eq + Send + Ord>(key: K) -> u64 {
        let Absorb::Replace(hash) = Operation::<BTreeSet<K>>::absorb(&Change::Insert(key)) else {
            unreachable!("the last change of a key counts")
        };
        hash
    }

    fn are_all_different<K: Hash + Eq + Send + Ord + Clone + Debug>(
        keys: impl IntoIterator<Item = K>,
    ) {
        let mut seen = BTreeSet::new();
        for key in keys {
            assert!(seen.insert(hash(key.clone())), "{key:?}");
        }
    }

    #[test]
    fn keys_that_differ_a_little_have_different_hashes() {
        // Numbers beside each other, single bits, and pairs of both.
        let numbers = || (0..1000_u64).chain((10..64).map(|bit| 1 << bit));
        are_all_different(numbers());
        are_all_different(numbers().map(|number| number as i16).take(1000));
        are_all_different(
            numbers().flat_map(|number| [(0, number), (number + 1, 0), (number, u64::MAX)]),
        );
        // Texts of all lengths, that differ in one place.
        are_all_different((0..40).flat_map(|length| {
            let text = "a".repeat(length);
            let others = (0..length).map(|place| {
                let mut other = "a".repeat(length);
                other.replace_range(place..=place, "\0");
                other
            });
            [text].into_iter().chain(others).collect::<Vec<_>>()
        }));
    }

    #[test]
    fn a_change_is_as_small_as_its_key_allows() {
        assert_eq!(size_of::<Change<u64>>(), 16);
        assert_eq!(size_of::<Change<u32>>(), 8);
        assert_eq!(size_of::<Change<&str>>(), 24);
    }
}
