//! Many threads at once.

use crate::cache::{collect_until, room_for};
use crate::common::alive::{Alive, Value};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::Cache;
use percolog::reclaim::{Domain, DomainOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Everybody sets, gets and deletes keys that are everybody's; what is found is whole, and the bound is kept.
#[test]
fn the_bound_is_kept() {
    for (lists, items) in [(1, 64), (8, 512)] {
        let (domain, alive, seed) = (Domain::new(), Alive::default(), seed());
        let cache =
            Cache::<u64, (Value, usize)>::builder(items * Cache::<u64, (Value, usize)>::ITEM_BYTES)
                .weigher(|_, (_, extra)| *extra)
                .lists(lists)
                .build(&domain)
                .expect("there is memory");
        let done = AtomicBool::new(false);
        let counted = [const { AtomicU64::new(0) }; 4];
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(cache.bytes() <= cache.limit());
                    assert!(cache.len() <= items);
                    cache.expire(10);
                    thread::yield_now();
                }
            });
            let workers: Vec<_> = (0..4)
                .map(|thread| {
                    let (domain, cache, alive, counted) = (&domain, &cache, &alive, &counted);
                    scope.spawn(move || {
                        let mut chance = fastrand::Rng::with_seed(seed + thread);
                        let mut mine = [0; 4];
                        for round in 0..share(15_000) as u64 {
                            let key = (chance.f64().powi(2) * 2.0 * items as f64) as u64;
                            match chance.u8(..10) {
                                0..4 => {
                                    let section = domain.enter();
                                    let value = cache.get(&section, &key);
                                    mine[usize::from(value.is_none())] += 1;
                                    assert!(
                                        value.is_none_or(|(value, _)| value.number() >> 32 == key)
                                    );
                                }
                                4..8 => {
                                    let extra = if chance.u8(..4) == 0 {
                                        chance.usize(..300)
                                    } else {
                                        0
                                    };
                                    let ttl = Duration::from_micros(chance.u64(..3000));
                                    let value = alive.value(key << 32 | round);
                                    let set = if chance.u8(..8) == 0 {
                                        cache.set_for(key, (value, extra), ttl)
                                    } else {
                                        cache.set(key, (value, extra))
                                    };
                                    mine[2] += u64::from(set.is_ok());
                                }
                                8 => mine[3] += u64::from(cache.delete(&key)),
                                _ => {
                                    let update = cache.update(&key, |(old, extra)| {
                                        (alive.value(old.number()), *extra)
                                    });
                                    mine[2] += u64::from(update.is_ok_and(|done| done.is_some()));
                                }
                            }
                        }
                        for (sum, mine) in counted.iter().zip(mine) {
                            sum.fetch_add(mine, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            for worker in workers {
                worker.join().expect("no panic");
            }
            done.store(true, Ordering::Relaxed);
        });
        let stats = cache.stats();
        assert_eq!(
            [stats.hits, stats.misses, stats.sets, stats.deletes],
            counted.map(AtomicU64::into_inner)
        );
        let section = domain.enter();
        // Expired ones are not shown, but counted.
        let weights: usize = cache.iter(&section).map(|item| item.weight()).sum();
        assert!(weights <= cache.bytes());
        drop(section);
        collect_until(&domain, &alive, cache.len());
        cache.clear();
        assert_eq!((cache.len(), cache.bytes()), (0, 0));
        collect_until(&domain, &alive, 0);
    }
}

/// Each of them is there the whole time: nobody misses it, whatever happens beside it in its chain.
#[test]
fn what_is_there_is_found() {
    let (domain, seed) = (Domain::new(), seed());
    // All in one chain, and room for all.
    let cache = room_for::<u64, u64>(100)
        .lists(1)
        .hasher(crate::cache::Hashes { different: 1 })
        .build(&domain)
        .expect("there is memory");
    for key in 0..8 {
        cache.set(key, key).expect("there is room");
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = [0; 8];
                while !done.load(Ordering::Relaxed) {
                    let section = domain.enter();
                    for key in 0..8 {
                        let value = *cache.get(&section, &key).expect("it is there");
                        assert!(value % 100 == key && value >= last[key as usize]);
                        last[key as usize] = value;
                    }
                    let items = cache.iter(&section).filter(|item| *item.key() < 8);
                    assert_eq!(items.count(), 8);
                }
            });
        }
        let workers: Vec<_> = (0..2)
            .map(|thread| {
                let cache = &cache;
                scope.spawn(move || {
                    let mut chance = fastrand::Rng::with_seed(seed + thread);
                    for round in 1..share(10_000) as u64 {
                        // Each key is set by one thread.
                        let key = chance.u64(..4) * 2 + thread;
                        cache.set(key, round * 100 + key).expect("there is room");
                        let other = 8 + chance.u64(..16);
                        if chance.bool() {
                            cache.set(other, other).expect("there is room");
                        } else {
                            cache.delete(&other);
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Updates lose nothing of each other's.
#[test]
fn updates_are_whole() {
    let domain = Domain::new();
    let cache = room_for::<u8, u64>(100)
        .build(&domain)
        .expect("there is memory");
    cache.set(1, 0).expect("there is room");
    let each = share(5000) as u64;
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..each {
                    let updated = cache.update(&1, |value| value + 1);
                    assert!(updated.is_ok_and(|version| version.is_some()));
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..each {
                // By hand, with versions.
                loop {
                    let section = domain.enter();
                    let item = cache.get_item(&section, &1).expect("it is there");
                    let (version, value) = (item.version(), *item.value() + 1);
                    drop(section);
                    if cache.compare_and_set(1, version, value).is_ok() {
                        break;
                    }
                }
            }
        });
    });
    assert_eq!(cache.observe(&1, |value| *value), Some(4 * each));
}

/// Of several that add, or delete, one does.
#[test]
fn one_adds_and_one_deletes() {
    let domain = Domain::new();
    let cache = room_for::<u64, u64>(4000)
        .build(&domain)
        .expect("there is memory");
    let (added, deleted) = (AtomicU64::new(0), AtomicU64::new(0));
    let keys = share(3000) as u64;
    let together = |f: &(dyn Fn() + Sync)| {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(f);
            }
        });
    };
    together(&|| {
        for key in 0..keys {
            added.fetch_add(u64::from(cache.add(key, key).is_ok()), Ordering::Relaxed);
        }
    });
    together(&|| {
        for key in 0..keys {
            deleted.fetch_add(u64::from(cache.delete(&key)), Ordering::Relaxed);
        }
    });
    assert_eq!((added.into_inner(), deleted.into_inner()), (keys, keys));
    assert!(cache.is_empty());
    assert_eq!(cache.stats().rejected, 2 * keys);
}

/// Threads come and go, more than there are leases, and everything is counted.
#[test]
fn threads_that_end() {
    let (domain, alive) = (Domain::with(DomainOptions::new()), Alive::default());
    let cache = room_for(64).build(&domain).expect("there is memory");
    let groups = share(150) as u64;
    for group in 0..groups {
        thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, alive) = (&cache, &alive);
                scope.spawn(move || {
                    for key in 0..20 {
                        let key = (group * 7 + thread * 5 + key) % 100;
                        if cache.observe(&key, Value::number).is_none() {
                            assert!(cache.set(key, alive.value(key)).is_ok());
                        }
                    }
                });
            }
        });
    }
    let stats = cache.stats();
    assert_eq!(stats.hits + stats.misses, groups * 4 * 20);
    assert_eq!(stats.misses, stats.sets);
    collect_until(&domain, &alive, cache.len());
    drop(cache);
    assert_eq!(alive.count(), 0);
}
