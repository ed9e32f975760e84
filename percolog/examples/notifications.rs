//! Files that are watched: whoever writes one says so, and one thread takes what has come. Before, a queue behind a mutex; after,
//! `EventQueue`.
//!
//! ```sh
//! cargo run --release --example notifications -- before 4
//! cargo run --release --example notifications -- after 4
//! percolog sim --cores 48 -- target/release/examples/notifications after 48
//! ```

mod common;

use percolog::collections::EventQueue;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Which thread, and its how manieth event it is.
type Event = (u64, u64);

/// Before.
static LOCKED: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());

/// After.
static EVENTS: EventQueue<Event> = EventQueue::unbounded();

/// Events of each thread.
const EVENTS_EACH: u64 = 10_000;

fn main() {
    let (before, threads) = common::arguments();
    let mut next = vec![0; threads as usize];
    let mut deliver = |(thread, number): Event| {
        // In each thread's order, and none is missing.
        assert_eq!(number, next[thread as usize]);
        next[thread as usize] += 1;
    };
    if before {
        common::on(threads, |thread| {
            for number in 0..EVENTS_EACH {
                let mut queue = LOCKED.lock().expect("nobody panics");
                queue.push_back((thread, number));
            }
        });
        let all = std::mem::take(&mut *LOCKED.lock().expect("nobody panics"));
        all.into_iter().for_each(&mut deliver);
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
