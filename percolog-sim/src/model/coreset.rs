//! A set of cores that costs one word for small machines and grows for large ones.

use super::Core;
use std::fmt;

/// A set of cores. Cores below 64 take no allocation.
#[derive(Clone, Default)]
pub struct CoreSet {
    low: u64,
    /// Bits of cores 64 and up. Boxed twice over so that the many sets of small machines stay at
    /// two words.
    #[allow(
        clippy::box_collection,
        reason = "a vector of its own would double every set"
    )]
    high: Option<Box<Vec<u64>>>,
}

impl CoreSet {
    /// The empty set.
    pub const fn new() -> Self {
        CoreSet { low: 0, high: None }
    }

    /// The set of `core` alone.
    pub fn only(core: Core) -> Self {
        let mut set = CoreSet::new();
        set.insert(core);
        set
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let high = self.high.as_deref().map_or(&[][..], Vec::as_slice);
        std::iter::once(self.low).chain(high.iter().copied())
    }

    /// Adds `core`; says whether it was absent.
    pub fn insert(&mut self, core: Core) -> bool {
        let (word, bit) = (usize::from(core) / 64, 1u64 << (core % 64));
        let slot = if word == 0 {
            &mut self.low
        } else {
            let high = self.high.get_or_insert_default();
            if high.len() < word {
                high.resize(word, 0);
            }
            &mut high[word - 1]
        };
        let absent = *slot & bit == 0;
        *slot |= bit;
        absent
    }

    /// Takes `core` out; says whether it was there.
    pub fn remove(&mut self, core: Core) -> bool {
        let (word, bit) = (usize::from(core) / 64, 1u64 << (core % 64));
        let slot = if word == 0 {
            Some(&mut self.low)
        } else {
            self.high.as_mut().and_then(|high| high.get_mut(word - 1))
        };
        match slot {
            Some(slot) if *slot & bit != 0 => {
                *slot &= !bit;
                true
            }
            _ => false,
        }
    }

    /// Whether `core` is in the set.
    pub fn contains(&self, core: Core) -> bool {
        let (word, bit) = (usize::from(core) / 64, 1u64 << (core % 64));
        let slot = if word == 0 {
            self.low
        } else {
            let high = self.high.as_deref();
            high.and_then(|high| high.get(word - 1))
                .copied()
                .unwrap_or(0)
        };
        slot & bit != 0
    }

    /// How many cores there are in the set.
    pub fn len(&self) -> usize {
        self.words().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no core is in the set.
    pub fn is_empty(&self) -> bool {
        self.words().all(|word| word == 0)
    }

    /// Empties the set; what it has allocated stays for its next members.
    pub fn clear(&mut self) {
        self.low = 0;
        if let Some(high) = &mut self.high {
            high.fill(0);
        }
    }

    /// The cores, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Core> + '_ {
        self.words().enumerate().flat_map(|(index, word)| Bits {
            word,
            base: index as Core * 64,
        })
    }

    /// Adds the cores of `other`.
    pub fn extend_from(&mut self, other: &CoreSet) {
        for core in other.iter() {
            self.insert(core);
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.high
            .as_ref()
            .map_or(0, |high| size_of::<Vec<u64>>() + high.capacity() * 8)
    }
}

/// The set bits of one word, as cores.
struct Bits {
    word: u64,
    base: Core,
}

impl Iterator for Bits {
    type Item = Core;

    fn next(&mut self) -> Option<Core> {
        if self.word == 0 {
            return None;
        }
        let bit = self.word.trailing_zeros() as Core;
        self.word &= self.word - 1;
        Some(self.base + bit)
    }
}

impl PartialEq for CoreSet {
    /// Equal if they have the same members, however much room each has grown.
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for CoreSet {}

impl fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<Core> for CoreSet {
    fn from_iter<I: IntoIterator<Item = Core>>(cores: I) -> Self {
        let mut set = CoreSet::new();
        for core in cores {
            set.insert(core);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_in_order() {
        let set: CoreSet = [700, 3, 64, 63, 127, 3].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 63, 64, 127, 700]);
        assert_eq!(set.len(), 5);
        assert!(set.contains(700) && !set.contains(701) && !set.contains(5000));
    }

    #[test]
    fn insert_and_remove_say_what_changed() {
        let mut set = CoreSet::new();
        for core in [0, 63, 64, 1023] {
            assert!(!set.remove(core));
            assert!(set.insert(core));
            assert!(!set.insert(core));
            assert!(set.remove(core));
            assert!(set.is_empty());
        }
    }

    #[test]
    fn equality_ignores_room() {
        let mut grown = CoreSet::only(900);
        grown.clear();
        grown.insert(2);
        assert_eq!(grown, CoreSet::only(2));
        assert_ne!(grown, CoreSet::only(3));
        assert_ne!(CoreSet::only(66), CoreSet::only(2));
    }

    #[test]
    fn a_set_is_two_words() {
        assert_eq!(size_of::<CoreSet>(), 16);
        assert_eq!(CoreSet::only(63).heap_bytes(), 0);
    }

    #[test]
    fn union() {
        let mut set = CoreSet::only(1);
        set.extend_from(&[1, 2, 99].into_iter().collect());
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 2, 99]);
    }
}
