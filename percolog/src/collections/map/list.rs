//! The list that both structures are: its nodes, the way through it, and how it is changed.
//!
//! Nodes are linked one way, in the order of a number, and among equal numbers in that of a comparison. Each has a
//! [`NodeLock`]. **Sentinels** have even numbers, no key, and are never freed: the head, and the buckets of a map.
//! **Entries** have odd numbers.
//!
//! # Invariants
//!
//! 1. A node's link is written by the holder of its lock only, and not any more once the node has been freed. So a link that is
//!    read under the lock of a node that is not freed is that of the list.
//! 2. A node is freed in the step in which its lock is released for the last time, after it was taken out, and nobody takes a node
//!    out who does not hold its lock and that of the node before it. So *not freed, and I hold its lock* means *in the list*.
//! 3. Nodes never change places: of two nodes that are in the list at the same time, the same one is always the first. What
//!    replaces a node takes its place.
//! 4. Several locks are taken from the back to the front of the list, so threads do not wait for each other in a circle.
//!
//! # Why a walk is right that takes no lock
//!
//! *What it stands on is there*: it was in the list when it was found, or later than the beginning of the section; so the section
//! keeps it. Its link leads to what is there as well, by the next argument, also if the node was freed since.
//!
//! *Each node of a walk has been in the list during the walk, right behind the one before it, and these moments follow one
//! another.* Let the walk go from *a*, which was in the list at its moment, to *b*, which *a*'s link leads to when it is read. If
//! *a* is in the list then, *b* is right behind it at that moment. If *a* was taken out before that, its link has been what it is
//! now since then (invariant 1): *b* was right behind *a* just before *a* was taken out, and in the list just after, and that is
//! *b*'s moment. It lies behind *a*'s moment, for *a* was in the list then. A section keeps what was in the list at any moment
//! since it began, so *b* is there.
//!
//! *A walk passes nothing that is in the list all the time*: an entry that lies behind *a* at *a*'s moment, and stays in the list,
//! is *b* or lies behind it at *b*'s moment (invariant 3).
//!
//! Hence **a lookup that finds** its key takes effect at the moment of the entry found. **A lookup that finds nothing**: if the
//! key had been in the list from the lookup's call to its return, the walk would have found it. So there was a moment in between
//! at which it was not, and that is when the lookup takes effect. (Where keys are ordered that moment can be named: that of the
//! first node behind the key's place.) It need not be the moment at which the lookup returns, and no look at what was freed would
//! make it so.
//!
//! # When changes take effect
//!
//! * **Adding**: when the link before the new entry is written. The node before it is locked, not freed, and its link leads to
//!   where the walk found that it does; so nothing lies between the two. With ordered keys that settles that the key is not there.
//!   Where keys are compared for equality only (a map's entries of one hash), entries are added behind all others of their number.
//!   Suppose that the key's entry was in the list then, without having been found. It was added during the walk, since
//!   walks pass nothing that is there all the time; hence behind every node that was in the list then, and so behind the last node
//!   whose moment was before that; and from that node on the walk would have found it.
//! * **Adding what is there**: as a lookup that finds.
//! * **Deleting, replacing**: when the link before the entry is written.
//! * **Deleting what is not there**: as a lookup that does not find.
//!
//! Links are read and written in the one order of all sequentially consistent operations: these moments are operations on links,
//! and two threads that look at different entries must agree on which came first. On x86-64 a lookup's loads cost nothing more for
//! that.

use core::cmp::Ordering as Compared;
use core::ptr::NonNull;

use super::node::{END, Entry, Node, Room, Spot};
use crate::lock::NodeGuard;
use crate::sync::{Backoff, despite_panics};

/// What a walk has come to.
#[derive(Clone, Copy)]
pub(super) struct Position {
    before: Spot,
    /// What the link before led to: the node that was looked for, or the first one behind its place.
    at: *mut Node,
    pub(super) found: bool,
}

impl Position {
    /// The node in front of the place.
    pub(super) fn before(self) -> Spot {
        self.before
    }

    /// The entry found.
    ///
    /// # Safety
    /// `found`, and the number looked for was an entry's, of this type; good for `'s`.
    #[inline(always)]
    pub(super) unsafe fn entry<'s, K, V>(self) -> &'s Entry<K, V> {
        // SAFETY: by contract.
        unsafe { &*self.at.cast() }
    }
}

/// The node.
///
/// # Safety
/// A spot that is good for `'s`.
#[inline(always)]
unsafe fn node<'s>(spot: Spot) -> &'s Node {
    // SAFETY: by contract.
    unsafe { spot.as_ref() }
}

/// The entry behind a walk's closure.
///
/// # Safety
/// A node with an odd number, of a list with entries of this type, that is good for `'s`.
#[inline(always)]
pub(super) unsafe fn entry<'s, K, V>(at: Spot) -> &'s Entry<K, V> {
    // SAFETY: by contract; an entry begins with its node, and links were made from pointers to whole entries.
    unsafe { at.cast().as_ref() }
}

/// Goes to the place of a node: behind all that have smaller numbers, and of those with the same number behind those that are
/// `Less`.
///
/// # Safety
/// For this function and all that follow: the caller is in a section of the room's domain; `start` was in the list since that
/// began, or is a bucket that is linked, and lies in front of the place.
#[inline(always)]
pub(super) unsafe fn find(
    start: Spot,
    order: u64,
    passed: &mut usize,
    mut compare: impl FnMut(Spot) -> Compared,
) -> Position {
    let mut before = start;
    loop {
        // SAFETY: each node of a walk is good while the section is: see the module.
        let at = unsafe { node(before) }.next();
        let absent = Position {
            before,
            at,
            found: false,
        };
        if at == END {
            return absent;
        }
        // SAFETY: as above; links lead to nodes.
        let spot = unsafe { NonNull::new_unchecked(at) };
        // SAFETY: as above.
        let number = unsafe { node(spot) }.order();
        if number >= order {
            let compared = if number > order {
                Compared::Greater
            } else {
                compare(spot)
            };
            match compared {
                Compared::Less => {}
                Compared::Equal => {
                    return Position {
                        found: true,
                        ..absent
                    };
                }
                Compared::Greater => return absent,
            }
        }
        before = spot;
        *passed += 1;
    }
}

/// The node in front of this one.
///
/// # Safety
/// As for [`find`], and the caller holds the lock of the node, which is not freed.
unsafe fn node_before(start: Spot, of: Spot) -> Spot {
    // SAFETY: good, as the caller holds its lock.
    let order = unsafe { node(of) }.order();
    let mut backoff = Backoff::new();
    loop {
        let mut before = start;
        loop {
            // SAFETY: as in `find`.
            let next = unsafe { node(before) }.next();
            if next == of.as_ptr() {
                return before;
            }
            let Some(next) = NonNull::new(next).filter(|next| next.as_ptr() != END) else {
                break;
            };
            // SAFETY: as in `find`.
            if unsafe { node(next) }.order() > order {
                break;
            }
            before = next;
        }
        // Where the node can be passed: on what was taken out before the node came in.
        backoff.wait();
    }
}

/// Takes a node out, or puts another one in its place, and frees it.
///
/// # Safety
/// As for [`find`]. The guard is that of the node's lock, and the node is not freed; `before` was found in the caller's section.
/// The new one is an entry that nobody else has, with the same number and an equal key.
unsafe fn take_out(
    start: Spot,
    mut before: Spot,
    at: Spot,
    guard: NodeGuard<'_>,
    new: Option<Spot>,
) {
    // SAFETY: of all in here: `before` and `at` are good in the section, and `new` is the caller's.
    unsafe {
        loop {
            if let Some(_held) = node(before).lock()
                && node(before).next_locked() == at.as_ptr()
            {
                let next = node(at).next_locked();
                let next = match new {
                    Some(new) => {
                        // Nobody can find it yet; it is published below.
                        node(new).will_lead_to(next);
                        new.as_ptr()
                    }
                    None => next,
                };
                node(before).lead_to(next);
                // Out of the list, then freed, and both before the node in front can be locked again.
                let _freed = guard.release_as_freed();
                return;
            }
            before = node_before(start, at);
        }
    }
}

/// What was not inserted, and why.
pub(super) struct Refused<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    pub(super) lack: Lack<K, V>,
}

impl<K, V> Refused<K, V> {
    fn because(lack: Lack<K, V>, entry: Entry<K, V>) -> Self {
        let (key, value) = (entry.key, entry.value);
        Self { key, value, lack }
    }
}

/// Why nothing was inserted.
pub(super) enum Lack<K, V> {
    /// There is this one, which is good in the section.
    Exists(NonNull<Entry<K, V>>),
    /// There is no memory: the limit, if that is why.
    Memory(Option<usize>),
}

/// What was inserted, good in the section, and what was taken out for it, which the caller retires.
pub(super) struct Inserted<K, V> {
    pub(super) entry: NonNull<Entry<K, V>>,
    pub(super) replaced: Option<NonNull<Entry<K, V>>>,
}

/// Puts an entry in.
///
/// # Safety
/// As for [`find`]; the list has entries of this type, all from such a room, and those with this number are compared like that.
pub(super) unsafe fn insert<K, V, R: Room<Entry<K, V>>>(
    room: &R,
    (start, order): (Spot, u64),
    (key, value): (K, V),
    replace: bool,
    passed: &mut usize,
    compare: impl Fn(&K, &K) -> Compared,
) -> Result<Inserted<K, V>, Refused<K, V>> {
    // SAFETY: of all in here: nodes with this number are entries, and good in the section.
    unsafe {
        let mut position = find(start, order, passed, |at| {
            compare(&entry::<K, V>(at).key, &key)
        });
        if position.found && !replace {
            let there = NonNull::new_unchecked(position.at).cast();
            return Err(Refused {
                key,
                value,
                lack: Lack::Exists(there),
            });
        }
        let fresh = match room.insert(Entry::new(order, key, value)) {
            Ok(fresh) => fresh,
            Err((back, limit)) => return Err(Refused::because(Lack::Memory(limit), back)),
        };
        loop {
            // Where the walk goes on: behind a node that is in the list, or where it began.
            let mut from = start;
            if position.found {
                let at = NonNull::new_unchecked(position.at);
                if !replace {
                    return Err(Refused::because(
                        Lack::Exists(at.cast()),
                        R::into_inner(fresh),
                    ));
                }
                if let Some(guard) = node(at).lock() {
                    let entry = R::into_raw(fresh);
                    take_out(start, position.before, at, guard, Some(entry.cast()));
                    return Ok(Inserted {
                        entry,
                        replaced: Some(at.cast()),
                    });
                }
            } else if let Some(_held) = node(position.before).lock() {
                if node(position.before).next_locked() == position.at {
                    // Nobody can find it yet.
                    fresh.node.will_lead_to(position.at);
                    let entry = R::into_raw(fresh);
                    node(position.before).lead_to(entry.cast().as_ptr());
                    return Ok(Inserted {
                        entry,
                        replaced: None,
                    });
                }
                from = position.before;
            }
            position = find(from, order, passed, |at| {
                compare(&entry::<K, V>(at).key, &fresh.key)
            });
        }
    }
}

/// Takes an entry out if the condition holds under its lock; the caller retires it.
///
/// # Safety
/// As for [`insert`].
pub(super) unsafe fn remove<K, V>(
    start: Spot,
    order: u64,
    compare: impl Fn(&K) -> Compared,
    condition: impl FnOnce(&V) -> bool,
) -> Option<NonNull<Entry<K, V>>> {
    // SAFETY: as in `insert`.
    unsafe {
        loop {
            let position = find(start, order, &mut 0, |at| compare(&entry::<K, V>(at).key));
            if !position.found {
                return None;
            }
            let at = NonNull::new_unchecked(position.at);
            // Freed: it was deleted, and perhaps added again, or replaced.
            let Some(guard) = node(at).lock() else {
                continue;
            };
            if !condition(&entry::<K, V>(at).value) {
                return None;
            }
            take_out(start, position.before, at, guard, None);
            return Some(at.cast());
        }
    }
}

/// An entry whose lock is held.
pub(super) struct Locked<'s, K, V> {
    at: NonNull<Entry<K, V>>,
    pub(super) guard: NodeGuard<'s>,
    before: Spot,
}

/// Locks an entry; nothing if there is none.
///
/// # Safety
/// As for [`insert`], for `'s`.
pub(super) unsafe fn lock<'s, K, V>(
    start: Spot,
    order: u64,
    compare: impl Fn(&K) -> Compared,
) -> Option<Locked<'s, K, V>> {
    // SAFETY: as in `insert`.
    unsafe {
        loop {
            let position = find(start, order, &mut 0, |at| compare(&entry::<K, V>(at).key));
            if !position.found {
                return None;
            }
            let at = NonNull::new_unchecked(position.at);
            // Freed: as in `remove`.
            if let Some(guard) = node(at).lock() {
                return Some(Locked {
                    at: at.cast(),
                    guard,
                    before: position.before,
                });
            }
        }
    }
}

impl<'s, K, V> Locked<'s, K, V> {
    pub(super) fn entry(&self) -> &'s Entry<K, V> {
        // SAFETY: good for `'s`, by contract of `lock`.
        unsafe { self.at.as_ref() }
    }

    /// Puts a new entry in the place of this one, which is retired.
    ///
    /// # Safety
    /// As for [`insert`], with the `start` that this one was found from; the new one has its number and an equal key.
    pub(super) unsafe fn replace<R: Room<Entry<K, V>>>(
        self,
        room: &R,
        start: Spot,
        fresh: R::Owned,
    ) {
        let new = R::into_raw(fresh).cast();
        // SAFETY: by contract; the guard is the entry's.
        unsafe {
            take_out(start, self.before, self.at.cast(), self.guard, Some(new));
            room.retire(self.at);
        }
    }
}

/// Puts a bucket in, unless it is there.
///
/// It can be begun at a moment before the link in front leads to it. That is no harm to a walk: until then, the node in front is
/// locked, and what the bucket leads to is right behind it. Whoever wants to change the bucket's link waits for its lock.
///
/// # Safety
/// As for [`find`]. The bucket is never freed while the list lives, and only ever linked with this number.
pub(super) unsafe fn link_bucket(start: Spot, bucket: Spot, order: u64) {
    // SAFETY: of all in here: the bucket is good, and so are nodes of a walk in the section.
    unsafe {
        let Some(_own) = node(bucket).lock() else {
            return;
        };
        if node(bucket).is_linked() {
            return;
        }
        node(bucket).set_order(order);
        let mut from = start;
        loop {
            let position = find(from, order, &mut 0, |_| Compared::Equal);
            from = start;
            if let Some(_held) = node(position.before).lock() {
                if node(position.before).next_locked() == position.at {
                    node(bucket).lead_to(position.at);
                    node(position.before).lead_to(bucket.as_ptr());
                    return;
                }
                from = position.before;
            }
        }
    }
}

/// The next node behind this one, and whether it is an entry.
///
/// # Safety
/// The node is good: found in a section that is open, or a sentinel.
pub(super) unsafe fn next(behind: Spot) -> Option<(Spot, bool)> {
    // SAFETY: as in `find`.
    unsafe {
        let next = node(behind).next();
        let next = NonNull::new(next).filter(|next| next.as_ptr() != END)?;
        Some((next, node(next).order() % 2 == 1))
    }
}

/// Takes out the entry that was found, unless somebody else does; the caller retires it.
///
/// # Safety
/// As for [`insert`]; the entry was found in the caller's section.
pub(super) unsafe fn remove_found<K, V>(
    start: Spot,
    before: Spot,
    at: Spot,
) -> Option<NonNull<Entry<K, V>>> {
    // SAFETY: as in `insert`.
    unsafe {
        let guard = node(at).lock()?;
        take_out(start, before, at, guard, None);
    }
    Some(at.cast())
}

/// Takes all entries out and destroys them; those behind a destructor that panics, too.
///
/// # Safety
/// Nobody else uses the list, and all its entries are from such a room; nobody uses it after this.
pub(super) unsafe fn destroy<K, V, R: Room<Entry<K, V>>>(head: &Node) {
    let mut next = head.next_locked();
    let entries = core::iter::from_fn(|| {
        while let Some(at) = NonNull::new(next).filter(|at| at.as_ptr() != END) {
            // SAFETY: all nodes are there until they are destroyed below, one after the other.
            let is_entry = unsafe {
                next = node(at).next_locked();
                node(at).order() % 2 == 1
            };
            if is_entry {
                return Some(at);
            }
        }
        None
    });
    // SAFETY: the iterator is beyond the entry, and never comes back to it.
    despite_panics(entries, |at| unsafe { R::destroy(at.cast()) });
}
