//! The global page manager with a list of free frames, and a table of members, for each slot.
//!
//! A frame is in one list, or belongs to somebody, at any time, since there is one [`Frame`] of it. Nobody has two locks at once; so a
//! frame can be on its way from list to list, and in none.

use super::{Home, ask};
use crate::faults::error::OutOfMemory;
use crate::faults::memory::Frame;
use crate::faults::objects::{Attachment, Member, PageManager};
use crate::faults::{Alone, lock};
use percolog::clustered::{ObjectSection, Place, Root, Siblings};
use std::sync::{Arc, Mutex};

/// The root: what no slot has.
pub(in crate::faults) struct DistributedPool {
    overflow: Arc<Alone<Overflow>>,
}

struct Overflow {
    free: Mutex<Vec<Frame>>,
    /// Frames that a slot has at most.
    most: usize,
}

/// One slot's frames, and those who were made there.
pub(in crate::faults) struct SlotPool {
    number: usize,
    free: Mutex<Vec<Frame>>,
    members: Mutex<Vec<Member>>,
    overflow: Arc<Alone<Overflow>>,
    siblings: Siblings<Self>,
}

impl DistributedPool {
    /// All frames are free, and no slot's. A slot keeps up to `most`, and half as many move at a time.
    pub(in crate::faults) fn new(free: Vec<Frame>, most: usize) -> Self {
        Self {
            overflow: Arc::new(Alone(Overflow {
                free: Mutex::new(free),
                most: most.max(1),
            })),
        }
    }
}

impl Root for DistributedPool {
    type Interface = dyn PageManager;
    type Rep = SlotPool;

    fn create(&self, place: &Place<'_, SlotPool>) -> SlotPool {
        SlotPool {
            number: place.number(),
            // As long as it can become: it never moves.
            free: Mutex::new(Vec::with_capacity(self.overflow.0.most)),
            members: Mutex::default(),
            overflow: self.overflow.clone(),
            siblings: place.siblings(),
        }
    }

    fn interface(rep: &SlotPool) -> &Self::Interface {
        rep
    }
}

impl SlotPool {
    /// Free frames of this slot.
    #[cfg(test)]
    pub(in crate::faults) fn here(&self) -> usize {
        lock(&self.free).len()
    }

    fn batch(&self) -> usize {
        self.overflow.0.most.div_ceil(2)
    }

    /// The slot's list is empty: frames come from the overflow list, or from another slot.
    #[cold]
    fn refill(&self) -> Result<Frame, OutOfMemory> {
        let mut taken = {
            let mut overflow = lock(&self.overflow.0.free);
            let keep = overflow.len().saturating_sub(self.batch());
            overflow.split_off(keep)
        };
        if taken.is_empty() {
            taken = self.half_of_another();
        }
        let frame = taken.pop().ok_or(OutOfMemory)?;
        for other in taken {
            self.put(other);
        }
        Ok(frame)
    }

    fn half_of_another(&self) -> Vec<Frame> {
        let take = |pool: &Self| {
            let mut free = lock(&pool.free);
            let keep = free.len() / 2;
            free.split_off(keep)
        };
        self.siblings
            .visit(|all| {
                // Those behind this one first: who runs out at the same time does not ask the same one.
                let (before, behind): (Vec<_>, Vec<_>) =
                    all.iter().partition(|(number, _)| *number <= self.number);
                let mut others = behind.into_iter().chain(before);
                others.find_map(|(_, pool)| Some(take(pool)).filter(|taken| !taken.is_empty()))
            })
            .flatten()
            .unwrap_or_default()
    }

    fn put(&self, frame: Frame) {
        let spilled = {
            let mut free = lock(&self.free);
            let spilled = if free.len() >= self.overflow.0.most {
                let keep = free.len() - self.batch();
                free.split_off(keep)
            } else {
                Vec::new()
            };
            free.push(frame);
            spilled
        };
        if !spilled.is_empty() {
            lock(&self.overflow.0.free).extend(spilled);
        }
    }
}

impl Home for SlotPool {
    fn made_here(&self) -> &Mutex<Vec<Member>> {
        &self.members
    }

    fn siblings(&self) -> &Siblings<Self> {
        &self.siblings
    }
}

impl PageManager for SlotPool {
    fn allocate(&self, _: &ObjectSection) -> Result<Frame, OutOfMemory> {
        let own = lock(&self.free).pop();
        own.map_or_else(|| self.refill(), Ok)
    }

    fn give_back(&self, _: &ObjectSection, frame: Frame) {
        self.put(frame);
    }

    fn attach(&self, member: Member) -> Attachment {
        self.take_in(self.number, member)
    }

    fn detach(&self, attachment: Attachment) {
        self.let_go(attachment);
    }

    fn reclaim(&self, section: &ObjectSection, wanted: usize) -> usize {
        // Whoever is asked gives frames back here, and might be the first on its slot to do so: nobody is asked during the visit.
        ask(self.everybody(), section, wanted)
    }

    fn free(&self) -> usize {
        let in_slots = self
            .siblings
            .visit(|all| all.iter().map(|(_, pool)| lock(&pool.free).len()).sum())
            .unwrap_or(0);
        in_slots + lock(&self.overflow.0.free).len()
    }

    fn members(&self) -> usize {
        self.everybody().len()
    }
}
