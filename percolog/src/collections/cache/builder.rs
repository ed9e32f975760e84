//! How a cache is to work, and what it says of itself.

use super::calls::Cache;
use super::core::Core;
use super::lists::Lists;
use super::notes::Slots;
use super::table::Table;
use super::time::{DefaultTime, TimeSource};
use crate::hash::DefaultHashBuilder;
use crate::reclaim::Domain;
use crate::slab;
use crate::sync::atomic::AtomicUsize;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// The paper's number of lists: more than that gained nothing on 40 cores.
const LISTS: usize = 64;

/// So many items a list has room for at least, if it is not said how many lists there are to be.
const ITEMS_A_LIST: usize = 128;

/// A builder of a [`Cache`].
///
/// ```
/// use percolog::collections::Cache;
/// use percolog::reclaim::Domain;
///
/// static PAGES: Domain = Domain::new();
///
/// // 16 MiB of pages of about 2 KiB, whose texts lie in memory of their own.
/// let pages = Cache::<u64, String>::builder(16 << 20)
///     .weigher(|_, text| text.capacity())
///     .expected_weight(2048)
///     .build(&PAGES)
///     .expect("there is memory for its tables");
/// pages.set(7, String::from("<html>")).expect("it is small");
/// assert!(pages.bytes() <= 16 << 20);
/// ```
#[must_use = "nothing is built yet"]
pub struct CacheBuilder<K, V, S = DefaultHashBuilder, C = DefaultTime> {
    bytes: usize,
    expected: usize,
    lists: Option<usize>,
    memory: usize,
    weigher: fn(&K, &V) -> usize,
    hasher: S,
    time: C,
}

impl<K, V> CacheBuilder<K, V> {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes,
            expected: 0,
            lists: None,
            memory: usize::MAX,
            weigher: |_, _| 0,
            hasher: DefaultHashBuilder::default(),
            time: DefaultTime::default(),
        }
    }
}

impl<K, V, S, C> CacheBuilder<K, V, S, C> {
    /// How many bytes an item takes besides [`Cache::ITEM_BYTES`]: what its key and value have allocated. Asked once for
    /// each item, when it is put in. Without this, none.
    pub fn weigher(self, weigher: fn(&K, &V) -> usize) -> Self {
        Self { weigher, ..self }
    }

    /// What an item weighs on average, [`Cache::ITEM_BYTES`] included; that is also the default. It decides how many chains there are: if
    /// items are lighter, chains are longer; if they are heavier, memory is wasted.
    pub fn expected_weight(self, bytes: usize) -> Self {
        Self {
            expected: bytes,
            ..self
        }
    }

    /// How many lists items are spread over, rounded up to a power of two; each has the same share of the bytes, and an item that is
    /// larger than a share is refused. Without this there are 64, or fewer if there were not room for 128 items
    /// of the expected weight in each.
    pub fn lists(self, lists: usize) -> Self {
        Self {
            lists: Some(lists.clamp(1, 1 << 16).next_power_of_two()),
            ..self
        }
    }

    /// How many bytes nodes may take at most, with those that were taken out and wait for sections to end, and with what is lost
    /// to their being allocated in chunks: the [limit](slab::SlabBuilder::limit) of their slab. Without this, there is none but the domain's.
    ///
    /// At this limit items are refused with [`PutReason::NoMemory`](super::PutReason::NoMemory), so it should be more than
    /// the bound of the cache by some megabytes.
    pub fn memory(self, bytes: usize) -> Self {
        Self {
            memory: bytes,
            ..self
        }
    }

    /// What keys are hashed with. Its results are mixed once more.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> CacheBuilder<K, V, T, C> {
        CacheBuilder {
            bytes: self.bytes,
            expected: self.expected,
            lists: self.lists,
            memory: self.memory,
            weigher: self.weigher,
            hasher,
            time: self.time,
        }
    }

    /// What tells the time by which items expire.
    pub fn time<T: TimeSource>(self, time: T) -> CacheBuilder<K, V, S, T> {
        CacheBuilder {
            bytes: self.bytes,
            expected: self.expected,
            lists: self.lists,
            memory: self.memory,
            weigher: self.weigher,
            hasher: self.hasher,
            time,
        }
    }

    /// A cache whose items are looked up in sections of this domain.
    ///
    /// Asks the system for all tables at once; they are touched, and so taken, as they are used.
    ///
    /// # Errors
    /// If there is no room for an item in each list, or no memory for the tables.
    pub fn build(self, domain: &Domain) -> Result<Cache<'_, K, V, S, C>, CacheBuildError>
    where
        K: Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static,
        S: BuildHasher,
        C: TimeSource,
    {
        let least = Cache::<K, V, S, C>::ITEM_BYTES;
        let expected = self.expected.max(least);
        let lists = self.lists.unwrap_or_else(|| {
            let room = (self.bytes / expected / ITEMS_A_LIST).max(1);
            // Rounded down.
            (1 << room.ilog2()).min(LISTS)
        });
        // So many items have room nowhere, so nobody is asked for their tables.
        if isize::try_from(self.bytes).is_err() {
            return Err(CacheBuildError::NoMemory);
        }
        let share = self.bytes / lists;
        if share < least {
            return Err(CacheBuildError::TooSmall {
                least: least.saturating_mul(lists),
            });
        }
        let core = || {
            Some(Core {
                table: Table::new(self.bytes / expected)?,
                lists: Lists::new(lists, share, least)?,
                slots: Slots::new(),
            })
        };
        Ok(Cache {
            core: core().ok_or(CacheBuildError::NoMemory)?,
            slab: slab::SlabBuilder::new().limit(self.memory).build(domain),
            domain,
            hasher: self.hasher,
            time: self.time,
            weigher: self.weigher,
            limit: self.bytes,
            next: AtomicUsize::new(0),
        })
    }
}

impl<K, V, S, C> fmt::Debug for CacheBuilder<K, V, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBuilder")
            .field("bytes", &self.bytes)
            .field("expected_weight", &self.expected)
            .field("lists", &self.lists)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// An error of [`CacheBuilder::build`](super::CacheBuilder::build).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheBuildError {
    /// There is no room for an item in each list.
    #[non_exhaustive]
    TooSmall {
        /// So many bytes are needed.
        least: usize,
    },
    /// The system has no memory for the tables.
    NoMemory,
}

impl fmt::Display for CacheBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { least } => {
                write!(f, "a cache of these items takes {least} bytes at least")
            }
            Self::NoMemory => f.write_str("there is no memory for the cache's tables"),
        }
    }
}

impl core::error::Error for CacheBuildError {}

/// Statistics of a [`Cache`].
///
/// What is counted is exact: each call that has finished for the caller is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Lookups that found an item.
    pub hits: u64,
    /// Lookups that found none, or one that had expired.
    pub misses: u64,
    /// Items that were put in.
    pub sets: u64,
    /// Items that were deleted; not those that a [`clear`](Cache::clear) has taken out.
    pub deletes: u64,
    /// Items that were taken out to make room.
    pub evictions: u64,
    /// Items that were taken out, or replaced, after they had expired.
    pub expirations: u64,
    /// Items that were handed back: too large, no memory, or a condition that was not met.
    pub rejected: u64,
    /// Items that are there, expired ones included.
    pub items: usize,
    /// What they weigh.
    pub bytes: usize,
    /// What they may weigh.
    pub limit: usize,
}
