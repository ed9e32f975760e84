//! The map behind a log for each core, in which an addition and its removal cancel each other.
//!
//! Most mappings live and die on one core, between two looks at the file: their removal finds the addition
//! in the core's own log, and the shared map never hears of them. A process that began on one core and
//! ended on another leaves its additions and removals in two logs; those cancel while the logs are brought
//! together (Boyd-Wickizer, section 6.2).

use super::{IntervalMap, Key, Mapping, ReverseMap};
use percolog::oplog::{Absorb, Birth, Death, Logged, Operation, unique};

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
