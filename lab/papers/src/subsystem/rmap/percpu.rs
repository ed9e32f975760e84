//! A map for each core, made by hand: what the thesis weighs logs against (section 8.4).
//!
//! A mapping goes into the map of the core that adds it, under a lock that no other core takes as a rule, and
//! remembers which that was: its removal goes straight there, from whichever core. Whoever asks takes the
//! locks of all maps, in order, and brings together what they answer.
//!
//! Each operation has the effect it would have on one map, at a moment when it holds all the locks it takes:
//! the implementation is linearizable.

use super::{IntervalMap, ReverseMap};
use crate::subsystem::slots::{Home, Slots};
use crate::subsystem::{Entry, Key};

/// An [`IntervalMap`] for each core.
#[derive(Debug, Default)]
pub struct PerCpu {
    maps: Slots<IntervalMap>,
}

impl PerCpu {
    /// What all maps answer at one moment, in order.
    fn reconcile<I: IntoIterator<Item = Entry>>(
        &self,
        mut ask: impl FnMut(&mut IntervalMap) -> I,
    ) -> Vec<Entry> {
        let mut maps = self.maps.all();
        let mut found: Vec<Entry> = maps.iter_mut().flat_map(|map| ask(map)).collect();
        drop(maps);
        found.sort_unstable();
        found
    }
}

impl ReverseMap for PerCpu {
    type Addition = (Home, Entry);
    type Removal = (Home, Key);

    fn identity(mapping: Entry) -> (Self::Addition, Self::Removal) {
        let home = Home::unknown();
        ((home.clone(), mapping), (home, mapping.key()))
    }

    fn add(&self, (home, mapping): Self::Addition) {
        let (part, mut map) = self.maps.own();
        home.set(part);
        map.add(mapping);
    }

    fn remove(&self, (home, key): Self::Removal) {
        if let Some(mut map) = self.maps.part(home.part()) {
            map.remove(key);
        }
    }

    fn truncate(&self, length: u64) -> Vec<Entry> {
        self.reconcile(|map| map.truncate(length))
    }

    fn at(&self, offset: u64) -> Vec<Entry> {
        self.reconcile(|map| map.overlapping(offset..offset.saturating_add(1)))
    }

    fn mappings(&self) -> Vec<Entry> {
        self.reconcile(|map| map.iter().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::slots::on_slot;

    fn mapping(identity: u32) -> Entry {
        Entry {
            offset: 4096 * u64::from(identity % 3),
            end: 4096 * 4,
            process: 1,
            identity,
        }
    }

    #[test]
    fn a_mapping_is_removed_from_where_it_was_added() {
        let map = PerCpu {
            maps: Slots::new(4),
        };
        let removals: Vec<_> = (0..12)
            .map(|identity| {
                let (addition, removal) = PerCpu::identity(mapping(identity));
                on_slot(identity % 4, || map.add(addition));
                removal
            })
            .collect();
        let parts: Vec<usize> = map.maps.all().iter().map(|map| map.len()).collect();
        assert_eq!(parts, [3, 3, 3, 3]);
        assert_eq!(map.at(4096).len(), 8);
        on_slot(2, || {
            removals.into_iter().for_each(|removal| map.remove(removal))
        });
        assert_eq!(map.mappings(), []);
    }

    #[test]
    fn a_mapping_that_was_never_added_is_not_looked_for() {
        let map = PerCpu::default();
        let (_, removal) = PerCpu::identity(mapping(0));
        map.remove(removal);
        assert_eq!(map.mappings(), []);
    }
}
