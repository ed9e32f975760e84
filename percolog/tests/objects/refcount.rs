//! `CoreArc` against `Arc`: the same program, the same values and destructors, except for when they run.
//!
//! # What Refcache gets wrong
//!
//! Facts about Refcache as it was published and as it stands in ScaleFS, and the tests that show that it is otherwise here. `models` stands for
//! `percolog/src/refcount/models.rs` (every interleaving, `--cfg percolog_loom`), `tests` for `percolog/src/refcount/tests.rs`; what
//! has no prefix stands in this folder.
//!
//! | there | here |
//! |---|---|
//! | Each core flushes at every tick, and an epoch ends when all have: one that never ticks stalls all reclamation. | Whoever drops looks in all rows, also in those of threads that sleep: `a_thread_that_sleeps_holds_up_nothing`, `tests::who_drops_finds_what_is_dead_in_every_row` |
//! | A consistent count compares only the places that matched: it can miss an increment, and see its later decrement. | Every row's place is looked at twice, whosever it is: `tests::a_place_that_is_anothers_both_times_tells_of_what_was_between`, `models::a_reference_that_leaves_the_count_is_not_missed`; counts are of one moment: `models::a_count_is_of_one_moment`, `refcache::a_reference_that_goes_round_is_always_counted` |
//! | An object whose count stays zero for two epochs is freed, though a reference that hops between cores ahead of the flushes leaves no trace in either. | `models::a_reference_that_hops_is_not_missed`, `models::a_reference_that_is_moved_is_not_missed`, `refcache::a_reference_that_goes_round_keeps_its_value` |
//! | A weak reference to nothing crashes. | There is none: `refcache::no_weak_reference_is_null`. One to what is gone can be used: `refcache::a_weak_reference_to_what_is_gone_can_be_used` |
//! | A place has 32 bits for what was added to it. | It has 15, and is emptied before they are too few: `tests::a_place_is_emptied_before_it_overflows` |
//! | Objects that share a place push each other out, and wait an epoch longer. | They wait no longer, and nothing is lost: `tests::more_counts_than_places_lose_nothing`, `models::counts_that_push_each_other_out` |

mod cold;
mod differential;
mod ordinary;
mod refcache;

#[cfg(unix)]
use crate::common::child::{check, in_a_child};
use crate::common::share::share;
use percolog::refcount::{self, CoreArc, CoreWeak};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

/// A value that knows whether it is alive.
struct Watched {
    number: u64,
    word: AtomicU64,
    dropped: Arc<AtomicUsize>,
    /// By who had it alone.
    changes: u64,
}

const ALIVE: u64 = 0x5ca1_ab1e_0ddb_a115;
const POISON: u64 = 0xdead_dead_dead_dead;

impl Watched {
    fn new(number: u64, dropped: &Arc<AtomicUsize>) -> Self {
        Self {
            number,
            word: AtomicU64::new(ALIVE),
            dropped: dropped.clone(),
            changes: 0,
        }
    }

    #[track_caller]
    fn check(&self) {
        assert_eq!(
            self.word.load(Ordering::Relaxed),
            ALIVE,
            "used after it was destroyed"
        );
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        assert_eq!(
            self.word.swap(POISON, Ordering::Relaxed),
            ALIVE,
            "destroyed twice"
        );
        self.dropped.fetch_add(1, Ordering::Release);
    }
}

/// A value that is counted on each core from the beginning.
fn hot<T: Send + Sync>(value: T) -> CoreArc<T> {
    CoreArc::into_hot(CoreArc::new(value))
}

/// Reclaims until so many were destroyed, by whichever thread.
///
/// A round of another test may have taken the value, and be at one before it that takes its time: there is no number of rounds of ours
/// after which it is gone.
#[track_caller]
fn until(dropped: &AtomicUsize, count: usize) {
    loop {
        refcount::reclaim();
        let now = dropped.load(Ordering::Acquire);
        assert!(now <= count, "{now} of {count} were destroyed");
        if now == count {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn the_last_drop_destroys_in_a_round() {
    let dropped = Arc::default();
    let first = CoreArc::into_hot(CoreArc::new(Watched::new(1, &dropped)));
    let second = first.clone();
    assert!(CoreArc::ptr_eq(&first, &second));
    assert_eq!(CoreArc::count(&first), 2);
    drop(first);
    refcount::reclaim();
    second.check();
    assert_eq!(CoreArc::count(&second), 1);
    drop(second);
    until(&dropped, 1);
}

#[test]
fn weak_references_end_with_the_value() {
    let dropped = Arc::default();
    let strong = CoreArc::new(Watched::new(7, &dropped));
    let weak = CoreArc::downgrade(&strong);
    let other = weak.clone();
    assert!(weak.ptr_eq(&other));
    assert_eq!(
        (CoreArc::count(&strong), CoreArc::weak_count(&strong)),
        (1, 2)
    );
    assert_eq!(weak.upgrade().map(|value| value.number), Some(7));
    drop(strong);
    until(&dropped, 1);
    assert!(weak.upgrade().is_none() && other.upgrade().is_none());
}

/// The one difference to `Arc`, as documented: between the last drop and the round an upgrade brings the value back.
#[test]
fn an_upgrade_after_the_last_drop_makes_it_alive_again() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let strong = hot(Watched::new(1, &dropped));
    let weak = CoreArc::downgrade(&strong);
    drop(strong);
    // Another test may have found it meanwhile.
    if let Some(again) = weak.upgrade() {
        refcount::reclaim();
        again.check();
        assert_eq!(CoreArc::count(&again), 1);
        drop(again);
    }
    until(&dropped, 1);
    assert!(weak.upgrade().is_none());
}

#[test]
fn the_only_reference_can_be_changed_or_unwrapped() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let mut only = CoreArc::new(Watched::new(1, &dropped));
    CoreArc::get_mut(&mut only)
        .expect("there is no other")
        .number = 2;
    let weak = CoreArc::downgrade(&only);
    assert!(CoreArc::get_mut(&mut only).is_none(), "there is a weak one");
    let second = only.clone();
    let only = CoreArc::try_unwrap(only)
        .map(|_| ())
        .expect_err("there is another one");
    drop(second);
    let value = CoreArc::try_unwrap(only).ok().expect("there is no other");
    assert!(weak.upgrade().is_none());
    refcount::reclaim();
    value.check();
    assert_eq!((value.number, dropped.load(Ordering::Relaxed)), (2, 0));
    drop(value);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn unsized_values() {
    let text: CoreArc<str> = CoreArc::from("text");
    let list: CoreArc<[u16]> = CoreArc::from(vec![1, 2, 3]);
    let dropped: Arc<AtomicUsize> = Arc::default();
    let watched = Watched::new(5, &dropped);
    let closure: Box<dyn Fn() -> u64 + Send + Sync> = Box::new(move || {
        let watched = &watched;
        watched.number
    });
    let closure = CoreArc::from(closure) as CoreArc<dyn Fn() -> u64 + Send + Sync>;
    assert_eq!((&*text, list.len(), closure.clone()()), ("text", 3, 5));
    assert_eq!(format!("{text} {list:?}"), "text [1, 2, 3]");
    let nothing: CoreArc<[u8]> = CoreArc::from(Vec::new());
    let unit = CoreArc::new(());
    assert_eq!((nothing.len(), *unit), (0, ()));
    let weak = CoreArc::downgrade(&closure);
    drop((text, list, closure, nothing, unit));
    until(&dropped, 1);
    assert!(weak.upgrade().is_none());
}

#[test]
fn what_panics_when_destroyed_is_contained() {
    struct Bomb(Arc<AtomicUsize>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Release);
            panic!("on purpose");
        }
    }
    let before = refcount::stats();
    let dropped: Arc<AtomicUsize> = Arc::default();
    let good: Arc<AtomicUsize> = Arc::default();
    drop(hot(Bomb(dropped.clone())));
    drop(CoreArc::new(Bomb(dropped.clone())));
    drop(hot(Watched::new(1, &good)));
    let unsized_one: CoreArc<dyn Send + Sync> =
        CoreArc::from(Box::new(Bomb(dropped.clone())) as Box<dyn Send + Sync>);
    drop(unsized_one);
    until(&dropped, 3);
    until(&good, 1);
    // Counted behind the destructors, by whichever thread has run them.
    let is_counted = || {
        let after = refcount::stats();
        after.panics >= before.panics + 3 && after.destroyed >= before.destroyed + 4
    };
    while !is_counted() {
        thread::yield_now();
    }
    assert!(refcount::stats().rounds > before.rounds);
}

/// Threads that do nothing but make and drop: what nobody has destroyed yet stays within what the page says, and what they
/// are destroying just then. (If a thread that finds another one looking went on, the other's look would grow longer with what
/// it drops meanwhile, and memory would run out.)
#[test]
fn garbage_is_bounded_however_many_drop() {
    const THREADS: usize = 4;
    /// Small values in 8 MiB, each taken for 1 KiB.
    const FOUND_BY_THEN: usize = 8 << 10;
    let dropped: Arc<AtomicUsize> = Arc::default();
    let each = share(200_000);
    let most = AtomicUsize::new(0);
    let made = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for number in 0..each {
                    made.fetch_add(1, Ordering::Relaxed);
                    let value = hot(Watched::new(1, &dropped));
                    if number % 32 == 0 {
                        // The cold one is the last.
                        let cold = CoreArc::new(Watched::new(1, &dropped));
                        made.fetch_add(1, Ordering::Relaxed);
                        drop(CoreArc::into_hot(cold.clone()));
                        drop(cold);
                    }
                    drop(value);
                    if number % 64 == 0 {
                        let gone = dropped.load(Ordering::Relaxed);
                        let left = made.load(Ordering::Relaxed).saturating_sub(gone);
                        most.fetch_max(left, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let most = most.into_inner();
    assert!(most <= 2 * THREADS * FOUND_BY_THEN, "{most} at a time");
    until(&dropped, made.into_inner());
}

/// A chain: each value owns the next. One level a round, and no deep recursion.
#[test]
fn values_that_own_values() {
    struct Link(
        #[allow(dead_code, reason = "owned")] Option<CoreArc<Link>>,
        #[allow(dead_code, reason = "dropped")] Watched,
    );
    let length = 300;
    let dropped: Arc<AtomicUsize> = Arc::default();
    let mut chain = None;
    for number in 0..length {
        // By turns cold and hot.
        let link = CoreArc::new(Link(chain, Watched::new(number, &dropped)));
        chain = Some(if number % 2 == 0 {
            link
        } else {
            CoreArc::into_hot(link)
        });
    }
    drop(chain);
    until(&dropped, length as usize);
}

/// Cycles of weak references to oneself, made while there is no reference yet: not offered; by hand it works.
#[test]
fn a_tree_with_weak_parents() {
    struct Node {
        parent: Mutex<Option<CoreWeak<Node>>>,
        children: Mutex<Vec<CoreArc<Node>>>,
        watched: Watched,
    }
    let dropped: Arc<AtomicUsize> = Arc::default();
    let node = |number| {
        hot(Node {
            parent: Mutex::default(),
            children: Mutex::default(),
            watched: Watched::new(number, &dropped),
        })
    };
    let root = node(0);
    for number in 1..=10 {
        let child = node(number);
        *child.parent.lock().expect("not poisoned") = Some(CoreArc::downgrade(&root));
        root.children.lock().expect("not poisoned").push(child);
    }
    let last = root.children.lock().expect("not poisoned")[9].clone();
    let parent = |node: &Node| {
        node.parent
            .lock()
            .expect("not poisoned")
            .as_ref()?
            .upgrade()
    };
    assert_eq!(parent(&last).map(|root| root.watched.number), Some(0));
    drop(root);
    until(&dropped, 10);
    assert!(parent(&last).is_none());
    drop(last);
    until(&dropped, 11);
}

/// A thread that has cloned and dropped, and then sleeps, holds up nothing.
#[test]
fn a_thread_that_sleeps_holds_up_nothing() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let value = hot(Watched::new(1, &dropped));
    let (asleep, done) = (Barrier::new(2), Barrier::new(2));
    let taken = Mutex::new(None);
    let to_sleep = value.clone();
    thread::scope(|scope| {
        let (asleep, done, taken, dropped) = (&asleep, &done, &taken, &dropped);
        scope.spawn(move || {
            // In this thread's row: +1 for this one, which another thread will drop, and −1 for a value of its own.
            *taken.lock().expect("not poisoned") = Some(to_sleep.clone());
            drop(to_sleep);
            drop(hot(Watched::new(2, dropped)));
            asleep.wait();
            done.wait();
        });
        asleep.wait();
        until(dropped, 1);
        assert_eq!(CoreArc::count(&value), 2);
        drop((value, taken.lock().expect("not poisoned").take()));
        until(dropped, 2);
        done.wait();
    });
}

/// References that go from thread to thread, through threads that end: more of them than leases, and destructors of
/// thread-local values that run when the lease is gone.
#[test]
fn threads_come_and_go() {
    thread_local! {
        static KEPT: std::cell::RefCell<Vec<CoreArc<Watched>>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let dropped: Arc<AtomicUsize> = Arc::default();
    let value = hot(Watched::new(1, &dropped));
    let threads = share(1200).max(120);
    for _ in 0..threads.div_ceil(8) {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    KEPT.with_borrow_mut(|kept| {
                        kept.push(value.clone());
                        kept.push(hot(Watched::new(2, &dropped)));
                        kept.iter().for_each(|kept| kept.check());
                    });
                });
            }
        });
    }
    // Destructors of thread-local values can run after the scope has ended.
    let made = threads.div_ceil(8) * 8;
    until(&dropped, made);
    while CoreArc::count(&value) != 1 {
        thread::yield_now();
    }
    drop(value);
    until(&dropped, made + 1);
}

/// Values that threads hand each other, clone, drop, upgrade and replace, with rounds all the time: nothing is used after
/// it was destroyed, everything is destroyed once, nothing is forgotten.
#[test]
fn soak() {
    const PLACES: usize = 16;
    let dropped: Arc<AtomicUsize> = Arc::default();
    let made = AtomicU64::new(0);
    let fresh = || {
        let number = made.fetch_add(1, Ordering::Relaxed);
        let value = CoreArc::new(Watched::new(number, &dropped));
        if number.is_multiple_of(3) {
            value
        } else {
            CoreArc::into_hot(value)
        }
    };
    let places: Vec<Mutex<(CoreArc<Watched>, CoreWeak<Watched>)>> = (0..PLACES)
        .map(|_| {
            let value = fresh();
            let weak = CoreArc::downgrade(&value);
            Mutex::new((value, weak))
        })
        .collect();
    let rounds = share(40_000);
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            let (places, fresh) = (&places, &fresh);
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                let mut held: Vec<CoreArc<Watched>> = Vec::new();
                let mut weak: Vec<CoreWeak<Watched>> = Vec::new();
                for _ in 0..rounds {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let place = &places[random as usize % PLACES];
                    match random >> 32 & 7 {
                        0 => {
                            let value = fresh();
                            let its = CoreArc::downgrade(&value);
                            let old = std::mem::replace(
                                &mut *place.lock().expect("not poisoned"),
                                (value, its),
                            );
                            if random >> 40 & 3 == 0 {
                                assert!(CoreArc::switch_to_atomic(&old.0));
                            }
                            old.0.check();
                        }
                        1 => weak.push(place.lock().expect("not poisoned").1.clone()),
                        2 => {
                            if let Some(value) = weak.pop().and_then(|weak| weak.upgrade()) {
                                value.check();
                                held.push(value);
                            }
                        }
                        3 if random >> 40 & 31 == 0 => {
                            refcount::reclaim();
                        }
                        4 if random >> 40 & 1 == 0 => {
                            if let Some(value) = held.pop() {
                                held.push(CoreArc::into_hot(value));
                            }
                        }
                        4 => {
                            if let Some(value) = held.pop() {
                                value.check();
                                if let Ok(value) = CoreArc::try_unwrap(value) {
                                    value.check();
                                }
                            }
                        }
                        _ => {
                            held.push(place.lock().expect("not poisoned").0.clone());
                            if held.len() > 8 {
                                let one = held.swap_remove(random as usize >> 8 & 7);
                                one.check();
                            }
                        }
                    }
                }
            });
        }
    });
    drop(places);
    until(&dropped, made.load(Ordering::Relaxed) as usize);
}

/// A child has one thread, whatever the others were in the middle of.
#[cfg(unix)]
#[test]
fn a_child_goes_on_with_what_it_has() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let value = hot(Watched::new(1, &dropped));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut number = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let mine = value.clone();
                    number += 1;
                    if number.is_multiple_of(64) {
                        drop(hot(Watched::new(2, &dropped)));
                        refcount::reclaim();
                    }
                    drop(mine);
                }
            });
        }
        for _ in 0..20 + share(50) {
            in_a_child(|| {
                let mine = value.clone();
                // The parent's two threads may have had one each.
                check((2..=4).contains(&CoreArc::count(&mine)), 1)?;
                let before = dropped.load(Ordering::Acquire);
                drop(hot(Watched::new(3, &dropped)));
                refcount::reclaim();
                check(dropped.load(Ordering::Acquire) > before, 2)?;
                mine.check();
                drop(mine);
                refcount::reclaim();
                value.check();
                Ok(())
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    let weak = CoreArc::downgrade(&value);
    drop(value);
    while weak.upgrade().is_some() {
        refcount::reclaim();
    }
}

/// A thread reclaims again and again while another one forks, in a process in which no value was ever hot: the child reclaims too.
#[cfg(unix)]
#[test]
#[cfg_attr(miri, ignore = "Miri starts no programs")]
fn a_child_reclaims_where_nothing_was_hot() {
    crate::common::alone::alone!();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(CoreArc::new(1));
                refcount::reclaim();
            }
        });
        for _ in 0..200 {
            in_a_child(|| {
                check(refcount::reclaim() == 0, 1)?;
                drop(hot(2));
                check(refcount::reclaim() == 1, 2)
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// What one thread does with counts while another one counts.
#[test]
fn counts_are_of_one_moment() {
    let value = hot(1);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Between one and three references, however they move.
                    let mine = value.clone();
                    let other = thread::scope(|scope| scope.spawn(|| mine.clone()).join());
                    drop(mine);
                    drop(other);
                }
            });
        }
        for _ in 0..share(2000) {
            let count = CoreArc::count(&value);
            assert!((1..=5).contains(&count), "{count}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(CoreArc::count(&value), 1);
}
