//! A lock-free queue.
//!
//! Appends are lock-free. Readers exclude each other: two that took notifications from the queue in turns
//! would each miss what the other one took.

use super::{Delivery, Stays};
use crate::subsystem::{Entry, SharedObject};
use crossbeam_queue::SegQueue;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock-free queue of a well-kept library.
#[derive(Debug, Default)]
pub struct LockFree {
    queue: SegQueue<Entry>,
    /// What has been taken from the queue, but only looked at.
    seen: Mutex<Vec<Entry>>,
}

impl LockFree {
    /// Takes everything that has come from the queue.
    fn collect(&self) -> MutexGuard<'_, Vec<Entry>> {
        // A vector is sound whenever a thread panics.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // The length first: appends that never pause would otherwise keep the reader here for ever. Nobody else
        // takes anything, so there are at least so many.
        for _ in 0..self.queue.len() {
            seen.extend(self.queue.pop());
        }
        seen
    }
}

impl SharedObject for LockFree {
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
}
