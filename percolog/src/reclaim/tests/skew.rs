//! Clocks that differ from processor to processor, and steps in an order chosen by the test.
//!
//! Several threads are played by one: each has a record, and a clock that is ahead of true time by an
//! amount of its own. So every step is where the test puts it, and what is destroyed too early is only a
//! claim of quiescence that is wrong.

use super::super::collector::{Collector, MARGIN};
use super::super::options::{DomainOptions, Optimizations};
use super::super::queue::Retired;
use super::super::records::Record;
use crate::cpu::barrier::BarrierMode;
use crate::cpu::{CoreId, Environment};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::vec::Vec;

/// After so many looks at the clock, and what happens at the next one.
type Event = (usize, Box<dyn FnOnce()>);

std::thread_local! {
    /// How far the clock is ahead of true time, where the calling thread is now.
    static AHEAD: Cell<u64> = const { Cell::new(0) };
    /// What happens at a look at the clock, and at which of the next ones.
    static EVENT: RefCell<Option<Event>> = const { RefCell::new(None) };
}

/// True time, and clocks that are ahead of it.
struct Skewed(AtomicU64);

impl Skewed {
    fn pass(&self, ticks: u64) {
        self.0.fetch_add(ticks, Ordering::SeqCst);
    }
}

impl Environment for Skewed {
    fn slot(&self) -> CoreId {
        CoreId::new(0)
    }

    fn stamp(&self) -> u64 {
        let event = EVENT.with_borrow_mut(|event| match event {
            Some((0, _)) => event.take(),
            Some((looks, _)) => {
                *looks -= 1;
                None
            }
            None => None,
        });
        if let Some((_, event)) = event {
            event();
        }
        self.0.fetch_add(1, Ordering::SeqCst) + AHEAD.get()
    }
}

fn collector(optimizations: Optimizations) -> Collector<Skewed> {
    // SAFETY: nothing is retired here that would be freed; what is claimed too early is counted.
    let options = unsafe { DomainOptions::new().tsc() }.optimizations(optimizations);
    Collector::new(
        options,
        Skewed(AtomicU64::new(1 << 40)),
        BarrierMode::Fence,
        true,
    )
}

/// Each optimization that decides what a scan believes, on and off.
fn each_way() -> impl Iterator<Item = Optimizations> {
    (0..8).map(|bits| {
        let mut optimizations = Optimizations::ALL;
        optimizations.exit_without_clock = bits & 1 == 0;
        optimizations.remember_threads = bits & 2 == 0;
        optimizations.spread_scans = bits & 4 == 0;
        optimizations
    })
}

/// A record that scans look at, and that is outside.
fn known(collector: &Collector<Skewed>) -> &Record {
    let record = collector.take_record(0);
    collector.enter(record);
    collector.leave(record);
    record
}

/// A thread of the random walk.
struct Walker<'a> {
    record: &'a Record,
    ahead: u64,
    /// The object that it found in the section it is in.
    found: Option<usize>,
}

/// Random steps of threads whose clocks differ by less than `skew`. Returns how often an object was
/// declared quiescent while a section had it.
fn random_walk(skew: u64, optimizations: Optimizations, seed: u64) -> usize {
    let mut chance = fastrand::Rng::with_seed(seed);
    let collector = collector(optimizations);
    let mut walkers: Vec<Walker<'_>> = (0..4)
        .map(|_| Walker {
            record: known(&collector),
            ahead: chance.u64(..skew),
            found: None,
        })
        .collect();
    let (mut linked, mut next) = (0, 1);
    let mut retired: Vec<(u64, usize)> = Vec::new();
    let mut wrong = 0;
    for _ in 0..2000 {
        let at = chance.usize(..walkers.len());
        let walker = &mut walkers[at];
        AHEAD.set(walker.ahead);
        match chance.u8(..8) {
            0..3 => match walker.found {
                None => {
                    collector.enter(walker.record);
                    walker.found = Some(linked);
                }
                Some(_) => {
                    collector.leave(walker.record);
                    walker.found = None;
                }
            },
            3 => {
                retired.push((collector.now(), linked));
                linked = next;
                next += 1;
            }
            4..6 => collector.environment.pass(chance.u64(..skew)),
            _ => {
                let record = walker.record;
                retired.retain(|(stamp, object)| {
                    let quiescent = collector.is_quiescent(Some(record), *stamp).is_ok();
                    let seen = walkers.iter().any(|other| other.found == Some(*object));
                    wrong += usize::from(quiescent && seen);
                    !quiescent
                });
            }
        }
    }
    AHEAD.set(0);
    wrong
}

#[test]
fn skew_below_the_margin_does_no_harm() {
    for optimizations in each_way() {
        for seed in 0..10 {
            let wrong = random_walk(MARGIN, optimizations, seed);
            assert_eq!(wrong, 0, "seed {seed}, {optimizations:?}");
        }
    }
}

/// What the margin is for: without it, or with clocks that are worse, sections lose what they found.
#[test]
fn skew_beyond_the_margin_would() {
    for optimizations in each_way() {
        let wrong: usize = (0..10)
            .map(|seed| random_walk(4 * MARGIN, optimizations, seed))
            .sum();
        assert!(wrong > 0, "{optimizations:?}");
    }
}

/// Nothing that the coarse clock decides rests on a stamp.
#[test]
fn the_coarse_clock_takes_no_stamps() {
    struct Timeless;

    impl Environment for Timeless {
        fn slot(&self) -> CoreId {
            CoreId::new(0)
        }

        fn stamp(&self) -> u64 {
            panic!("a stamp was taken")
        }
    }

    for optimizations in each_way() {
        let options = DomainOptions::new().optimizations(optimizations);
        let collector = Collector::new(options, Timeless, BarrierMode::Fence, true);
        let [reader, writer] = [(); 2].map(|()| collector.take_record(0));
        collector.enter(reader);
        let stamp = collector.now();
        assert!(collector.is_quiescent(Some(writer), stamp).is_err());
        collector.leave(reader);
        // Sections that begin later are not in its way.
        collector.enter(reader);
        assert!(collector.is_quiescent(Some(writer), stamp).is_ok());
        collector.leave(reader);
    }
}

/// One section, one object: the reader's clock is ahead, so that it seems to have entered after the
/// object was unlinked.
fn is_found_out(ahead: u64) -> bool {
    let collector = collector(Optimizations::ALL);
    let (reader, writer) = (known(&collector), known(&collector));
    AHEAD.set(ahead);
    collector.enter(reader);
    AHEAD.set(0);
    let stamp = collector.now();
    collector.environment.pass(4 * MARGIN);
    collector.is_quiescent(Some(writer), stamp).is_err()
}

#[test]
fn a_reader_with_a_fast_clock_is_found_inside() {
    assert!(is_found_out(0));
    assert!(is_found_out(MARGIN));
    assert!(!is_found_out(2 * MARGIN));
}

/// The published implementation notes when it has read a thread's times *after* it has read them. A
/// reader that enters in between, and finds what is retired a moment later, is then taken for one that
/// had left before that; and what was found out of it is believed by others.
#[test]
fn a_reader_that_enters_during_a_scan_is_not_overlooked() {
    for optimizations in each_way() {
        for look in 0..4 {
            let collector = Rc::new(collector(optimizations));
            let scanner = known(&collector);
            known(&collector);
            collector.environment.pass(4 * MARGIN);
            let earlier = collector.now();
            collector.environment.pass(4 * MARGIN);
            let stamp = Rc::new(Cell::new(0));
            let event = {
                let (collector, stamp) = (Rc::clone(&collector), Rc::clone(&stamp));
                move || {
                    let reader = collector.records.all().nth(1);
                    collector.enter(reader.expect("the second record"));
                    collector.environment.pass(4 * MARGIN);
                    // What the reader has found is unlinked.
                    stamp.set(collector.now());
                    collector.environment.pass(4 * MARGIN);
                }
            };
            EVENT.set(Some((look, Box::new(event))));
            // Nobody is in the way of this one, whenever the reader enters.
            let _ = collector.is_quiescent(Some(scanner), earlier);
            for _ in 0..4 {
                let _ = collector.now();
            }
            assert!(EVENT.take().is_none(), "the reader has entered");
            for _ in 0..3 {
                let found = collector.is_quiescent(Some(scanner), stamp.get());
                assert!(found.is_err(), "look {look}, {optimizations:?}");
                collector.environment.pass(4 * MARGIN);
            }
        }
    }
}

/// Threads that are inside for long are not idle, however many others are.
#[test]
fn who_is_inside_for_long_is_not_parked() {
    let collector = collector(Optimizations::ALL);
    let (reader, writer) = (known(&collector), known(&collector));
    let idle: Vec<&Record> = (0..40).map(|_| known(&collector)).collect();
    collector.enter(reader);
    let stamp = collector.now();
    for _ in 0..3 {
        // Longer than anybody may be outside and not be idle.
        collector.environment.pass(1 << 30);
        assert!(collector.is_quiescent(Some(writer), stamp).is_err());
    }
    // A scan that is in nobody's way meets the idle ones, and parks them; not while another test makes a
    // rare step.
    for _ in 0..100_000 {
        let earlier = collector.known();
        let _ = collector.scan(Some(writer), earlier);
        collector.environment.pass(1 << 30);
        if collector.records.active_count() <= 2 {
            break;
        }
        std::thread::yield_now();
    }
    let active: Vec<usize> = collector
        .records
        .active_from(0)
        .map(|record| record.index)
        .collect();
    assert!(active.contains(&reader.index), "{active:?}");
    assert!(!active.contains(&idle[7].index), "{active:?}");
    assert!(collector.is_quiescent(Some(writer), stamp).is_err());
    collector.leave(reader);
    collector.environment.pass(1 << 30);
    assert!(collector.is_quiescent(Some(writer), stamp).is_ok());
}

/// Threads, each with a clock of its own, that read and replace numbered objects.
#[test]
fn threads_with_clocks_of_their_own() {
    const ALIVE: usize = 1;
    const DEAD: usize = 2;
    const OBJECTS: usize = 20_000;
    unsafe fn poison(object: *mut ()) {
        // SAFETY: one of the test's objects, which outlive the collector.
        unsafe { &*object.cast::<AtomicUsize>() }.store(DEAD, Ordering::Release);
    }
    let objects: Vec<AtomicUsize> = (0..=OBJECTS).map(|_| AtomicUsize::new(ALIVE)).collect();
    let collector = collector(Optimizations::ALL);
    let (linked, next) = (AtomicUsize::new(0), AtomicUsize::new(1));
    std::thread::scope(|scope| {
        for number in 0..4u64 {
            let (objects, collector, linked, next) = (&objects, &collector, &linked, &next);
            scope.spawn(move || {
                AHEAD.set(number * (MARGIN / 4));
                let record = collector.take_record(0);
                let mut round = 0u32;
                loop {
                    round += 1;
                    // As much as a few microseconds: scans succeed now and then.
                    collector.environment.pass(MARGIN / 64);
                    collector.enter(record);
                    let found = linked.load(Ordering::Acquire);
                    if round.is_multiple_of(5) {
                        std::thread::yield_now();
                    }
                    assert_eq!(objects[found].load(Ordering::Acquire), ALIVE);
                    collector.leave(record);
                    if number.is_multiple_of(2) || round.is_multiple_of(16) {
                        let new = next.fetch_add(1, Ordering::Relaxed);
                        if new > OBJECTS {
                            break;
                        }
                        let old = linked.swap(new, Ordering::AcqRel);
                        let old = core::ptr::from_ref(&objects[old]).cast_mut().cast();
                        // SAFETY: poisoning uses an atomic of an object that stays.
                        collector.retire(record, unsafe { Retired::new(old, poison, 8) });
                    }
                }
            });
        }
    });
    let dead = objects
        .iter()
        .filter(|object| object.load(Ordering::Relaxed) == DEAD);
    assert!(dead.count() > 0, "nothing was ever destroyed");
}
