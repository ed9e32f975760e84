//! A queue for each core, made by hand; the reader merges them by the time stamps of the notifications.
//!
//! A stamp is taken under the lock of one's own queue, and a read holds the locks of all queues at once. So if
//! one append returned before another was called, it has the smaller stamp, and a read that takes the second
//! takes the first. That stands on a clock that all cores share ([`percolog::cpu::clock`]).

use super::{Delivery, Stays};
use crate::subsystem::slots::Slots;
use crate::subsystem::{Entry, SharedObject};
use percolog::cpu::clock;

/// A queue for each core.
#[derive(Debug, Default)]
pub struct PerCpu {
    queues: Slots<Vec<Stamped>>,
}

#[derive(Clone, Copy, Debug)]
struct Stamped {
    stamp: u64,
    event: Entry,
}

/// Brings queues together in the order of their stamps.
fn merge(mut events: Vec<Stamped>) -> Delivery {
    // Stable, and quick on runs that are sorted already, which the queues are.
    events.sort_by_key(|stamped| stamped.stamp);
    Delivery(events.into_iter().map(|stamped| stamped.event).collect())
}

impl SharedObject for PerCpu {
    type Arrival = Entry;
    type Departure = Stays;
    type View = Delivery;

    fn life(event: Entry) -> (Entry, Stays) {
        (event, Stays)
    }

    fn enter(&self, event: Entry) {
        let (_, mut queue) = self.queues.own();
        let stamp = clock::stamp();
        queue.push(Stamped { stamp, event });
    }

    fn leave(&self, Stays: Stays) {}

    fn read(&self, _: u64) -> Delivery {
        let mut queues = self.queues.all();
        let events = queues
            .iter_mut()
            .flat_map(|queue| queue.drain(..))
            .collect();
        drop(queues);
        merge(events)
    }

    fn view(&self) -> Delivery {
        let queues = self.queues.all();
        let events = queues
            .iter()
            .flat_map(|queue| queue.iter().copied())
            .collect();
        drop(queues);
        merge(events)
    }

    fn expected(entries: &[Entry]) -> Delivery {
        Delivery(entries.to_vec())
    }

    fn taken(view: &Delivery) -> Option<&[Entry]> {
        Some(&view.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::slots::on_slot;

    #[test]
    fn what_was_appended_in_turns_on_several_slots_comes_in_that_order() {
        let queue = PerCpu {
            queues: Slots::new(3),
        };
        let events: Vec<Entry> = (0..30)
            .map(|identity| Entry {
                offset: 0,
                identity: 100 - identity,
                end: 0,
                process: 1,
            })
            .collect();
        for (turn, &event) in events.iter().enumerate() {
            on_slot(2 - turn as u32 % 3, || queue.enter(event));
        }
        assert!(queue.queues.all().iter().all(|queue| queue.len() == 10));
        assert_eq!(queue.view().0, events);
        assert_eq!(queue.read(0).0, events);
        assert_eq!(queue.view().0, []);
    }
}
