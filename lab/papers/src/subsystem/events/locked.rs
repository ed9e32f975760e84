//! The queue behind a lock that every append takes.

use super::{Delivery, Stays};
use crate::subsystem::{Entry, SharedObject};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A queue behind a mutex.
#[derive(Debug, Default)]
pub struct Locked {
    queue: Mutex<VecDeque<Entry>>,
}

impl Locked {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        // No method of a queue panics half-way, so a queue left behind by a panicking thread is sound.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedObject for Locked {
    type Arrival = Entry;
    type Departure = Stays;
    type View = Delivery;

    fn life(event: Entry) -> (Entry, Stays) {
        (event, Stays)
    }

    fn enter(&self, event: Entry) {
        self.lock().push_back(event);
    }

    fn leave(&self, Stays: Stays) {}

    fn read(&self, _: u64) -> Delivery {
        Delivery(self.lock().drain(..).collect())
    }

    fn view(&self) -> Delivery {
        Delivery(self.lock().iter().copied().collect())
    }

    fn expected(entries: &[Entry]) -> Delivery {
        Delivery(entries.to_vec())
    }

    fn taken(view: &Delivery) -> Option<&[Entry]> {
        Some(&view.0)
    }
}
