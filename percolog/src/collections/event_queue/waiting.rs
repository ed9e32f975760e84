//! What has come and has not been taken: a bounded queue for one thread at a time.

use crate::oplog::Operation;
use alloc::collections::VecDeque;
use core::mem;

/// What a consumer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivered<T> {
    /// An event.
    Event(T),
    /// At this place in the order so many events, one after the other, found the queue full and were dropped.
    Overflow {
        /// How many; at least one.
        lost: u64,
    },
}

impl<T> Delivered<T> {
    /// The event, unless it is an overflow.
    pub fn into_event(self) -> Option<T> {
        match self {
            Self::Event(event) => Some(event),
            Self::Overflow { .. } => None,
        }
    }
}

/// The events that wait for a consumer to look.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    delivered: VecDeque<Delivered<T>>,
    /// How many of these are events. Of overflows there is at most one in front of each, and one behind them all.
    events: usize,
    capacity: usize,
    /// Which events are the same as the one before them.
    same: Option<fn(&T, &T) -> bool>,
}

impl<T> Waiting<T> {
    pub(super) const fn new(capacity: usize, same: Option<fn(&T, &T) -> bool>) -> Self {
        Self {
            delivered: VecDeque::new(),
            events: 0,
            capacity,
            same,
        }
    }

    /// One event comes. What is dropped, because it is the same as the last one or because there is no room, is handed back, so
    /// that everything here is in order before somebody's destructor runs.
    fn push(&mut self, event: T) -> Option<T> {
        if let Some(same) = self.same
            && let Some(Delivered::Event(last)) = self.delivered.back()
            && same(last, &event)
        {
            return Some(event);
        }
        if self.events < self.capacity {
            self.events += 1;
            self.delivered.push_back(Delivered::Event(event));
            return None;
        }
        if let Some(Delivered::Overflow { lost }) = self.delivered.back_mut() {
            *lost += 1;
        } else {
            self.delivered.push_back(Delivered::Overflow { lost: 1 });
        }
        Some(event)
    }

    /// Exchanges everything that waits for an empty queue.
    pub(super) fn take(&mut self, empty: &mut VecDeque<Delivered<T>>) {
        debug_assert!(empty.is_empty());
        mem::swap(&mut self.delivered, empty);
        self.events = 0;
    }

    /// For how many there is memory.
    pub(super) fn room(&self) -> usize {
        self.delivered.capacity()
    }
}

/// The operation: an event comes.
pub(super) struct Push<T>(pub(super) T);

impl<T: Send> Operation<Waiting<T>> for Push<T> {
    fn exec(self, waiting: &mut Waiting<T>) {
        drop(waiting.push(self.0));
    }
}
