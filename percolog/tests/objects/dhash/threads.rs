//! Real threads that come and go.

use crate::common::seed::seed;
use crate::common::share::share;
use percolog::dhash::{DHash, Partitioned};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

const KEYS: u64 = 50;

/// How many of the parts below there are.
static PARTS: AtomicUsize = AtomicUsize::new(0);

/// A part that knows what it belongs to, and notices when it is used after it is gone.
#[derive(Debug)]
struct Part {
    key: u64,
    version: u64,
    count: u64,
    is_here: Box<bool>,
}

impl Part {
    fn new(key: u64, version: u64) -> Self {
        PARTS.fetch_add(1, Ordering::Relaxed);
        Self {
            key,
            version,
            count: 0,
            is_here: Box::new(true),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        assert!(std::mem::replace(&mut *self.is_here, false));
        PARTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lookups with and without guards that stay, removals, evictions, trims and gathers, by threads of which generation follows generation. Parts
/// belong together, each element has one shared part, none is found once a newer one has been made, and nothing leaks.
#[test]
fn parts_belong_together_and_none_is_left() {
    const THREADS: usize = 3;
    const GENERATIONS: usize = 8;
    let table = DHash::<u64, Part, Part>::new(|key, shared: &Part| Part::new(*key, shared.version));
    // By key: the newest version that anybody has made, and the newest of which anybody has heard that it is gone.
    let made: Vec<_> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let gone: Vec<_> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let mut chance = fastrand::Rng::with_seed(seed());
    let rounds = share(1500);
    let work = |mut chance: fastrand::Rng| {
        for _ in 0..rounds {
            let key = chance.u64(..KEYS);
            let (made, gone) = (&made[key as usize], &gone[key as usize]);
            match chance.u8(..64) {
                0..48 => {
                    // Acquire pairs with the Release below: what is gone was removed before.
                    let before = gone.load(Ordering::Acquire);
                    let make = |key: &u64| {
                        // Under the lock of the master table: nobody else makes this key's.
                        Part::new(*key, made.fetch_add(1, Ordering::Relaxed) + 1)
                    };
                    let mut first = table
                        .find_or_allocate_and_lock(&key, make)
                        .expect("no guard is out");
                    first.count += 1;
                    let version = first.version;
                    assert!(*first.is_here && *first.shared().is_here);
                    assert!(version > before, "{version} was gone");
                    assert_eq!((first.key, first.shared().key), (key, key));
                    assert_eq!(version, first.shared().version);
                    if chance.u8(..4) == 0 {
                        let other = table
                            .find_and_lock(&((key + 1) % KEYS))
                            .expect("it is another one");
                        if chance.bool() {
                            drop(first);
                            drop(other);
                        } else {
                            drop(other);
                            if chance.u8(..4) == 0 && first.empty() == Ok(true) {
                                gone.fetch_max(version, Ordering::Release);
                            }
                        }
                    }
                }
                48..58 => {
                    // Relaxed: those that this thread has heard of.
                    let newest = made.load(Ordering::Relaxed);
                    let before = gone.load(Ordering::Relaxed);
                    if table.empty_data(&key) == Ok(true) && before + 1 == newest {
                        // Whatever was removed was not older than what had not gone.
                        gone.fetch_max(newest, Ordering::Release);
                    }
                }
                58..61 => {
                    let _ = table.gather(
                        &key,
                        |shared| shared.version,
                        |version, local| {
                            assert_eq!((local.key, local.version), (key, *version));
                            local.count += 1;
                        },
                    );
                }
                61 => drop(table.evict_local().expect("no guard is out")),
                62 => drop(table.trim().expect("no guard is out")),
                _ => {
                    let stats = table.stats().expect("no guard is out");
                    assert!(stats.elements <= KEYS as usize);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (mut chance, work) = (chance.fork(), &work);
            scope.spawn(move || {
                for _ in 0..GENERATIONS {
                    let chance = chance.fork();
                    thread::scope(|scope| scope.spawn(|| work(chance)).join().expect("no panic"));
                }
            });
        }
    });
    table.trim().expect("no guard is out");
    let stats = table.stats().expect("no guard is out");
    assert_eq!(stats.dead, 0);
    assert_eq!(
        PARTS.load(Ordering::Relaxed),
        stats.elements + stats.replicas,
        "{stats:?}"
    );
    drop(table);
    assert_eq!(PARTS.load(Ordering::Relaxed), 0);
}

/// What was added before a gather is in it, and what is discarded meanwhile is not lost.
#[test]
fn gathers_miss_nothing_while_parts_are_evicted() {
    let table = DHash::<u8, AtomicU64, u64>::new(|_, _| 0).folding(|_, total, local| {
        total.fetch_add(local, Ordering::Relaxed);
    });
    let (finished, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let adds = share(20_000) as u64;
    thread::scope(|scope| {
        let adders: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for add in 0..adds {
                        let local = table.find_or_allocate_and_lock(&1, |_| AtomicU64::new(0));
                        *local.expect("no guard is out") += 1;
                        finished.fetch_add(1, Ordering::Release);
                        if add % 64 == 0 {
                            table.evict_local().expect("no guard is out");
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let before = finished.load(Ordering::Acquire);
                let sum = table.gather(
                    &1,
                    |total| total.load(Ordering::Relaxed),
                    |sum, local| *sum += *local,
                );
                let sum = sum.expect("no guard is out").unwrap_or(0);
                assert!((before..=2 * adds).contains(&sum), "{sum} of {before}");
            }
        });
        for adder in adders {
            adder.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
    });
    let sum = table.gather(
        &1,
        |total| total.load(Ordering::Relaxed),
        |sum, local| *sum += *local,
    );
    assert_eq!(sum, Ok(Some(2 * adds)));
}

/// Threads with guards of two tables, who remove what others have guards of, wait for nobody.
#[test]
fn who_removes_waits_for_no_guard() {
    let table = DHash::<u64, (), u64>::new(|_, ()| 0);
    let barrier = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for thread in 0..2 {
            let (table, barrier) = (&table, &barrier);
            scope.spawn(move || {
                for round in 0..50 {
                    let mine = table.find_or_allocate_and_lock(&(2 * round + thread), |_| ());
                    let mine = mine.expect("no guard is out");
                    barrier.wait();
                    let others = 2 * round + 1 - thread;
                    assert_eq!(table.empty_data(&others), Ok(true));
                    assert!(table.find_and_lock(&others).expect("not mine").is_none());
                    barrier.wait();
                    assert!(mine.is_emptied());
                }
            });
        }
    });
}

#[test]
fn a_partitioned_element_is_one_threads_at_a_time() {
    let table = Partitioned::<u64, [u64; 2]>::new(3, |key| *key);
    let (adds, removed) = (share(20_000) as u64, AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..2 {
            let (table, removed) = (&table, &removed);
            scope.spawn(move || {
                for add in 0..adds {
                    let mut element = table
                        .find_or_allocate_and_lock(&(add % 4), |_| [0; 2])
                        .expect("no guard is out");
                    assert_eq!(element[0], element[1]);
                    element[0] += 1;
                    element[1] += 1;
                    if (add + thread) % 100 == 0 {
                        let count = element[0];
                        // Whoever removes it has it alone, so what it counted is known.
                        assert_eq!(element.empty(), Ok(true));
                        removed.fetch_add(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut left = 0;
    table
        .for_each(|_, counts| left += counts[0])
        .expect("no guard is out");
    assert_eq!(left + removed.load(Ordering::Relaxed), 2 * adds);
}
