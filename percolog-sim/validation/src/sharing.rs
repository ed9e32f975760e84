//! Data that every core changes: the reference count of Figures 3-3 and 4-2 and the list head of Figure 4-1 (thesis §3.4, §4.1,
//! §4.2).

use std::sync::atomic::{AtomicU64, Ordering};

use percolog::refcount::{CoreArc, Generation};

use super::alone::Alone;
use super::clock;
use super::crew::{self, CrewError, Shift, Work};
use super::locks::{Lock, TicketLock};

/// A generation and a count of references, packed in one word: the lock-free `dentry` of §4.2.
#[derive(Debug, Default)]
pub struct GuardedCount(AtomicU64);

/// The count is in the lower half.
const COUNT: u64 = u32::MAX as u64;

impl GuardedCount {
    /// The generation, as a path lookup reads it.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.load(Ordering::Acquire) >> 32
    }

    /// Takes a reference, unless the generation has changed.
    #[inline]
    pub fn take(&self, generation: u64) -> bool {
        // Acquire and release: as a reference count orders the uses of what it guards.
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
                (word >> 32 == generation).then_some(word + 1)
            })
            .is_ok()
    }

    /// The same with an addition that cannot fail, taken back if the generation has changed.
    #[inline]
    pub fn take_by_adding(&self, generation: u64) -> bool {
        // As in `take`.
        let is_same = self.0.fetch_add(1, Ordering::AcqRel) >> 32 == generation;
        if !is_same {
            self.give_by_adding();
        }
        is_same
    }

    /// Gives a reference back that [`take_by_adding`](Self::take_by_adding) has taken.
    #[inline]
    pub fn give_by_adding(&self) {
        let word = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(
            word & COUNT != 0,
            "a reference was given back that nobody had"
        );
    }

    /// Gives a reference back.
    #[inline]
    pub fn give(&self) {
        let given = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
                (word & COUNT != 0).then_some(word - 1)
            });
        debug_assert!(given.is_ok(), "a reference was given back that nobody had");
    }
}

/// A generation and a count under a spin lock: the `dentry` of Linux, as §3.4 has it.
#[derive(Debug, Default)]
struct LockedCount {
    lock: TicketLock,
    /// Both are written under the lock, and the generation is read without it.
    generation: Alone<AtomicU64>,
    count: AtomicU64,
}

impl LockedCount {
    /// Takes a reference, unless the generation has changed.
    fn take(&self, thread: usize, generation: u64) -> bool {
        self.lock.lock(thread);
        // Relaxed, all of them here and in `give`: the lock orders them.
        let is_same = self.generation.0.load(Ordering::Relaxed) == generation;
        if is_same {
            let count = self.count.load(Ordering::Relaxed);
            self.count.store(count + 1, Ordering::Relaxed);
        }
        self.lock.unlock(thread);
        is_same
    }

    /// Gives a reference back.
    fn give(&self, thread: usize) {
        self.lock.lock(thread);
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count - 1, Ordering::Relaxed);
        self.lock.unlock(thread);
    }
}

/// How references are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// Under a ticket lock: Figure 3-3.
    Locked,
    /// In one word with the generation: Figure 4-2.
    Packed,
    /// The same with additions in place of loads and compare-and-exchanges: these have the traffic of exchanges that succeed.
    Added,
    /// [`CoreArc`], taken on condition: "with OpLog" in Figure 4-2.
    Rows,
}

/// `stat` of one file, over and over: `work` cycles of its own, half of them while it has the reference.
///
/// # Errors
/// A thread could not be started, or references were lost.
pub fn references(shift: Shift, kind: ReferenceKind, work: u64) -> Result<Work, CrewError> {
    let (before, after) = (work / 2, work - work / 2);
    match kind {
        ReferenceKind::Locked => {
            let entry = LockedCount::default();
            percolog_roi::label(&entry, "lock and count");
            let done = crew::run(shift, |thread| {
                let entry = &entry;
                move || {
                    loop {
                        let generation = entry.generation.0.load(Ordering::Acquire);
                        if entry.take(thread, generation) {
                            break;
                        }
                    }
                    clock::spin(before);
                    entry.give(thread);
                    clock::spin(after);
                }
            })?;
            done.checked(entry.count.into_inner(), 0)
        }
        ReferenceKind::Packed => {
            let (take, give) = (GuardedCount::take, GuardedCount::give);
            packed(shift, [before, after], take, give)
        }
        ReferenceKind::Added => {
            let take = GuardedCount::take_by_adding;
            packed(shift, [before, after], take, GuardedCount::give_by_adding)
        }
        ReferenceKind::Rows => {
            let entry = CoreArc::into_hot(CoreArc::new(Alone(Generation::new())));
            percolog_roi::label(&*entry, "generation");
            let done = crew::run(shift, |_| {
                let entry = &entry;
                move || {
                    let reference = loop {
                        let taken = entry
                            .0
                            .current()
                            .and_then(|seen| CoreArc::clone_if(entry, &entry.0, seen));
                        if let Some(reference) = taken {
                            break reference;
                        }
                    };
                    clock::spin(before);
                    drop(reference);
                    clock::spin(after);
                }
            })?;
            done.checked(CoreArc::count(&entry) as u64, 1)
        }
    }
}

/// `stat` with a count in one word.
fn packed(
    shift: Shift,
    [before, after]: [u64; 2],
    take: impl Fn(&GuardedCount, u64) -> bool + Sync,
    give: impl Fn(&GuardedCount) + Sync,
) -> Result<Work, CrewError> {
    let entry = Alone(GuardedCount::default());
    percolog_roi::label(&entry.0, "generation and count");
    let done = crew::run(shift, |_| {
        let (entry, take, give) = (&entry.0, &take, &give);
        move || {
            loop {
                let generation = entry.generation();
                if take(entry, generation) {
                    break;
                }
            }
            clock::spin(before);
            give(entry);
            clock::spin(after);
        }
    })?;
    done.checked(entry.0.0.into_inner() & COUNT, 0)
}

/// `fork`, as far as the reverse map sees it: a node is pushed to each of `lists` lock-free lists, one for each file that the
/// process maps, with an equal part of `work` cycles before each. One operation is a push to each.
///
/// Nobody walks the lists in this benchmark. So that they do not grow without bounds, each thread pushes one node over and
/// over, and a list's head says how often there was a push.
///
/// # Errors
/// A thread could not be started, or a push was lost.
pub fn pushes(shift: Shift, work: u64, lists: u64) -> Result<Work, CrewError> {
    let heads: Vec<Alone<AtomicU64>> = (0..lists).map(|_| Alone::default()).collect();
    percolog_roi::label(&*heads, "heads of the lists");
    let done = crew::run(shift, |_| {
        let heads = &heads;
        let next = Box::new(Alone(AtomicU64::new(0)));
        move || {
            for head in heads {
                clock::spin(work / lists.max(1));
                push(&head.0, &next.0);
            }
        }
    })?;
    let pushed = heads.into_iter().map(|head| head.0.into_inner());
    done.checked(pushed.sum(), done.all * lists)
}

/// Pushes a node whose link is `next`.
///
/// The head only counts: an addition has the traffic of a compare-and-exchange that succeeds. "The reason is not due to repeated
/// failure and retry", says §4.1; and a queue served strictly in the order of arrival, as the simulator's, makes nearly every
/// exchange fail once there are a few who wait.
fn push(head: &AtomicU64, next: &AtomicU64) {
    let first = head.load(Ordering::Relaxed);
    // Relaxed: nobody follows the links.
    next.store(first, Ordering::Relaxed);
    head.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_generation_gives_no_reference() {
        let entry = GuardedCount(AtomicU64::new(7 << 32));
        assert!(!entry.take(6) && !entry.take_by_adding(6));
        assert!(entry.take(7) && entry.take_by_adding(7));
        assert_eq!(entry.generation(), 7);
        entry.give();
        entry.give_by_adding();
        assert_eq!(entry.0.into_inner(), 7 << 32);
    }
}
