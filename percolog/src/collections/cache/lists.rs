//! CLOCK's lists: which items each has, how many bytes they take, and where its hand is.
//!
//! An item belongs to the list that its hash chooses. A list is a ring of places, each with the hash of an item; a node knows its place.
//! With the hash the item is found in its chain, so an item that is replaced by one of the same weight leaves its list's lines alone.
//!
//! *Invariant:* under the lock, a place has a hash if and only if a node with this hash and this place is linked, and the list's bytes and
//! items are those of such nodes. Bytes are never more than the list's share.

use super::table::take;
use crate::counter::memory::{self, Zero};
use crate::lock::{NodeGuard, NodeLock};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Isolated, UnsafeCell};
use alloc::boxed::Box;
use core::ptr::NonNull;

/// A place: the hash of an item, which is odd; or the next place that nobody has, doubled.
#[derive(Default)]
struct Place(AtomicU64);

// SAFETY: an integer.
unsafe impl Zero for Place {}

/// No place.
const NONE: u32 = u32::MAX;

/// As many places as there are numbers for.
const MOST: usize = NONE as usize;

/// One list.
struct List {
    lock: NodeLock,
    /// Changed under the lock.
    state: UnsafeCell<State>,
    items: AtomicUsize,
    bytes: AtomicUsize,
}

/// What is used under a list's lock.
struct State {
    /// The place to be looked at next.
    hand: u32,
    /// So many places have been in use; the others are not in `free`.
    touched: u32,
    /// The first place that nobody has.
    free: u32,
    /// Where the next walk for what has expired goes on.
    sweep: u32,
}

// SAFETY: the state is used under the lock.
unsafe impl Sync for List {}
// SAFETY: integers.
unsafe impl Send for List {}

/// All lists.
pub(super) struct Lists {
    lists: Box<[Isolated<List>]>,
    /// The rings, one behind the other.
    places: NonNull<Place>,
    /// How many places each has.
    each: usize,
    /// How many bytes the items of a list may take.
    pub(super) share: usize,
}

/// A list's lock is held.
pub(super) struct Held<'a> {
    list: &'a List,
    ring: &'a [Place],
    _guard: NodeGuard<'a>,
}

impl Lists {
    /// So many lists (a power of two) with this share each, whose items take `least` bytes at least. `None` if there is no memory;
    /// what the rings take is taken from the system as they are used.
    pub(super) fn new(lists: usize, share: usize, least: usize) -> Option<Self> {
        let each = (share / least).clamp(1, MOST);
        let list = || {
            Isolated::new(List {
                lock: NodeLock::new(),
                state: UnsafeCell::new(State {
                    hand: 0,
                    touched: 0,
                    free: NONE,
                    sweep: 0,
                }),
                items: AtomicUsize::new(0),
                bytes: AtomicUsize::new(0),
            })
        };
        Some(Self {
            places: NonNull::new(memory::try_zeroed(each.checked_mul(lists)?))?,
            lists: (0..lists).map(|_| list()).collect(),
            each,
            share,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.lists.len()
    }

    /// How much was asked of the allocator.
    pub(super) fn memory(&self) -> usize {
        self.count() * (self.each * size_of::<Place>() + size_of::<Isolated<List>>())
    }

    /// The list of a hash.
    pub(super) fn of(&self, hash: u64) -> usize {
        // Bits that choose neither a line nor a chain; the lowest one is always set.
        (hash >> 1) as usize & (self.count() - 1)
    }

    /// Takes the lock of a list.
    pub(super) fn lock(&self, number: usize) -> Held<'_> {
        let list = &*self.lists[number];
        let guard = take(&list.lock);
        // SAFETY: the places of this list, which live as long as the lists, and are atomics.
        let ring = unsafe {
            core::slice::from_raw_parts(self.places.add(number * self.each).as_ptr(), self.each)
        };
        Held {
            list,
            ring,
            _guard: guard,
        }
    }

    /// A sum of all lists.
    pub(super) fn items(&self) -> usize {
        // Relaxed, here and below: each is what it was at some moment.
        let lists = self.lists.iter();
        lists.map(|list| list.items.load(Ordering::Relaxed)).sum()
    }

    /// A sum of all lists.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.lists.iter();
        lists.map(|list| list.bytes.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        // SAFETY: made in `new` with this count.
        unsafe { memory::free(self.places.as_ptr(), self.count() * self.each) };
    }
}

impl Held<'_> {
    fn with<R>(&mut self, f: impl FnOnce(&mut State, &[Place]) -> R) -> R {
        let ring = self.ring;
        // SAFETY: the lock is held, and `&mut self` keeps others of its holder away.
        self.list
            .state
            .with_mut(|state| f(unsafe { &mut *state }, ring))
    }

    /// The bytes of its items.
    pub(super) fn bytes(&self) -> usize {
        // Relaxed: changed under the lock.
        self.list.bytes.load(Ordering::Relaxed)
    }

    /// An item with a weight of `before` (0 if there is none) becomes one with a weight of `after`.
    pub(super) fn weigh(&mut self, before: usize, after: usize) {
        // Relaxed: others only look. In one step, so that they never see too much.
        let bytes = self.bytes() - before + after;
        self.list.bytes.store(bytes, Ordering::Relaxed);
    }

    fn count(&mut self, change: impl FnOnce(usize) -> usize) {
        // Relaxed, both: as above.
        let items = change(self.list.items.load(Ordering::Relaxed));
        self.list.items.store(items, Ordering::Relaxed);
    }

    /// A place for an item, which is counted. There is one as long as the items fit the share, since there are as many as
    /// the lightest ones need.
    pub(super) fn take_place(&mut self, hash: u64) -> Option<u32> {
        let place = self.with(|state, ring| {
            let place = if state.free == NONE {
                let next = state.touched;
                if next as usize >= ring.len() {
                    return None;
                }
                state.touched += 1;
                next
            } else {
                let first = state.free;
                // Relaxed, as all of these: used under the lock.
                state.free = (ring[first as usize].0.load(Ordering::Relaxed) >> 1) as u32;
                first
            };
            ring[place as usize].0.store(hash, Ordering::Relaxed);
            Some(place)
        })?;
        self.count(|items| items + 1);
        Some(place)
    }

    /// An item is gone.
    pub(super) fn give_back(&mut self, place: u32, weight: usize) {
        self.with(|state, ring| {
            let next = u64::from(state.free) << 1;
            ring[place as usize].0.store(next, Ordering::Relaxed);
            state.free = place;
        });
        self.weigh(weight, 0);
        self.count(|items| items - 1);
    }

    /// The hash of the item at this place, if there is one.
    pub(super) fn at(&self, place: u32) -> Option<u64> {
        let hash = self.ring.get(place as usize)?.0.load(Ordering::Relaxed);
        (hash & 1 == 1).then_some(hash)
    }

    /// How many places have been in use.
    pub(super) fn touched(&mut self) -> u32 {
        self.with(|state, _| state.touched)
    }

    /// Moves the hand on, over a place, which is returned.
    pub(super) fn advance(&mut self) -> u32 {
        self.with(|state, _| step(&mut state.hand, state.touched))
    }

    /// The place where the hand will come by after so many others.
    pub(super) fn ahead(&mut self, by: u32) -> u32 {
        self.with(|state, _| {
            let there = state.hand as u64 + u64::from(by);
            (there % u64::from(state.touched.max(1))) as u32
        })
    }

    /// The same as [`advance`](Self::advance) for the walk for what has expired.
    pub(super) fn sweep(&mut self) -> u32 {
        self.with(|state, _| step(&mut state.sweep, state.touched))
    }
}

fn step(at: &mut u32, touched: u32) -> u32 {
    let place = *at;
    *at = if place + 1 >= touched { 0 } else { place + 1 };
    place
}
