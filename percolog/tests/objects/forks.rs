//! A child has one thread, whatever the others were in the middle of: it waits for none of them, has all that they had
//! finished, and nothing that is half done.
#![cfg(all(unix, not(percolog_loom)))]

use crate::common::alone::alone;
use crate::common::child::{check, in_a_child};
use crate::common::share::share;
use percolog::collections::Map;
use percolog::counter::{Counter, SloppyCounter};
use percolog::namespace::Namespace;
use percolog::reclaim::{Domain, Link};
use percolog::reduce::{Reducer, Sum};
use percolog::slab::{InSlab, Slab};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::{self, Scope};

/// Threads that are in the middle of something.
const THREADS: usize = 3;

/// What the other threads do until the test is over, and how often each has done it.
struct Churn {
    over: AtomicBool,
    done: [AtomicU64; THREADS],
}

impl Churn {
    fn new() -> Self {
        Self {
            over: AtomicBool::new(false),
            done: [const { AtomicU64::new(0) }; THREADS],
        }
    }

    /// How much is done.
    fn done(&self) -> u64 {
        // Acquire pairs with the Release in `start`.
        self.done
            .iter()
            .map(|done| done.load(Ordering::Acquire))
            .sum()
    }

    fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, act: impl Fn(u64) + Copy + Send + 's) {
        for done in &self.done {
            scope.spawn(move || {
                for number in 0.. {
                    if self.over.load(Ordering::Relaxed) {
                        return;
                    }
                    act(number);
                    done.store(number + 1, Ordering::Release);
                }
            });
        }
        // Nobody is forked from before all are at it.
        while self
            .done
            .iter()
            .any(|done| done.load(Ordering::Relaxed) < 2)
        {
            thread::yield_now();
        }
    }

    /// Ends it when this is dropped, also by a panic.
    fn end(&self) -> impl Drop {
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        End(&self.over)
    }
}

/// Of two halves that are changed one after the other.
type Wide = [Sum<u64>; 32];

fn add(to: &mut Wide) {
    let (first, second) = to.split_at_mut(16);
    first.iter_mut().for_each(|sum| sum.add(1));
    // Most forks come in the middle of an update.
    thread::yield_now();
    second.iter_mut().for_each(|sum| sum.add(1));
}

/// How many updates there are, if each is there as a whole.
fn whole(wide: &Wide) -> Result<u64, u8> {
    check(wide.iter().all(|sum| sum == &wide[0]), 1)?;
    Ok(wide[0].0)
}

#[test]
fn a_child_has_whole_updates_of_a_reducer() {
    let reducer: Reducer<Wide> = Reducer::new();
    let churn = Churn::new();
    thread::scope(|scope| {
        let _end = churn.end();
        churn.start(scope, |number| {
            reducer.update(add);
            if number.is_multiple_of(50) {
                // Reads, shares that come into being, and reducers that go.
                let _ = reducer.read();
                let short: Reducer<Wide> = Reducer::new();
                thread::scope(|scope| {
                    scope.spawn(|| short.update(add));
                });
                assert_eq!(whole(&short.take()), Ok(1));
            }
        });
        for _ in 0..share(60) {
            let before = churn.done();
            in_a_child(|| {
                let seen = whole(&reducer.read())?;
                check(seen >= before, 2)?;
                check(seen <= churn.done() + THREADS as u64, 3)?;
                reducer.update(add);
                check(whole(&reducer.read())? == seen + 1, 4)?;
                check(whole(&reducer.take())? == seen + 1, 5)?;
                check(whole(&reducer.read())? == 0, 6)?;
                let own: Reducer<Wide> = Reducer::new();
                own.update(add);
                check(whole(&own.into_inner())? == 1, 7)
            });
        }
    });
    assert_eq!(whole(&reducer.read()), Ok(churn.done()));
}

/// Updates inside of updates, with counters that become hot there: what a `fork` waits for does not wait for it.
#[test]
fn forks_and_updates_inside_updates_do_not_wait_for_each_other() {
    let outer: Reducer<Wide> = Reducer::new();
    let inner: Reducer<Wide> = Reducer::new();
    let churn = Churn::new();
    thread::scope(|scope| {
        let _end = churn.end();
        churn.start(scope, |number| {
            outer.update(|share| {
                add(share);
                inner.update(add);
                if number.is_multiple_of(10) {
                    let counter = Counter::new();
                    (0..100).for_each(|_| counter.increment());
                    assert_eq!(counter.sum(), 100);
                    let short: Reducer<Sum<u64>> = Reducer::new();
                    short.update(|share| share.add(1));
                    assert_eq!(short.read(), Sum(1));
                }
            });
        });
        for _ in 0..share(40) {
            let before = churn.done();
            in_a_child(|| {
                let [outer, inner] = [whole(&outer.read())?, whole(&inner.read())?];
                check(outer == inner && outer >= before, 2)
            });
        }
    });
}

/// What the forking thread is in the middle of, it goes on with on both sides.
#[test]
#[cfg_attr(
    target_env = "musl",
    ignore = "musl lets one thread at a time into the handlers of `fork`: see `cpu::undivided`"
)]
fn a_fork_in_an_update_and_in_a_merge() {
    // Two threads that fork in the middle of updates wait for each other.
    alone!();
    static MERGED: Reducer<Merged> = Reducer::new();

    #[derive(Default)]
    struct Merged(u64);

    impl percolog::reduce::Merge for Merged {
        fn merge(&mut self, other: &Self) {
            self.0 += other.0;
            if self.0 == 1 {
                in_a_child(|| {
                    // This reducer is being read. Others are as ever.
                    let own: Reducer<Sum<u64>> = Reducer::new();
                    own.update(|share| share.add(1));
                    check(own.read() == Sum(1), 1)
                });
            }
        }
    }

    let reducer: Reducer<Wide> = Reducer::new();
    let churn = Churn::new();
    thread::scope(|scope| {
        let _end = churn.end();
        churn.start(scope, |_| reducer.update(add));
        for _ in 0..share(20) {
            reducer.update(|share| {
                let mine = whole(share);
                in_a_child(|| check(whole(share) == mine, 1));
            });
        }
        thread::scope(|scope| {
            scope.spawn(|| MERGED.update(|share| share.0 = 1));
        });
        assert_eq!(MERGED.read().0, 1);
    });
    assert_eq!(whole(&reducer.read()), Ok(churn.done()));
}

/// Two threads that fork, one of them in the middle of updates that the other one waits for.
#[test]
#[cfg_attr(
    target_env = "musl",
    ignore = "musl lets one thread at a time into the handlers of `fork`: see `cpu::undivided`"
)]
fn forks_wait_for_each_other() {
    // Two threads that fork in the middle of updates wait for each other.
    alone!();
    let reducer: Reducer<Wide> = Reducer::new();
    // A `fork` that has begun before the process's first use of percolog waits for nobody.
    assert_eq!(whole(&reducer.read()), Ok(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..share(20) {
                reducer.update(|share| {
                    add(share);
                    in_a_child(|| whole(share).map(|_| ()));
                });
            }
        });
        scope.spawn(|| {
            for _ in 0..share(20) {
                in_a_child(|| whole(&reducer.read()).map(|_| ()));
            }
        });
    });
    assert_eq!(whole(&reducer.read()), Ok(share(20) as u64));
}

/// Releases that give spares back, which changes two words, and reads all the time.
#[test]
fn a_child_has_whole_releases_of_a_sloppy_counter() {
    const MANY: i64 = 1000;
    let central = AtomicI64::new(0);
    // Two of them are too many.
    let counter = SloppyCounter::beside(&central, MANY as u64 * 3 / 2);
    let churn = Churn::new();
    // Not before it is acquired, not longer than until it is released.
    let in_use =
        |counted: i64| counted % MANY == 0 && (0..=THREADS as i64 * MANY).contains(&counted);
    thread::scope(|scope| {
        let _end = churn.end();
        churn.start(scope, |number| {
            if number.is_multiple_of(3) {
                counter.acquire(MANY as u64);
            } else {
                central.fetch_add(MANY, Ordering::AcqRel);
            }
            counter.release(MANY as u64);
            if number.is_multiple_of(50) {
                assert!(in_use(counter.in_use()));
            }
            if number.is_multiple_of(500) {
                assert!(in_use(counter.reconcile()));
            }
        });
        for _ in 0..share(200) {
            in_a_child(|| {
                let seen = counter.in_use();
                check(in_use(seen), 1)?;
                counter.acquire(1);
                counter.release(2);
                check(counter.in_use() == seen - 1, 2)?;
                check(counter.reconcile() == seen - 1, 3)?;
                check(counter.central() == seen - 1, 4)
            });
        }
    });
    assert_eq!(counter.in_use(), 0);
}

/// Objects that go from thread to thread, so that their memory goes home, while a child allocates, frees and collects.
#[test]
fn a_child_goes_on_with_a_slab() {
    type Object = [u64; 8];
    static DOMAIN: Domain = Domain::new();
    let slab: Slab<'_, Object> = Slab::new(&DOMAIN);
    let insert = |number| slab.insert([number; 8]).expect("there is memory");
    let mut links: [Link<Object, InSlab>; 4] = std::array::from_fn(|_| Link::null());
    let churn = Churn::new();
    thread::scope(|scope| {
        let _end = churn.end();
        churn.start(scope, |number| {
            let link = &links[number as usize % links.len()];
            if let Some(old) = link.swap(Some(insert(number))) {
                // SAFETY: no other link led to it, and nobody reads them.
                unsafe { slab.free(old) };
            }
            if number.is_multiple_of(1000) {
                slab.collect();
            }
        });
        for _ in 0..share(40) {
            in_a_child(|| {
                let all: Vec<_> = (0..1000).map(insert).collect();
                let mut whole = all.iter().zip(0..).map(|(at, number)| **at == [number; 8]);
                check(whole.all(|whole| whole), 1)?;
                drop(all);
                slab.collect();
                check(slab.stats().objects >= slab.stats().chunks as u64, 2)
            });
        }
    });
    links.iter_mut().for_each(|link| drop(link.take()));
}

/// Lookups take no lock, so none that other threads had is in their way.
#[test]
fn a_child_looks_up_names() {
    let domain = Domain::new();
    let names = Namespace::new(&domain);
    let ids: Vec<_> = (0..1000u64)
        .map(|number| names.insert(vec![number; 4]).expect("there are ids"))
        .collect();
    let (kept, stale) = ids.split_at(500);
    for id in stale {
        assert!(names.remove(*id).is_ok());
    }
    let churn = Churn::new();
    thread::scope(|scope| {
        let _end = churn.end();
        churn.start(scope, |number| {
            let id = names.insert(vec![number; 4]).expect("there are ids");
            assert!(names.remove(id).is_ok());
        });
        for _ in 0..share(100) {
            in_a_child(|| {
                let section = domain.enter();
                let lookup = names.within(&section);
                for (id, number) in kept.iter().zip(0..) {
                    check(lookup.get(*id) == Ok(&vec![number; 4]), 1)?;
                }
                check(stale.iter().all(|id| lookup.get(*id).is_err()), 2)?;
                check(names.iter(&section).count() >= kept.len(), 3)
            });
        }
    });
}

/// A child changes entries that nobody was changing, and looks up all of them: a lookup waits for nobody.
#[test]
fn a_child_goes_on_with_a_map() {
    static DOMAIN: Domain = Domain::new();
    const EACH: u64 = 64;
    let map: Map<'_, u64, u64> = Map::new(&DOMAIN);
    // Changed by other threads all the time, and in the middle of that when the process is copied.
    let busy: Map<'_, u64, u64> = Map::new(&DOMAIN);
    for key in 0..EACH {
        map.add(key, !key).expect("there is memory");
        busy.add(2 * key, key).expect("there is memory");
    }
    let churn = Churn::new();
    thread::scope(|scope| {
        let _end = churn.end();
        churn.start(scope, |number| {
            let key = 2 * (number % EACH) + 1;
            if busy.add(key, number).is_err() {
                busy.delete(&key);
            }
            busy.put(2 * (number % EACH), number % EACH)
                .expect("there is memory");
        });
        for _ in 0..share(100) {
            in_a_child(|| {
                check(
                    (0..EACH).all(|key| map.observe(&key, |value| *value) == Some(!key)),
                    1,
                )?;
                check((0..EACH).all(|key| map.put(key, key).ok() == Some(true)), 2)?;
                check((0..EACH).all(|key| map.delete(&key)), 3)?;
                check(map.is_empty(), 4)?;
                check((EACH..3 * EACH).all(|key| map.add(key, key).is_ok()), 5)?;
                check((0..EACH).all(|key| busy.contains(&(2 * key))), 6)?;
                let section = DOMAIN.enter();
                let shown = busy.iter(&section).filter(|(key, _)| *key % 2 == 0);
                check(shown.count() as u64 == EACH, 7)
            });
        }
    });
}

/// Counters that become hot and cold, and one that is hot.
#[test]
fn a_child_adds_to_counters_and_sums_them() {
    fn hot_and_cold() -> bool {
        let counter = Counter::new();
        (0..100).for_each(|_| counter.increment());
        (0..8).all(|_| counter.sum() == 100)
    }

    let counter = Counter::with_batch(10);
    (0..1000).for_each(|_| counter.increment());
    let churn = Churn::new();
    thread::scope(|scope| {
        let _end = churn.end();
        churn.start(scope, |number| {
            counter.increment();
            if number.is_multiple_of(10) {
                assert!(hot_and_cold());
            }
        });
        for _ in 0..share(100) {
            let before = 1000 + churn.done() as i64;
            in_a_child(|| {
                let seen = counter.sum();
                check(seen >= before, 1)?;
                check(seen <= 1000 + churn.done() as i64 + THREADS as i64, 2)?;
                counter.increment();
                check(counter.sum() == seen + 1, 3)?;
                check((0..10).all(|_| hot_and_cold()), 4)
            });
        }
    });
    assert_eq!(counter.sum(), 1000 + churn.done() as i64);
}
