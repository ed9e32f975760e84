//! Per-core lists with work stealing.
//!
//! The accept backlogs and the free lists of S. Boyd-Wickizer et al., *An Analysis of Linux Scalability to Many Cores*, OSDI 2010,
//! §4.2 and §4.5.
//!
//! # Why an empty answer is true
//!
//! Looking at one list after the other is not enough: the first one looked at may get an item while the last one loses its
//! only one, and the list as a whole was never empty. So each list counts what was ever pushed to it and what was ever popped,
//! and a look has two passes. The first one finds each list empty, and adds up what was pushed to them until then; the second one
//! adds up again. Numbers of pushes only grow, so if the sums are equal nothing was pushed to a list between the moment when the
//! first pass found it empty and the moment when the second came by; and the moment between the two passes is one at which all
//! lists were empty. If they are not equal, somebody has pushed, and the look starts anew.
//!
//! In terms of what happens before what, for processors that have no "moment": take all pushes and pops that the first pass has
//! counted. A push that happened before one of them, on whatever list, is seen by the second pass at the latest, since reading
//! a count (Acquire) that was stored after the change (Release) makes everything before it visible; as the sums are equal,
//! the first pass had counted it too. Each counted push has its pop among those counted. So these are a past in which the list is
//! empty, and the answer belongs at its end.

#[cfg(all(test, percolog_loom))]
mod models;
mod ring;

use self::ring::Ring;
use crate::cpu::{self, CoreId, Environment, Native, PerCore};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Isolated, SlotGuard, SlotLock, const_fn};
use alloc::vec::Vec;
use core::fmt;

/// A list with a part for each core, and work stealing.
///
/// Before: one list behind one lock, whose line goes from core to core with each connection.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Mutex;
///
/// static BACKLOG: Mutex<VecDeque<u32>> = Mutex::new(VecDeque::new());
///
/// BACKLOG.lock().expect("nobody panics").push_back(7); // a connection comes in
/// let connection = BACKLOG.lock().expect("nobody panics").pop_front(); // and is accepted
/// assert_eq!(connection, Some(7));
/// ```
///
/// After: whoever accepts on the core that the connection came in on touches that core's list alone.
///
/// ```
/// use percolog::collections::PerCoreList;
///
/// static BACKLOG: PerCoreList<u32> = PerCoreList::new();
///
/// BACKLOG.push(7);
/// // Another thread, on whatever core, finds it as well.
/// let accepted = std::thread::spawn(|| BACKLOG.pop());
/// assert_eq!(accepted.join().expect("nobody panics"), Some(7));
/// assert_eq!(BACKLOG.pop(), None);
/// ```
///
/// # Contract
///
/// **No item is lost, and none is handed out twice.** Each one that was pushed is popped once, is in one [`take_all`](Self::take_all),
/// or is dropped with the list.
///
/// **Order.** Within a core's list items are in the order in which they were pushed; [`pop`](Self::pop) and thefts take the oldest,
/// [`pop_newest`](Self::pop_newest) the newest of one's own. *Between* cores there is no order: an item can be popped before
/// another one that was pushed earlier to another core's list.
///
/// **Empty means empty.** `None` from [`pop`](Self::pop) or [`pop_newest`](Self::pop_newest), and `true` from
/// [`is_empty`](Self::is_empty), say that at one moment during the call no list had an item: an item whose push had returned
/// before the call, and that nobody else takes, is found. Pushing, popping and these answers are linearizable, as operations on a
/// bag. [`pop_own`](Self::pop_own) says so of one's own list only, and [`estimate_len`](Self::estimate_len) says nothing about a
/// moment.
///
/// # Cost
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`push`](Self::push), [`pop_own`](Self::pop_own); [`pop`](Self::pop) and [`pop_newest`](Self::pop_newest) that find something in their own list | blocking for a few instructions: a thread that lost its processor in the middle of one, or a thief, can hold this core's list | none, unless another core has looked at this list since |
/// | [`pop`](Self::pop) that steals | the same, for the other list; its looks are lock-free | a line of each list looked at, and two or three of the one that has something |
/// | [`pop`](Self::pop) that finds nothing | lock-free: goes round again only if somebody has pushed meanwhile | a line of each core's list that anything was ever pushed to |
/// | [`is_empty`](Self::is_empty), [`estimate_len`](Self::estimate_len) | lock-free, wait-free | the same |
/// | [`len`](Self::len), [`take_all`](Self::take_all) | blocking; hold all lists at once, for as long as it takes to lock them | the same |
///
/// *Allocations:* a core's list doubles its memory when it is full, and keeps it until [`take_all`](Self::take_all); a push or pop
/// allocates nothing otherwise. An item of a type without a niche takes as much as its `Option`.
///
/// *Sustained ceiling:* none, as long as cores pop what they push: nothing is deferred and nothing is merged. If all items come
/// in on one core and are popped on others, that core's list is the one lock that there was before.
///
/// # What not to use it for
///
/// Queues in which order between producers matters: `crossbeam-channel`. Consumers that wait: this list wakes nobody. Work of which
/// a thief should take many at a time: `crossbeam-deque`.
pub struct PerCoreList<T, E = Native> {
    slots: PerCore<Slot<T>>,
    /// Taken by those who hold all lists at once, so that two of them do not wait for each other: a list that a core touches
    /// first meanwhile can have a smaller number than those held.
    whole: Isolated<SlotLock<()>>,
    environment: E,
}

/// A core's list; what a push or pop touches of it is one line, and the item's.
#[derive(Debug)]
#[repr(C)]
struct Slot<T> {
    items: SlotLock<Ring<T>>,
    /// How many items were ever pushed here, and popped. Changed under the lock, read without. They wrap around: a look
    /// is misled if a multiple of as many items as there are addresses come and go between its two passes.
    pushed: AtomicUsize,
    popped: AtomicUsize,
}

/// Which of its own items a core pops.
#[derive(Clone, Copy)]
enum Which {
    Oldest,
    Newest,
}

/// The lock, where the items are, and the counts: on a machine whose lines have 64 bytes, one of them.
#[cfg(all(target_pointer_width = "64", not(percolog_loom)))]
const _: () = assert!(size_of::<Slot<[u64; 100]>>() <= 64);

impl<T> Slot<T> {
    fn new() -> Self {
        Self {
            items: SlotLock::new(Ring::new()),
            pushed: AtomicUsize::new(0),
            popped: AtomicUsize::new(0),
        }
    }

    #[inline]
    fn push(&self, item: T) {
        let mut items = self.items.lock();
        items.get().push_newest(item);
        count(&self.pushed, 1);
    }

    #[inline]
    fn pop(&self, which: Which) -> Option<T> {
        let mut items = self.items.lock();
        let item = match which {
            Which::Oldest => items.get().pop_oldest(),
            Which::Newest => items.get().pop_newest(),
        }?;
        count(&self.popped, 1);
        Some(item)
    }

    /// How many items there are, and how many were ever pushed.
    ///
    /// If the answer is none, the list was empty when the first of the two was read, and nothing was pushed until the second was.
    fn look(&self) -> (usize, usize) {
        // Acquire, both, pair with the Release in `count`, see the module. In this order: each item counted as popped was counted
        // as pushed before, so the difference is not negative, and not zero while there is an item.
        let popped = self.popped.load(Ordering::Acquire);
        let pushed = self.pushed.load(Ordering::Acquire);
        (pushed.wrapping_sub(popped), pushed)
    }

    /// Takes the oldest item, or says how many had been pushed when there was none.
    fn steal(&self) -> Result<T, usize> {
        // A look first: taking the lock would pull the line away from its owner, for nothing.
        let (length, pushed) = self.look();
        if length == 0 {
            return Err(pushed);
        }
        // Relaxed: who finds nothing has taken the lock after those who changed the count.
        self.pop(Which::Oldest)
            .ok_or_else(|| self.pushed.load(Ordering::Relaxed))
    }
}

/// Counts under the list's lock, which makes a load and a store enough.
#[inline]
fn count(counter: &AtomicUsize, more: usize) {
    // Relaxed: the last value was stored under the same lock.
    let before = counter.load(Ordering::Relaxed);
    // Release pairs with the Acquire loads in `look`.
    counter.store(before.wrapping_add(more), Ordering::Release);
}

impl<T> PerCoreList<T> {
    const_fn! {
        /// Creates an empty list. Allocates nothing; usable in statics.
        #[must_use]
        pub const fn new() -> Self {
            Self::new_in(Native)
        }
    }
}

impl<T, E> PerCoreList<T, E> {
    const_fn! {
        /// An empty list in an environment of its own: for tests that say which core they are on.
        #[doc(hidden)]
        #[must_use]
        pub const fn new_in(environment: E) -> Self {
            Self {
                slots: PerCore::new(),
                whole: Isolated::new(SlotLock::new(())),
                environment,
            }
        }
    }
}

impl<T, E: Environment> PerCoreList<T, E> {
    /// Pushes an item to this core's list, behind all others there.
    ///
    /// See [the type](Self#cost) for progress and cost.
    #[inline]
    pub fn push(&self, item: T) {
        let slot = self.environment.slot();
        cpu::without_preemption(|| self.slots.get_or_make(slot, Slot::new).push(item));
    }

    /// Pops the oldest item of this core's list; if that is empty, the oldest one of another core's.
    ///
    /// `None`: at one moment during the call there was no item in any list. Other cores' lists are looked at in the order of
    /// their numbers, beginning behind this core's, so that thieves on different cores do not all come to the same list.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        self.pop_or_steal(Which::Oldest)
    }

    /// Pops the newest item of this core's list, whose memory is probably still in this core's cache; if the list is empty, the
    /// *oldest* one of another core's, whose memory is probably in no cache any more. For free lists.
    ///
    /// ```
    /// use percolog::collections::PerCoreList;
    ///
    /// /// Buffers to be used again.
    /// static FREE: PerCoreList<Box<[u8; 2048]>> = PerCoreList::new();
    ///
    /// let buffer = FREE.pop_newest().unwrap_or_else(|| Box::new([0; 2048]));
    /// FREE.push(buffer);
    /// assert_eq!(FREE.len(), 1);
    /// ```
    #[inline]
    pub fn pop_newest(&self) -> Option<T> {
        self.pop_or_steal(Which::Newest)
    }

    /// Pops the oldest item of this core's list, and looks at no other.
    #[inline]
    pub fn pop_own(&self) -> Option<T> {
        self.pop_from(self.environment.slot(), Which::Oldest)
    }

    #[inline]
    fn pop_or_steal(&self, which: Which) -> Option<T> {
        let slot = self.environment.slot();
        self.pop_from(slot, which).or_else(|| self.steal(slot))
    }

    #[inline]
    fn pop_from(&self, slot: CoreId, which: Which) -> Option<T> {
        cpu::without_preemption(|| self.slots.touched(slot)?.pop(which))
    }

    #[inline(never)]
    fn steal(&self, slot: CoreId) -> Option<T> {
        loop {
            let mut pushed = 0usize;
            for list in self.lists_behind(slot) {
                match cpu::without_preemption(|| list.steal()) {
                    Ok(item) => return Some(item),
                    Err(so_many) => pushed = pushed.wrapping_add(so_many),
                }
            }
            if self.pushed() == pushed {
                return None;
            }
        }
    }

    /// All lists, beginning behind that of a slot.
    fn lists_behind(&self, slot: CoreId) -> impl Iterator<Item = &Slot<T>> {
        let end = self.slots.end();
        let start = (slot.place() + 1).min(end);
        (start..end)
            .chain(0..start)
            .filter_map(|place| self.slots.touched(CoreId::new(place as u32)))
    }

    /// How many items were ever pushed.
    fn pushed(&self) -> usize {
        self.slots.iter().fold(0, |sum, (_, list)| {
            // Acquire pairs with the Release in `count`: this is the second pass, see the module.
            sum.wrapping_add(list.pushed.load(Ordering::Acquire))
        })
    }

    /// Returns whether there was no item in any list, at one moment during the call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        loop {
            let mut all = 0usize;
            for (_, list) in self.slots.iter() {
                let (length, pushed) = list.look();
                if length != 0 {
                    return false;
                }
                all = all.wrapping_add(pushed);
            }
            if self.pushed() == all {
                return true;
            }
        }
    }

    /// About how many items there are: each list is counted as it is when it is looked at. Exact while nobody pushes or pops.
    #[must_use]
    pub fn estimate_len(&self) -> usize {
        self.slots.iter().map(|(_, list)| list.look().0).sum()
    }

    /// Returns the number of items, at one moment during the call.
    ///
    /// *Allocates*, and keeps all cores from their lists for as long as it takes to lock them: [`estimate_len`](Self::estimate_len)
    /// does not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hold(|_, items| items.len()).into_iter().sum()
    }

    /// Takes all items that there are at one moment during the call: those of each core's list oldest first, and one list after
    /// the other. The lists' memory is given up.
    pub fn take_all(&self) -> Vec<T> {
        let taken = self.hold(|list, items| {
            count(&list.popped, items.len());
            items.take()
        });
        let mut all = Vec::with_capacity(taken.iter().map(Ring::len).sum());
        // Not before the locks are released: this takes as long as there are items.
        all.extend(taken.into_iter().flatten());
        all
    }

    /// Calls `f` for each list while all of them are held.
    ///
    /// It is one moment: what was done to a list before we took its lock is seen, what is done afterwards is not. If an
    /// operation that is not seen happened before one that is, on another list, then its list had been touched before the other was
    /// locked, and the pass over the lists that follows each locking would have found it.
    fn hold<R>(&self, mut f: impl FnMut(&Slot<T>, &mut Ring<T>) -> R) -> Vec<R> {
        cpu::without_preemption(|| {
            let _whole = self.whole.lock();
            let mut held: Vec<Option<SlotGuard<'_, Ring<T>>>> = Vec::new();
            loop {
                let mut is_complete = true;
                for (slot, list) in self.slots.iter() {
                    if held.len() <= slot.index() {
                        held.resize_with(slot.index() + 1, || None);
                    }
                    if held[slot.index()].is_none() {
                        held[slot.index()] = Some(list.items.lock());
                        is_complete = false;
                    }
                }
                if is_complete {
                    break;
                }
            }
            let lists = self.slots.iter();
            lists
                .filter_map(|(slot, list)| {
                    // A list that was touched since is not among them.
                    let items = held.get_mut(slot.index())?.as_mut()?;
                    Some(f(list, items.get()))
                })
                .collect()
        })
    }
}

impl<T, E: Environment> Extend<T> for &PerCoreList<T, E> {
    /// Pushes one item after the other, each to the list of the core that the thread is on then.
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T> Default for PerCoreList<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, E: Environment> fmt::Debug for PerCoreList<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCoreList")
            .field("estimate_len", &self.estimate_len())
            .finish_non_exhaustive()
    }
}
