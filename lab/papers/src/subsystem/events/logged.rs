//! The library's event queue: appends go to a log of each core, and the watcher takes them in order.

use super::{Delivery, Stays};
use crate::subsystem::{Entry, SharedObject};
use percolog::collections::EventQueue;
use percolog::collections::event_queue::Delivery as Next;
use percolog::oplog::LogStats;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An [`EventQueue`] without a bound. Readers exclude each other: it has one consumer at a time.
#[derive(Debug)]
pub struct LoggedQueue {
    queue: EventQueue<Entry>,
    /// What has been taken from the queue, but only looked at.
    seen: Mutex<Vec<Entry>>,
}

impl LoggedQueue {
    /// Takes everything that has come from the queue.
    fn collect(&self) -> MutexGuard<'_, Vec<Entry>> {
        // A vector is sound whenever a thread panics.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut consumer) = self.queue.consumer() else {
            unreachable!("whoever has the lock is the only consumer")
        };
        consumer.drain(|next| match next {
            Next::Event(event) => seen.push(event),
            Next::Overflow { .. } => unreachable!("the queue has no bound"),
        });
        seen
    }
}

impl Default for LoggedQueue {
    fn default() -> LoggedQueue {
        LoggedQueue {
            queue: EventQueue::unbounded(),
            seen: Mutex::default(),
        }
    }
}

impl SharedObject for LoggedQueue {
    type Arrival = Entry;
    type Departure = Stays;
    type View = Delivery;

    fn life(event: Entry) -> (Entry, Stays) {
        (event, Stays)
    }

    fn enter(&self, event: Entry) {
        self.queue.push(event);
    }

    fn leave(&self, Stays: Stays) {}

    fn read(&self, _: u64) -> Delivery {
        Delivery(std::mem::take(&mut *self.collect()))
    }

    fn view(&self) -> Delivery {
        Delivery(self.collect().clone())
    }

    fn expected(entries: &[Entry]) -> Delivery {
        Delivery(entries.to_vec())
    }

    fn taken(view: &Delivery) -> Option<&[Entry]> {
        Some(&view.0)
    }

    fn statistics(&self) -> Option<LogStats> {
        Some(self.queue.stats())
    }
}
