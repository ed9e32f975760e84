//! What the holder of an object's lock works with: the state, and what is on its way into it.

use super::mode::Learner;
use super::queue::{Limits, Queue};
use crate::sync::const_fn;
use alloc::vec::Vec;

/// What the holder of the object's lock works with: the state first, on the line of the lock.
#[repr(C)]
pub(super) struct Merged<S, Q: Queue<S>> {
    pub(super) state: S,
    /// One queue for each slot that has ever been merged. Together they are the batch: what was taken
    /// in one cut and has not been applied yet. Between batches they are empty, and keep their memory
    /// to be exchanged for what their slots have queued.
    pub(super) queues: Vec<Q>,
    /// By slot: one more than the place of its queue in `queues`, or 0.
    places: Vec<usize>,
    /// The slots that are locked while a batch is taken.
    pub(super) locked: Vec<usize>,
    /// Whether a batch has been taken and not been applied in full.
    pub(super) unapplied: bool,
    /// How many operations of the batch are left.
    pub(super) left: usize,
    pub(super) scratch: Option<Q::Scratch>,
    pub(super) learner: Learner,
}

impl<S, Q: Queue<S>> Merged<S, Q> {
    const_fn! {
        pub(super) const fn new(state: S) -> Self {
            Self {
                state,
                queues: Vec::new(),
                places: Vec::new(),
                locked: Vec::new(),
                unapplied: false,
                left: 0,
                scratch: None,
                learner: Learner::new(),
            }
        }
    }

    /// Bytes allocated for merging.
    pub(super) fn memory(&self) -> usize {
        let queues = self.queues.iter().map(Q::memory).sum::<usize>();
        queues
            + self.queues.capacity() * size_of::<Q>()
            + self.places.capacity() * size_of::<usize>()
            + self.locked.capacity() * size_of::<usize>()
            + self.scratch.as_ref().map_or(0, Q::scratch_memory)
    }

    /// The queue that is exchanged for the slot's.
    pub(super) fn queue_of(&mut self, slot: usize, limits: Limits) -> &mut Q {
        if self.places.len() <= slot {
            self.places.resize(slot + 1, 0);
        }
        if self.places[slot] == 0 {
            self.queues.push(Q::new(limits));
            self.places[slot] = self.queues.len();
        }
        &mut self.queues[self.places[slot] - 1]
    }
}
