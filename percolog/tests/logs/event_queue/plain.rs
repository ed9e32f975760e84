//! The plain queue: what an event queue is, without cores.

use percolog::collections::event_queue::Delivery;

/// Events are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Plain {
    pub(crate) waiting: Vec<Delivery<u8>>,
}

impl Plain {
    pub(crate) fn push(&mut self, event: u8, capacity: usize, merging: bool) {
        if merging && self.waiting.last() == Some(&Delivery::Event(event)) {
            return;
        }
        let events = |delivered: &&Delivery<u8>| matches!(delivered, Delivery::Event(_));
        if self.waiting.iter().filter(events).count() < capacity {
            self.waiting.push(Delivery::Event(event));
        } else if let Some(Delivery::Overflow { lost }) = self.waiting.last_mut() {
            *lost += 1;
        } else {
            self.waiting.push(Delivery::Overflow { lost: 1 });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Delivery<u8>> {
        std::mem::take(&mut self.waiting)
    }
}
