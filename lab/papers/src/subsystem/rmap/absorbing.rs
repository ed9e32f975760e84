//! The map behind a log for each core, in which an addition and its removal cancel each other.
//!
//! Most mappings live and die on one core, between two looks at the file: their removal finds the addition
//! in the core's own log, and the shared map never hears of them. A process that began on one core and
//! ended on another leaves its additions and removals in two logs; those cancel while the logs are brought
//! together (Boyd-Wickizer, section 6.2).

use super::{IntervalMap, ReverseMap};
use crate::subsystem::absorbing_edits::AbsorbingEdit;
use crate::subsystem::{Entry, Key};
use percolog::oplog::{AddToken, LogStats, Logged, Mode, RemoveToken};

/// An [`IntervalMap`] behind [`Logged`], with absorption in each log and across logs.
#[derive(Debug)]
pub struct AbsorbingMap {
    map: Logged<IntervalMap, AbsorbingEdit>,
}

/// How many mappings a core's log holds. All that live at once on one core should fit: what is carried out because the log is full
/// can no longer be absorbed, and its removal has to be carried out as well. A mail server's processes have some 200 mappings of one
/// library at once, where the usual limit is 128.
const LIMIT: usize = 512;

impl Default for AbsorbingMap {
    fn default() -> AbsorbingMap {
        AbsorbingMap {
            map: Logged::<IntervalMap, AbsorbingEdit>::builder()
                // As the paper's, which logs always.
                .mode(Mode::Deferring)
                .limit(LIMIT)
                .absorb_while_merging(true)
                .build(IntervalMap::new()),
        }
    }
}

impl ReverseMap for AbsorbingMap {
    type Addition = (AddToken, Entry);
    type Removal = (RemoveToken, Key);

    fn identity(mapping: Entry) -> (Self::Addition, Self::Removal) {
        AbsorbingEdit::life(mapping)
    }

    fn add(&self, (birth, mapping): Self::Addition) {
        self.map.queue(AbsorbingEdit::Enter(birth, mapping));
    }

    fn remove(&self, (death, key): Self::Removal) {
        self.map.queue(AbsorbingEdit::Leave(death, key));
    }

    fn truncate(&self, length: u64) -> Vec<Entry> {
        self.map.synchronize().truncate(length)
    }

    fn at(&self, offset: u64) -> Vec<Entry> {
        self.map
            .synchronize()
            .overlapping(offset..offset.saturating_add(1))
    }

    fn statistics(&self) -> Option<LogStats> {
        Some(self.map.stats())
    }

    fn mappings(&self) -> Vec<Entry> {
        self.map.synchronize().iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::rmap::LoggedMap;
    use crate::subsystem::slots::on_slot;
    use std::thread;

    fn mapping(identity: u32) -> Entry {
        Entry {
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
        let stats = map.statistics().expect("it is logged");
        assert_eq!((stats.executed, stats.absorbed), (0, 2000));

        let map = LoggedMap::default();
        for identity in 0..1000 {
            let (addition, removal) = LoggedMap::identity(mapping(identity));
            map.add(addition);
            map.remove(removal);
        }
        assert_eq!(map.mappings(), []);
        let stats = map.statistics().expect("it is logged");
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
        let stats = map.statistics().expect("it is logged");
        assert_eq!((stats.executed, stats.absorbed), (0, 200));
    }

    /// What one slot's log remembers of places in it must not outlive a merge in which everything cancels.
    #[test]
    fn what_is_added_after_everything_has_cancelled_stays() {
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
        assert_eq!(map.statistics().expect("it is logged").executed, 2);
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
