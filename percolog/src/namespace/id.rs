//! Names, and what can be wrong with them.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::ops::Range;

/// An id of a value in a [`Namespace`](super::Namespace): an index and a generation.
///
/// Eight bytes, as an `Option` too. Ids are ordered by their index. The [bits](Self::to_bits) can be handed to whoever uses the
/// program: what comes back may be anything, and is looked up safely.
pub struct Id<T> {
    index: u32,
    /// Odd. A word of its own: so lookups need not take it apart.
    generation: NonZeroU32,
    names: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    pub(super) const fn new(index: u32, generation: u32) -> Self {
        match NonZeroU32::new(generation | 1) {
            Some(generation) => Self {
                index,
                generation,
                names: PhantomData,
            },
            None => unreachable!(),
        }
    }

    /// The id as a number.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.index as u64) << 32 | self.generation.get() as u64
    }

    /// The id that a number stands for; `None` if it can be none.
    ///
    /// Any number is safe. If it is not that of an id in use, it names nothing, and [`get`](super::Namespace::get) says so. (It
    /// may be that of another value's id: whoever may use the names of some values only needs to be asked for them elsewhere.)
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits.is_multiple_of(2) {
            return None;
        }
        Some(Self::new((bits >> 32) as u32, bits as u32))
    }

    /// The index: below the namespace's limit, and at any time that of one value at most. Members of an extent have consecutive ones.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Which of the values it is that have had this index.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation.get()
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_bits().cmp(&other.to_bits())
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bits().hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({}, generation {})", self.index(), self.generation())
    }
}

/// A range of values under consecutive ids, inserted by one [`insert_extent`](super::Namespace::insert_extent).
///
/// A name of all of them, no more: the members are values like others, can be removed one by one, and are not removed when this
/// is dropped.
pub struct Extent<T> {
    first: Id<T>,
    count: u32,
}

impl<T> Extent<T> {
    pub(super) const fn new(first: Id<T>, count: u32) -> Self {
        Self { first, count }
    }

    /// How many members it was put in with.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it never is")]
    pub const fn len(self) -> u32 {
        self.count
    }

    /// The first member, which the index of the others is counted from.
    #[must_use]
    pub const fn first(self) -> Id<T> {
        self.first
    }

    /// The member at an offset.
    #[must_use]
    pub const fn id(self, offset: u32) -> Option<Id<T>> {
        if offset < self.count {
            Some(Id::new(
                self.first.index() + offset,
                self.first.generation(),
            ))
        } else {
            None
        }
    }

    /// A part, by offsets; `None` if that is empty, or not a part.
    #[must_use]
    pub fn part(self, offsets: Range<u32>) -> Option<Self> {
        if offsets.start >= offsets.end || offsets.end > self.count {
            return None;
        }
        let first = self.id(offsets.start)?;
        Some(Self::new(first, offsets.end - offsets.start))
    }

    /// The members, in the order of their indices.
    pub fn ids(self) -> impl Iterator<Item = Id<T>> {
        (0..self.count).filter_map(move |offset| self.id(offset))
    }
}

impl<T> Clone for Extent<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Extent<T> {}

impl<T> PartialEq for Extent<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.first, self.count) == (other.first, other.count)
    }
}

impl<T> Eq for Extent<T> {}

impl<T> fmt::Debug for Extent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extent")
            .field("first", &self.first)
            .field("count", &self.count)
            .finish()
    }
}

/// The error of an id whose value was removed, or that never named one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleId;

impl fmt::Display for StaleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the id names nothing, or not any more")
    }
}

impl core::error::Error for StaleId {}

/// The reason why there is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InsertReason {
    /// None is free below the limit, or for an extent: not so many that lie beside each other.
    NoIds {
        /// See [`NamespaceBuilder::max_ids`](super::NamespaceBuilder::max_ids).
        limit: u32,
        /// How many values there are.
        in_use: u64,
        /// How many were removed lately: sections that may still have their values are open, or a custom grace period has
        /// not elapsed.
        waiting: u64,
    },
    /// The allocator has no memory for more, and no id is free that has some.
    NoMemory,
}

impl fmt::Display for InsertReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIds {
                limit,
                in_use,
                waiting,
            } => write!(
                f,
                "no id is free, or not so many in a row, below the limit of {limit}: {in_use} are in use, and {waiting} were \
                 removed and may still be looked at"
            ),
            Self::NoMemory => f.write_str("there is no memory for more ids"),
        }
    }
}

impl core::error::Error for InsertReason {}

/// The error of inserting a value, with the value: there is no id for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InsertError<T> {
    /// What was to be inserted.
    pub value: T,
    /// Why it was not.
    pub reason: InsertReason,
}

impl<T> fmt::Debug for InsertError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InsertError")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for InsertError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<T> core::error::Error for InsertError<T> {}
