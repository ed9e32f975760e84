//! The map behind a log for each core, in which an addition and its removal cancel each other.
//!
//! Most mappings live and die on one core, between two looks at the file: their removal finds the addition
//! in the core's own log, and the shared map never hears of them. A process that began on one core and
//! ended on another leaves its additions and removals in two logs; those cancel while the logs are brought
//! together (Boyd-Wickizer, section 6.2).

use super::{IntervalMap, Key, Mapping, ReverseMap};
use percolog::oplog::{Absorb, Birth, Death, Logged, Operation, Stats, unique};

/// An [`IntervalMap`] behind [`Logged`], with absorption in each log and across logs.
#[derive(Debug)]
pub struct AbsorbingMap {
    map: Logged<IntervalMap, Edit>,
}

/// One half of a mapping's life. The tokens cannot be copied, so cancelling is always right.
#[derive(Debug)]
enum Edit {
    Add(Birth, Mapping),
    Remove(Death, Key),
}

impl Operation<IntervalMap> for Edit {
    const ABSORBS: bool = true;

    fn exec(self, map: &mut IntervalMap) {
        match self {
            Edit::Add(_, mapping) => {
                map.add(mapping);
            }
            Edit::Remove(_, key) => {
                map.remove(key);
            }
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Edit::Add(birth, _) => Absorb::Begin(birth),
            Edit::Remove(death, _) => Absorb::End(death),
        }
    }
}

impl AbsorbingMap {
    /// What the log has done so far: how much was carried out, and how much cancelled.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.map.stats()
    }
}

impl Default for AbsorbingMap {
    fn default() -> AbsorbingMap {
        AbsorbingMap {
            map: Logged::<IntervalMap, Edit>::builder()
                .absorb_while_merging(true)
                .build(IntervalMap::new()),
        }
    }
}

impl ReverseMap for AbsorbingMap {
    type Addition = (Birth, Mapping);
    type Removal = (Death, Key);

    fn identity(mapping: Mapping) -> (Self::Addition, Self::Removal) {
        let (birth, death) = unique();
        ((birth, mapping), (death, mapping.key()))
    }

    fn add(&self, (birth, mapping): Self::Addition) {
        self.map.queue(Edit::Add(birth, mapping));
    }

    fn remove(&self, (death, key): Self::Removal) {
        self.map.queue(Edit::Remove(death, key));
    }

    fn truncate(&self, length: u64) -> Vec<Mapping> {
        self.map.synchronize().truncate(length)
    }

    fn mappings(&self) -> Vec<Mapping> {
        self.map.synchronize().iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rmap::LoggedMap;
    use percolog::cpu::{self, CoreId};
    use std::thread;

    fn mapping(identity: u32) -> Mapping {
        Mapping {
            offset: 0,
            end: 4096,
            process: 1,
            identity,
        }
    }

    #[test]
    fn what_comes_and_goes_on_one_thread_is_never_carried_out() {
        let map = AbsorbingMap::default();
        for identity in 0..1000 {
            let (addition, removal) = AbsorbingMap::identity(mapping(identity));
            map.add(addition);
            map.remove(removal);
        }
        assert_eq!(map.mappings(), []);
        let stats = map.stats();
        assert_eq!((stats.executed, stats.absorbed), (0, 2000));

        let map = LoggedMap::default();
        for identity in 0..1000 {
            let (addition, removal) = LoggedMap::identity(mapping(identity));
            map.add(addition);
            map.remove(removal);
        }
        assert_eq!(map.mappings(), []);
        let stats = map.stats();
        assert_eq!((stats.executed, stats.absorbed), (2000, 0));
    }

    #[test]
    fn what_a_parent_adds_and_its_child_removes_is_never_carried_out() {
        let map = AbsorbingMap::default();
        // Below the limit, so that nobody merges before the child is done.
        let removals: Vec<_> = (0..100)
            .map(|identity| {
                let (addition, removal) = AbsorbingMap::identity(mapping(identity));
                map.add(addition);
                removal
            })
            .collect();
        thread::scope(|scope| {
            scope.spawn(|| removals.into_iter().for_each(|removal| map.remove(removal)));
        });
        assert_eq!(map.mappings(), []);
        let stats = map.stats();
        assert_eq!((stats.executed, stats.absorbed), (0, 200));
    }

    /// What one slot's log remembers of places in it must not outlive a merge in which everything cancels.
    #[test]
    fn what_is_added_after_everything_has_cancelled_stays() {
        fn on_slot<R: Send>(slot: u32, work: impl FnOnce() -> R + Send) -> R {
            thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    cpu::bind(CoreId::new(slot));
                    let result = work();
                    cpu::unbind();
                    result
                });
                worker.join().expect("nothing panics")
            })
        }
        let map = AbsorbingMap::default();
        let add = |identity| {
            let (addition, removal) = AbsorbingMap::identity(mapping(identity));
            map.add(addition);
            removal
        };
        let mut kept = Vec::new();
        for round in 0..10 {
            let first = 1000 * round;
            // Across logs: nothing is left to carry out.
            let removals = on_slot(0, || (first..first + 5).map(add).collect::<Vec<_>>());
            on_slot(1, || {
                removals.into_iter().for_each(|removal| map.remove(removal))
            });
            assert_eq!(map.mappings(), kept);
            // Within one log, more than before; and one that stays, before and after a look.
            on_slot(0, || {
                let removals: Vec<_> = (first + 100..first + 120).map(add).collect();
                removals.into_iter().for_each(|removal| map.remove(removal));
                let _stays = add(first + 200);
            });
            kept.push(mapping(first + 200));
            assert_eq!(map.mappings(), kept);
            let _stays = on_slot(0, || add(first + 300));
            kept.push(mapping(first + 300));
            assert_eq!(map.mappings(), kept);
        }
    }

    #[test]
    fn a_removal_after_a_look_is_carried_out() {
        let map = AbsorbingMap::default();
        let (addition, removal) = AbsorbingMap::identity(mapping(7));
        map.add(addition);
        assert_eq!(map.mappings(), [mapping(7)]);
        map.remove(removal);
        assert_eq!(map.mappings(), []);
        assert_eq!(map.stats().executed, 2);
    }

    #[test]
    fn a_removal_after_a_truncate_finds_nothing_and_harms_nothing() {
        let map = AbsorbingMap::default();
        let (addition, removal) = AbsorbingMap::identity(mapping(7));
        map.add(addition);
        assert_eq!(map.truncate(0), [mapping(7)]);
        map.remove(removal);
        assert_eq!(map.mappings(), []);
    }
}
