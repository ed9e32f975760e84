//! The queue behind a log for each core; appends are carried out, in order, by the reader.

use super::{Delivery, Stays};
use crate::subsystem::{Entry, SharedObject};
use percolog::oplog::{Logged, Operation, Stats};
use std::collections::VecDeque;

/// A queue behind [`Logged`].
#[derive(Debug)]
pub struct LoggedQueue {
    queue: Logged<VecDeque<Entry>, Append>,
}

#[derive(Debug)]
struct Append(Entry);

impl Operation<VecDeque<Entry>> for Append {
    fn exec(self, queue: &mut VecDeque<Entry>) {
        queue.push_back(self.0);
    }
}

impl Default for LoggedQueue {
    fn default() -> LoggedQueue {
        LoggedQueue {
            queue: Logged::new(VecDeque::new()),
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
        self.queue.queue(Append(event));
    }

    fn leave(&self, Stays: Stays) {}

    fn read(&self, _: u64) -> Delivery {
        Delivery(self.queue.synchronize().drain(..).collect())
    }

    fn view(&self) -> Delivery {
        Delivery(self.queue.synchronize().iter().copied().collect())
    }

    fn expected(entries: &[Entry]) -> Delivery {
        Delivery(entries.to_vec())
    }

    fn taken(view: &Delivery) -> Option<&[Entry]> {
        Some(&view.0)
    }

    fn statistics(&self) -> Option<Stats> {
        Some(self.queue.stats())
    }
}
