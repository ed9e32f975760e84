//! Files that are watched: whoever writes one says so, and one thread takes what has come. Before, a channel; after,
//! `EventQueue`.
//!
//! ```sh
//! cargo run --release --example notifications -- before 4
//! cargo run --release --example notifications -- after 4
//! percolog sim --cores 48 -- target/release/examples/notifications after 48
//! ```
//!
//! On 48 simulated cores the whole program takes 818 ms before, and moves 4,891,000 lines; after, 8.9 ms and 42,000 lines.

mod common;

use percolog::collections::EventQueue;
use std::sync::mpsc;

/// Which thread, and its how manieth event it is.
type Event = (u64, u64);

/// After.
static EVENTS: EventQueue<Event> = EventQueue::unbounded();

/// Events of each thread.
const EVENTS_EACH: u64 = 1000;

fn main() {
    let (before, threads) = common::arguments();
    let mut next = vec![0; threads as usize];
    let mut deliver = |(thread, number): Event| {
        // In each thread's order, and none is missing.
        assert_eq!(number, next[thread as usize]);
        next[thread as usize] += 1;
    };
    if before {
        let (sender, events) = mpsc::channel();
        common::on(threads, |thread| {
            for number in 0..EVENTS_EACH {
                sender.send((thread, number)).expect("it is received");
            }
        });
        events.try_iter().for_each(&mut deliver);
    } else {
        common::on(threads, |thread| {
            for number in 0..EVENTS_EACH {
                EVENTS.push((thread, number));
            }
        });
        let mut consumer = EVENTS.consumer().expect("there is no other one");
        consumer.drain(|event| deliver(event.into_event().expect("nothing can overflow")));
    }
    println!("{} events were delivered", next.iter().sum::<u64>());
    assert!(next.iter().all(|number| *number == EVENTS_EACH));
}
