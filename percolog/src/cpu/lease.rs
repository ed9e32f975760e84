//! Places with a single writer.
//!
//! A [`LeasePool`] hands out small numbers, each to one holder at a time. The holder may then write
//! the memory that belongs to the number with plain loads and stores. Numbers are reused smallest
//! first, so that the memory in use stays compact when threads come and go.
//!
//! Handing a number from one holder to the next is a release/acquire pair on the pool's word, so the
//! next holder continues where the last one stopped: nothing has to be folded away at thread exit.

use super::CoreId;
use crate::sync::atomic::{AtomicU64, Ordering};
#[cfg(all(feature = "std", not(percolog_loom)))]
use core::cell::Cell;

/// How many leases one pool has. Threads beyond it share other places with atomic updates.
#[cfg(not(percolog_loom))]
pub(crate) const LEASES: usize = 512;
/// How many leases one pool has; small, so that a model runs out of them.
#[cfg(percolog_loom)]
pub(crate) const LEASES: usize = 2;

#[cfg(any(feature = "std", percolog_loom))]
const WORDS: usize = LEASES.div_ceil(64);

/// Sets the lowest bit of a word that is not set, if there is one among so many: whoever sets it has what belongs to it. Lock-free.
pub(crate) fn take_bit(word: &AtomicU64, bits: usize) -> Option<usize> {
    // A hint: the exchange decides.
    let mut taken = word.load(Ordering::Relaxed);
    loop {
        let free = taken.trailing_ones() as usize;
        if free >= bits.min(64) {
            return None;
        }
        // Acquire pairs with the Release of whoever clears the bit: the new holder sees all that the last one wrote to the memory
        // behind it.
        match word.compare_exchange_weak(
            taken,
            taken | 1 << free,
            Ordering::Acquire,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Some(free),
            Err(now) => taken = now,
        }
    }
}

/// A pool of [`LEASES`] numbers.
#[cfg(any(feature = "std", percolog_loom))]
#[derive(Debug)]
pub(crate) struct LeasePool {
    taken: [AtomicU64; WORDS],
}

#[cfg(any(feature = "std", percolog_loom))]
impl LeasePool {
    /// A pool with everything free.
    #[cfg(not(percolog_loom))]
    pub(crate) const fn new() -> Self {
        Self {
            taken: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// A pool with everything free.
    #[cfg(percolog_loom)]
    pub(crate) fn new() -> Self {
        Self {
            taken: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Takes the smallest free number. Lock-free.
    pub(crate) fn acquire(&self) -> Option<usize> {
        for (at, word) in self.taken.iter().enumerate() {
            if let Some(free) = take_bit(word, LEASES - at * 64) {
                return Some(at * 64 + free);
            }
        }
        None
    }

    /// Gives a number back. The caller must hold it, and not use its memory any more.
    pub(crate) fn release(&self, number: usize) {
        // Release pairs with the Acquire in `take_bit`.
        self.taken[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
    }
}

#[cfg(all(feature = "std", not(percolog_loom)))]
static POOL: LeasePool = LeasePool::new();

/// No lease has been asked for yet.
#[cfg(all(feature = "std", not(percolog_loom)))]
const UNKNOWN: u32 = u32::MAX;
/// The pool was empty, or the thread is on its way out and has given its lease back.
#[cfg(all(feature = "std", not(percolog_loom)))]
const NONE: u32 = u32::MAX - 1;

#[cfg(all(feature = "std", not(percolog_loom)))]
std::thread_local! {
    static MINE: Cell<u32> = const { Cell::new(UNKNOWN) };
    static RETURN: Return = const { Return };
}

/// Gives this thread's lease back when the thread exits.
#[cfg(all(feature = "std", not(percolog_loom)))]
struct Return;

#[cfg(all(feature = "std", not(percolog_loom)))]
impl Drop for Return {
    fn drop(&mut self) {
        // `MINE` has no destructor, so it can still be read, also by destructors that run later:
        // those find `NONE` and use the shared places.
        let mine = MINE.replace(NONE);
        super::recent::forget_all();
        if mine < NONE && !has_guards(mine as usize) {
            POOL.release(mine as usize);
        } else if mine < NONE {
            late::leave(mine as usize);
        }
    }
}

/// Leases at whose places there are guards, which may outlive their thread's lease: in thread-local values that are destroyed late.
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
static GUARDED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Says that places of this lease, from now on, may be in use by guards when it would be given back. They are
/// [enlisted](super::undivided::enlist). Then the lease is kept from others until they are gone.
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
pub(crate) fn expect_guards(lease: usize) {
    // Relaxed: asked by the holder of the lease, who said so, or got it from who did.
    GUARDED[lease / 64].fetch_or(1 << (lease % 64), Ordering::Relaxed);
}

/// Whether a guard is out at a place of this lease.
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
fn has_guards(lease: usize) -> bool {
    // Relaxed: as above.
    GUARDED[lease / 64].load(Ordering::Relaxed) & (1 << (lease % 64)) != 0
        && super::undivided::is_inside_with(lease)
}

/// The lease that the calling thread had, and [kept](expect_guards) for its guards when it was to give it back. Exact for who has
/// the list of [enlisted](super::undivided::enlist) locks: with it, leases are given back.
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
pub(super) fn late() -> Option<usize> {
    late::mine()
}

/// Where nothing is enlisted, guards use no leases.
#[cfg(all(feature = "std", not(unix), not(percolog_loom)))]
fn has_guards(_lease: usize) -> bool {
    false
}

#[cfg(all(feature = "std", not(unix), not(percolog_loom)))]
mod late {
    pub(super) fn leave(_lease: usize) {}
    pub(super) fn give_back() {}
}

#[cfg(all(feature = "std", unix, not(percolog_loom)))]
mod late {
    //! Leases that could not be given back when their threads ended, since guards were out. A thread that has given up its
    //! lease begins nothing with it where it is not inside already, so the lease is free when the last guard is gone. Whoever
    //! asks for a lease looks.

    use super::{GONE, LEASES, POOL, WORDS};
    use crate::cpu::undivided;
    use crate::sync::ThreadId;
    use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use core::cell::Cell;

    static LATE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

    /// The [`ThreadId`]s of who left them; [`NOBODY`] once they were given back.
    static LEFT_BY: [AtomicU32; LEASES] = [const { AtomicU32::new(NOBODY) }; LEASES];

    const NOBODY: u32 = 0;

    std::thread_local! {
        /// Which one this thread has left. It has no destructor: it is read in a thread's last moments.
        static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// The lease that the calling thread has left, until it is given back.
    pub(super) fn mine() -> Option<usize> {
        let me = ThreadId::current();
        // Relaxed: this thread wrote its number itself; who has the list knows what was written with it.
        LEFT.get().filter(|lease| {
            me != ThreadId::UNKNOWN && LEFT_BY[*lease].load(Ordering::Relaxed) == me.word()
        })
    }

    /// The caller's lease is given back later.
    pub(super) fn leave(lease: usize) {
        LEFT.set(Some(lease));
        // Relaxed: published with the bit below.
        LEFT_BY[lease].store(ThreadId::current().word(), Ordering::Relaxed);
        // Release pairs with the Acquire in `give_back`: what the thread did at its places is handed on.
        LATE[lease / 64].fetch_or(1 << (lease % 64), Ordering::Release);
    }

    /// Gives back the leases whose guards are gone.
    pub(super) fn give_back() {
        // Relaxed: a hint.
        if LATE.iter().all(|word| word.load(Ordering::Relaxed) == 0) {
            return;
        }
        // One thread at a time does this: a lease that another one gave back meanwhile may be late a second time.
        undivided::with_inside(|inside| {
            // Before it is looked who is inside: whoever is late entered earlier. Acquire pairs with the Release in `leave`.
            let late = LATE.each_ref().map(|word| word.load(Ordering::Acquire));
            let mut kept = [0; WORDS];
            inside.for_each(|lease| kept[lease / 64] |= 1 << (lease % 64));
            for (at, late) in late.into_iter().enumerate() {
                // Relaxed: as in `is_gone`. Nobody gets those.
                let free = late & !kept[at] & !GONE[at].load(Ordering::Relaxed);
                // Relaxed: bits are cleared only here, by one thread at a time.
                LATE[at].fetch_and(!free, Ordering::Relaxed);
                (0..64)
                    .filter(|bit| free & (1 << bit) != 0)
                    .for_each(|bit| {
                        // Relaxed: handed on with the lease, or read by who has the list.
                        LEFT_BY[at * 64 + bit].store(NOBODY, Ordering::Relaxed);
                        POOL.release(at * 64 + bit);
                    });
            }
        });
    }
}

/// Models give no lease back that a guard uses.
#[cfg(not(all(feature = "std", unix, not(percolog_loom))))]
pub(crate) fn expect_guards(_lease: usize) {}

/// The number leased to this thread; `None` when it has none: more threads than leases, or a thread
/// that is exiting.
#[cfg(all(feature = "std", not(percolog_loom)))]
#[inline(always)]
pub(crate) fn mine() -> Option<usize> {
    let mine = MINE.get();
    if mine < NONE {
        Some(mine as usize)
    } else {
        ask(mine)
    }
}

#[cfg(all(feature = "std", not(percolog_loom)))]
#[cold]
fn ask(mine: u32) -> Option<usize> {
    if mine == NONE {
        return None;
    }
    // The guard must exist before a number is taken, or a failing registration would lose it.
    let number = if RETURN.try_with(|_| ()).is_ok() {
        late::give_back();
        POOL.acquire()
    } else {
        None
    };
    MINE.set(number.map_or(NONE, |number| number as u32));
    number
}

/// None: nothing below no operating system says that a thread is not interrupted by another one on the same slot.
#[cfg(not(any(feature = "std", percolog_loom)))]
#[inline(always)]
pub(crate) fn mine() -> Option<usize> {
    None
}

/// How many places there are for threads without a lease, beside one for each lease: as few in models as the checker can go through.
/// (Where there are no leases, each slot has one.)
pub(crate) const COMMON: usize = if cfg!(percolog_loom) { 1 } else { 16 };

/// The number of the common place that a thread without a lease uses.
#[cfg(not(percolog_loom))]
#[cold]
pub(crate) fn common() -> usize {
    let slot = super::current().place();
    if cfg!(feature = "std") {
        slot % COMMON
    } else {
        slot
    }
}

/// Which of such places a thread uses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who {
    /// It holds this lease, so nobody else writes there.
    Leased(usize),
    /// It has none, and shares this one.
    Common(usize),
}

impl Who {
    /// The calling thread's.
    #[cfg(not(percolog_loom))]
    #[inline(always)]
    pub(crate) fn am_i() -> Self {
        mine().map_or_else(|| Self::Common(common()), Self::Leased)
    }

    /// Where that is in a table of all places: the common ones come behind those of leases.
    #[inline(always)]
    pub(crate) fn place(self) -> CoreId {
        let number = match self {
            Self::Leased(lease) => lease,
            Self::Common(number) if cfg!(any(feature = "std", percolog_loom)) => LEASES + number,
            Self::Common(number) => number,
        };
        CoreId::new(number as u32)
    }
}

/// Leases of threads that a `fork` has left behind in the parent: nobody uses or gets them here.
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
static GONE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// In a forked child: all leases that are taken, but the caller's, are those of threads that do not exist here.
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
pub(super) fn only_mine_is_left() {
    let mine = mine().or_else(late);
    for (at, gone) in GONE.iter().enumerate() {
        // Relaxed, both: this is the only thread of the process.
        let mut taken = POOL.taken[at].load(Ordering::Relaxed);
        if let Some(mine) = mine.filter(|mine| mine / 64 == at) {
            taken &= !(1 << (mine % 64));
        }
        gone.store(taken, Ordering::Relaxed);
    }
}

/// Whether the lease is one of a thread that a `fork` has left behind in the parent.
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
pub(crate) fn is_gone(lease: usize) -> bool {
    // Relaxed: written by the first thread of the process before there were others.
    GONE[lease / 64].load(Ordering::Relaxed) & (1 << (lease % 64)) != 0
}

/// Nobody forks here.
#[cfg(not(all(feature = "std", unix, not(percolog_loom))))]
pub(crate) fn is_gone(_lease: usize) -> bool {
    false
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_reused_smallest_first() {
        let pool = LeasePool::new();
        let all: std::vec::Vec<_> = core::iter::from_fn(|| pool.acquire()).collect();
        assert_eq!(all, (0..LEASES).collect::<std::vec::Vec<_>>());
        assert_eq!(pool.acquire(), None);
        pool.release(200);
        pool.release(70);
        assert_eq!(pool.acquire(), Some(70));
        assert_eq!(pool.acquire(), Some(200));
        assert_eq!(pool.acquire(), None);
    }

    #[test]
    fn a_thread_keeps_its_number_and_gives_it_back() {
        let seen = std::thread::spawn(|| {
            let first = mine().expect("the pool is not empty");
            assert_eq!(mine(), Some(first));
            first
        })
        .join()
        .expect("no panic");
        assert!(seen < LEASES);
        // Threads that live one after the other do not use the pool up.
        for _ in 0..crate::sync::rounds(2 * LEASES) {
            std::thread::spawn(|| assert!(mine().is_some()))
                .join()
                .expect("no panic");
        }
    }
}
