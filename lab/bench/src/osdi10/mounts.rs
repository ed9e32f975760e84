//! A table of mounts that is looked up for every path and hardly ever changed (§4.5).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use dashmap::DashMap;
use percolog::collections::TableCache;

use super::{Alone, Now};
use percolog_validation::clock;
use percolog_validation::crew::{self, CrewError, Did, Shift, Work};
use percolog_validation::hash::BuildIdHasher;
use percolog_validation::locks::Spun;

/// What the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Behind a spin lock, as Linux had it: a ticket lock.
    Spun,
    /// Behind a mutex.
    Mutex,
    /// Behind a readers-writer lock.
    RwLock,
    /// [`DashMap`]: a readers-writer lock for each of its shards.
    Dash,
    /// [`TableCache`].
    Percolog,
}

/// Mounts that there are.
const MOUNTS: u64 = 16;

/// What threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Cycles after each lookup.
    pub work: u64,
    /// Cycles from one change to the next: by time, so that every table is changed equally often, however slow its lookups are.
    pub cycles_per_change: u64,
}

type Map = HashMap<u64, u64, BuildIdHasher>;

/// What all tables do.
trait Table: Sync {
    fn get(&self, thread: usize, path: u64) -> Option<u64>;
    fn insert(&self, thread: usize, path: u64, device: u64);
}

impl Table for Spun<Map> {
    fn get(&self, thread: usize, path: u64) -> Option<u64> {
        self.with(thread, |map| map.get(&path).copied())
    }

    fn insert(&self, thread: usize, path: u64, device: u64) {
        self.with(thread, |map| map.insert(path, device));
    }
}

impl Table for Mutex<Map> {
    fn get(&self, _: usize, path: u64) -> Option<u64> {
        let map = self.lock().unwrap_or_else(PoisonError::into_inner);
        map.get(&path).copied()
    }

    fn insert(&self, _: usize, path: u64, device: u64) {
        let mut map = self.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert(path, device);
    }
}

impl Table for RwLock<Map> {
    fn get(&self, _: usize, path: u64) -> Option<u64> {
        let map = self.read().unwrap_or_else(PoisonError::into_inner);
        map.get(&path).copied()
    }

    fn insert(&self, _: usize, path: u64, device: u64) {
        let mut map = self.write().unwrap_or_else(PoisonError::into_inner);
        map.insert(path, device);
    }
}

impl Table for DashMap<u64, u64, BuildIdHasher> {
    fn get(&self, _: usize, path: u64) -> Option<u64> {
        DashMap::get(self, &path).map(|device| *device)
    }

    fn insert(&self, _: usize, path: u64, device: u64) {
        DashMap::insert(self, path, device);
    }
}

impl Table for TableCache<u64, u64, BuildIdHasher> {
    fn get(&self, _: usize, path: u64) -> Option<u64> {
        TableCache::get(self, &path)
    }

    fn insert(&self, _: usize, path: u64, device: u64) {
        TableCache::insert(self, path, device);
    }
}

/// Each thread looks mounts up, one after the other; the first thread changes one now and then, which [`Work::rare`] counts.
///
/// # Errors
/// A thread could not be started, or a lookup did not find what was mounted.
pub fn run(shift: Shift, kind: TableKind, work: Load) -> Result<Work, CrewError> {
    match kind {
        TableKind::Spun => drive(shift, Spun::new(Map::default()), work),
        TableKind::Mutex => drive(shift, Mutex::new(Map::default()), work),
        TableKind::RwLock => drive(shift, RwLock::new(Map::default()), work),
        TableKind::Dash => {
            let table = DashMap::with_hasher(BuildIdHasher::default());
            drive(shift, table, work)
        }
        TableKind::Percolog => {
            let table = TableCache::with_hasher(BuildIdHasher::default());
            drive(shift, table, work)
        }
    }
}

fn drive(shift: Shift, table: impl Table, load: Load) -> Result<Work, CrewError> {
    // On lines of its own, as everything that threads share here.
    let table = Alone(table);
    percolog_roi::label(&table.0, "table of mounts");
    let table = &table.0;
    for path in 0..MOUNTS {
        table.insert(0, path, path << 32);
    }
    let wrong = AtomicU64::new(0);
    let done = crew::run_counting(shift, |thread| {
        let wrong = &wrong;
        // Each begins elsewhere.
        let mut lookups = thread as u64;
        // What a core has looked up before it still has.
        for path in 0..MOUNTS {
            std::hint::black_box(table.get(thread, path));
        }
        let mut changes = Now::and_then(load.cycles_per_change);
        move || {
            lookups += 1;
            let path = lookups % MOUNTS;
            let changed = thread == 0 && changes.is_due();
            if changed {
                table.insert(thread, path, path << 32 | lookups & u64::from(u32::MAX));
            }
            if table.get(thread, path).map(|device| device >> 32) != Some(path) {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
            clock::spin(load.work);
            Did {
                operations: 1,
                rare: u64::from(changed),
            }
        }
    })?;
    done.checked(wrong.into_inner(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_finds_what_is_mounted_and_is_changed() {
        let load = Load {
            work: 100,
            cycles_per_change: 1000,
        };
        for kind in [
            TableKind::Spun,
            TableKind::Mutex,
            TableKind::RwLock,
            TableKind::Dash,
            TableKind::Percolog,
        ] {
            // A busy machine may give the first thread no processor for the whole of a short time.
            let mut works = (0..8).map(|tries| {
                let shift = Shift {
                    threads: 2,
                    warm_up: 20_000,
                    cycles: 200_000 << (2 * tries),
                };
                run(shift, kind, load).unwrap_or_else(|error| panic!("{kind:?}: {error}"))
            });
            assert!(works.any(|work| work.rare > 0), "{kind:?} is never changed");
        }
    }
}
