//! One entry: what it is, where it is wanted, and where it really is.
//!
//! Everything that changes lies in one word, so that each change is one atomic step:
//!
//! | bits | meaning |
//! |---|---|
//! | `WANTED` | after all finished updates, the entry is in the container of its current record |
//! | `CURRENT` | which of the two records is the current one |
//! | `CLAIMED` | a thread is at work on what does not fit into the word; other updates wait |
//! | `QUEUED` × 2 | the record is in its container's log, and will be looked at |
//! | `HELD` × 2 | the record's container has the entry: there is a [`Member`](super::Member) |
//! | count, 24 bits | handles; each `QUEUED` and each `HELD` counts for one |
//! | version, 32 bits | how often a record was bound to a container |
//!
//! There are two records because a removal from one container may still be in its log when the entry is
//! inserted into another one. A record belongs to the container it was last bound to, and may be bound
//! anew when it is neither `QUEUED` nor `HELD`.
//!
//! **Invariant.** `WANTED` differs from `HELD` of the current record only while that record is `QUEUED`; and
//! a record is `QUEUED` only from an instant at which its container's next merge is certain to find it. So an
//! update that finds its record `QUEUED` has nothing to do but to change `WANTED`: that is how an insertion
//! and a removal cancel each other.
//!
//! The published code has a mark for each of two nodes and a mask of which are in use, exchanged one after
//! the other (`mark`, `used`, and `mark` once more behind the synchronizer's back). With one word there is
//! no "after": no update can fall between two exchanges, and an object cannot be freed between them.

use super::entry::{Entry, Member, UpdateError};
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::{Backoff, despite_panics};
use alloc::boxed::Box;
use core::ptr::NonNull;

pub(super) const WANTED: u64 = 1;
pub(super) const CURRENT: u64 = 1 << 1;
pub(super) const CLAIMED: u64 = 1 << 2;
pub(super) const QUEUED: [u64; 2] = [1 << 3, 1 << 4];
pub(super) const HELD: [u64; 2] = [1 << 5, 1 << 6];
pub(super) const ONE: u64 = 1 << 8;
const COUNT: u64 = 0xff_ffff << 8;
const VERSION: u64 = 1 << 32;

/// More handles than this are a leak. Half of what fits, so that the threads that are on the way to find
/// that out do not overflow the count.
const MOST: u64 = COUNT / 2;

/// On lines of its own: an entry that one thread updates shares no line with one that another does.
#[repr(C, align(64))]
pub(super) struct Node<T> {
    word: AtomicU64,
    records: [Record<T>; 2],
    item: T,
}

struct Record<T> {
    /// The container that it is bound to.
    home: AtomicU64,
    /// The next one in the log: a node, and in the lowest bit which of its records.
    next: AtomicPtr<Node<T>>,
    /// Where the container has put the entry, in its own words.
    position: AtomicU64,
}

impl<T> Record<T> {
    fn new() -> Self {
        Self {
            home: AtomicU64::new(0),
            next: AtomicPtr::new(core::ptr::null_mut()),
            position: AtomicU64::new(0),
        }
    }

    /// The next one in the log, asked by whoever has taken the record's chain.
    ///
    /// Relaxed: it was stored by who put the record into the chain, and came with the chain (`Chain::push`, `Open::take`).
    /// Nobody stores another one before the record has left the chain.
    #[cfg(not(percolog_loom))]
    fn next(&self) -> *mut Node<T> {
        self.next.load(Ordering::Relaxed)
    }

    /// loom makes sure of that: it objects to a store that is not certain to come behind this.
    #[cfg(percolog_loom)]
    fn next(&self) -> *mut Node<T> {
        // First in a step of its own, which others can come before. Relaxed: as above.
        let next = self.next.load(Ordering::Relaxed);
        // SAFETY: loom's own load, which looks for stores at the same time instead of being harmed by them.
        let again = unsafe { self.next.unsync_load() };
        assert_eq!(next, again);
        next
    }
}

/// What an update has to do to an entry whose word is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Its record is in the log already: exchange the word for this one, and that is all.
    InPlace(u64),
    /// Exchange the word for this one and put this record into the log.
    Queue(u64, usize),
    /// Bind this record to the container first.
    Bind(usize),
    /// Wait for the thread that has claimed the entry.
    Wait,
}

impl<T> Node<T> {
    /// With one handle.
    pub(super) fn allocate(item: T) -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(Self {
            word: AtomicU64::new(ONE),
            records: [Record::new(), Record::new()],
            item,
        })))
    }

    pub(super) fn item(&self) -> &T {
        &self.item
    }

    /// Exchanges the item; the old one is dropped.
    pub(super) fn replace(&mut self, item: T) {
        self.item = item;
    }

    /// Acquire: pairs with every change of the word, so that what was done before a change is seen by
    /// whoever sees the change: a record's home, its position, its slot's mark.
    pub(super) fn load(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Acquire for the reason given at [`load`](Self::load), Release for the other side of it.
    pub(super) fn exchange(&self, old: u64, new: u64) -> bool {
        self.word
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Changes the word as `f` says, and returns what it was before.
    pub(super) fn change(&self, mut f: impl FnMut(u64) -> u64) -> u64 {
        let mut word = self.load();
        loop {
            // As in `exchange`; Acquire also on failure, since `f` judges what it gets.
            match self.word.compare_exchange_weak(
                word,
                f(word),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return word,
                Err(now) => word = now,
            }
        }
    }

    /// Which record is the current one.
    pub(super) const fn current(word: u64) -> usize {
        (word & CURRENT != 0) as usize
    }

    pub(super) const fn is_wanted(word: u64, record: usize) -> bool {
        word & WANTED != 0 && Self::current(word) == record
    }

    /// Relaxed: a home is written under a claim, and read after a load of the word that has seen the
    /// claim's end, or one before it; then the exchange that follows fails, since binding changes the
    /// version.
    fn home(&self, record: usize) -> u64 {
        self.records[record].home.load(Ordering::Relaxed)
    }

    /// Which container the entry is in, after all finished updates.
    pub(super) fn wanted_in(&self, word: u64) -> Option<u64> {
        (word & WANTED != 0).then(|| self.home(Self::current(word)))
    }

    /// The word for an update that has nothing to do but to exchange it, and undoes the one before: an insertion into container `home`, or
    /// a removal from it, of an entry whose current record is in the log there. It is what [`step`](Self::step) says of these, without the
    /// questions that only others need an answer to.
    #[inline(always)]
    pub(super) fn cancelling(&self, word: u64, home: u64, insert: bool) -> Option<u64> {
        let current = Self::current(word);
        let before = if insert { 0 } else { WANTED };
        let is_queued = word & (QUEUED[current] | CLAIMED | WANTED) == QUEUED[current] | before;
        (is_queued && self.home(current) == home).then_some(word ^ WANTED)
    }

    /// What an update of an entry whose word is `word` has to do: an insertion into container `home`, or a
    /// removal from it.
    pub(super) fn step(&self, word: u64, home: u64, insert: bool) -> Result<Step, UpdateError> {
        if word & CLAIMED != 0 {
            return Ok(Step::Wait);
        }
        let current = Self::current(word);
        let is_here = self.home(current) == home;
        let (new, record) = if !insert {
            if word & WANTED == 0 || !is_here {
                return Err(UpdateError::Absent);
            }
            (word & !WANTED, current)
        } else if word & WANTED != 0 {
            return Err(if is_here {
                UpdateError::Present
            } else {
                UpdateError::Elsewhere
            });
        } else if is_here {
            (Self::wanted(word, current), current)
        } else if self.home(current ^ 1) == home {
            (Self::wanted(word, current ^ 1), current ^ 1)
        } else if word & (QUEUED[current] | HELD[current]) == 0 {
            return Ok(Step::Bind(current));
        } else if word & (QUEUED[current ^ 1] | HELD[current ^ 1]) == 0 {
            return Ok(Step::Bind(current ^ 1));
        } else {
            return Err(UpdateError::Leaving);
        };
        Ok(if word & QUEUED[record] != 0 {
            Step::InPlace(new)
        } else {
            Step::Queue((new | QUEUED[record]) + ONE, record)
        })
    }

    /// Binds a free record to a container, if the word is still `word`. The claim keeps others from
    /// binding it at the same time; it is held for two stores.
    pub(super) fn bind(&self, word: u64, record: usize, home: u64) {
        if !self.exchange(word, word | CLAIMED) {
            return;
        }
        // Relaxed, both: published by the change of the word that follows.
        self.records[record].home.store(home, Ordering::Relaxed);
        self.records[record].position.store(0, Ordering::Relaxed);
        self.change(|word| {
            let word = Self::wanted(word & !CLAIMED, record) & !WANTED;
            // Beyond the highest bit nothing is carried to.
            word.wrapping_add(VERSION)
        });
    }

    /// The word of an entry that is wanted in the container of `record`.
    const fn wanted(word: u64, record: usize) -> u64 {
        (word & !CURRENT) | WANTED | if record == 1 { CURRENT } else { 0 }
    }

    /// Ends a claim, and with it inserts the entry, whose record is in the log. If it is not any more, the
    /// claim ends and nothing else has happened.
    pub(super) fn insert_in_place(&self, record: usize) -> bool {
        let before = self.change(|word| {
            if word & QUEUED[record] != 0 {
                Self::wanted(word & !CLAIMED, record)
            } else {
                word & !CLAIMED
            }
        });
        before & QUEUED[record] != 0
    }

    /// Ends a claim, and with it inserts the entry, whose record is about to be put into the log.
    pub(super) fn insert_queued(&self, record: usize) {
        self.change(|word| (Self::wanted(word & !CLAIMED, record) | QUEUED[record]) + ONE);
    }

    /// Ends a claim.
    ///
    /// Release: pairs with [`load`](Self::load); whoever finds the entry unclaimed sees what was done under
    /// the claim.
    pub(super) fn unclaim(&self) {
        self.word.fetch_and(!CLAIMED, Ordering::Release);
    }

    /// Waits until nobody claims the entry.
    #[cold]
    pub(super) fn wait(&self) {
        let mut backoff = Backoff::new();
        while self.load() & CLAIMED != 0 {
            backoff.wait();
        }
    }

    /// Takes a record out of its log, with the handle that the log had, if there is nothing to be done about it: it is not wanted where it
    /// is not. Returns whether that was the last handle; `None` if there is something to be done, and nothing has changed.
    ///
    /// After that the record may be in another log, and the node gone unless this was the last handle: then it is the caller's.
    fn leave_unless_due(&self, record: usize) -> Option<bool> {
        let mut word = self.load();
        loop {
            if Self::is_wanted(word, record) || word & HELD[record] != 0 {
                return None;
            }
            // As in `change`; Acquire also pairs with the Release of the handles that were dropped, for whoever frees the node.
            match self.word.compare_exchange_weak(
                word,
                (word & !QUEUED[record]) - ONE,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(word & COUNT == ONE),
                Err(now) => word = now,
            }
        }
    }

    /// Relaxed, here and in `set_position`: written by who holds the record's container, and read by
    /// the next one, or by who binds the record anew after having seen it free.
    pub(super) fn position(&self, record: usize) -> u64 {
        self.records[record].position.load(Ordering::Relaxed)
    }

    pub(super) fn set_position(&self, record: usize, position: u64) {
        self.records[record]
            .position
            .store(position, Ordering::Relaxed);
    }

    /// Whether there is a single handle, and no container or log has the entry.
    ///
    /// Acquire: pairs with the Release of the handles that were dropped.
    pub(super) fn is_alone(&self) -> bool {
        self.word.load(Ordering::Acquire) & (COUNT | 0xff) & !CURRENT == ONE
    }

    /// One handle more.
    ///
    /// # Panics
    /// If there are more than eight million, with nothing changed.
    pub(super) fn retain(&self) {
        // Relaxed: the caller has a handle, and passes the new one on by its own means.
        let before = self.word.fetch_add(ONE, Ordering::Relaxed);
        if before & COUNT > MOST {
            self.word.fetch_sub(ONE, Ordering::Relaxed);
            panic!("percolog: more than eight million handles of one entry");
        }
    }

    /// One handle less, and the end of the node if it was the last.
    ///
    /// # Safety
    /// The caller gives up a handle, and does not use the node through it any more.
    pub(super) unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the handle that is being given up keeps the node until here.
        // Release: pairs with the Acquire below, so that the node is freed after everybody's last use.
        let before = unsafe { this.as_ref() }
            .word
            .fetch_sub(ONE, Ordering::Release);
        if before & COUNT == ONE {
            // Acquire: pairs with the Release of all others, which precede this in the word's order. (A fence would do
            // as well, but ThreadSanitizer knows nothing of fences.)
            // SAFETY: it was the last handle, so the node is still there.
            unsafe { this.as_ref() }.word.load(Ordering::Acquire);
            // SAFETY: it was the last handle; the node came from `Box::leak`.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// The item, of a node that is nobody else's.
    ///
    /// # Safety
    /// [`is_alone`](Self::is_alone) held while the caller owned the one handle, which this takes.
    pub(super) unsafe fn into_item(this: NonNull<Self>) -> T {
        // SAFETY: as the caller says; the node came from `Box::leak`.
        unsafe { Box::from_raw(this.as_ptr()) }.item
    }
}

/// A record that is in a log or on its way there; it owns one of its node's counts.
pub(super) struct Ticket<T> {
    pub(super) node: NonNull<Node<T>>,
    pub(super) record: usize,
}

// SAFETY: a ticket is a handle: it shares the item with the entry's other handles (`Sync`), and may be
// the last one, which drops it (`Send`).
unsafe impl<T: Send + Sync> Send for Ticket<T> {}

impl<T> Ticket<T> {
    /// What the container that the record is bound to has to do, now that the record has left its log.
    pub(super) fn settle(self) -> Due<T> {
        let Self { node, record } = self;
        // SAFETY: the ticket keeps the node.
        let before = unsafe { node.as_ref() }.change(|word| {
            let word = word & !QUEUED[record];
            if Node::<T>::is_wanted(word, record) {
                word | HELD[record]
            } else {
                word
            }
        });
        let is_held = before & HELD[record] != 0;
        // The ticket's count goes over to the member or to the handle.
        match (Node::<T>::is_wanted(before, record), is_held) {
            (true, false) => Due::Insert(Member { node, record }),
            (true, true) => Due::Keep(Entry { node }, record),
            (false, true) => Due::Remove(Entry { node }, record),
            (false, false) => Due::Nothing(Entry { node }),
        }
    }

    /// Takes the record out of the log of a container that is going away: what it stood for has not
    /// happened.
    fn discard(self) {
        let Self { node, record } = self;
        // SAFETY: the ticket keeps the node.
        unsafe { node.as_ref() }.change(|word| {
            let unwanted = Node::<T>::is_wanted(word, record) && word & HELD[record] == 0;
            word & !QUEUED[record] & if unwanted { !WANTED } else { !0 }
        });
        drop(Entry { node });
    }

    /// The pointer that links know: which record stands in the lowest bit.
    fn link(&self) -> *mut Node<T> {
        self.node.as_ptr().map_addr(|address| address | self.record)
    }
}

/// What a container has to do about an entry.
pub(super) enum Due<T> {
    /// Take it in.
    Insert(Member<T>),
    /// Nothing but to note that it has been removed and inserted again.
    Keep(Entry<T>, usize),
    /// Give it up.
    Remove(Entry<T>, usize),
    /// Nothing: it came and went between two merges.
    Nothing(Entry<T>),
}

/// A chain of tickets, newest first. What is in it when it is dropped is as if it had never been asked for.
pub(super) struct Chain<T> {
    first: *mut Node<T>,
    length: usize,
}

// SAFETY: a chain is its tickets.
unsafe impl<T: Send + Sync> Send for Chain<T> {}

impl<T> Chain<T> {
    pub(super) const fn new() -> Self {
        Self {
            first: core::ptr::null_mut(),
            length: 0,
        }
    }

    /// # Safety
    /// `first` begins a chain of `length` tickets, which this one then owns.
    unsafe fn from_links(first: *mut Node<T>, length: usize) -> Self {
        Self { first, length }
    }

    pub(super) const fn len(&self) -> usize {
        self.length
    }

    #[inline]
    pub(super) fn push(&mut self, ticket: Ticket<T>) {
        // SAFETY: the ticket keeps the node.
        let node = unsafe { ticket.node.as_ref() };
        // Relaxed: read by who gets the chain, by means of the slot's lock.
        node.records[ticket.record]
            .next
            .store(self.first, Ordering::Relaxed);
        self.first = ticket.link();
        self.length += 1;
    }

    /// Takes the newest one out. The link is read before the ticket leaves the chain, and so before its
    /// record can be put into another one.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Ticket<T>> {
        let ticket = Self::ticket(self.first)?;
        // SAFETY: the ticket in the chain keeps the node.
        self.first = unsafe { ticket.node.as_ref() }.records[ticket.record].next();
        self.length -= 1;
        Some(ticket)
    }

    /// Takes the tickets out for which [`settle`](Ticket::settle) would say that nothing is due.
    pub(super) fn sweep(&mut self) -> Swept<T> {
        let mut swept = Swept {
            first: core::ptr::null_mut(),
        };
        let mut kept: Option<Ticket<T>> = None;
        let mut at = self.first;
        while let Some(ticket) = Self::ticket(at) {
            // SAFETY: the ticket in the chain keeps the node.
            let node = unsafe { ticket.node.as_ref() };
            // Before the record leaves the chain, and can be put into another one.
            at = node.records[ticket.record].next();
            let Some(is_last) = node.leave_unless_due(ticket.record) else {
                kept = Some(ticket);
                continue;
            };
            self.length -= 1;
            match &kept {
                None => self.first = at,
                // SAFETY: as above, of one that has stayed.
                // Relaxed: see `push`.
                Some(kept) => unsafe { kept.node.as_ref() }.records[kept.record]
                    .next
                    .store(at, Ordering::Relaxed),
            }
            if is_last {
                swept.push(ticket.node);
            }
        }
        swept
    }

    /// The ticket that a link leads to.
    #[inline(always)]
    fn ticket(link: *mut Node<T>) -> Option<Ticket<T>> {
        let record = link.addr() & 1;
        let node = NonNull::new(link.map_addr(|address| address & !1))?;
        Some(Ticket { node, record })
    }

    /// The same tickets, oldest first.
    pub(super) fn reversed(mut self) -> Self {
        let mut other = Self::new();
        while let Some(ticket) = self.pop() {
            other.push(ticket);
        }
        other
    }

    /// Everything of `other` before what is here.
    pub(super) fn prepend(&mut self, other: Self) {
        let mut other = other.reversed();
        while let Some(ticket) = other.pop() {
            self.push(ticket);
        }
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        despite_panics(core::iter::from_fn(|| self.pop()), Ticket::discard);
    }
}

/// Nodes without a handle, to be freed when this is dropped.
pub(super) struct Swept<T> {
    first: *mut Node<T>,
}

impl<T> Swept<T> {
    /// Takes over a node that nobody else has any more.
    fn push(&mut self, node: NonNull<Node<T>>) {
        // SAFETY: whoever gave up the last handle left the node to us.
        // Relaxed: nobody else reads it.
        unsafe { node.as_ref() }.records[0]
            .next
            .store(self.first, Ordering::Relaxed);
        self.first = node.as_ptr();
    }
}

impl<T> Drop for Swept<T> {
    fn drop(&mut self) {
        let nodes = core::iter::from_fn(|| {
            let node = NonNull::new(self.first)?;
            // SAFETY: it is ours, and came from `Box::leak`.
            let node = unsafe { Box::from_raw(node.as_ptr()) };
            self.first = node.records[0].next();
            Some(node)
        });
        despite_panics(nodes, drop);
    }
}

/// The published "global queue": one list into which every thread pushes without a lock, and which whoever
/// merges takes as a whole.
///
/// A push moves the list's line to the pusher. So updates that enqueue meet; those that cancel do not.
pub(super) struct Open<T> {
    first: AtomicPtr<Node<T>>,
    length: AtomicU64,
}

impl<T> Open<T> {
    crate::sync::const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                first: AtomicPtr::new(core::ptr::null_mut()),
                length: AtomicU64::new(0),
            }
        }
    }

    /// Relaxed: a figure. It is exact when nobody pushes.
    pub(super) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed) as usize
    }

    /// Acquire: whoever finds it empty has seen what the one who took it last had seen.
    pub(super) fn is_empty(&self) -> bool {
        self.first.load(Ordering::Acquire).is_null()
    }

    /// Lock-free.
    pub(super) fn push(&self, ticket: &Ticket<T>) {
        // SAFETY: the ticket keeps the node.
        let node = unsafe { ticket.node.as_ref() };
        // Relaxed: a figure, counted before, so that it never falls below zero.
        self.length.fetch_add(1, Ordering::Relaxed);
        // Relaxed: only compared and passed on.
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange below.
            node.records[ticket.record]
                .next
                .store(first, Ordering::Relaxed);
            // Release: pairs with the Acquire in `take`, and publishes the link. A list that is only ever
            // taken as a whole knows no ABA: if the first is what it was, the link to it is right.
            match self.first.compare_exchange_weak(
                first,
                ticket.link(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes everything, oldest first. Of two threads that take, each gets what the other has not.
    pub(super) fn take(&self) -> Chain<T> {
        if self.is_empty() {
            return Chain::new();
        }
        // Acquire: pairs with the Release of every push in the list (each continues the others' release
        // sequence, being an atomic update). Release: pairs with the Acquire in `is_empty`; whoever finds the
        // list empty must see the mark of the slot whose log it went to.
        let mut at = self.first.swap(core::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: what was pushed is ours now. The length is set right below.
        let mut newest_first = unsafe { Chain::from_links(at, usize::MAX) };
        let mut oldest_first = Chain::new();
        while !at.is_null() {
            let Some(ticket) = newest_first.pop() else {
                unreachable!("the link is not null")
            };
            at = newest_first.first;
            oldest_first.push(ticket);
        }
        // Relaxed: a figure.
        self.length
            .fetch_sub(oldest_first.len() as u64, Ordering::Relaxed);
        oldest_first
    }
}
