//! Every interleaving of falling asleep and being woken, and of a look beside pushes, within loom's bounds.
//!
//! A wake that is missed shows as a model that can go no further. What the models leave out is what those of the engine do; and that the
//! kernel's barrier is one: here both sides have fences.

use super::bell::Bell;
use super::{Delivery, EventQueueBuilder};
use crate::collections::EventQueue;
use crate::engine::models::{Scripted, bind, explore, join};
use crate::sync::atomic::{AtomicUsize, Ordering};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

/// Nothing but the bell, and a word in the place of the queue.
#[test]
fn whoever_sleeps_is_woken() {
    explore(|| {
        let parts = Arc::new((Bell::new(), AtomicUsize::new(0)));
        let producer = thread::spawn({
            let parts = parts.clone();
            move || {
                // Relaxed: that it is seen must come from the bell.
                parts.1.store(1, Ordering::Relaxed);
                parts.0.ring();
            }
        });
        let consumer = thread::spawn(move || {
            let (bell, word) = &*parts;
            while word.load(Ordering::Relaxed) == 0 {
                bell.sleep(None, || word.load(Ordering::Relaxed) != 0);
            }
        });
        join(producer);
        join(consumer);
    });
}

/// Two producers: the one that finds the word turned back leaves the waking to the other.
#[test]
fn whoever_sleeps_is_woken_by_one_of_two() {
    explore(|| {
        let parts = Arc::new((Bell::new(), AtomicUsize::new(0)));
        let producers = [(); 2].map(|()| {
            let parts = parts.clone();
            thread::spawn(move || {
                parts.1.fetch_add(1, Ordering::Relaxed);
                parts.0.ring();
            })
        });
        let consumer = thread::spawn(move || {
            let (bell, word) = &*parts;
            while word.load(Ordering::Relaxed) != 2 {
                bell.sleep(None, || word.load(Ordering::Relaxed) == 2);
            }
        });
        producers.into_iter().for_each(join);
        join(consumer);
    });
}

fn queue() -> Arc<EventQueue<u8, Scripted>> {
    bind(0, 0);
    Arc::new(EventQueueBuilder::new(8).build_in(Scripted::default()))
}

/// The whole queue: a producer, and a consumer that sleeps until there is an event.
#[test]
fn an_event_wakes_the_consumer() {
    explore(|| {
        let queue = queue();
        let producer = thread::spawn({
            let queue = queue.clone();
            move || {
                bind(1, 0);
                queue.push(1);
            }
        });
        let consumer = thread::spawn(move || {
            bind(2, 0);
            let mut consumer = queue.consumer().expect("there is no other");
            assert_eq!(consumer.wait_next(), Delivery::Event(1));
            assert_eq!(consumer.try_next(), None);
        });
        join(producer);
        join(consumer);
    });
}

/// One producer's event is known to another, who pushes the next on another slot: no look shows the second without the first, and
/// the first never comes later.
#[test]
fn nothing_arrives_that_belongs_before_what_was_delivered() {
    explore(|| {
        let queue = queue();
        let producer = thread::spawn({
            let queue = queue.clone();
            move || {
                bind(1, 0);
                queue.push(1);
                // The same thread on another slot: whoever knows of an event may push anywhere.
                bind(2, 0);
                queue.push(2);
            }
        });
        let consumer = thread::spawn(move || {
            bind(0, 0);
            let mut consumer = queue.consumer().expect("there is no other");
            let mut delivered = Vec::new();
            consumer.drain_batch(&mut delivered);
            (queue.clone(), delivered)
        });
        join(producer);
        let (queue, mut delivered) = join(consumer);
        let mut consumer = queue.consumer().expect("the other one is gone");
        consumer.drain_batch(&mut delivered);
        assert_eq!(delivered, [Delivery::Event(1), Delivery::Event(2)]);
    });
}
