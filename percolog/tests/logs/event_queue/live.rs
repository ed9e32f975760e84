//! A consumer that takes events while they come, and sleeps while none do.

use crate::common::share::share;
use percolog::collections::EventQueue;
use percolog::collections::event_queue::{Delivery, EventQueueBuilder};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Nothing is lost or given twice, each producer's events come in its order, and overflows account for the rest.
#[test]
fn every_event_is_delivered_once_and_each_producers_in_its_order() {
    const PRODUCERS: u64 = 3;
    let each = share(20_000) as u64;
    for capacity in [usize::MAX, 64] {
        let queue = &EventQueue::new(capacity);
        let mut consumer = queue.consumer().expect("there is no other");
        thread::scope(|scope| {
            for producer in 0..PRODUCERS {
                scope.spawn(move || {
                    for number in 0..each {
                        queue.push((producer, number));
                        if number % 64 == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0; PRODUCERS as usize];
            let (mut delivered, mut lost) = (0, 0);
            while delivered + lost < PRODUCERS * each {
                match consumer.wait_next() {
                    Delivery::Event((producer, number)) => {
                        let next = &mut next[producer as usize];
                        assert!(number >= *next, "{number} comes after {next}");
                        *next = number + 1;
                        delivered += 1;
                    }
                    Delivery::Overflow { lost: more } => {
                        assert_ne!(more, 0);
                        lost += more;
                    }
                }
            }
            assert_eq!(delivered + lost, PRODUCERS * each);
            assert!(lost == 0 || capacity == 64);
        });
        assert_eq!(consumer.try_next(), None);
    }
}

/// One thread tells another, who then pushes: whatever the consumer sees, it sees causes before effects.
#[test]
fn no_effect_is_delivered_before_its_cause() {
    let rounds = share(20_000) as u64;
    let queue = &EventQueue::unbounded();
    let told = &AtomicU64::new(0);
    let mut consumer = queue.consumer().expect("there is no other");
    thread::scope(|scope| {
        scope.spawn(move || {
            for round in 1..=rounds {
                queue.push(("cause", round));
                told.store(round, Ordering::Release);
            }
        });
        scope.spawn(move || {
            let mut last = 0;
            while last < rounds {
                match told.load(Ordering::Acquire) {
                    round if round == last => thread::yield_now(),
                    round => {
                        queue.push(("effect", round));
                        last = round;
                    }
                }
            }
        });
        let (mut cause, mut effect) = (0, 0);
        while effect < rounds {
            match consumer.wait_next().into_event() {
                Some(("cause", round)) => cause = round,
                Some((_, round)) => {
                    assert!(round <= cause, "effect {round}, but causes to {cause} only");
                    effect = round;
                }
                None => panic!("there is no bound"),
            }
        }
    });
}

/// Each event is pushed when the consumer has nothing else to do, so that it sleeps, falls asleep, or is about to.
#[test]
fn a_sleeping_consumer_is_woken_by_each_event() {
    let rounds = share(3_000) as u32;
    let queue = &EventQueue::new(4);
    let (seen, hears) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut consumer = queue.consumer().expect("there is no other");
            for _ in 0..rounds {
                seen.send(consumer.wait_next()).expect("somebody listens");
            }
        });
        for round in 0..rounds {
            for _ in 0..round % 512 {
                std::hint::spin_loop();
            }
            if round % 64 == 0 {
                // Long enough to be asleep.
                thread::sleep(Duration::from_micros(200));
            }
            queue.push(round);
            assert_eq!(hears.recv(), Ok(Delivery::Event(round)));
        }
    });
}

#[test]
fn waiting_ends_when_its_time_has_passed_and_not_with_an_event_there() {
    let queue = EventQueue::new(4);
    let mut consumer = queue.consumer().expect("there is no other");
    assert_eq!(consumer.wait_next_for(Duration::ZERO), None);
    assert_eq!(consumer.wait_next_for(Duration::from_millis(1)), None);
    queue.push(1);
    queue.extend([2, 3]);
    for event in 1..=3 {
        let next = consumer.wait_next_for(Duration::ZERO);
        assert_eq!(next, Some(Delivery::Event(event)));
    }
    queue.push(4);
    assert_eq!(
        consumer.wait_next_for(Duration::MAX),
        Some(Delivery::Event(4))
    );
}

#[test]
fn a_drain_that_waits_is_given_what_comes_meanwhile() {
    let rounds = share(20) as u32;
    let queue = &EventQueue::new(4);
    let (about_to_wait, hears) = mpsc::channel();
    thread::scope(|scope| {
        let consumes = scope.spawn(move || {
            let mut consumer = queue.consumer().expect("there is no other");
            let mut delivered = Vec::new();
            for _ in 0..rounds {
                about_to_wait.send(()).expect("somebody listens");
                let count = consumer.wait_drain_for(Duration::MAX, |next| delivered.push(next));
                assert_eq!(count, 1);
            }
            delivered
        });
        for round in 0..rounds {
            hears.recv().expect("it waits in each round");
            // Most likely it sleeps by then.
            thread::sleep(Duration::from_millis(1));
            queue.push(round);
        }
        let delivered = consumes.join().expect("it was given one event each time");
        assert!(delivered.into_iter().eq((0..rounds).map(Delivery::Event)));
    });
}

#[test]
fn a_drain_that_waits_looks_only_where_nothing_is_left() {
    let queue = EventQueue::new(10);
    let mut consumer = queue.consumer().expect("there is no other");
    let mut delivered = Vec::new();
    let moment = Duration::ZERO;
    queue.extend(1..=4);
    assert_eq!(consumer.try_next(), Some(Delivery::Event(1)));
    queue.push(5);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        consumer.wait_drain_for(moment, |next| assert_ne!(next, Delivery::Event(2)))
    }));
    assert!(panicked.is_err());
    for expected in [2, 1, 0] {
        let count = consumer.wait_drain_for(moment, |next| delivered.push(next));
        assert_eq!(count, expected);
    }
    assert_eq!(delivered, [3, 4, 5].map(Delivery::Event));
}

#[test]
fn there_is_one_consumer_and_what_it_leaves_is_the_next_ones() {
    let queue = EventQueue::new(10);
    queue.extend(1..=3);
    let mut first = queue.consumer().expect("there is no other");
    assert!(queue.consumer().is_none());
    assert_eq!(first.try_next(), Some(Delivery::Event(1)));
    queue.push(4);
    drop(first);
    let mut second = queue.consumer().expect("the first one is gone");
    let mut rest = Vec::new();
    assert_eq!(second.drain_batch(&mut rest), 3);
    assert_eq!(rest, [2, 3, 4].map(Delivery::Event));
}

#[test]
fn a_panic_in_the_middle_of_a_drain_leaves_what_is_behind() {
    let queue = EventQueue::new(10);
    queue.extend(1..=4);
    let mut consumer = queue.consumer().expect("there is no other");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        consumer.drain(|next| assert_ne!(next, Delivery::Event(2)));
    }));
    assert!(panicked.is_err());
    assert_eq!(consumer.try_next(), Some(Delivery::Event(3)));
    assert_eq!(consumer.try_next(), Some(Delivery::Event(4)));
    assert_eq!(consumer.try_next(), None);
}

/// And a drain ends, though each event pushes another.
#[test]
fn who_is_given_an_event_may_push() {
    let queue = EventQueueBuilder::new(1000).limit(1).build();
    queue.push(0);
    let mut consumer = queue.consumer().expect("there is no other");
    for round in 0..200 {
        let count = consumer.drain(|next| {
            assert_eq!(next, Delivery::Event(round));
            queue.push(round + 1);
        });
        assert_eq!(count, 1);
    }
}

#[test]
fn an_overflow_stands_where_events_were_lost() {
    let queue = EventQueue::new(2);
    let mut consumer = queue.consumer().expect("there is no other");
    let mut delivered = Vec::new();
    queue.extend(0..5);
    assert_eq!(consumer.try_next(), Some(Delivery::Event(0)));
    // The consumer has taken hold of the rest, so there is room again.
    queue.extend(5..9);
    consumer.drain_batch(&mut delivered);
    assert_eq!(
        delivered,
        [
            Delivery::Event(1),
            Delivery::Overflow { lost: 3 },
            Delivery::Event(5),
            Delivery::Event(6),
            Delivery::Overflow { lost: 2 },
        ]
    );
}

/// An event of another core between two equal ones keeps them apart, though in their own core's queue they are neighbours.
#[test]
fn only_neighbours_in_the_one_order_are_merged() {
    let queue = EventQueueBuilder::new(10).build_merging();
    let push_elsewhere = |event| {
        thread::scope(|scope| {
            scope.spawn(|| {
                percolog::cpu::bind(percolog::cpu::CoreId::new(77));
                queue.push(event);
            });
        });
    };
    percolog::cpu::bind(percolog::cpu::CoreId::new(5));
    queue.extend([1, 1]);
    push_elsewhere(2);
    queue.push(1);
    push_elsewhere(1);
    queue.push(1);
    let mut delivered = Vec::new();
    let mut consumer = queue.consumer().expect("there is no other");
    consumer.drain_batch(&mut delivered);
    // What has been taken is nobody's neighbour any more.
    queue.push(1);
    consumer.drain_batch(&mut delivered);
    assert_eq!(delivered, [1, 2, 1, 1].map(Delivery::Event));
}

#[test]
fn every_event_is_dropped_once_wherever_it_is() {
    let counted = Arc::new(());
    let queue = EventQueueBuilder::new(3).limit(4).build_merging();
    for _ in 0..7 {
        // Equal to none: each comparison is of pointers to different boxes.
        queue.push(Unequal(counted.clone()));
    }
    // Three wait, and one is still in the core's queue, or all are brought together: the others are lost.
    assert!(Arc::strong_count(&counted) <= 8);
    let mut consumer = queue.consumer().expect("there is no other");
    let first = consumer.try_next().and_then(Delivery::into_event);
    assert!(first.is_some());
    assert_eq!(Arc::strong_count(&counted), 4);
    queue.push(Unequal(counted.clone()));
    drop(consumer);
    drop(queue);
    assert_eq!(Arc::strong_count(&counted), 2);
    drop(first);
    assert_eq!(Arc::strong_count(&counted), 1);
}

struct Unequal(#[allow(dead_code, reason = "it is counted")] Arc<()>);

impl PartialEq for Unequal {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

/// A comparison that panics poisons the queue: whoever merges next is told, and nothing hangs.
#[test]
fn a_panic_in_a_comparison_poisons_the_queue() {
    thread_local! {
        static PANIC: Cell<bool> = const { Cell::new(false) };
    }
    struct Touchy(u8);
    impl PartialEq for Touchy {
        fn eq(&self, other: &Self) -> bool {
            assert!(!PANIC.get(), "as asked");
            self.0 == other.0
        }
    }
    let queue = EventQueueBuilder::new(10).build_merging();
    queue.extend([1, 2].map(Touchy));
    let mut consumer = queue.consumer().expect("there is no other");
    PANIC.set(true);
    for _ in 0..2 {
        let looked = catch_unwind(AssertUnwindSafe(|| consumer.try_next().is_some()));
        assert!(looked.is_err());
        PANIC.set(false);
    }
    // A push still goes into its core's queue.
    queue.push(Touchy(3));
}
