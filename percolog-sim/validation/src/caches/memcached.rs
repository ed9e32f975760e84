//! What memcached 1.4 does with a request, without what it does with text and sockets.
//!
//! Its shape, not its code: a table of buckets that each have a lock; items that count their references, as whoever was answered from
//! one needs it until the answer has been sent; a list of free items under a lock of its own; and under another one a list of all items in
//! the order in which they are to be evicted. A get takes its bucket's lock, counts a reference, and takes the bucket's lock once more to
//! count it down when the answer has been copied.
//!
//! Items are places in an array, and all their fields are atomics that locks keep in order: there is nothing unsafe here.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::{Cache, Key, Value};
use crate::alone::Alone;
use crate::hash::mix;
use crate::locks::{McsPlaces, McsTail};

/// A lock that threads enter at a place, of which each has one for each [`Level`].
pub(super) trait Lock: Default + Sync {
    fn lock(&self, places: &McsPlaces, own: usize);
    fn try_lock(&self, places: &McsPlaces, own: usize) -> bool;
    fn unlock(&self, places: &McsPlaces, own: usize);
}

/// A spin lock that looks before it tries: memcached's are the C library's, which spin before they sleep.
#[derive(Debug, Default)]
pub(super) struct Spin(AtomicBool);

impl Lock for Spin {
    #[inline]
    fn lock(&self, places: &McsPlaces, own: usize) {
        while !self.try_lock(places, own) {
            hint::spin_loop();
        }
    }

    #[inline]
    fn try_lock(&self, _: &McsPlaces, _: usize) -> bool {
        // Acquire: with the release of `unlock`.
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    fn unlock(&self, _: &McsPlaces, _: usize) {
        // Release: with the acquire of `try_lock`.
        self.0.store(false, Ordering::Release);
    }
}

/// A queue lock.
#[derive(Debug, Default)]
pub(super) struct Queue(McsTail);

impl Lock for Queue {
    #[inline]
    fn lock(&self, places: &McsPlaces, own: usize) {
        self.0.lock(places, own);
    }

    #[inline]
    fn try_lock(&self, places: &McsPlaces, own: usize) -> bool {
        self.0.try_lock(places, own)
    }

    #[inline]
    fn unlock(&self, places: &McsPlaces, own: usize) {
        self.0.unlock(places, own);
    }
}

/// Locks that a thread can hold at once, and so wait at.
#[derive(Clone, Copy)]
enum Level {
    Bucket,
    Order,
    Free,
}

/// So many [`Level`]s.
const LEVELS: usize = 3;

/// How the order of eviction is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recency {
    /// Each hit moves its item to the front.
    Exact,
    /// Only a set does.
    WhenSet,
    /// A hit marks its item, and the mark saves that from being evicted once.
    Clock,
}

/// An index of an item, or none.
const NONE: u32 = u32::MAX;

/// How many items somebody who needs room looks at, before there is none: memcached gives up as well.
const TRIES: usize = 50;

/// A line.
#[derive(Debug)]
#[repr(align(64))]
struct Item {
    key: [AtomicU64; 2],
    value: [AtomicU64; 4],
    /// In the bucket's chain, or among the free.
    next: AtomicU32,
    /// References: the table's, and of those who are answered from it.
    references: AtomicU32,
    /// Neighbours in the order of eviction.
    newer: AtomicU32,
    older: AtomicU32,
}

/// In `references`: it was used since it was looked at for eviction.
const USED: u32 = 1 << 31;

#[derive(Debug, Default)]
struct Bucket<L> {
    lock: L,
    /// One more than the index of the first item; 0 if there is none.
    first: AtomicU32,
}

/// The two ends of a list of items.
#[derive(Debug)]
struct Ends {
    first: AtomicU32,
    last: AtomicU32,
}

impl Default for Ends {
    fn default() -> Self {
        let none = || AtomicU32::new(NONE);
        Self {
            first: none(),
            last: none(),
        }
    }
}

/// The cache.
#[derive(Debug)]
pub(super) struct Memcached<L> {
    buckets: Box<[Bucket<L>]>,
    items: Box<[Item]>,
    places: McsPlaces,
    /// Free items: a stack.
    free: Alone<(L, AtomicU32)>,
    /// From the one that was moved to the front last.
    order: Alone<(L, Ends)>,
    recency: Recency,
}

/// All fields are read and written under locks, so relaxed.
fn get(field: &AtomicU32) -> u32 {
    field.load(Ordering::Relaxed)
}

fn put(field: &AtomicU32, value: u32) {
    field.store(value, Ordering::Relaxed);
}

impl<L: Lock> Memcached<L> {
    /// With room for so many keys, and for what is on its way in or out.
    pub(super) fn new(threads: usize, keys: u64, recency: Recency) -> Self {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        Self::of_items(threads, keys + keys / 8 + 4 * threads, recency)
    }

    fn of_items(threads: usize, items: usize, recency: Recency) -> Self {
        let item = |at: usize| Item {
            key: Default::default(),
            value: Default::default(),
            next: AtomicU32::new(if at + 1 < items { at as u32 + 1 } else { NONE }),
            references: AtomicU32::new(0),
            newer: AtomicU32::new(NONE),
            older: AtomicU32::new(NONE),
        };
        Self {
            buckets: (0..items.next_power_of_two())
                .map(|_| Bucket::default())
                .collect(),
            items: (0..items).map(item).collect(),
            places: McsPlaces::new(threads * LEVELS),
            free: Alone((L::default(), AtomicU32::new(0))),
            order: Alone::default(),
            recency,
        }
    }

    fn item(&self, at: u32) -> &Item {
        &self.items[at as usize]
    }

    fn bucket(&self, key: &Key) -> &Bucket<L> {
        let hash = mix(mix(key[0]) ^ key[1]);
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    /// Runs with the lock.
    #[inline]
    fn with<R>(&self, lock: &L, thread: usize, level: Level, run: impl FnOnce() -> R) -> R {
        let own = thread * LEVELS + level as usize;
        lock.lock(&self.places, own);
        let result = run();
        lock.unlock(&self.places, own);
        result
    }

    /// The item with the key, and where the index that leads to it is stored. With the bucket's lock.
    fn find<'a>(&'a self, bucket: &'a Bucket<L>, key: &Key) -> Option<u32> {
        let mut at = get(&bucket.first).wrapping_sub(1);
        while at != NONE {
            let item = self.item(at);
            if [0, 1].map(|word| item.key[word].load(Ordering::Relaxed)) == *key {
                return Some(at);
            }
            at = get(&item.next);
        }
        None
    }

    /// Takes an item out of its bucket's chain. With the bucket's lock.
    fn unchain(&self, bucket: &Bucket<L>, gone: u32) {
        let behind = get(&self.item(gone).next);
        let mut at = get(&bucket.first).wrapping_sub(1);
        if at == gone {
            return put(&bucket.first, behind.wrapping_add(1));
        }
        while get(&self.item(at).next) != gone {
            at = get(&self.item(at).next);
        }
        put(&self.item(at).next, behind);
    }

    /// Puts an item to the front of the order. With the order's lock.
    fn to_front(&self, at: u32) {
        let ends = &self.order.0.1;
        let first = get(&ends.first);
        put(&self.item(at).newer, NONE);
        put(&self.item(at).older, first);
        match first {
            NONE => put(&ends.last, at),
            first => put(&self.item(first).newer, at),
        }
        put(&ends.first, at);
    }

    /// Takes an item out of the order. With the order's lock.
    fn out_of_order(&self, at: u32) {
        let ends = &self.order.0.1;
        let (newer, older) = (get(&self.item(at).newer), get(&self.item(at).older));
        match newer {
            NONE => put(&ends.first, older),
            newer => put(&self.item(newer).older, older),
        }
        match older {
            NONE => put(&ends.last, newer),
            older => put(&self.item(older).newer, newer),
        }
    }

    /// Gives a reference back; the last one frees the item. With the lock of the item's bucket.
    fn release(&self, thread: usize, at: u32) {
        let before = self.item(at).references.fetch_sub(1, Ordering::Relaxed);
        if before & !USED == 1 {
            let (lock, first) = &self.free.0;
            self.with(lock, thread, Level::Free, || {
                put(&self.item(at).next, get(first));
                put(first, at);
            });
        }
    }

    /// An item for something new: a free one, or one that is evicted. Its place in the table is gone.
    fn allocate(&self, thread: usize) -> Option<u32> {
        for _ in 0..TRIES {
            let (lock, first) = &self.free.0;
            let free = self.with(lock, thread, Level::Free, || {
                let at = get(first);
                if at != NONE {
                    put(first, get(&self.item(at).next));
                }
                at
            });
            if free != NONE {
                return Some(free);
            }
            let (lock, _) = &self.order.0;
            self.with(lock, thread, Level::Order, || self.evict(thread));
        }
        None
    }

    /// Evicts one item, if there is one that nobody is in the way of. With the order's lock, so buckets are only tried: who holds
    /// one may wait for the order.
    fn evict(&self, thread: usize) {
        let own = thread * LEVELS + Level::Bucket as usize;
        for _ in 0..TRIES {
            let at = get(&self.order.0.1.last);
            if at == NONE {
                return;
            }
            let item = self.item(at);
            let key = [0, 1].map(|word| item.key[word].load(Ordering::Relaxed));
            let bucket = self.bucket(&key);
            self.out_of_order(at);
            let used = item.references.load(Ordering::Relaxed) & USED != 0;
            if used || !bucket.lock.try_lock(&self.places, own) {
                item.references.fetch_and(!USED, Ordering::Relaxed);
                self.to_front(at);
                continue;
            }
            self.unchain(bucket, at);
            self.release(thread, at);
            bucket.lock.unlock(&self.places, own);
            return;
        }
    }
}

impl<L: Lock> Cache for Memcached<L> {
    fn get(&self, thread: usize, key: &Key) -> Option<Value> {
        let bucket = self.bucket(key);
        let at = self.with(&bucket.lock, thread, Level::Bucket, || {
            let at = self.find(bucket, key)?;
            let item = self.item(at);
            let references = item.references.fetch_add(1, Ordering::Relaxed);
            match self.recency {
                Recency::Exact => self.with(&self.order.0.0, thread, Level::Order, || {
                    self.out_of_order(at);
                    self.to_front(at);
                }),
                Recency::WhenSet => {}
                Recency::Clock if references & USED != 0 => {}
                Recency::Clock => {
                    item.references.fetch_or(USED, Ordering::Relaxed);
                }
            }
            Some(at)
        })?;
        // The reference keeps it: nobody writes to it.
        let value = [0, 1, 2, 3].map(|word| self.item(at).value[word].load(Ordering::Relaxed));
        self.with(&bucket.lock, thread, Level::Bucket, || {
            self.release(thread, at);
        });
        Some(value)
    }

    fn set(&self, thread: usize, key: Key, value: Value) -> bool {
        let Some(at) = self.allocate(thread) else {
            return false;
        };
        let item = self.item(at);
        for (field, word) in item.key.iter().zip(key) {
            field.store(word, Ordering::Relaxed);
        }
        for (field, word) in item.value.iter().zip(value) {
            field.store(word, Ordering::Relaxed);
        }
        put(&item.references, 1);
        let bucket = self.bucket(&key);
        self.with(&bucket.lock, thread, Level::Bucket, || {
            let old = self.find(bucket, &key);
            if let Some(old) = old {
                self.unchain(bucket, old);
            }
            put(&item.next, get(&bucket.first).wrapping_sub(1));
            put(&bucket.first, at + 1);
            self.with(&self.order.0.0, thread, Level::Order, || {
                if let Some(old) = old {
                    self.out_of_order(old);
                }
                self.to_front(at);
            });
            if let Some(old) = old {
                self.release(thread, old);
            }
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::follows_a_map;
    use super::super::{is_of, key, value};
    use super::*;

    #[test]
    fn each_follows_a_map() {
        follows_a_map(&Memcached::<Spin>::new(1, 64, Recency::Exact));
        follows_a_map(&Memcached::<Spin>::new(1, 64, Recency::WhenSet));
        follows_a_map(&Memcached::<Queue>::new(1, 64, Recency::Clock));
    }

    /// The numbers that are left of 0..4 when the first was used again and a fifth came.
    fn left<L: Lock>(recency: Recency) -> Vec<u64> {
        let cache = Memcached::<L>::of_items(1, 4, recency);
        for number in 0..4 {
            assert!(cache.set(0, key(number), value(number, 0)));
        }
        assert!(cache.get(0, &key(0)).is_some_and(|found| is_of(&found, 0)));
        assert!(cache.set(0, key(4), value(4, 0)));
        (0..5)
            .filter(|number| cache.get(0, &key(*number)).is_some())
            .collect()
    }

    #[test]
    fn what_was_used_stays() {
        assert_eq!(left::<Spin>(Recency::Exact), [0, 2, 3, 4]);
        assert_eq!(left::<Spin>(Recency::WhenSet), [1, 2, 3, 4]);
        assert_eq!(left::<Queue>(Recency::Clock), [0, 2, 3, 4]);
    }
}
