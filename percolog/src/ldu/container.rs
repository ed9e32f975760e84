//! What a deferred container must be able to do, and two that are.

use super::entry::{Entry, Member};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;

/// A structure of linked entries, used by one thread at a time.
///
/// [`Deferred`](super::Deferred) calls it while it merges: `insert` and `remove` in no particular order
/// between entries, and for each entry only what is left of the updates since the last merge. What these
/// methods do may use the container's own state and the entry, and not the `Deferred` it is in.
///
/// A container that loses members by itself (by a limit, say) just drops them: an entry whose
/// [`Member`] is dropped is in no container any more.
pub trait Container {
    /// What its entries are. Threads share it (`Sync`), and the last of them drops it (`Send`).
    type Item: Send + Sync;

    /// Takes an entry in. It is not in the container already.
    fn insert(&mut self, member: Member<Self::Item>);

    /// Gives an entry up. `position` is what [`Member::set_position`] said last, or 0.
    ///
    /// `None` where the entry is not there: a container that has been poisoned and repaired may find that.
    fn remove(&mut self, entry: &Entry<Self::Item>, position: u64) -> Option<Member<Self::Item>>;

    /// An entry has been removed and inserted again since the last merge. Of interest to containers that
    /// keep the order of insertions.
    fn keep(&mut self, entry: &Entry<Self::Item>, position: u64) {
        let _ = (entry, position);
    }
}

/// A container without order: insertion and removal take constant time.
///
/// What a reverse map or a list of open files needs: somebody who looks at all of them.
pub struct Bag<T> {
    members: Vec<Member<T>>,
}

impl<T> Bag<T> {
    /// Creates an empty container. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            members: Vec::new(),
        }
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The items, in no particular order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.members.iter().map(|member| &**member)
    }

    /// The members, in no particular order: for who wants a handle of one.
    #[must_use]
    pub fn members(&self) -> impl ExactSizeIterator<Item = &Member<T>> {
        self.members.iter()
    }

    /// Takes one out, the last of [`iter`](Self::iter); of this and a removal of it under way, one has it.
    pub fn pop(&mut self) -> Option<Entry<T>> {
        core::iter::from_fn(|| self.members.pop()).find_map(Member::release)
    }
}

impl<T: Send + Sync> Container for Bag<T> {
    type Item = T;

    fn insert(&mut self, member: Member<T>) {
        member.set_position(self.members.len() as u64);
        self.members.push(member);
    }

    fn remove(&mut self, entry: &Entry<T>, position: u64) -> Option<Member<T>> {
        let position = usize::try_from(position).ok()?;
        if !self.members.get(position)?.is(entry) {
            return None;
        }
        let member = self.members.swap_remove(position);
        if let Some(moved) = self.members.get(position) {
            moved.set_position(position as u64);
        }
        Some(member)
    }
}

impl<T> Default for Bag<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Bag<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A container sorted by its items; equal ones are all kept.
///
/// A key cannot change while it is in here, since what is in an entry cannot
/// ([`Entry::rekey`] makes another entry).
pub struct Sorted<T: Ord> {
    members: BTreeMap<Key<T>, Member<T>>,
}

/// An entry to be sorted by its item, and among equal ones by which it is.
struct Key<T>(Entry<T>);

/// The same, borrowed: with it members are found by their entries.
trait Keyed<T> {
    fn entry(&self) -> &Entry<T>;
}

impl<T> Keyed<T> for Key<T> {
    fn entry(&self) -> &Entry<T> {
        &self.0
    }
}

impl<T> Keyed<T> for Entry<T> {
    fn entry(&self) -> &Entry<T> {
        self
    }
}

impl<'a, T: 'a> Borrow<dyn Keyed<T> + 'a> for Key<T> {
    fn borrow(&self) -> &(dyn Keyed<T> + 'a) {
        self
    }
}

impl<T: Ord> Ord for dyn Keyed<T> + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        let (this, other) = (self.entry(), other.entry());
        T::cmp(this, other).then_with(|| this.address().cmp(&other.address()))
    }
}

impl<T: Ord> PartialOrd for dyn Keyed<T> + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for dyn Keyed<T> + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Ord> Eq for dyn Keyed<T> + '_ {}

impl<T: Ord> Ord for Key<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self as &dyn Keyed<T>).cmp(other as &dyn Keyed<T>)
    }
}

impl<T: Ord> PartialOrd for Key<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Ord> Eq for Key<T> {}

impl<T: Ord> Sorted<T> {
    /// Creates an empty container. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            members: BTreeMap::new(),
        }
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The items in order.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.members.values().map(|member| &**member)
    }

    /// The members in order: for who wants a handle of one.
    #[must_use]
    pub fn members(&self) -> impl DoubleEndedIterator<Item = &Member<T>> + ExactSizeIterator {
        self.members.values()
    }

    /// Takes the least one out; of this and a removal of it under way, one has it.
    pub fn pop_first(&mut self) -> Option<Entry<T>> {
        core::iter::from_fn(|| self.members.pop_first()).find_map(|(_, member)| member.release())
    }
}

impl<T: Ord + Send + Sync> Container for Sorted<T> {
    type Item = T;

    fn insert(&mut self, member: Member<T>) {
        self.members.insert(Key(member.entry()), member);
    }

    fn remove(&mut self, entry: &Entry<T>, _position: u64) -> Option<Member<T>> {
        self.members.remove(entry as &dyn Keyed<T>)
    }
}

impl<T: Ord> Default for Sorted<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ord + fmt::Debug> fmt::Debug for Sorted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
