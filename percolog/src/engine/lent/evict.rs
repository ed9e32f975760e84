//! Taking queues back from objects, for others.

use super::cache::Cache;
use super::object::Lent;
use crate::cpu::{CoreId, Environment};
use crate::engine::gate::Door;
use crate::engine::queue::Queue;
use core::ptr::NonNull;

/// Another object that is in the way, and that this thread has taken. Given back when dropped.
pub(super) struct Eviction<'a, S> {
    object: NonNull<Lent<S>>,
    door: Door<'a>,
}

impl<'a, S: 'a> Eviction<'a, S> {
    /// Takes the object, if nobody has it.
    ///
    /// # Safety
    /// `object` is the tag of a place that is locked by the caller, or has been set aside in a side that is.
    pub(super) unsafe fn begin(object: NonNull<Lent<S>>) -> Option<Self> {
        // SAFETY: objects are alive while there is a tag of theirs, which the lock keeps there; and once this has succeeded their owners
        // wait for `end_eviction`.
        let door = unsafe { &*object.as_ptr() }.try_evict()?;
        Some(Self { object, door })
    }

    /// The object, which is alive as long as this is.
    fn object(&self) -> &Lent<S> {
        // SAFETY: the owner waits for the end of the eviction.
        unsafe { self.object.as_ref() }
    }
}

impl<S> Drop for Eviction<'_, S> {
    fn drop(&mut self) {
        // SAFETY: the owner waits for this.
        unsafe { Lent::end_eviction(self.object, self.door) };
    }
}

impl<S, Q: Queue<S>, E: Environment> Cache<S, Q, E> {
    /// Merges the object that is in the way, after which it has no queue. A panic of one of its operations
    /// poisons it and stays here; its queues are then taken all the same.
    pub(super) fn evict(&self, eviction: Eviction<'_, S>) {
        self.merge_contained(eviction.object());
        let side = &self.table(self.environment.slot()).side;
        side.lock().get().evictions += 1;
        drop(eviction);
    }

    /// Takes a queue from one of the slot's places, so that it can be lent to another; where all objects that
    /// have one are in use, makes one more than there should be.
    pub(super) fn free_a_queue(&self, slot: CoreId) {
        let table = self.table(slot);
        for _ in 0..table.places.len() {
            let mut side = table.side.lock();
            let at = side.get().hand % table.places.len();
            side.get().hand = at + 1;
            drop(side);
            let Some(place) = table.places.made(at) else {
                continue;
            };
            let mut held = place.lock();
            if let Some(tag) = held.get().tag {
                // SAFETY: it is the tag of a place that we have locked.
                let Some(eviction) = (unsafe { Eviction::begin(tag) }) else {
                    continue;
                };
                drop(held);
                self.evict(eviction);
                held = place.lock();
            }
            if held.get().tag.is_some() {
                continue;
            }
            if let Some(queue) = held.get().queue.take() {
                drop(held);
                table.side.lock().get().free.push(queue);
                return;
            }
        }
        let queue = self.new_queue();
        let mut side = table.side.lock();
        side.get().made += 1;
        side.get().free.push(queue);
    }
}
