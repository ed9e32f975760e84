//! The counting itself: rows with one writer, rows with many, and what is kept of them centrally.
//!
//! # Why an estimate is as close as it says
//!
//! Let *B* be the batch and *R* the number of rows in which the counter was ever added to. Take any
//! call of [`Tally::estimate`], and let *c* be the value of `central` that it loads.
//!
//! *Rows with one writer.* The writer adds to `total`, and when `total − folded` is beyond *B* in
//! either direction it moves all of it to `central` before the add is finished. Look at the row's
//! adds in their order up to the later of these two: the last add that finished before the call, and
//! the last one whose fold is in *c*. If a fold is last, *c* has all of them. If an add is last, the
//! folds before it finished before the call too, so coherence puts them in *c*, and what follows the
//! last of them did not fold: it is at most *B*. So *c* misses at most *B* of the row.
//!
//! *Rows with many writers.* `pending` is changed only by a compare-and-swap that leaves it within
//! *B*: it either takes in one add, or is emptied into the hands of an add that will move what it took
//! (at most *B*, besides its own amount) to `central`. Look at the adds in the order of those swaps,
//! up to the last that finished before the call or whose fold is in *c*, and leave out those whose
//! fold is not in *c*: none of them has finished. Then *c* misses what is in `pending`, at most *B*,
//! and what those unfinished folds have taken of others, at most *B* each.
//!
//! A fold releases and the estimate acquires, so what *c* counts is also seen by every sum that the
//! caller takes later.
//!
//! So there is a value *v*, counting every add that finished before the call and some of those
//! that were under way, with |*c* − *v*| ≤ *B* · (*R* + *U*), where *U* is the number of threads
//! without a lease that are in the middle of an add. The correction is a sum of at most one term a row,
//! each clamped to ±*B* — without the clamp, a `total` and a `folded` that were read at different times
//! could differ by anything. Together: |estimate − *v*| ≤ *B* · (2*R* + *U*).
//!
//! All arithmetic wraps, so a bound of 2⁶³ or more says nothing.

use super::ids::{Ids, Place};
use super::memory::Zero;
use super::rows::Rows;
use crate::cpu::lease::LEASES;
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use crate::sync::{SlotLock, const_fn};

/// Rows for threads without a lease.
#[cfg(not(percolog_loom))]
pub(super) const COMMON: usize = 64;
#[cfg(percolog_loom)]
pub(super) const COMMON: usize = 1;

/// A counter's share in a row that has one writer at a time: only plain loads and stores.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// All that was ever added in this row.
    total: AtomicI64,
    /// The part of `total` that is in [`Tally::central`].
    folded: AtomicI64,
}

/// A counter's share in a row that any number of threads write: only atomic updates.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// All that was ever added in this row.
    total: AtomicI64,
    /// The part of `total` that is not in [`Tally::central`]; never beyond the batch.
    pending: AtomicI64,
}

// SAFETY: integers, of which zero is the default; no destructor.
unsafe impl Zero for Own {}
// SAFETY: integers, of which zero is the default; no destructor.
unsafe impl Zero for Common {}

impl Own {
    /// Adds, and returns what is not in `central` now. Only the row's writer may call this.
    #[inline(always)]
    fn add(&self, amount: i64) -> i64 {
        // Relaxed, all of them: the row has one writer, which reads back its own stores; a row's next
        // writer is ordered behind its last one by the lease pool, and so is the first one of a
        // reused place behind the clearing by `Bank::place`. The store's partner is the load in
        // `Bank::sum`, which promises what coherence gives: adds that happen before it are seen.
        let total = self.total.load(Ordering::Relaxed).wrapping_add(amount);
        self.total.store(total, Ordering::Relaxed);
        total.wrapping_sub(self.folded.load(Ordering::Relaxed))
    }

    /// Moves what is pending to `central`. Only the row's writer may call this.
    #[cold]
    fn fold(&self, central: &AtomicI64) {
        // Relaxed: as in `add`; nobody relies on seeing `folded` in any order.
        let total = self.total.load(Ordering::Relaxed);
        let pending = total.wrapping_sub(self.folded.load(Ordering::Relaxed));
        // Release pairs with the Acquire in `Tally::estimate`: who sees the fold sees the adds in it.
        central.fetch_add(pending, Ordering::Release);
        self.folded.store(total, Ordering::Relaxed);
    }
}

impl Common {
    /// Adds; what would leave `pending` beyond the batch goes to `central`.
    fn add(&self, amount: i64, batch: u64, central: &AtomicI64) {
        // Relaxed: atomic updates lose nothing, and sums are promised what coherence gives.
        self.total.fetch_add(amount, Ordering::Relaxed);
        let mut pending = self.pending.load(Ordering::Relaxed);
        loop {
            let wanted = pending.wrapping_add(amount);
            let beyond = wanted.unsigned_abs() > batch;
            // Acquire and Release pair among these exchanges: whoever takes what others left pending
            // has their adds to `total` behind it, and hands them on with the fold. A failed exchange
            // is only a hint.
            match self.pending.compare_exchange_weak(
                pending,
                if beyond { 0 } else { wanted },
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    if beyond {
                        // Release pairs with the Acquire in `Tally::estimate`, as in `Own::fold`.
                        central.fetch_add(wanted, Ordering::Release);
                    }
                    return;
                }
                Err(now) => pending = now,
            }
        }
    }
}

/// What is kept of a counter outside the rows.
#[derive(Debug)]
pub(super) struct Tally {
    /// Bits of the counter's [`Place`]; [`Place::NONE`] until something is added.
    place: AtomicU64,
    /// The sum of all that rows have folded.
    central: AtomicI64,
    /// What the last walk found pending in the rows, each row's part clamped to the batch.
    correction: AtomicI64,
    /// How much a row may keep to itself.
    batch: u64,
}

impl Tally {
    const_fn! {
        pub(super) const fn new(batch: u64) -> Self {
            Self {
                place: AtomicU64::new(0),
                central: AtomicI64::new(0),
                correction: AtomicI64::new(0),
                batch,
            }
        }
    }

    #[inline(always)]
    fn place(&self) -> Place {
        // Acquire pairs with the Release in `Bank::place`: shares that the last owner of the place
        // left behind are seen cleared.
        Place::from_bits(self.place.load(Ordering::Acquire))
    }

    /// See [`Counter::estimate`](super::Counter::estimate).
    #[inline]
    pub(super) fn estimate(&self) -> i64 {
        // Acquire pairs with the Release of the folds: a sum taken later by this thread counts at
        // least what this estimate counts. Relaxed for the correction: the bound holds whichever one
        // is loaded.
        let central = self.central.load(Ordering::Acquire);
        central.wrapping_add(self.correction.load(Ordering::Relaxed))
    }

    pub(super) fn batch(&self) -> u64 {
        self.batch
    }

    fn clamp(&self, pending: i64) -> i64 {
        if pending.unsigned_abs() <= self.batch {
            pending
        } else {
            // The batch is below a magnitude that fits, so it fits.
            (self.batch as i64).wrapping_mul(pending.signum())
        }
    }
}

/// All rows, and which places in them are taken.
///
/// The process has one; model checks and tests make their own.
#[derive(Debug)]
pub(super) struct Bank {
    /// Row `n` is written by whoever holds lease `n`.
    leased: Rows<Own, LEASES>,
    /// Written by threads without a lease. That these are other rows, of another type, is what keeps
    /// plain stores and atomic updates from ever meeting.
    common: Rows<Common, COMMON>,
    ids: SlotLock<Ids>,
}

impl Bank {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                leased: Rows::new(),
                common: Rows::new(),
                ids: SlotLock::new(Ids::new()),
            }
        }
    }

    /// Adds in the row of a lease that the caller holds; `false`, and nothing happened, if
    /// [`prepare`](Self::prepare) has to be called first.
    #[inline(always)]
    pub(super) fn add_leased(&self, tally: &Tally, lease: usize, amount: i64) -> bool {
        let Some(own) = self.leased.find(lease, tally.place()) else {
            return false;
        };
        if own.add(amount).unsigned_abs() > tally.batch {
            own.fold(&tally.central);
        }
        true
    }

    /// Makes what [`add_leased`](Self::add_leased) needs. The lease need not be held.
    pub(super) fn prepare(&self, tally: &Tally, lease: usize) {
        self.leased.touch(lease, self.place(tally));
    }

    /// Adds in a row that needs no lease; any number will do.
    pub(super) fn add_common(&self, tally: &Tally, number: usize, amount: i64) {
        self.add_common_within(tally, number, amount, tally.batch);
    }

    /// Counts an amount from the start, also in the estimate.
    pub(super) fn begin_with(&self, tally: &Tally, amount: i64) {
        // A batch of zero: the amount goes straight to `central`.
        self.add_common_within(tally, 0, amount, 0);
    }

    fn add_common_within(&self, tally: &Tally, number: usize, amount: i64, batch: u64) {
        self.common
            .touch(number % COMMON, self.place(tally))
            .add(amount, batch, &tally.central);
    }

    /// The counter's place, assigned if it has none.
    fn place(&self, tally: &Tally) -> Place {
        let place = tally.place();
        if place != Place::NONE {
            return place;
        }
        let fresh = Place::numbered(self.ids.lock().get().take());
        // Release hands on what taking the number from the locked `ids` made visible: the clearing of
        // the shares by the place's last owner (`clear`). Its partners are the Acquire here and in
        // `Tally::place`.
        match tally.place.compare_exchange(
            Place::NONE.bits(),
            fresh.bits(),
            Ordering::Release,
            Ordering::Acquire,
        ) {
            Ok(_) => fresh,
            Err(winner) => {
                self.ids.lock().get().give(fresh.id());
                Place::from_bits(winner)
            }
        }
    }

    /// See [`Counter::sum`](super::Counter::sum).
    pub(super) fn sum(&self, tally: &Tally) -> i64 {
        let place = tally.place();
        let (mut sum, mut correction) = (0i64, 0i64);
        // Relaxed, all of them: partners are the updates in `Own` and `Common`, of which those that
        // happen before this call are seen by coherence. Values that are read at different times can
        // disagree, hence the clamp.
        for own in self.leased.iter(place) {
            let total = own.total.load(Ordering::Relaxed);
            let folded = own.folded.load(Ordering::Relaxed);
            sum = sum.wrapping_add(total);
            correction = correction.wrapping_add(tally.clamp(total.wrapping_sub(folded)));
        }
        for common in self.common.iter(place) {
            sum = sum.wrapping_add(common.total.load(Ordering::Relaxed));
            correction = correction.wrapping_add(common.pending.load(Ordering::Relaxed));
        }
        // Every add reads the line that the correction is in: it is left alone where possible.
        if tally.correction.load(Ordering::Relaxed) != correction {
            tally.correction.store(correction, Ordering::Relaxed);
        }
        sum
    }

    /// Gives the counter's place to the next one. The counter must not be used any more.
    pub(super) fn clear(&self, tally: &mut Tally) {
        let place = tally.place();
        if place == Place::NONE {
            return;
        }
        // Relaxed, all of them: every use of the counter happens before this, nobody else looks at
        // these shares until the place is taken again, and the lock of `ids` orders that behind this.
        // A share that is zero is left alone, so that no untouched page comes to life.
        let clear = |word: &AtomicI64| {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        };
        for own in self.leased.iter(place) {
            clear(&own.total);
            clear(&own.folded);
        }
        for common in self.common.iter(place) {
            clear(&common.total);
            clear(&common.pending);
        }
        tally.place.store(Place::NONE.bits(), Ordering::Relaxed);
        self.ids.lock().get().give(place.id());
    }
}

#[cfg(test)]
impl Bank {
    /// How many places there have ever been.
    pub(super) fn places_ever(&self) -> u64 {
        self.ids.lock().get().ever()
    }
}
