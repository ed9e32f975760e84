//! Memory that is not in boxes: a program's own pool, reused when sections have ended.

use crate::common::eventually::eventually;
use crate::common::seed::seed;
use crate::common::share::share;
use crate::reclaim::each_setting;
use percolog::reclaim::{Domain, DomainOptions, Stamp};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A place of the pool: how often it was reused shows whether it was while somebody used it.
struct Place {
    uses: AtomicUsize,
}

struct Pool {
    places: Vec<Place>,
    /// Free places, in the order they were given back, each with when.
    free: Mutex<VecDeque<(Stamp, usize)>>,
    domain: Domain,
    /// What everybody reads: the number of a place.
    current: AtomicUsize,
    reused: AtomicUsize,
}

impl Pool {
    fn new(options: DomainOptions, places: usize) -> Self {
        let domain = Domain::with(options);
        let now = domain.now();
        Self {
            places: (0..places)
                .map(|_| Place {
                    uses: AtomicUsize::new(0),
                })
                .collect(),
            free: Mutex::new((1..places).map(|place| (now, place)).collect()),
            domain,
            current: AtomicUsize::new(0),
            reused: AtomicUsize::new(0),
        }
    }

    /// A place that nobody can be looking at, if there is one.
    fn take(&self) -> Option<usize> {
        let mut free = self.free.lock().expect("nobody panics here");
        let (stamp, place) = *free.front()?;
        if !self.domain.quiescent(stamp) {
            return None;
        }
        free.pop_front();
        drop(free);
        self.places[place].uses.fetch_add(1, Ordering::Relaxed);
        Some(place)
    }

    /// Everybody is to look at another place; the old one is free when nobody does any more.
    fn replace(&self) {
        let Some(place) = self.take() else { return };
        let old = self.current.swap(place, Ordering::AcqRel);
        let mut free = self.free.lock().expect("nobody panics here");
        // Under the lock, so that the places lie in the order of their stamps.
        free.push_back((self.domain.now(), old));
        self.reused.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self, hold_up: bool) {
        let _section = self.domain.enter();
        let place = &self.places[self.current.load(Ordering::Acquire)];
        let uses = place.uses.load(Ordering::Relaxed);
        if hold_up {
            thread::yield_now();
        }
        assert_eq!(
            place.uses.load(Ordering::Relaxed),
            uses,
            "the place was reused while it was read"
        );
    }
}

fn everybody(options: DomainOptions) {
    let mut chance = fastrand::Rng::with_seed(seed());
    let pool = Pool::new(options, 8);
    thread::scope(|scope| {
        for number in 0..4 {
            let pool = &pool;
            let mut chance = chance.fork();
            scope.spawn(move || {
                for _ in 0..share(2000) {
                    match (number, chance.u8(..8)) {
                        (0, 0) => pool.replace(),
                        (0, _) => {
                            pool.replace();
                            thread::yield_now();
                        }
                        (_, dice) => pool.read(dice == 0),
                    }
                }
            });
        }
    });
    // However few it was till now: when sections have ended, places are reused.
    pool.domain.synchronize();
    let before = pool.reused.load(Ordering::Relaxed);
    let reused = eventually(|| {
        pool.replace();
        pool.reused.load(Ordering::Relaxed) > before + 100
    });
    assert!(reused, "no place is reused");
}

#[test]
fn places_are_reused_when_their_stamp_is_quiescent() {
    each_setting(everybody);
}

/// The same places, given back by the domain itself.
#[test]
fn places_come_back_through_a_function() {
    static FREE: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());
    static PLACES: [Place; 200] = [const {
        Place {
            uses: AtomicUsize::new(0),
        }
    }; 200];
    /// # Safety
    /// Nobody can be looking at the place.
    unsafe fn give_back(place: *mut Place) {
        // SAFETY: one of `PLACES`.
        let place = unsafe { &*place };
        place.uses.fetch_add(1, Ordering::Relaxed);
        FREE.lock().expect("nobody panics here").push(place);
    }
    let domain = Domain::new();
    let current = AtomicUsize::new(0);
    FREE.lock()
        .expect("nobody panics here")
        .extend(&PLACES[1..]);
    thread::scope(|scope| {
        for number in 0..4 {
            let (domain, current) = (&domain, &current);
            scope.spawn(move || {
                for round in 0..share(5000) {
                    let section = domain.enter();
                    let place = &PLACES[current.load(Ordering::Acquire)];
                    let uses = place.uses.load(Ordering::Relaxed);
                    if number == 0 {
                        let fresh = FREE.lock().expect("nobody panics here").pop();
                        let Some(fresh) = fresh else {
                            drop(section);
                            domain.collect();
                            continue;
                        };
                        // SAFETY: both lie in `PLACES`.
                        let index = unsafe { (&raw const *fresh).offset_from(PLACES.as_ptr()) };
                        let old = current.swap(index.unsigned_abs(), Ordering::AcqRel);
                        let old = (&raw const PLACES[old]).cast_mut();
                        // SAFETY: unlinked, read in sections only, and only atomics are used of it.
                        unsafe { domain.retire_with(old, give_back) };
                    } else if round % 8 == 0 {
                        thread::yield_now();
                    }
                    assert_eq!(place.uses.load(Ordering::Relaxed), uses);
                    drop(section);
                }
            });
        }
    });
    drop(domain);
    assert_eq!(
        FREE.lock().expect("nobody panics here").len(),
        PLACES.len() - 1
    );
}
