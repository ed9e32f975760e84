//! Tables that are made for threads: ours, and those of other crates.

use std::fmt;

use crossbeam_skiplist::SkipMap;
use dashmap::DashMap;
use percolog::collections::{Map, OrderedList};
use percolog::reclaim::Domain;

use super::Table;
use crate::host;
use percolog_validation::hash::BuildIdHasher;

static DOMAIN: Domain = Domain::new();

/// [`Map`], with a section for each operation.
pub struct OurMap(Map<'static, u64, u64, BuildIdHasher>);

/// [`OrderedList`], with a section for each operation.
pub struct OurList(OrderedList<'static, u64, u64>);

/// The ordered map of many threads that programs reach for.
pub struct SkipTable(SkipMap<u64, u64>);

/// The map that most programs reach for: shards, each behind a lock of its own.
pub struct DashTable(DashMap<u64, u64, BuildIdHasher>);

/// The map of `papaya`, whose lookups write nothing but that they are there.
pub struct PapayaTable(papaya::HashMap<u64, u64, BuildIdHasher>);

/// The map of `scc`, each bucket of which has a lock.
pub struct SccTable(scc::HashMap<u64, u64, BuildIdHasher>);

/// What all tables of this file have in common: threads need nothing, and every change answers.
macro_rules! table {
    (
        $table:ident, $name:literal, $new:expr,
        get: $get:expr, ignoring: $ignoring:expr, put: $put:expr, delete: $delete:expr
    ) => {
        impl fmt::Debug for $table {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($table)).finish_non_exhaustive()
            }
        }

        impl Table for $table {
            const NAME: &'static str = $name;
            type Handle = ();

            fn new(_threads: usize) -> Self {
                Self($new)
            }

            fn handle(&self, _thread: usize) {}

            #[inline]
            fn get(&self, (): &mut (), key: u64) -> Option<u64> {
                let get = $get;
                get(&self.0, key)
            }

            #[inline]
            fn put(&self, (): &mut (), key: u64, value: u64) {
                let put = $ignoring;
                put(&self.0, key, value);
            }

            #[inline]
            fn delete(&self, (): &mut (), key: u64) {
                let delete = $delete;
                delete(&self.0, key);
            }

            #[inline]
            fn put_and_tell(&self, (): &mut (), key: u64, value: u64) -> bool {
                let put = $put;
                put(&self.0, key, value)
            }

            #[inline]
            fn delete_and_tell(&self, (): &mut (), key: u64) -> bool {
                let delete = $delete;
                delete(&self.0, key)
            }

            fn len(&self, (): &mut ()) -> usize {
                self.0.len()
            }
        }
    };
}

table!(
    OurMap, "Map", Map::with_hasher(&DOMAIN, BuildIdHasher::default()),
    get: |map: &Map<'static, u64, u64, _>, key: u64| map.observe(&key, |value| *value),
    ignoring: |map: &Map<'static, u64, u64, _>, key, value| {
        map.put(key, value).expect("there is memory");
    },
    put: |map: &Map<'static, u64, u64, _>, key, value| {
        !map.put(key, value).expect("there is memory")
    },
    delete: |map: &Map<'static, u64, u64, _>, key: u64| map.delete(&key)
);

table!(
    OurList, "OrderedList", OrderedList::new(&DOMAIN),
    get: |list: &OrderedList<'static, u64, u64>, key: u64| list.observe(&key, |value| *value),
    ignoring: |list: &OrderedList<'static, u64, u64>, key, value| {
        list.put(key, value).expect("there is memory");
    },
    put: |list: &OrderedList<'static, u64, u64>, key, value| {
        !list.put(key, value).expect("there is memory")
    },
    delete: |list: &OrderedList<'static, u64, u64>, key: u64| list.delete(&key)
);

table!(
    SkipTable, "crossbeam-skiplist", SkipMap::new(),
    get: |map: &SkipMap<u64, u64>, key: u64| map.get(&key).map(|entry| *entry.value()),
    ignoring: |map: &SkipMap<u64, u64>, key, value| {
        map.insert(key, value);
    },
    put: |map: &SkipMap<u64, u64>, key, value| {
        // The map does not say what `insert` has replaced; a program that wants to know has to look first.
        let was_missing = !map.contains_key(&key);
        map.insert(key, value);
        was_missing
    },
    delete: |map: &SkipMap<u64, u64>, key: u64| map.remove(&key).is_some()
);

table!(
    DashTable, "dashmap", DashMap::with_hasher_and_shard_amount(BuildIdHasher::default(), host::shards()),
    get: |map: &DashMap<u64, u64, _>, key: u64| map.get(&key).map(|value| *value),
    ignoring: |map: &DashMap<u64, u64, _>, key, value| {
        map.insert(key, value);
    },
    put: |map: &DashMap<u64, u64, _>, key, value| map.insert(key, value).is_none(),
    delete: |map: &DashMap<u64, u64, _>, key: u64| map.remove(&key).is_some()
);

table!(
    PapayaTable, "papaya", papaya::HashMap::with_hasher(BuildIdHasher::default()),
    get: |map: &papaya::HashMap<u64, u64, _>, key: u64| map.pin().get(&key).copied(),
    ignoring: |map: &papaya::HashMap<u64, u64, _>, key, value| {
        map.pin().insert(key, value);
    },
    put: |map: &papaya::HashMap<u64, u64, _>, key, value| map.pin().insert(key, value).is_none(),
    delete: |map: &papaya::HashMap<u64, u64, _>, key: u64| map.pin().remove(&key).is_some()
);

table!(
    SccTable, "scc", scc::HashMap::with_hasher(BuildIdHasher::default()),
    get: |map: &scc::HashMap<u64, u64, _>, key: u64| map.read_sync(&key, |_, value| *value),
    ignoring: |map: &scc::HashMap<u64, u64, _>, key, value| {
        map.upsert_sync(key, value);
    },
    put: |map: &scc::HashMap<u64, u64, _>, key, value| map.upsert_sync(key, value).is_none(),
    delete: |map: &scc::HashMap<u64, u64, _>, key: u64| map.remove_sync(&key).is_some()
);
