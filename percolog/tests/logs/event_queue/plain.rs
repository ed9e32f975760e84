//! The plain queue: what an event queue is, without cores.

use percolog::collections::event_queue::Delivered;

/// Events are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Plain {
    pub(crate) waiting: Vec<Delivered<u8>>,
}

impl Plain {
    pub(crate) fn push(&mut self, event: u8, capacity: usize, merging: bool) {
        if merging && self.waiting.last() == Some(&Delivered::Event(event)) {
            return;
        }
        let events = |delivered: &&Delivered<u8>| matches!(delivered, Delivered::Event(_));
        if self.waiting.iter().filter(events).count() < capacity {
            self.waiting.push(Delivered::Event(event));
        } else if let Some(Delivered::Overflow { lost }) = self.waiting.last_mut() {
            *lost += 1;
        } else {
            self.waiting.push(Delivered::Overflow { lost: 1 });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Delivered<u8>> {
        std::mem::take(&mut self.waiting)
    }
}
