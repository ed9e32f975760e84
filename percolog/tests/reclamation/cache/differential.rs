//! One thread: every call does what a map with times does.

use crate::cache::{ByHand, Hashes, collect_until, room_for};
use crate::common::alive::{Alive, Value};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::Cache;
use percolog::collections::cache::{ItemVersion, PutCondition, PutReason};
use percolog::reclaim::Domain;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a key has.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Known {
    number: u64,
    version: ItemVersion,
    expires: Option<u64>,
}

/// A cache, and a map that does the same.
struct Pair<'d> {
    cache: Cache<'d, u8, Value, Hashes, &'d ByHand>,
    time: &'d ByHand,
    alive: &'d Alive,
    map: BTreeMap<u8, Known>,
    chance: fastrand::Rng,
    numbers: u64,
    /// Versions that there were.
    versions: Vec<ItemVersion>,
    /// Nothing is evicted.
    ample: bool,
}

impl Pair<'_> {
    fn now(&self) -> u64 {
        percolog::collections::cache::TimeSource::now(&self.time)
    }

    /// Forgets what has expired, and what the cache has evicted.
    fn settle(&mut self) {
        let now = self.now();
        self.map
            .retain(|_, known| known.expires.is_none_or(|at| at > now));
        if !self.ample {
            self.map.retain(|key, _| self.cache.contains(key));
        }
    }

    fn value(&mut self) -> Value {
        self.numbers += 1;
        self.alive.value(self.numbers)
    }

    fn put(&mut self, key: u8) {
        let ttl = self
            .chance
            .bool()
            .then(|| Duration::from_micros(self.chance.u64(..20_000)));
        let known = self.map.get(&key).copied();
        let when = match self.chance.u8(..6) {
            0 => PutCondition::Absent,
            1 => PutCondition::Present,
            2 if !self.versions.is_empty() => {
                PutCondition::Unchanged(self.versions[self.chance.usize(..self.versions.len())])
            }
            3 => known.map_or(PutCondition::Always, |known| {
                PutCondition::Unchanged(known.version)
            }),
            _ => PutCondition::Always,
        };
        let expected = match (when, known) {
            (PutCondition::Absent, Some(_)) => Err(PutReason::Present),
            (PutCondition::Present | PutCondition::Unchanged(_), None) => Err(PutReason::Absent),
            (PutCondition::Unchanged(version), Some(known)) if version != known.version => {
                Err(PutReason::Changed)
            }
            _ => Ok(()),
        };
        let value = self.value();
        let number = value.number();
        let expires = ttl.map(|ttl| self.now() + ttl.as_micros().div_ceil(1000) as u64);
        match self.cache.put(key, value, when, ttl) {
            Ok(version) => {
                assert_eq!(expected, Ok(()));
                assert!(known.is_none_or(|known| known.version != version));
                self.versions.push(version);
                let new = Known {
                    number,
                    version,
                    expires,
                };
                self.map.insert(key, new);
            }
            Err(rejected) => {
                assert_eq!(expected, Err(rejected.reason));
                assert_eq!((rejected.key, rejected.value.number()), (key, number));
            }
        }
    }

    fn update(&mut self, key: u8) {
        let number = self.numbers + 1;
        let before = self.map.get(&key).copied();
        let mut seen = None;
        let alive = self.alive;
        let done = self.cache.update(&key, |old| {
            seen = Some(old.number());
            alive.value(number)
        });
        let version = done.expect("there is room");
        assert_eq!(seen, before.map(|known| known.number));
        assert_eq!(version.is_some(), before.is_some());
        if let (Some(known), Some(version)) = (self.map.get_mut(&key), version) {
            self.numbers = number;
            self.versions.push(version);
            (known.number, known.version) = (number, version);
        }
    }

    fn step(&mut self) {
        self.settle();
        let key = self.chance.u8(..48);
        match self.chance.u8(..100) {
            0..40 => self.put(key),
            40..50 => self.update(key),
            50..60 => assert_eq!(self.cache.delete(&key), self.map.remove(&key).is_some()),
            60..66 => {
                let ttl = (self.chance.bool()).then(|| Duration::from_millis(self.chance.u64(..9)));
                let expires = ttl.map(|ttl| self.now() + ttl.as_millis() as u64);
                let touched = self.cache.touch(&key, ttl);
                let known = self.map.get_mut(&key);
                assert_eq!(touched, known.is_some());
                if let Some(known) = known {
                    known.expires = expires;
                }
            }
            66..90 => {
                let number = self.cache.observe(&key, Value::number);
                assert_eq!(number, self.map.get(&key).map(|known| known.number));
            }
            90..94 => self.time.pass(self.chance.u64(..4)),
            94..96 => {
                self.cache.expire(self.chance.usize(..8));
            }
            96..98 => self.compare(),
            98 if self.chance.u8(..10) == 0 => {
                self.cache.clear();
                self.map.clear();
                assert_eq!((self.cache.len(), self.cache.bytes()), (0, 0));
            }
            _ => self.versions.truncate(20),
        }
        assert!(self.cache.bytes() <= self.cache.limit());
    }

    fn compare(&mut self) {
        self.settle();
        let section = self.cache.domain().enter();
        let items: BTreeMap<u8, Known> = self
            .cache
            .iter(&section)
            .map(|item| {
                let known = Known {
                    number: item.value().number(),
                    version: item.version(),
                    expires: item.expires(),
                };
                (*item.key(), known)
            })
            .collect();
        assert_eq!(items, self.map);
        for (key, known) in &items {
            let item = self.cache.get_item(&section, key).expect("it is there");
            assert_eq!(item.value().number(), known.number);
        }
        drop(section);
        assert_eq!(
            self.cache.bytes(),
            self.cache.len() * Cache::<u8, Value>::ITEM_BYTES
        );
    }
}

fn does_what_a_map_does(items: usize, lists: usize, different: u64) {
    let (domain, time, alive) = (Domain::new(), ByHand::default(), Alive::default());
    let seed = seed();
    let cache = room_for(items)
        .lists(lists)
        .hasher(Hashes { different })
        .time(&time)
        .build(&domain)
        .expect("there is memory");
    let mut pair = Pair {
        cache,
        time: &time,
        alive: &alive,
        map: BTreeMap::new(),
        chance: fastrand::Rng::with_seed(seed),
        numbers: 0,
        versions: Vec::new(),
        ample: items >= 48 * lists,
    };
    for _ in 0..share(6000) {
        pair.step();
    }
    pair.time.pass(1000);
    pair.settle();
    pair.cache.expire(usize::MAX);
    pair.compare();
    assert_eq!(pair.cache.len(), pair.map.len());
    collect_until(&domain, &alive, pair.map.len());
    drop(pair);
    assert_eq!(alive.count(), 0);
}

#[test]
fn with_room_for_all() {
    does_what_a_map_does(200, 1, u64::MAX);
    does_what_a_map_does(48 * 16, 16, u64::MAX);
}

#[test]
fn with_hashes_that_collide() {
    does_what_a_map_does(200, 1, 1);
    does_what_a_map_does(48 * 4, 4, 3);
}

#[test]
fn with_room_for_some() {
    does_what_a_map_does(10, 1, u64::MAX);
    does_what_a_map_does(3, 1, 2);
    does_what_a_map_does(1, 1, u64::MAX);
    does_what_a_map_does(24, 8, u64::MAX);
}

/// Items of all weights: the sum is that of what is there, and never beyond the bound.
#[test]
fn weights_add_up() {
    let domain = Domain::new();
    let mut chance = fastrand::Rng::with_seed(seed());
    for lists in [1, 4] {
        let limit = 40_000;
        let cache = Cache::<u16, Vec<u8>>::builder(limit)
            .weigher(|_, value| value.len())
            .lists(lists)
            .build(&domain)
            .expect("there is memory");
        let share = cache.share();
        for _ in 0..share_of_work() {
            let key = chance.u16(..300);
            let length = chance.usize(..chance.clone().usize(1..12_000));
            match cache.set(key, vec![key as u8; length]) {
                Ok(_) => {
                    let right = cache.observe(&key, |value| {
                        value.len() == length && value.iter().all(|byte| *byte == key as u8)
                    });
                    assert_eq!(right, Some(true), "what was just set is there");
                }
                Err(rejected) => {
                    assert!(
                        matches!(rejected.reason, PutReason::TooLarge { weight, share: of, .. }
                        if weight > share && of == share)
                    );
                    assert_eq!(rejected.value.len(), length);
                }
            }
            if chance.u8(..4) == 0 {
                cache.delete(&chance.u16(..300));
            }
            let section = domain.enter();
            let sum: usize = cache.iter(&section).map(|item| item.weight()).sum();
            assert_eq!(cache.bytes(), sum);
            assert!(sum <= limit);
        }
        assert!(cache.stats().evictions > 0);
    }
}

fn share_of_work() -> usize {
    share(2000)
}
