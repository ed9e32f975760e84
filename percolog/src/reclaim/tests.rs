//! The domain as users see it; what needs its insides. The torture tests are in `tests/reclamation/reclaim`.

mod skew;

use super::*;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::sync::mpsc;
use std::vec::Vec;

/// Counts its destruction.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn retire(domain: &Domain, destroyed: &Arc<AtomicUsize>) {
    let object = Owned::new(Counted(Arc::clone(destroyed)));
    // SAFETY: nobody has ever seen the object.
    unsafe { domain.retire(object.into()) };
}

/// Telling the time by this clock.
fn by(mut options: DomainOptions, clock: DomainClock) -> DomainOptions {
    // As `DomainOptions::tsc` says: the kernel keeps the counters synchronized where they are trusted.
    options.clock = clock;
    options
}

fn of(destroyed: &AtomicUsize) -> usize {
    destroyed.load(Ordering::Relaxed)
}

#[test]
fn one_thread_reclaims() {
    let domain = Domain::new();
    let destroyed = Arc::default();
    for _ in 0..100_000 {
        retire(&domain, &destroyed);
    }
    let stats = domain.stats();
    assert!(stats.unreclaimed < 1000, "{stats:?}");
    assert_eq!(of(&destroyed) as u64, stats.destroyed);
    domain.collect();
    assert_eq!(of(&destroyed), 100_000);
    assert_eq!(domain.stats().unreclaimed_bytes, 0);
}

#[test]
fn a_section_keeps_what_it_can_have_seen() {
    for clock in [DomainClock::Coarse, DomainClock::Tsc] {
        for options in [DomainOptions::new(), DomainOptions::new().fenced()] {
            let domain = Domain::with(by(options, clock));
            let destroyed = Arc::default();
            let (say, hear) = mpsc::channel::<()>();
            let (entered, is_in) = mpsc::channel::<()>();
            std::thread::scope(|scope| {
                let domain = &domain;
                let reader = scope.spawn(move || {
                    let section = domain.enter();
                    entered.send(()).expect("somebody waits");
                    hear.recv().expect("somebody says");
                    drop(section);
                });
                is_in.recv().expect("the reader enters");
                for _ in 0..1000 {
                    retire(domain, &destroyed);
                }
                assert_eq!(domain.collect(), 0);
                assert_eq!(of(&destroyed), 0);
                assert!(domain.stats().stalled.is_some());
                say.send(()).expect("the reader waits");
                reader.join().expect("no panic");
                domain.collect();
                assert_eq!(of(&destroyed), 1000);
            });
        }
    }
}

#[test]
fn the_own_section_counts_and_nests() {
    let domain = Domain::new();
    let destroyed = Arc::default();
    let outer = domain.enter();
    retire(&domain, &destroyed);
    let mut inner = domain.enter();
    assert!(!inner.renew(), "an outer section may have references");
    drop(inner);
    assert_eq!(domain.collect(), 0);
    drop(outer);
    assert_eq!(domain.collect(), 1);
    let mut section = domain.enter();
    retire(&domain, &destroyed);
    assert_eq!(domain.collect(), 0);
    assert!(section.renew());
    assert_eq!(domain.collect(), 1);
}

#[test]
fn domains_can_be_left_in_any_order() {
    let (a, b) = (Domain::new(), Domain::new());
    let destroyed = Arc::default();
    let in_a = a.enter();
    let in_b = b.enter();
    drop(in_a);
    retire(&a, &destroyed);
    retire(&b, &destroyed);
    assert_eq!((a.collect(), b.collect()), (1, 0));
    drop(in_b);
    assert_eq!(b.collect(), 1);
}

#[test]
fn what_a_thread_leaves_behind_is_destroyed_by_others() {
    let domain = Domain::new();
    let destroyed = Arc::default();
    for _ in 0..100 {
        std::thread::scope(|scope| {
            // Waited for by name: a scope ends before its threads' storage is destroyed.
            scope
                .spawn(|| retire(&domain, &destroyed))
                .join()
                .expect("no panic");
        });
    }
    // The last thread may not be quite gone.
    while of(&destroyed) < 100 {
        domain.collect();
        std::thread::yield_now();
    }
    assert!(domain.stats().active <= 4, "{:?}", domain.stats());
}

#[test]
fn dropping_the_domain_destroys_everything() {
    let destroyed = Arc::default();
    let domain = Domain::new();
    retire(&domain, &destroyed);
    std::thread::scope(|scope| {
        scope.spawn(|| retire(&domain, &destroyed));
    });
    drop(domain);
    assert_eq!(of(&destroyed), 2);
}

#[test]
fn destructors_may_retire_and_enter() {
    static DOMAIN: Domain = Domain::new();
    struct Nested(u32, Arc<AtomicUsize>);
    impl Drop for Nested {
        fn drop(&mut self) {
            let _section = DOMAIN.enter();
            self.1.fetch_add(1, Ordering::Relaxed);
            if self.0 != 0 {
                let next = Owned::new(Nested(self.0 - 1, Arc::clone(&self.1)));
                // SAFETY: nobody has ever seen the object.
                unsafe { DOMAIN.retire(next.into()) };
            }
        }
    }
    let destroyed = Arc::default();
    let first = Owned::new(Nested(300, Arc::clone(&destroyed)));
    // SAFETY: nobody has ever seen the object.
    unsafe { DOMAIN.retire(first.into()) };
    assert_eq!(DOMAIN.collect(), 301);
    assert_eq!(of(&destroyed), 301);
}

#[test]
fn a_panicking_destructor_takes_nothing_with_it() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let domain = Domain::new();
    let destroyed = Arc::default();
    retire(&domain, &destroyed);
    // SAFETY: nobody has ever seen the object.
    unsafe { domain.retire(Owned::new(Panics).into()) };
    retire(&domain, &destroyed);
    domain.collect();
    assert_eq!(of(&destroyed), 2);
    assert_eq!(domain.stats().panics, 1);
    // SAFETY: nobody has ever seen the object.
    unsafe { domain.retire(Owned::new(Panics).into()) };
    retire(&domain, &destroyed);
    drop(domain);
    assert_eq!(of(&destroyed), 3);
}

#[test]
fn a_full_domain_refuses_asks_or_exceeds() {
    let domain = Domain::with(DomainOptions::new().cap(8000, WhenFull::Refuse));
    let section = domain.enter();
    let mut refused = 0;
    for at in 0..20u8 {
        let object = Owned::new([at; 1000]);
        // SAFETY: nobody has ever seen the object.
        if let Err(full) = unsafe { domain.try_retire(object.into()) } {
            assert_eq!(full.unlinked[0], at);
            assert_eq!(full.unreclaimed_bytes, 8000);
            let stalled = full
                .stalled
                .as_ref()
                .expect("the own section is in the way");
            assert_eq!(stalled.thread, Some(std::thread::current().id()));
            refused += 1;
            // SAFETY: nobody has ever seen the object.
            drop(unsafe { full.unlinked.into_owned() });
        }
    }
    assert_eq!(refused, 12);
    // SAFETY: nobody has ever seen the object.
    unsafe { domain.retire(Owned::new([0u8; 1000]).into()) };
    let stats = domain.stats();
    assert_eq!((stats.refused, stats.beyond_cap), (12, 1));
    assert_eq!(stats.unreclaimed_bytes, 9000);
    drop(section);
    // SAFETY: nobody has ever seen the object.
    unsafe { domain.try_retire(Owned::new([0u8; 1000]).into()) }.expect("there is room again");
    assert_eq!(domain.collect(), 1);
}

#[test]
fn quiescence_of_instants() {
    let domain = Domain::new();
    let before = domain.now();
    assert!(domain.quiescent(before));
    let section = domain.enter_owned();
    let during = domain.now();
    assert!(!domain.quiescent(during));
    assert!(domain.quiescent(before));
    let timed_out = domain
        .synchronize_for(core::time::Duration::from_millis(1))
        .expect_err("a section is open");
    assert_eq!(timed_out.stalled.expect("it is known").thread, None);
    drop(section);
    assert!(domain.quiescent(during));
    domain.synchronize();
}

#[test]
#[should_panic(expected = "waits for sections to end, and so for itself")]
fn waiting_for_oneself_panics() {
    let domain = Domain::new();
    let _section = domain.enter();
    domain.synchronize();
}

#[test]
#[should_panic(expected = "another domain")]
fn sections_of_other_domains_are_not_accepted() {
    let (a, b) = (Domain::new(), Domain::new());
    let value = Replaceable::new(&a, 1);
    let _ = value.load(&b.enter());
}

#[test]
fn a_lazy_value_is_made_once_for_all_who_ask() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static VALUE: Replaceable<Vec<usize>> =
        Replaceable::lazy(|| vec![MADE.fetch_add(1, Ordering::Relaxed)]);
    let seen: Vec<usize> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| VALUE.read(|value| value[0])))
            .collect();
        all.into_iter()
            .map(|one| one.join().expect("it reads"))
            .collect()
    });
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
    VALUE.replace(vec![100]);
    VALUE.update(|value| vec![value[0] + 1]);
    assert_eq!(VALUE.read(|value| value[0]), 101);
    // Nobody has asked for it.
    let made = MADE.load(Ordering::Relaxed);
    let replaced: Replaceable<Vec<usize>> =
        Replaceable::lazy(|| vec![MADE.fetch_add(1, Ordering::Relaxed)]);
    replaced.replace(vec![7]);
    assert_eq!(replaced.into_inner(), [7]);
    assert_eq!(MADE.load(Ordering::Relaxed), made);
    assert_eq!(Replaceable::<u8>::default().into_inner(), 0);
    assert_eq!(Replaceable::from(5).read(|value| *value), 5);
}

#[test]
fn a_first_value_that_panics_is_made_by_the_next_who_asks() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    static VALUE: Replaceable<usize> = Replaceable::lazy(|| {
        let tries = TRIES.fetch_add(1, Ordering::Relaxed);
        assert_ne!(tries, 0, "on purpose");
        tries
    });
    assert!(std::panic::catch_unwind(|| VALUE.read(|value| *value)).is_err());
    assert_eq!(VALUE.read(|value| *value), 1);
}

#[test]
fn every_setting_reclaims() {
    let off = [
        |o: &mut Optimizations| o.exit_without_clock = false,
        |o: &mut Optimizations| o.borrow_quiescence = false,
        |o: &mut Optimizations| o.remember_threads = false,
        |o: &mut Optimizations| o.spread_scans = false,
    ];
    for clock in [DomainClock::Coarse, DomainClock::Tsc] {
        for off in off {
            let mut optimizations = Optimizations::ALL;
            off(&mut optimizations);
            let options = by(DomainOptions::new().optimizations(optimizations), clock);
            let domain = Domain::with(options);
            let destroyed = Arc::default();
            std::thread::scope(|scope| {
                let (domain, destroyed) = (&domain, &destroyed);
                let threads: Vec<_> = (0..2)
                    .map(|_| {
                        scope.spawn(move || {
                            for _ in 0..20_000 {
                                let _section = domain.enter();
                                retire(domain, destroyed);
                            }
                        })
                    })
                    .collect();
                for thread in threads {
                    thread.join().expect("no panic");
                }
            });
            assert!(domain.stats().scans > 0);
            drop(domain);
            assert_eq!(of(&destroyed), 40_000);
        }
    }
}
