//! Handles: of an entry for its users, and of a member for its container.

use super::node::{HELD, Node, QUEUED, WANTED};
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

/// A counted handle of something that can be inserted into a [`Deferred`](super::Deferred) container and
/// removed again, as often as one likes, without an allocation.
///
/// All handles made from one by cloning are of the same entry, which is in at most one container at a
/// time and is freed with its last handle; a container and a log that have it count as handles. What is
/// in it can only be read: a container may have sorted it by that. [`rekey`](Self::rekey) changes it.
///
/// *Cost:* [`new`](Self::new) allocates once, a multiple of 64 bytes: 56 bytes beside the item, on lines
/// of its own. `clone` and `drop` are an atomic update each. *Progress:* wait-free.
///
/// ```
/// use percolog::ldu::{Bag, Deferred, Entry};
///
/// let open: Deferred<Bag<&str>> = Deferred::new(Bag::new());
/// let file = Entry::new("a file");
/// open.insert(&file)?;
/// assert!(file.is_linked());
/// open.remove(&file)?; // nothing has been moved, and nothing is left to be done
/// open.insert(&file)?;
/// assert_eq!(open.synchronize().iter().collect::<Vec<_>>(), [&"a file"]);
/// # Ok::<(), percolog::ldu::UpdateError>(())
/// ```
pub struct Entry<T> {
    pub(super) node: NonNull<Node<T>>,
}

// SAFETY: as `Arc`: handles share the item (`Sync`), and the last one, on whichever thread, drops it
// (`Send`).
unsafe impl<T: Send + Sync> Send for Entry<T> {}
// SAFETY: as above: `&Entry` can be cloned.
unsafe impl<T: Send + Sync> Sync for Entry<T> {}

impl<T> Entry<T> {
    /// Creates a new entry, in no container.
    #[must_use]
    pub fn new(item: T) -> Self {
        Self {
            node: Node::allocate(item),
        }
    }

    pub(super) fn node(&self) -> &Node<T> {
        // SAFETY: a handle keeps the node.
        unsafe { self.node.as_ref() }
    }

    /// Returns whether the entry is in a container, after all updates that have finished.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.node().load() & WANTED != 0
    }

    /// Returns whether two handles are of the same entry.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.node == other.node
    }

    /// What distinguishes the entry from all others that exist.
    pub(super) fn address(&self) -> usize {
        self.node.as_ptr().addr()
    }

    /// An entry with another item in place of this one: the way to change a key.
    ///
    /// The old key cannot come back: an insertion of the new entry never cancels with a removal of the old
    /// one that is still in a container's log, so no container is left with an entry at a place where it
    /// does not belong. Other handles of the old entry keep the old item.
    ///
    /// *Cost:* the memory is used again if nobody else has it, neither a handle nor a log or container;
    /// else an allocation.
    ///
    /// # Errors
    /// Hands both back if the entry is in a container. Remove it first.
    pub fn rekey(self, item: T) -> Result<Self, (Self, T)> {
        let node = self.node();
        if node.is_alone() {
            // SAFETY: this is the only handle, it is ours, and no container or log has the entry.
            unsafe { (*self.node.as_ptr()).replace(item) };
            return Ok(self);
        }
        if self.is_linked() {
            return Err((self, item));
        }
        Ok(Self::new(item))
    }

    /// The item, if this is the last handle and no container or log has the entry.
    ///
    /// # Errors
    /// Else the handle comes back. A removal leaves the log when its container is synchronized.
    pub fn try_unwrap(self) -> Result<T, Self> {
        if !self.node().is_alone() {
            return Err(self);
        }
        let node = self.node;
        core::mem::forget(self);
        // SAFETY: it was alone, and the one handle was ours.
        Ok(unsafe { Node::into_item(node) })
    }
}

impl<T> Clone for Entry<T> {
    /// # Panics
    /// If there are more than eight million handles.
    fn clone(&self) -> Self {
        self.node().retain();
        Self { node: self.node }
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is given up.
        unsafe { Node::release(self.node) };
    }
}

impl<T> Deref for Entry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.node().item()
    }
}

impl<T: fmt::Debug> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("item", &**self)
            .field("linked", &self.is_linked())
            .finish()
    }
}

impl<T> From<T> for Entry<T> {
    fn from(item: T) -> Self {
        Self::new(item)
    }
}

/// An entry inside its [`Container`](super::Container).
///
/// A member keeps its entry. Dropping it takes the entry out of the container: if nothing else has been
/// asked for since, the entry is in no container then.
pub struct Member<T> {
    pub(super) node: NonNull<Node<T>>,
    pub(super) record: usize,
}

// SAFETY: a member is a handle; see `Entry`.
unsafe impl<T: Send + Sync> Send for Member<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Member<T> {}

impl<T> Member<T> {
    fn node(&self) -> &Node<T> {
        // SAFETY: a member keeps the node.
        unsafe { self.node.as_ref() }
    }

    /// Returns whether this is the member of that entry.
    #[must_use]
    pub fn is(&self, entry: &Entry<T>) -> bool {
        self.node == entry.node
    }

    /// A handle of the entry.
    ///
    /// # Panics
    /// If there are more than eight million handles.
    #[must_use]
    pub fn entry(&self) -> Entry<T> {
        self.node().retain();
        Entry { node: self.node }
    }

    pub(super) fn address(&self) -> usize {
        self.node.as_ptr().addr()
    }

    /// What [`set_position`](Self::set_position) said last, or 0.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.node().position(self.record)
    }

    /// Notes where the container has put the entry, in the container's own words; it is told again when
    /// the entry is to be [removed](super::Container::remove).
    pub fn set_position(&self, position: u64) {
        self.node().set_position(self.record, position);
    }

    /// Takes the entry out of the container, and hands it over if this call has unlinked it: of this and a
    /// removal under way on another thread, one has it.
    #[must_use = "else the entry is only unlinked"]
    pub fn release(self) -> Option<Entry<T>> {
        let record = self.record;
        let before = self.node().change(|word| Self::given_up(word, record, !0));
        let entry = Entry { node: self.node };
        core::mem::forget(self);
        Node::<T>::is_wanted(before, record).then_some(entry)
    }

    /// As [`release`](Self::release), unless something has been asked for since the last merge: then
    /// it is up to the next merge, and the member comes back.
    pub(super) fn release_if_settled(self) -> Result<Option<Entry<T>>, Self> {
        let (record, node) = (self.record, self.node());
        loop {
            let word = node.load();
            if word & (QUEUED[record] | super::node::CLAIMED) != 0 {
                return Err(self);
            }
            if node.exchange(word, Self::given_up(word, record, !0)) {
                let entry = Entry { node: self.node };
                core::mem::forget(self);
                return Ok(Node::<T>::is_wanted(word, record).then_some(entry));
            }
        }
    }

    /// The word of an entry whose member goes. `unlink` says which bits of it may be taken away beside.
    const fn given_up(word: u64, record: usize, unlink: u64) -> u64 {
        let word = word & !HELD[record];
        if Node::<T>::is_wanted(word, record) {
            word & !(WANTED & unlink)
        } else {
            word
        }
    }
}

impl<T> Drop for Member<T> {
    fn drop(&mut self) {
        let record = self.record;
        self.node().change(|word| {
            // What is in the log is newer than that the entry was here.
            let queued = word & QUEUED[record] != 0;
            Self::given_up(word, record, if queued { 0 } else { !0 })
        });
        // SAFETY: the member's count is given up.
        unsafe { Node::release(self.node) };
    }
}

impl<T> Deref for Member<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.node().item()
    }
}

impl<T: fmt::Debug> fmt::Debug for Member<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&**self).finish()
    }
}

/// The error of an insertion or removal: nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateError {
    /// To be inserted, and in this container already.
    Present,
    /// To be inserted, and in another container.
    Elsewhere,
    /// To be inserted, and still to be removed from two other containers, neither of which has been
    /// synchronized since: synchronize one of them.
    Leaving,
    /// To be removed, and not in this container.
    Absent,
    /// The slot's log is at its limit, and was to grow no further and not to be merged here: see
    /// [`FullReason`](crate::oplog::FullReason).
    Full(crate::engine::FullReason),
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present => f.write_str("the entry is in the container already"),
            Self::Elsewhere => f.write_str("the entry is in another container"),
            Self::Leaving => f.write_str(
                "the entry is still to be removed from two containers that nobody has synchronized",
            ),
            Self::Absent => f.write_str("the entry is not in the container"),
            Self::Full(reason) => write!(f, "the update was not queued: {reason}"),
        }
    }
}

impl core::error::Error for UpdateError {}
