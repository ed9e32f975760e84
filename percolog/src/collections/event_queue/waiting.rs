//! What has come and has not been taken: a bounded queue for one thread at a time.

use crate::oplog::Operation;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

/// An event, or a mark where events were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery<T> {
    /// An event.
    Event(T),
    /// At this place in the order so many events, one after the other, found the queue full and were dropped.
    Overflow {
        /// How many; at least one.
        lost: u64,
    },
}

impl<T> Delivery<T> {
    /// The event, unless it is an overflow.
    pub fn into_event(self) -> Option<T> {
        match self {
            Self::Event(event) => Some(event),
            Self::Overflow { .. } => None,
        }
    }
}

/// Events in order, and how many were lost behind them: once there is no room there is none until all are taken.
///
/// That stands beside the events, not among them: an event takes no more room than it needs itself, and so no more of the lines that go
/// from whoever merges to the consumer.
#[derive(Debug)]
pub(super) struct Batch<T> {
    events: VecDeque<T>,
    lost: u64,
}

impl<T> Batch<T> {
    pub(super) const fn new() -> Self {
        Self {
            events: VecDeque::new(),
            lost: 0,
        }
    }

    /// How many there are, the overflow included.
    pub(super) fn len(&self) -> usize {
        self.events.len() + usize::from(self.lost != 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the first one out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Delivery<T>> {
        match self.events.pop_front() {
            Some(event) => Some(Delivery::Event(event)),
            None => self.pop_overflow(),
        }
    }

    fn pop_overflow(&mut self) -> Option<Delivery<T>> {
        let lost = mem::take(&mut self.lost);
        (lost != 0).then_some(Delivery::Overflow { lost })
    }

    /// Moves everything behind what is in `into`.
    pub(super) fn move_to(&mut self, into: &mut Vec<Delivery<T>>) {
        into.reserve(self.len());
        into.extend(self.events.drain(..).map(Delivery::Event));
        into.extend(self.pop_overflow());
    }

    /// Bytes asked of the allocator.
    pub(super) fn memory(&self) -> usize {
        self.events.capacity() * size_of::<T>()
    }
}

/// The events that wait for a consumer to look.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    /// It is taken as a whole.
    batch: Batch<T>,
    capacity: usize,
    /// Which events are the same as the one before them.
    same: Option<fn(&T, &T) -> bool>,
}

impl<T> Waiting<T> {
    pub(super) const fn new(capacity: usize, same: Option<fn(&T, &T) -> bool>) -> Self {
        Self {
            batch: Batch::new(),
            capacity,
            same,
        }
    }

    /// One event comes. What is dropped, because it is the same as the last one or because there is no room, is handed back, so
    /// that everything here is in order before somebody's destructor runs.
    #[inline]
    fn push(&mut self, event: T) -> Option<T> {
        let Batch { events, lost } = &mut self.batch;
        if let Some(same) = self.same
            && *lost == 0
            && let Some(last) = events.back()
            && same(last, &event)
        {
            return Some(event);
        }
        if events.len() < self.capacity {
            events.push_back(event);
            return None;
        }
        *lost += 1;
        Some(event)
    }

    /// Exchanges everything that waits for an empty batch.
    pub(super) fn take(&mut self, empty: &mut Batch<T>) {
        debug_assert!(empty.is_empty());
        mem::swap(&mut self.batch, empty);
    }

    /// Bytes asked of the allocator.
    pub(super) fn memory(&self) -> usize {
        self.batch.memory()
    }
}

/// The operation: an event comes.
pub(super) struct Push<T>(pub(super) T);

impl<T: Send> Operation<Waiting<T>> for Push<T> {
    #[inline]
    fn exec(self, waiting: &mut Waiting<T>) {
        drop(waiting.push(self.0));
    }

    #[inline]
    fn exec_keeping(self, waiting: &mut Waiting<T>) -> Option<Self> {
        self.exec(waiting);
        None
    }
}
