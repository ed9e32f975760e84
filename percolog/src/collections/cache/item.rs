//! What users get to see of items.

use super::table::{FOR_EVER, HEADS, Node, Table};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

/// The version of an item, unique among all items that its key has had.
///
/// For [`compare_and_set`](super::Cache::compare_and_set). Versions of different keys have nothing to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItemVersion(u64);

impl ItemVersion {
    /// As a number, to be handed to somebody else.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// From such a number. One that was made up is no item's, or another one's.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// An item of a [`Cache`](super::Cache), for as long as its section lasts.
pub struct CacheItem<'s, K, V> {
    node: &'s Node<K, V>,
}

impl<'s, K, V> CacheItem<'s, K, V> {
    /// # Safety
    /// The node was found in a section, which `'s` lies in, as it does in the cache's life.
    pub(super) unsafe fn new(node: NonNull<Node<K, V>>) -> Self {
        Self {
            // SAFETY: by contract.
            node: unsafe { node.as_ref() },
        }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &'s K {
        &self.node.key
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &'s V {
        &self.node.value
    }

    /// Which of the key's items it is.
    #[must_use]
    pub fn version(&self) -> ItemVersion {
        ItemVersion(self.node.version())
    }

    /// What it weighs.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.node.weight
    }

    /// When it expires, in the milliseconds of the cache's [time source](super::TimeSource), as far as is known now; `None` if it does not.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        Some(self.node.expires()).filter(|at| *at != FOR_EVER)
    }
}

impl<K, V> Clone for CacheItem<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for CacheItem<'_, K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for CacheItem<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheItem")
            .field("key", self.key())
            .field("value", self.value())
            .field("version", &self.version())
            .field("expires", &self.expires())
            .finish()
    }
}

/// An iterator over the items of a [`Cache`](super::Cache), in no particular order.
pub struct CacheIter<'s, K, V> {
    table: &'s Table<K, V>,
    line: usize,
    chain: usize,
    at: *mut Node<K, V>,
    now: u64,
    lends: PhantomData<&'s Node<K, V>>,
}

// SAFETY: it lends keys and values (`Sync`), in a section that it does not own.
unsafe impl<K: Sync, V: Sync> Send for CacheIter<'_, K, V> {}
// SAFETY: as above.
unsafe impl<K: Sync, V: Sync> Sync for CacheIter<'_, K, V> {}

impl<'s, K, V> CacheIter<'s, K, V> {
    /// # Safety
    /// A section is open as long as `'s`.
    pub(super) unsafe fn new(table: &'s Table<K, V>, now: u64) -> Self {
        Self {
            table,
            line: 0,
            chain: 0,
            at: ptr::null_mut(),
            now,
            lends: PhantomData,
        }
    }
}

impl<'s, K, V> Iterator for CacheIter<'s, K, V> {
    type Item = CacheItem<'s, K, V>;

    fn next(&mut self) -> Option<CacheItem<'s, K, V>> {
        loop {
            let Some(node) = NonNull::new(self.at) else {
                let line = self.table.lines().get(self.line)?;
                self.at = line.first(self.chain);
                self.chain += 1;
                if self.chain == HEADS {
                    self.chain = 0;
                    self.line += 1;
                }
                continue;
            };
            // SAFETY: found in a section that is still open.
            let item = unsafe { CacheItem::new(node) };
            self.at = item.node.next();
            if !item.node.is_expired(|| self.now) {
                return Some(item);
            }
        }
    }
}

impl<K, V> fmt::Debug for CacheIter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheIter").finish_non_exhaustive()
    }
}

/// The reason why an item was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutReason {
    /// It does not fit, if there were nothing else in its list.
    #[non_exhaustive]
    TooLarge {
        /// What it weighs.
        weight: usize,
        /// What the items of a list may weigh.
        share: usize,
    },
    /// There is no memory for it. What was taken out may make room when sections have ended.
    #[non_exhaustive]
    NoMemory {
        /// What the [builder](super::CacheBuilder::memory) said, if that is in the way; else it is the system.
        limit: Option<usize>,
    },
    /// The key has an item.
    Present,
    /// The key has no item.
    Absent,
    /// The key's item has another version.
    Changed,
}

impl fmt::Display for PutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { weight, share } => write!(
                f,
                "an item of {weight} bytes does not fit a list of {share}"
            ),
            Self::NoMemory { limit: Some(limit) } => {
                write!(f, "the nodes take the {limit} bytes that they may take")
            }
            Self::NoMemory { limit: None } => f.write_str("the system has no memory"),
            Self::Present => f.write_str("the key has an item"),
            Self::Absent => f.write_str("the key has no item"),
            Self::Changed => f.write_str("the key's item has another version"),
        }
    }
}

/// The error of storing an item, with the item: nothing has changed.
pub struct PutError<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// Why.
    pub reason: PutReason,
}

impl<K, V> fmt::Debug for PutError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutError")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<K, V> fmt::Display for PutError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<K, V> core::error::Error for PutError<K, V> {}
