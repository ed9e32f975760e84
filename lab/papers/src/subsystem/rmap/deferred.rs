//! The map behind a log without time stamps, in which an addition and its removal cancel each other.
//!
//! As in the kernel that the slides describe, the log has the mappings themselves: a removal changes a word of the
//! mapping, wherever the addition was logged, and whoever looks at the map later finds that there is nothing to be
//! done. (J. Kyong, *A Lightweight Log-based Deferred Update for Linux Kernel Scalability*.)

use super::{IntervalMap, ReverseMap};
use crate::subsystem::Entry;
use crate::subsystem::deferred::{Queue, deferred, enter, leave, life};
use percolog::ldu::{self, Container, Deferred, Member};
use percolog::oplog::LogStats;
use std::marker::PhantomData;

/// An [`IntervalMap`] behind [`Deferred`], with the log that `Q` says.
#[derive(Debug)]
pub struct DeferredMap<Q> {
    map: Deferred<Mappings>,
    queue: PhantomData<Q>,
}

/// The map, and the mappings that are in it.
#[derive(Debug, Default)]
struct Mappings {
    /// By interval, cut where a truncate has cut them.
    map: IntervalMap,
    /// In no order; each knows its position.
    members: Vec<Member<Entry>>,
}

impl Mappings {
    fn truncate(&mut self, length: u64) -> Vec<Entry> {
        let cut = self.map.truncate(length);
        if cut.iter().any(|mapping| mapping.offset >= length) {
            // What is dropped is in no map any more, and its removal will find that out.
            self.members.retain(|member| member.offset < length);
            for (position, member) in (0..).zip(&self.members) {
                member.set_position(position);
            }
        }
        cut
    }
}

impl Container for Mappings {
    type Item = Entry;

    fn insert(&mut self, member: Member<Entry>) {
        // An empty mapping is no mapping: its member is dropped.
        if self.map.add(*member) {
            member.set_position(self.members.len() as u64);
            self.members.push(member);
        }
    }

    fn remove(&mut self, entry: &ldu::Entry<Entry>, position: u64) -> Option<Member<Entry>> {
        let position = usize::try_from(position).ok()?;
        if !self.members.get(position)?.is(entry) {
            return None;
        }
        self.map.remove(entry.key());
        let member = self.members.swap_remove(position);
        if let Some(moved) = self.members.get(position) {
            moved.set_position(position as u64);
        }
        Some(member)
    }
}

impl<Q: Queue> Default for DeferredMap<Q> {
    fn default() -> DeferredMap<Q> {
        DeferredMap {
            map: deferred::<Q, _>(Mappings::default()),
            queue: PhantomData,
        }
    }
}

impl<Q: Queue> ReverseMap for DeferredMap<Q> {
    /// A handle of the mapping: in a kernel, the mapping itself.
    type Addition = ldu::Entry<Entry>;
    type Removal = ldu::Entry<Entry>;

    fn identity(mapping: Entry) -> (Self::Addition, Self::Removal) {
        life(mapping)
    }

    fn add(&self, mapping: Self::Addition) {
        enter(&self.map, &mapping);
    }

    fn remove(&self, mapping: Self::Removal) {
        leave(&self.map, &mapping);
    }

    fn truncate(&self, length: u64) -> Vec<Entry> {
        self.map.synchronize().truncate(length)
    }

    fn at(&self, offset: u64) -> Vec<Entry> {
        self.map
            .synchronize()
            .map
            .overlapping(offset..offset.saturating_add(1))
    }

    fn statistics(&self) -> Option<LogStats> {
        Some(self.map.stats())
    }

    fn mappings(&self) -> Vec<Entry> {
        self.map.synchronize().map.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::deferred::{GlobalQueue, PerCoreQueue};
    use crate::subsystem::slots::on_slot;

    fn mapping(identity: u32, page: u64) -> Entry {
        Entry {
            offset: 4096 * page,
            end: 4096 * (page + 2),
            process: 1,
            identity,
        }
    }

    /// The test, with either log: what adds a mapping to a map, and the map.
    fn with_either(test: impl Fn(&dyn Fn(u32, u64) -> Removal, &dyn Map)) {
        fn run<Q: Queue>(test: &impl Fn(&dyn Fn(u32, u64) -> Removal, &dyn Map)) {
            let map = DeferredMap::<Q>::default();
            let add = |identity, page| {
                let (addition, removal) = DeferredMap::<Q>::identity(mapping(identity, page));
                map.add(addition);
                removal
            };
            test(&add, &map);
        }
        run::<PerCoreQueue>(&test);
        run::<GlobalQueue>(&test);
    }

    type Removal = ldu::Entry<Entry>;

    /// A [`ReverseMap`], whichever log it has.
    trait Map: Sync {
        fn go(&self, removal: Removal);
        fn cut(&self, length: u64) -> Vec<Entry>;
        fn left(&self) -> Vec<Entry>;
        fn members(&self) -> usize;
        fn executed(&self) -> u64;
    }

    impl<Q: Queue> Map for DeferredMap<Q> {
        fn go(&self, removal: Removal) {
            ReverseMap::remove(self, removal);
        }
        fn cut(&self, length: u64) -> Vec<Entry> {
            ReverseMap::truncate(self, length)
        }
        fn left(&self) -> Vec<Entry> {
            ReverseMap::mappings(self)
        }
        fn members(&self) -> usize {
            self.map.synchronize().members.len()
        }
        fn executed(&self) -> u64 {
            self.map.stats().executed
        }
    }

    #[test]
    fn what_comes_and_goes_is_looked_at_once_and_never_carried_out() {
        with_either(|add, map| {
            for identity in 0..100 {
                map.go(add(identity, 0));
            }
            assert_eq!(map.left(), []);
            assert_eq!((map.executed(), map.members()), (100, 0));
        });
    }

    #[test]
    fn what_one_core_adds_and_another_removes_is_looked_at_once() {
        with_either(|add, map| {
            let removals: Vec<_> = (0..100).map(|identity| add(identity, 0)).collect();
            on_slot(1, || {
                removals.into_iter().for_each(|removal| map.go(removal));
            });
            assert_eq!(map.left(), []);
            assert_eq!(map.executed(), 100);
        });
    }

    #[test]
    fn positions_follow_the_members_that_a_truncate_leaves() {
        with_either(|add, map| {
            let mut removals: Vec<_> = (0..6).map(|page| add(page, u64::from(page))).collect();
            // Two are away entirely, and one is cut.
            let cut = map.cut(4096 * 4);
            assert_eq!(cut, [3, 4, 5].map(|page| mapping(page, u64::from(page))));
            assert_eq!(map.members(), 4);
            let shorter = Entry {
                end: 4096 * 4,
                ..mapping(3, 3)
            };
            assert_eq!(
                map.left(),
                [mapping(0, 0), mapping(1, 1), mapping(2, 2), shorter]
            );
            // The one that was cut goes as it is; the ones that are away stay away.
            for gone in [5, 3, 0] {
                map.go(removals.remove(gone));
                map.left();
            }
            assert_eq!(map.left(), [mapping(1, 1), mapping(2, 2)]);
            removals.into_iter().for_each(|removal| map.go(removal));
            assert_eq!(map.left(), []);
            assert_eq!(map.members(), 0);
        });
    }

    #[test]
    fn an_empty_mapping_is_none() {
        let map = DeferredMap::<PerCoreQueue>::default();
        let (addition, removal) = DeferredMap::<PerCoreQueue>::identity(Entry {
            end: 0,
            ..mapping(0, 0)
        });
        map.add(addition);
        assert_eq!(map.mappings(), []);
        assert_eq!(map.members(), 0);
        map.remove(removal);
        assert_eq!(map.mappings(), []);
    }
}
