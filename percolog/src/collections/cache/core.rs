//! What puts items in and takes them out.
//!
//! *Who waits for whom:* a thread that waits for the lock of a list has no other lock of the cache; one that waits for the lock of a line has at
//! most that of one list, and of no other line; for the lock under which notes are read nobody waits. So there is no
//! circle. Whoever evicts an item to make room holds the list's lock alone while it takes that of the victim's line.
//!
//! *Who changes what:* an item is linked, taken out, or replaced by one of another weight under the locks of its list and its line. Replaced
//! by one of the same weight it is under the lock of its line alone: the new one takes over the place in the ring, and
//! what the list knows stays true. So whoever has a list's lock finds an item at each of its places that has a hash.
//!
//! *Code of users* that runs here: `Eq`, under these locks, when nothing has been changed yet. What is taken out is destroyed
//! by the caller, without a lock.

use super::lists::{Held, Lists};
use super::notes::{Kind, Mine, Slots};
use super::table::{Line, Locked, Node, Table};
use super::time::TimeSource;
use crate::cpu::lease::Who;
use crate::cpu::prefetch::prefetch_for_write;
use crate::sync::Backoff;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// When an item is put in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition<N> {
    Always,
    /// If there is none.
    Absent,
    /// If there is one.
    Present,
    /// If there is one with this version.
    Version(u64),
    /// If it is this one, which the caller found in a section that is still open.
    Same(N),
}

impl<N> Condition<N> {
    /// Whether an item is put in whatever there is.
    fn overwrites(&self) -> bool {
        matches!(self, Self::Always)
    }
}

/// Why an item was not put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    Absent,
    Present,
    Changed,
}

/// What came of an attempt.
pub(super) enum Put {
    /// The item is there, with this version.
    Done(u64),
    /// There is no room for more of what was taken out: once more, when that is retired.
    More,
    /// Another item of the key has overwritten this one at once. The node was not linked, and is still the caller's.
    Overtaken,
}

/// So often a set waits for the lock of its line without sleeping.
const PATIENCE: usize = if cfg!(percolog_loom) { 1 } else { 16 };

/// So many nodes are taken out before they are retired.
const GONE: usize = if cfg!(percolog_loom) { 2 } else { 16 };

/// Nodes that were taken out, and are the caller's to retire.
pub(super) struct Gone<K, V> {
    nodes: [MaybeUninit<NonNull<Node<K, V>>>; GONE],
    count: usize,
}

impl<K, V> Gone<K, V> {
    pub(super) fn new() -> Self {
        Self {
            nodes: [const { MaybeUninit::uninit() }; GONE],
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_full(&self) -> bool {
        // One more is what was replaced.
        self.count >= GONE - 1
    }

    fn push(&mut self, node: NonNull<Node<K, V>>) {
        self.nodes[self.count].write(node);
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<NonNull<Node<K, V>>> {
        self.count = self.count.checked_sub(1)?;
        // SAFETY: written by `push`.
        Some(unsafe { self.nodes[self.count].assume_init() })
    }
}

/// A cache, wherever its nodes lie.
pub(super) struct Core<K, V> {
    pub(super) table: Table<K, V>,
    pub(super) lists: Lists,
    pub(super) slots: Slots,
}

// SAFETY: `&Core` lends keys and values to many threads (`Sync`), and takes and gives them (`Send`).
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Core<K, V> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Core<K, V> {}

impl<K, V> Core<K, V> {
    /// The item of a key.
    ///
    /// # Safety
    /// The caller is in a section, and uses the item no longer.
    #[inline(always)]
    pub(super) unsafe fn find(
        &self,
        hash: u64,
        time: &impl TimeSource,
        is_key: impl Fn(&K) -> bool,
    ) -> Option<NonNull<Node<K, V>>> {
        // SAFETY: by contract.
        unsafe {
            let node = self.table.find(hash, |node| is_key(&node.key))?;
            (!node.as_ref().is_expired(|| time.now())).then_some(node)
        }
    }

    /// [`find`](Self::find), for who uses the item: it is counted, and noted.
    ///
    /// # Safety
    /// As for `find`.
    #[inline(always)]
    pub(super) unsafe fn hit(
        &self,
        who: Who,
        hash: u64,
        time: &impl TimeSource,
        is_key: impl Fn(&K) -> bool,
    ) -> Option<NonNull<Node<K, V>>> {
        // SAFETY: by contract.
        let found = unsafe { self.find(hash, time, is_key) };
        let mine = self.slots.of(who);
        match found {
            Some(node) => {
                mine.count(Kind::Hits);
                // SAFETY: as in `find`.
                if !unsafe { node.as_ref() }.is_used() {
                    mine.note(hash);
                }
            }
            None => mine.count(Kind::Misses),
        }
        found
    }

    /// Puts a node in.
    ///
    /// # Safety
    /// The caller is in a section. Nobody else has the node, which is the cache's from then on if this says [`Put::Done`], and stays the
    /// caller's otherwise. Its weight is within the share, and not below the least. What is in `gone` is retired after this.
    ///
    /// # Errors
    /// If the condition is not met.
    pub(super) unsafe fn put(
        &self,
        who: Who,
        node: NonNull<Node<K, V>>,
        condition: Condition<NonNull<Node<K, V>>>,
        time: &impl TimeSource,
        gone: &mut Gone<K, V>,
    ) -> Result<Put, Unfit>
    where
        K: Eq,
    {
        // SAFETY: the caller's, until it is linked, and then in a section.
        let new = unsafe { node.as_ref() };
        let mine = self.slots.of(who);
        let line = self.table.line(new.hash);
        // It will be changed, most likely, and is looked at first.
        prefetch_for_write(line);
        // SAFETY: by contract.
        let before = unsafe { self.table.find(new.hash, |other| other.key == new.key) };
        // SAFETY: as above.
        if before.is_some_and(|before| unsafe { before.as_ref() }.weight == new.weight) {
            // SAFETY: by contract.
            let locked = unsafe { self.lock_in_time(line, new, before, condition) };
            let Some(locked) = locked else {
                mine.put(false);
                return Ok(Put::Overtaken);
            };
            let found = locked.find(new.hash, |other| other.key == new.key);
            // SAFETY: found under the lock.
            if unsafe { is_overtaken(condition, before, found.node) } {
                drop(locked);
                mine.put(false);
                return Ok(Put::Overtaken);
            }
            let expired = check(condition, found.node, time)?;
            if let Some(old) = found.node
                // SAFETY: linked, under the lock.
                && unsafe { old.as_ref() }.weight == new.weight
            {
                // SAFETY: the node is the caller's; the other one was found under this lock.
                let version = unsafe {
                    inherit(node, old, condition);
                    locked.link(&found, node, condition.overwrites())
                };
                drop(locked);
                mine.put(expired);
                gone.push(old);
                return Ok(Put::Done(version));
            }
        }
        if self.slots.is_due(mine) {
            // SAFETY: by contract.
            unsafe { self.set_marks() };
        }
        let mut list = self.lists.lock(self.lists.of(new.hash));
        loop {
            let locked = line.lock();
            let found = locked.find(new.hash, |other| other.key == new.key);
            let expired = check(condition, found.node, time)?;
            // SAFETY: linked, under the lock.
            let before = found.node.map_or(0, |old| unsafe { old.as_ref() }.weight);
            if list.bytes() - before + new.weight <= self.lists.share
                && self.make_place(&mut list, node, found.node, condition)
            {
                list.weigh(before, new.weight);
                // SAFETY: as above.
                let version = unsafe { locked.link(&found, node, condition.overwrites()) };
                drop(locked);
                mine.put(expired);
                if let Some(old) = found.node {
                    gone.push(old);
                }
                return Ok(Put::Done(version));
            }
            // It keeps its place as long as the list's lock is held.
            // SAFETY: as above.
            let kept = found.node.map(|old| unsafe { old.as_ref() }.place());
            drop(locked);
            if gone.is_full() {
                return Ok(Put::More);
            }
            // SAFETY: by contract; as there is no room, something else is in the list.
            unsafe { self.evict(mine, &mut list, kept, time, gone) };
        }
    }

    /// Takes the lock of a line, in which `before` was found of the new item's key; or finds that the item [is
    /// overtaken](is_overtaken) while it waits. Of many threads that set one key, each that gets the lock so spares it all others that wait.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    unsafe fn lock_in_time<'a>(
        &self,
        line: &'a Line<K, V>,
        new: &Node<K, V>,
        before: Option<NonNull<Node<K, V>>>,
        condition: Condition<NonNull<Node<K, V>>>,
    ) -> Option<Locked<'a, K, V>>
    where
        K: Eq,
    {
        for _ in 0..PATIENCE {
            let mut backoff = Backoff::new();
            loop {
                if let Some(locked) = line.try_lock() {
                    return Some(locked);
                }
                // SAFETY: by contract.
                let overtaken = unsafe {
                    let now = self.table.find(new.hash, |other| other.key == new.key);
                    is_overtaken(condition, before, now)
                };
                if overtaken {
                    return None;
                }
                if backoff.is_spent() {
                    break;
                }
                backoff.wait();
            }
        }
        Some(line.lock())
    }

    /// Gives the node the place of the old one, or a fresh one; whether there is one.
    fn make_place(
        &self,
        list: &mut Held<'_>,
        node: NonNull<Node<K, V>>,
        old: Option<NonNull<Node<K, V>>>,
        condition: Condition<NonNull<Node<K, V>>>,
    ) -> bool {
        match old {
            // SAFETY: the node is the caller's, and the old one is linked, under the lock of its line.
            Some(old) => unsafe { inherit(node, old, condition) },
            // SAFETY: as above.
            None => match list.take_place(unsafe { node.as_ref() }.hash) {
                // SAFETY: as above.
                Some(place) => unsafe { node.as_ref().set_place(place) },
                None => return false,
            },
        }
        true
    }

    /// Sets the marks of what threads have noted.
    ///
    /// # Safety
    /// The caller is in a section.
    unsafe fn set_marks(&self) {
        self.slots.read(|hash| {
            // Of two items with the same hash one is taken for the other: it stays for a revolution longer.
            // SAFETY: by contract.
            let found = unsafe { self.table.find(hash, |node| !node.is_used()) };
            if let Some(node) = found {
                // SAFETY: as above.
                unsafe { node.as_ref() }.set_used(true);
            }
        });
    }

    /// Takes out the first item that the hand finds without a mark, or expired; takes away the marks that it finds. What is at the place
    /// to be kept stays as it is: it is about to be replaced, and a condition may be that it is there.
    ///
    /// # Safety
    /// The caller is in a section. There is an item in the list that is not kept.
    unsafe fn evict(
        &self,
        mine: Mine<'_>,
        list: &mut Held<'_>,
        kept: Option<u32>,
        time: &impl TimeSource,
        gone: &mut Gone<K, V>,
    ) {
        let mut now = None;
        let mut now = || *now.get_or_insert_with(|| time.now());
        // Marks are set while the hand goes round; once it has met each of them twice, it makes an end.
        let mut patience = 2 * u64::from(list.touched());
        loop {
            let place = list.advance();
            let ahead = list.ahead(1);
            if let Some(next) = list.at(ahead) {
                prefetch_for_write(self.table.line(next));
            }
            if kept == Some(place) {
                continue;
            }
            let Some(hash) = list.at(place) else { continue };
            // SAFETY: by contract.
            let node = unsafe { self.table.find(hash, |node| node.place() == place) };
            // SAFETY: as above.
            let node = node.map(|node| unsafe { node.as_ref() });
            let expired = node.is_some_and(|node| node.is_expired(&mut now));
            if let Some(node) = node
                && node.is_used()
                && !expired
                && patience != 0
            {
                node.set_used(false);
                patience -= 1;
                continue;
            }
            if let Some(node) = self.take_out(list, place, |_| true) {
                mine.count(if expired {
                    Kind::Expirations
                } else {
                    Kind::Evictions
                });
                gone.push(node);
                return;
            }
        }
    }

    /// Takes out the item at a place, if there is one, and it is `wanted`.
    fn take_out(
        &self,
        list: &mut Held<'_>,
        place: u32,
        wanted: impl FnOnce(&Node<K, V>) -> bool,
    ) -> Option<NonNull<Node<K, V>>> {
        let hash = list.at(place)?;
        let locked = self.table.line(hash).lock();
        let found = locked.find(hash, |node| node.place() == place);
        debug_assert!(found.node.is_some(), "its list says that it is there");
        let node = found.node?;
        // SAFETY: linked, under the lock; it is destroyed by the caller, and not before.
        let item = unsafe { node.as_ref() };
        if !wanted(item) {
            return None;
        }
        // SAFETY: found under this lock.
        unsafe { locked.unlink(&found) };
        drop(locked);
        list.give_back(place, item.weight);
        Some(node)
    }

    /// Takes the item of a key out; whether it was there.
    ///
    /// # Safety
    /// The caller is in a section. What is in `gone`, which has room, is retired after this.
    pub(super) unsafe fn remove(
        &self,
        who: Who,
        hash: u64,
        time: &impl TimeSource,
        is_key: impl Fn(&K) -> bool,
        gone: &mut Gone<K, V>,
    ) -> bool {
        // SAFETY: by contract.
        if unsafe { self.table.find(hash, |node| is_key(&node.key)) }.is_none() {
            return false;
        }
        let mut list = self.lists.lock(self.lists.of(hash));
        let locked = self.table.line(hash).lock();
        let found = locked.find(hash, |node| is_key(&node.key));
        let Some(node) = found.node else { return false };
        // SAFETY: linked, under the lock; it is destroyed by the caller, and not before.
        let item = unsafe { node.as_ref() };
        // Before it is unlinked: a time source may panic.
        let expired = item.is_expired(|| time.now());
        // SAFETY: found under this lock.
        unsafe { locked.unlink(&found) };
        drop(locked);
        list.give_back(item.place(), item.weight);
        drop(list);
        self.slots.of(who).count(if expired {
            Kind::Expirations
        } else {
            Kind::Deletes
        });
        gone.push(node);
        !expired
    }

    /// Gives the item of a key another lifetime, and marks it as used; whether it was there.
    pub(super) fn touch(
        &self,
        hash: u64,
        expires: u64,
        time: &impl TimeSource,
        is_key: impl Fn(&K) -> bool,
    ) -> bool {
        let locked = self.table.line(hash).lock();
        let found = locked.find(hash, |node| is_key(&node.key));
        let Some(node) = found.node else { return false };
        // SAFETY: linked, under the lock.
        let node = unsafe { node.as_ref() };
        if node.is_expired(|| time.now()) {
            return false;
        }
        node.set_expires(expires);
        node.set_used(true);
        true
    }

    /// Looks at so many places of a list, and takes out what has expired. Returns how many places are left over: some if there are not
    /// so many, or if there is no room for what was taken out.
    ///
    /// # Safety
    /// The caller is in a section. What is in `gone` is retired after this.
    pub(super) unsafe fn expire(
        &self,
        who: Who,
        number: usize,
        places: usize,
        time: &impl TimeSource,
        gone: &mut Gone<K, V>,
    ) -> usize {
        let mine = self.slots.of(who);
        let mut now = None;
        let mut now = || *now.get_or_insert_with(|| time.now());
        let mut list = self.lists.lock(number);
        let looks = places.min(list.touched() as usize);
        for look in 0..looks {
            if gone.is_full() {
                return places - look;
            }
            let place = list.sweep();
            let Some(hash) = list.at(place) else { continue };
            // SAFETY: by contract.
            let node = unsafe { self.table.find(hash, |node| node.place() == place) };
            // SAFETY: as above.
            if node.is_some_and(|node| unsafe { node.as_ref() }.is_expired(&mut now))
                // Once more: it may have been touched, or replaced.
                && let Some(node) = self.take_out(&mut list, place, |node| node.is_expired(&mut now))
            {
                mine.count(Kind::Expirations);
                gone.push(node);
            }
        }
        places - looks
    }

    /// Takes out what a list has from a place on, as far as there is room for it; where to go on, if there is more.
    pub(super) fn clear(&self, number: usize, from: u32, gone: &mut Gone<K, V>) -> Option<u32> {
        let mut list = self.lists.lock(number);
        for place in from..list.touched() {
            if gone.is_full() {
                return Some(place);
            }
            if let Some(node) = self.take_out(&mut list, place, |_| true) {
                gone.push(node);
            }
        }
        None
    }
}

/// Whether an item that is put in on this condition is already overwritten: when its key had the item `before`, its call had begun, and now
/// the key has another one.
///
/// That one was linked in between. If it was put in whatever was there, and so is this one, both could have been put in at that moment, this
/// one first: nobody would have seen it. (If the other one replaces a certain item, or needs that there is none, this one would have been in its way.)
///
/// # Safety
/// The caller has been in a section since before it found the first, and so no other node has its address.
unsafe fn is_overtaken<K, V>(
    condition: Condition<NonNull<Node<K, V>>>,
    before: Option<NonNull<Node<K, V>>>,
    now: Option<NonNull<Node<K, V>>>,
) -> bool {
    condition.overwrites()
        && now != before
        // SAFETY: by contract.
        && now.is_some_and(|now| unsafe { now.as_ref() }.overwrites())
}

/// Whether the condition is met; and whether there is an item that has expired.
fn check<K, V>(
    condition: Condition<NonNull<Node<K, V>>>,
    found: Option<NonNull<Node<K, V>>>,
    time: &impl TimeSource,
) -> Result<bool, Unfit> {
    // SAFETY: found under the lock of its line, which is held.
    let node = found.map(|node| unsafe { node.as_ref() });
    let expired = node.is_some_and(|node| node.is_expired(|| time.now()));
    let there = node.filter(|_| !expired);
    match (condition, there) {
        (Condition::Always, _) | (Condition::Absent, None) | (Condition::Present, Some(_)) => {}
        (Condition::Absent, Some(_)) => return Err(Unfit::Present),
        (_, None) => return Err(Unfit::Absent),
        (Condition::Version(version), Some(node)) if node.version() == version => {}
        (Condition::Same(node), Some(_)) if found == Some(node) => {}
        (Condition::Version(_) | Condition::Same(_), Some(_)) => return Err(Unfit::Changed),
    }
    Ok(expired)
}

/// A node gets the place of the one that it will replace. It counts as used: somebody has just set it again.
///
/// # Safety
/// The first is the caller's, the second is linked, under the lock of its line.
unsafe fn inherit<K, V>(
    node: NonNull<Node<K, V>>,
    old: NonNull<Node<K, V>>,
    condition: Condition<NonNull<Node<K, V>>>,
) {
    // SAFETY: by contract.
    unsafe {
        node.as_ref().set_place(old.as_ref().place());
        node.as_ref().set_used(true);
        if matches!(condition, Condition::Same(_)) {
            node.as_ref().set_expires(old.as_ref().expires());
        }
    }
}
