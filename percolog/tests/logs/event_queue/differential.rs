//! Random programs on one thread that moves from slot to slot, beside the plain queue.

use crate::common::machine::{Machine, stand_on};
use crate::common::share::share;
use crate::event_queue::plain::Plain;
use percolog::collections::EventQueue;
use percolog::collections::event_queue::{Delivery, EventQueueBuilder};
use percolog::oplog::FullReason;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

const SLOTS: [u32; 5] = [0, 1, 2, 1024, 1025];

#[derive(Debug, Clone)]
enum Step {
    Push(usize, u8),
    TryPush(usize, u8),
    Extend(usize, Vec<u8>),
    Next,
    Drain,
    DrainBatch,
    WaitDrain,
    OtherConsumer,
}

fn step() -> impl Strategy<Value = Step> {
    let slot = 0..SLOTS.len();
    // Few events, so that equal ones meet.
    prop_oneof![
        8 => (slot.clone(), 0..3u8).prop_map(|(slot, event)| Step::Push(slot, event)),
        2 => (slot.clone(), 0..3u8).prop_map(|(slot, event)| Step::TryPush(slot, event)),
        1 => (slot, prop::collection::vec(0..3u8, 0..40)).prop_map(|(slot, events)| Step::Extend(slot, events)),
        2 => Just(Step::Next),
        1 => Just(Step::Drain),
        1 => Just(Step::DrainBatch),
        1 => Just(Step::WaitDrain),
        1 => Just(Step::OtherConsumer),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: share(300) as u32, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn the_queue_agrees_with_the_plain_one(
        steps in prop::collection::vec(step(), 0..120),
        capacity in 1..12usize,
        limit in 1..6usize,
        merging: bool,
    ) {
        let builder = EventQueueBuilder::new(capacity).limit(limit);
        let machine = Machine::exact(&SLOTS);
        let queue: EventQueue<u8, Machine> =
            if merging { builder.build_merging_in(machine) } else { builder.build_in(machine) };
        let mut plain = Plain::default();
        // What the consumer has taken hold of.
        let mut taken = VecDeque::new();
        let mut consumer = queue.consumer().expect("there is no other");
        for step in steps {
            match step {
                Step::Push(slot, event) => {
                    stand_on(SLOTS[slot]);
                    queue.push(event);
                    plain.push(event, capacity, merging);
                }
                Step::TryPush(slot, event) => {
                    stand_on(SLOTS[slot]);
                    match queue.try_push(event) {
                        Ok(()) => plain.push(event, capacity, merging),
                        Err(full) => prop_assert_eq!((full.operation, full.reason), (event, FullReason::Limit)),
                    }
                }
                Step::Extend(slot, events) => {
                    stand_on(SLOTS[slot]);
                    queue.extend(events.iter().copied());
                    for event in events {
                        plain.push(event, capacity, merging);
                    }
                }
                Step::Next => {
                    if taken.is_empty() {
                        taken.extend(plain.take());
                    }
                    prop_assert_eq!(consumer.try_next(), taken.pop_front());
                }
                Step::Drain => {
                    let mut delivered = Vec::new();
                    let count = consumer.drain(|next| delivered.push(next));
                    prop_assert_eq!(count, delivered.len());
                    let expected: Vec<_> = taken.drain(..).chain(plain.take()).collect();
                    prop_assert_eq!(delivered, expected);
                }
                Step::DrainBatch => {
                    let mut delivered = vec![Delivery::Event(99)];
                    let count = consumer.drain_batch(&mut delivered);
                    prop_assert_eq!(count + 1, delivered.len());
                    let expected: Vec<_> = taken.drain(..).chain(plain.take()).collect();
                    prop_assert_eq!(&delivered[1..], expected);
                }
                Step::WaitDrain => {
                    if taken.is_empty() {
                        taken.extend(plain.take());
                    }
                    let mut delivered = Vec::new();
                    let count = consumer.wait_drain_for(Duration::ZERO, |next| delivered.push(next));
                    prop_assert_eq!(count, delivered.len());
                    let expected: Vec<_> = taken.drain(..).collect();
                    prop_assert_eq!(delivered, expected);
                }
                Step::OtherConsumer => {
                    prop_assert!(queue.consumer().is_none());
                    drop(consumer);
                    consumer = queue.consumer().expect("there is no other any more");
                }
            }
        }
        let mut rest = Vec::new();
        consumer.drain_batch(&mut rest);
        let expected: Vec<_> = taken.into_iter().chain(plain.take()).collect();
        prop_assert_eq!(rest, expected);
        prop_assert_eq!(queue.stats().clock_violations, 0);
    }
}
