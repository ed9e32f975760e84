//! What users see of shares.

use super::{BarrierError, Merge};
use crate::cpu::lease::{self, Who};
use crate::cpu::shards::{NoVisit, Reentered, Shard, Shards};
use alloc::vec::Vec;
use core::fmt;

/// A reduction variable: threads update a share each, and a read merges all shares.
///
/// Before: every request takes the lock, and moves its line and the value's to its processor.
///
/// ```
/// use std::sync::Mutex;
///
/// #[derive(Default)]
/// struct Traffic {
///     requests: u64,
///     bytes: u64,
/// }
///
/// static TRAFFIC: Mutex<Traffic> = Mutex::new(Traffic { requests: 0, bytes: 0 });
///
/// let mut traffic = TRAFFIC.lock().expect("nobody panics");
/// traffic.requests += 1;
/// traffic.bytes += 512;
/// ```
///
/// After: every thread has a share, and whoever reads pays.
///
/// ```
/// use percolog::reduce::{Merge, Reducer};
///
/// #[derive(Default)]
/// struct Traffic {
///     requests: u64,
///     bytes: u64,
/// }
///
/// impl Merge for Traffic {
///     fn merge(&mut self, other: &Self) {
///         self.requests += other.requests;
///         self.bytes += other.bytes;
///     }
/// }
///
/// static TRAFFIC: Reducer<Traffic> = Reducer::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for _ in 0..1000 {
///                 TRAFFIC.update(|share| {
///                     share.requests += 1;
///                     share.bytes += 512;
///                 });
///             }
///         });
///     }
/// });
/// let traffic = TRAFFIC.read();
/// assert_eq!(traffic.requests, 4000);
/// assert_eq!(traffic.bytes, 512 * traffic.requests);
/// ```
///
/// # Contract
///
/// * **Linearizable.** A [`read`](Self::read) shows the value at one moment between its call and its return: every update that
///   finished before is in it, whole; none that is called later is; and if it shows an update, it shows every update that
///   finished before that one was called, on whatever threads. The same holds for all other reads, [`take`](Self::take)
///   included. The cut is promised within one reducer; two reducers that are read one after the other are read at two
///   moments, so what belongs together belongs into one.
/// * **Each update is in exactly one [`take`](Self::take)**, or still there.
/// * Nothing is lost when threads exit: their shares stay, and are continued by threads that come later. [`Reducer`] drops
///   its shares when it is dropped, on the thread that does so.
/// * **A closure that panics** leaves its share as it left it, and usable; there is no poisoning. Keep shares meaningful at
///   every step, or do what can panic before.
/// * Which updates share a share is not defined. An update that decides by what it finds there decides by a part.
///
/// # What not to do in an update
///
/// An update's closure runs with its thread's share, and whoever reads waits for it: keep it short, and wait for nobody
/// in it. A closure, or a `merge`, that uses **the same reducer** panics; nothing is harmed, and outer updates go on. (Without
/// the `std` feature this is not noticed, and the thread waits for itself.) **Another reducer** may be used, in one order: two threads
/// that update one inside of the other, in either order, can wait for each other while both are read. A signal handler that interrupts an update and updates the same reducer gets that panic,
/// too: do not update in one.
///
/// # `fork`
///
/// A forked child goes on updating and reading. It has every update that finished before the `fork`, and of those under way each
/// as a whole or not at all: `fork` waits until all other threads are out of their updates and reads of all reducers, and whoever
/// begins one waits until the process is copied. (Updates inside of updates go on meanwhile.) That costs `fork` a heavy barrier,
/// and some ten nanoseconds for each share of each reducer. What the forking thread itself is inside of, it goes on with on both
/// sides; but fork inside of updates and merges on one thread at a time at most, since two that do so wait for each other for ever
/// (with musl, whose `fork` keeps other threads' out until its handlers are done, only while no other thread forks at all).
/// Handlers of `pthread_atfork` may update, and not read. A `fork` that begins before the process has used percolog at all waits for
/// nobody: create and read one reducer first, where another thread may be the first to update.
///
/// # Cost
///
/// *Time:* an update is a handful of plain instructions around the closure: no atomic update, no fence where the kernel has
/// `membarrier`, no line shared with another thread. What it moves between reads is nothing; after a read, the lines of its own
/// share that the reader looked at (or, for a [`take`](Self::take), exchanged). A thread's first update allocates. A thread
/// without a lease pays for a lock besides.
///
/// A read takes one heavy barrier for all shares (some 10 µs if others are running), an atomic exchange and a merge for each,
/// and moves each share's lines. An update that meets a read waits until that has merged this thread's share.
///
/// *Memory:* an idle reducer takes 80 bytes and allocates nothing. The first update allocates a table of 512 bytes (of 4 KiB if
/// the thread has no lease);
/// each share is an allocation of its own of 16 bytes and an `M`, rounded up to whole [lines](crate::cpu::LINE_SIZE), and on
/// Unix an entry of some 30 bytes in the list that `fork` goes through. There are as many shares
/// as threads that updated it ever lived at once, 512 at most, and 16 more where threads without a lease came by; they are kept
/// until the reducer is dropped. What an `M` allocates itself comes from the thread's allocator; those in use today give
/// threads memory from regions of their own, and what they do not isolate is not isolated.
///
/// # Progress
///
/// An update is wait-free while nobody reads, and blocking while its share is read. Reads are blocking: they wait for
/// updates under way, and for one another. Updates come to their turn however often others read.
pub struct Reducer<M> {
    shards: Shards<M>,
}

impl<M> Reducer<M> {
    /// Creates a reducer in which nothing is yet. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            shards: Shards::new(),
        }
    }
}

impl<M: Default> Reducer<M> {
    /// Changes this thread's share.
    ///
    /// Returns what the closure does; a part of the value is all that it has seen.
    ///
    /// *Progress:* wait-free while nobody reads; see [the type](Self#progress). *Cost:* no transfer and no allocation in
    /// steady state; see [the type](Self#cost).
    ///
    /// # Panics
    /// Where the closure does, with the share as the closure left it; if called from inside an update or a merge of the same
    /// reducer; and where `M::default` does, at a thread's first update.
    #[inline]
    pub fn update<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        match lease::mine() {
            // SAFETY: a thread that has a lease keeps it until the destructors of its thread-local values run, and those do not
            // run inside this call.
            Some(lease) => unsafe { self.update_as(Who::Leased(lease), change) },
            // The slot may have changed since an update around this one, and the share with it.
            None if self.shards.entered().is_some() => reentered(),
            // SAFETY: nothing is asked of who has no lease.
            None => unsafe { self.update_as(Who::Common(lease::common()), change) },
        }
    }

    /// # Safety
    /// If `who` is a lease, the caller holds it until this returns.
    #[inline(always)]
    unsafe fn update_as<R>(&self, who: Who, change: impl FnOnce(&mut M) -> R) -> R {
        let shard = match self.shards.find(who) {
            Some(shard) => shard,
            None => self.make(who),
        };
        // SAFETY: the shard was found or made for this thread; the caller's promise.
        unsafe { self.shards.with(who, shard, change) }.unwrap_or_else(|Reentered| reentered())
    }

    #[cold]
    fn make(&self, who: Who) -> &Shard<M, ()> {
        // Outside of the gate, both: what makes a share, and the destructor of one that is not needed, is the user's code.
        let mut share = Some(M::default());
        let made = self.shards.make(who, || {
            let share = share.take().expect("a share is made once");
            (share, ())
        });
        drop(share);
        made.unwrap_or_else(|Reentered| reentered())
    }
}

impl<M> Reducer<M> {
    /// What `fold` makes of all shares as they are at one moment.
    ///
    /// # Panics
    /// Where `fold` does, where [`try_fold`](Self::try_fold) fails, and if called from inside the same reducer.
    pub(super) fn fold<C>(&self, into: C, fold: impl FnMut(&mut C, &M)) -> C {
        self.try_fold(into, fold)
            .unwrap_or_else(|refused| refuse(refused))
    }

    /// As [`fold`](Self::fold), and says so if the kernel makes reading impossible.
    pub(super) fn try_fold<C>(
        &self,
        into: C,
        mut fold: impl FnMut(&mut C, &M),
    ) -> Result<C, BarrierError> {
        self.visit(|_| into, |into, _, share| fold(into, share))
    }

    /// Visits each share, with its number, as all are at one moment.
    fn visit<C>(
        &self,
        prepare: impl FnOnce(usize) -> C,
        visit: impl FnMut(&mut C, usize, &mut M),
    ) -> Result<C, BarrierError> {
        match self.shards.visit(lease::mine(), prepare, visit) {
            Ok(seen) => Ok(seen),
            Err(NoVisit::Refused) => Err(BarrierError::new()),
            Err(NoVisit::Reentered) => reentered(),
        }
    }
}

impl<M: Merge + Default> Reducer<M> {
    /// The value at one moment: a consistent cut through all threads, see [the contract](Self#contract).
    ///
    /// *Progress:* blocking. *Cost:* a heavy barrier, and an exchange, a merge and the lines of each share.
    ///
    /// # Panics
    /// Where [`try_read`](Self::try_read) fails; where `merge` or `M::default` do, with nothing changed; and if called from
    /// inside an update or a merge of the same reducer.
    #[must_use]
    pub fn read(&self) -> M {
        self.try_read().unwrap_or_else(|refused| refuse(refused))
    }

    /// As [`read`](Self::read), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`], with nothing changed: see there.
    ///
    /// # Panics
    /// As `read`, but for that.
    pub fn try_read(&self) -> Result<M, BarrierError> {
        let mut all = M::default();
        self.try_read_into(&mut all)?;
        Ok(all)
    }

    /// Merges the value at one moment into a value that is there already, such as one whose memory is used again.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read), and `into` is unchanged then.
    ///
    /// # Panics
    /// As `try_read`; what was merged into `into` before a merge panics stays there.
    pub fn try_read_into(&self, into: &mut M) -> Result<(), BarrierError> {
        self.try_fold(into, |into, share| into.merge(share))?;
        Ok(())
    }

    /// Takes out the value at one moment and leaves nothing: each update is in exactly one take.
    ///
    /// Shares are exchanged for new ones at that moment, and merged when all updates go on.
    ///
    /// *Progress:* blocking. *Cost:* as [`read`](Self::read), and an `M::default` for each share.
    ///
    /// # Panics
    /// As [`read`](Self::read); if a `merge` panics, what was taken is lost.
    #[must_use = "what was taken is nowhere else"]
    pub fn take(&self) -> M {
        self.try_take().unwrap_or_else(|refused| refuse(refused))
    }

    /// As [`take`](Self::take), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read), and nothing is taken.
    ///
    /// # Panics
    /// As `take`, but for that.
    pub fn try_take(&self) -> Result<M, BarrierError> {
        let taken = self.visit(
            // New ones are made before anybody has to wait.
            |count| (0..count).map(|_| M::default()).collect::<Vec<M>>(),
            |fresh, at, share| core::mem::swap(&mut fresh[at], share),
        )?;
        let mut taken = taken.into_iter();
        let mut all = taken.next().unwrap_or_default();
        for share in taken {
            all.merge(&share);
        }
        Ok(all)
    }

    /// The value, when nobody else uses the reducer any more.
    ///
    /// *Progress:* wait-free but for `merge`. *Cost:* a merge for each share.
    #[must_use]
    pub fn into_inner(mut self) -> M {
        let mut all = M::default();
        for share in self.shards.values_mut() {
            all.merge(share);
        }
        // First: a destructor that panics behind the return would leak what is returned.
        drop(self);
        all
    }
}

#[cold]
#[inline(never)]
fn reentered() -> ! {
    panic!(
        "a reducer was used from inside one of its own updates or merges; use it before or after them"
    )
}

#[cold]
fn refuse(refused: BarrierError) -> ! {
    panic!("{refused}")
}

impl<M> Default for Reducer<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows that there is one, and not the value: no log line should read every thread's share by accident.
impl<M> fmt::Debug for Reducer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reducer").finish_non_exhaustive()
    }
}
