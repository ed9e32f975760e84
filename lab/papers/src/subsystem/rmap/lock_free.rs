//! The map as a lock-free skip list, sorted by offset.

use super::ReverseMap;
use super::cut::Cuttable;
use crate::subsystem::{Entry, Key};
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry as MapEntry;

/// A skip list of mappings.
///
/// *Guarantees.* Adding and removing are linearizable. A truncate is not one step, as it is in the structures
/// with locks: it walks from the lowest offset to the highest and cuts each mapping for itself.
///
/// * A mapping that is there from the call to the return of a truncate is cut and told of, exactly once.
/// * One that is added meanwhile may be met or not; if it is not, it stays as it was added, although another one that
///   was added later at a higher offset may have been cut.
/// * One that is removed meanwhile is gone in the end, whether it was met or not. If it begins beyond the new length,
///   either the truncate takes it and tells, or the removal does; never both.
/// * Of two truncates at once, each tells what it has cut of a mapping, and the shorter length stays.
///
/// A look ([`at`](ReverseMap::at), [`mappings`](ReverseMap::mappings)) is such a walk too. When nothing else
/// happens, all of them show what the other structures do.
///
/// *Cost.* A list that is sorted by offset knows nothing of ends, so `truncate` and `at` walk over every mapping, or
/// over those that begin early enough.
#[derive(Debug, Default)]
pub struct LockFree {
    map: SkipMap<Key, Cuttable>,
}

/// Cuts a mapping that the walk has met, and tells what it was, if this call has cut any of it.
fn cut(met: &MapEntry<'_, Key, Cuttable>, length: u64) -> Option<Entry> {
    let mapping = met.value();
    if !mapping.begins_beyond(length) {
        mapping.cut(length)
    } else if met.remove() {
        Some(mapping.now())
    } else {
        // Somebody else has taken it.
        None
    }
}

impl ReverseMap for LockFree {
    type Addition = Entry;
    type Removal = Key;

    fn identity(mapping: Entry) -> (Entry, Key) {
        (mapping, mapping.key())
    }

    fn add(&self, mapping: Entry) {
        if mapping.offset < mapping.end {
            self.map.insert(mapping.key(), Cuttable::new(mapping));
        }
    }

    fn remove(&self, key: Key) {
        self.map.remove(&key);
    }

    fn truncate(&self, length: u64) -> Vec<Entry> {
        let mappings = self.map.iter();
        mappings.filter_map(|entry| cut(&entry, length)).collect()
    }

    fn at(&self, offset: u64) -> Vec<Entry> {
        let last = Key {
            offset,
            identity: u32::MAX,
        };
        let begun = self.map.range(..=last);
        begun
            .filter(|entry| entry.value().has(offset))
            .map(|entry| entry.value().now())
            .collect()
    }

    fn mappings(&self) -> Vec<Entry> {
        self.map.iter().map(|entry| entry.value().now()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A removal between the moments at which a truncate meets a mapping and takes it.
    #[test]
    fn a_truncate_does_not_tell_of_what_a_removal_has_taken() {
        let map = LockFree::default();
        let mapping = Entry {
            offset: 4096,
            identity: 1,
            end: 8192,
            process: 1,
        };
        map.add(mapping);
        let met = map.map.front().expect("it is there");
        map.remove(mapping.key());
        assert_eq!(cut(&met, 0), None);

        let mapping = Entry {
            identity: 2,
            ..mapping
        };
        map.add(mapping);
        let met = map.map.front().expect("it is there");
        assert_eq!(cut(&met, 6000), Some(mapping));
        assert_eq!(cut(&met, 7000), None);
        let cut_before = Entry {
            end: 6000,
            ..mapping
        };
        assert_eq!(cut(&met, 0), Some(cut_before));
        assert_eq!(map.mappings(), []);
    }
}
