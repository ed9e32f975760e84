//! The counting itself: rows with one writer, rows with many, and what is kept of them in [centers](super::center).
//!
//! # Why an estimate is as close as it says
//!
//! Let *B* be the batch and *R* the number of rows in which the counter was ever added to. Take any
//! call of [`Bank::estimate`] that finds shares, and let *c* be the value of `central` that it loads.
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
//! without a lease that are in the middle of an add. The correction is what a sum has found beyond `central`, and not more than *B* for each
//! row that it found used: without this limit, totals and a `central` that were read at different times
//! could differ by anything. (If nothing is added meanwhile the limit cuts nothing off, for no row has more than *B* pending.) Together:
//! |estimate − *v*| ≤ *B* · (2*R* + *U*).
//!
//! All arithmetic wraps, so a bound of 2⁶³ or more says nothing.

use super::center::Center;
use super::ids::{Place, Places};
use super::memory::Zero;
use super::rows::{Row, Rows};
use super::tally::Tally;
use super::word::{Address, CHANGE, State, Word};
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::lease::{self, LEASES};
use crate::cpu::undivided::undivided;
use crate::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
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
    /// The part of `total` that is in the [`Center`].
    folded: AtomicI64,
}

/// A counter's share in a row that any number of threads write: only atomic updates.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// All that was ever added in this row.
    total: AtomicI64,
    /// The part of `total` that is not in the [`Center`]; never beyond the batch.
    pending: AtomicI64,
}

// SAFETY: integers, of which zero is the default; no destructor.
unsafe impl Zero for Own {}
// SAFETY: integers, of which zero is the default; no destructor.
unsafe impl Zero for Common {}

impl Own {
    /// Adds, and returns what is not in the center now. Only the row's writer may call this.
    #[inline(always)]
    fn add(&self, amount: i64) -> i64 {
        // Relaxed, all of them: the row has one writer, which reads back its own stores; a row's next
        // writer is ordered behind its last one by the lease pool, and so is the first one of a
        // reused place behind the clearing by `Places::of`. The store's partner is the load in
        // `Bank::sum`, which promises what coherence gives: adds that happen before it are seen.
        let total = self.total.load(Ordering::Relaxed).wrapping_add(amount);
        self.total.store(total, Ordering::Relaxed);
        total.wrapping_sub(self.folded.load(Ordering::Relaxed))
    }

    /// Moves what is pending to the center. Only the row's writer may call this.
    #[cold]
    fn fold(&self, center: &Center) {
        // Relaxed: as in `add`; nobody relies on seeing `folded` in any order.
        let total = self.total.load(Ordering::Relaxed);
        let pending = total.wrapping_sub(self.folded.load(Ordering::Relaxed));
        center.fold(pending);
        self.folded.store(total, Ordering::Relaxed);
    }
}

impl Common {
    /// Adds; what would leave `pending` beyond the batch goes to the center.
    fn add(&self, amount: i64, batch: u64, center: &Center) {
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
                        center.fold(wanted);
                    }
                    return;
                }
                Err(now) => pending = now,
            }
        }
    }
}

/// What became of an add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    Done,
    /// It was done, and the counter is to become hot.
    Full,
    /// Nothing happened. [`Bank::add_slowly`] is to do it.
    Not,
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
    /// One for each place.
    centers: Rows<Center, 1>,
    places: Places,
    /// Held by who makes a counter hot or cold.
    changing: SlotLock<()>,
}

impl Bank {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                leased: Rows::new(),
                common: Rows::new(),
                centers: Rows::new(),
                places: Places::new(),
                changing: SlotLock::new(()),
            }
        }
    }

    /// Adds to the word, if the counter is cold and whoever holds this lease added last; or in the lease's row, if it is hot.
    #[inline(always)]
    pub(super) fn add_leased(&self, tally: &Tally, lease: usize, amount: i64) -> Added {
        if tally.address() == Address::cold(lease) && Word::is_small(amount) {
            return if tally.step(amount, 1).is_full() {
                Added::Full
            } else {
                Added::Done
            };
        }
        let Some(row) = self.leased.row(lease) else {
            return Added::Not;
        };
        let Some(_use) = Use::by_owner(row) else {
            return Added::Not;
        };
        let Some(place) = tally.address().place_if_hot() else {
            return Added::Not;
        };
        let Some(own) = row.find(place) else {
            return Added::Not;
        };
        if own.add(amount).unsigned_abs() > tally.batch() {
            own.fold(self.center(place));
        }
        Added::Done
    }

    /// The center of a place that a counter is found to have.
    fn center(&self, place: Place) -> &Center {
        match self.centers.find(0, place) {
            Some(center) => center,
            None => unreachable!("a place has a center before a counter has the place"),
        }
    }

    /// Whether the holder of the lease asks this in the middle of an add that it was interrupted in.
    pub(super) fn is_adding(&self, lease: usize) -> bool {
        self.leased.row(lease).is_some_and(Row::is_used)
    }

    /// Makes what [`add_leased`](Self::add_leased) needs if the counter is hot; else adds to the word, and returns `true`. The lease
    /// need not be held.
    pub(super) fn add_slowly(&self, tally: &Tally, lease: usize, amount: i64) -> bool {
        match tally.address().state() {
            State::Hot(place) => {
                self.leased.touch(lease, place);
                false
            }
            _ => self.add_to_word(tally, lease, amount),
        }
    }

    /// Adds to the word, also if the counter is hot by now; `false`, and nothing happened, if it is too much for that. Whoever adds is
    /// known by a lease, and those without as if they were one.
    fn add_to_word(&self, tally: &Tally, lease: usize, amount: i64) -> bool {
        let address = tally.address();
        let word = tally.word();
        let mut heat = 1;
        let mine = Address::cold(lease);
        if address != mine && address.state() == State::Cold {
            if word.heat() != 0 {
                heat = CHANGE;
            }
            tally.say_who(address, mine);
        }
        let before = if Word::is_small(amount) {
            Some(tally.step(amount, heat))
        } else {
            // One that fails is contention.
            word.added(amount, heat)
                .filter(|added| tally.exchange(word, *added))
                .map(|_| word)
        };
        if before.is_none_or(|before| before.is_full_after(heat)) {
            self.heat_up(tally);
        }
        before.is_some()
    }

    /// Gives a counter that is cold a place for its shares.
    #[cold]
    pub(super) fn heat_up(&self, tally: &Tally) {
        if !matches!(tally.address().state(), State::Hot(_)) {
            undivided(|| self.make_hot(tally));
        }
    }

    fn make_hot(&self, tally: &Tally) {
        let place = self.places.take();
        self.centers.touch(0, place);
        let changing = self.changing.lock();
        if tally.address().state() == State::Cold {
            // Who wants to say that it has added last does so in an exchange, which fails.
            tally.set_address(Address::hot(place));
        } else {
            drop(changing);
            self.places.give(place);
        }
    }

    /// Adds without a lease; any number will do.
    pub(super) fn add_common(&self, tally: &Tally, number: usize, amount: i64) {
        while !self.add_common_within(tally, number, amount, tally.batch())
            && !self.add_to_word(tally, LEASES, amount)
        {}
    }

    /// Counts an amount from the start, also in the estimate.
    pub(super) fn begin_with(&self, tally: &mut Tally, amount: i64) {
        if let Some(word) = Word::ZERO.with(amount) {
            return tally.begin_with(word);
        }
        self.heat_up(tally);
        // A batch of zero: the amount goes straight to the center.
        let added = self.add_common_within(tally, 0, amount, 0);
        debug_assert!(added, "nobody else has it");
    }

    /// Adds in a row for threads without a lease, if the counter is hot.
    fn add_common_within(&self, tally: &Tally, number: usize, amount: i64, batch: u64) -> bool {
        let State::Hot(place) = tally.address().state() else {
            return false;
        };
        let number = number % COMMON;
        let share = self.common.touch(number, place);
        let Some(row) = self.common.row(number) else {
            unreachable!("what was touched stays");
        };
        let _use = Use::by_anyone(row);
        // Looked at again, now that nobody can take the share back: if the place is the counter's now, it stays.
        if tally.address().state() != State::Hot(place) {
            return false;
        }
        share.add(amount, batch, self.center(place));
        true
    }

    /// The sum of a counter that is cold.
    #[inline(always)]
    pub(super) fn sum_if_cold(tally: &Tally) -> Option<i64> {
        if tally.address().state() != State::Cold {
            return None;
        }
        let word = tally.word();
        Some(if word.is_left_by_sums() {
            word.value()
        } else {
            Self::sum_and_leave(tally, word)
        })
    }

    /// Leaves a cold counter as a sum does: the heat is of the adds since that sum.
    fn sum_and_leave(tally: &Tally, mut word: Word) -> i64 {
        while let Some(summed) = word.summed() {
            if tally.exchange(word, summed) {
                break;
            }
            word = tally.word();
        }
        word.value()
    }

    /// See [`Counter::sum`](super::Counter::sum).
    pub(super) fn sum(&self, tally: &Tally) -> i64 {
        loop {
            let (State::Hot(place) | State::Draining(place)) = tally.address().state() else {
                match Self::sum_if_cold(tally) {
                    Some(sum) => return sum,
                    None => continue,
                }
            };
            let center = self.center(place);
            let Some((word, generation)) = Self::beside(tally, place, center) else {
                continue;
            };
            if word.is_moved() {
                return word.value();
            }
            let (shares, used) = self.walk(place);
            let correction = tally.clamp(center.beyond(shares), used);
            // Whoever takes the shares back ends the generation before they are cleared.
            let now = center.after_a_walk();
            if now.generation() != generation {
                continue;
            }
            let next = now.summed(shares, correction);
            if center.summed(now, next) && next.is_cool(word.reluctance()) {
                undivided(|| self.cool_down(tally));
            }
            return word.value().wrapping_add(shares);
        }
    }

    /// See [`Counter::estimate`](super::Counter::estimate).
    #[inline]
    pub(super) fn estimate(&self, tally: &Tally) -> i64 {
        loop {
            let (State::Hot(place) | State::Draining(place)) = tally.address().state() else {
                return tally.word().value();
            };
            let center = self.center(place);
            let Some((word, generation)) = Self::beside(tally, place, center) else {
                continue;
            };
            if word.is_moved() {
                return word.value();
            }
            if let Some((central, correction)) = center.look(generation) {
                return word.value().wrapping_add(central).wrapping_add(correction);
            }
        }
    }

    /// The word, and a generation of the place, in which the shares are the counter's if the generation is not over when all is done;
    /// `None` if they are not the counter's any more.
    fn beside(tally: &Tally, place: Place, center: &Center) -> Option<(Word, u64)> {
        let generation = center.note().generation();
        // Looked at after the generation: who finds one that began when they were taken back finds that, too.
        match tally.address().state() {
            State::Hot(now) | State::Draining(now) if now == place => {
                Some((tally.word(), generation))
            }
            _ => None,
        }
    }

    /// The sum of all shares at a place, and how many of them are not as they began.
    fn walk(&self, place: Place) -> (i64, u64) {
        let (mut sum, mut used) = (0i64, 0);
        let mut take = |total: &AtomicI64, rest: &AtomicI64| {
            // Relaxed, all of them: partners are the updates in `Own` and `Common`, of which those that
            // happen before this call are seen by coherence. One load of a share that is being added to: between two, its
            // writer would take the line back.
            let total = total.load(Ordering::Relaxed);
            sum = sum.wrapping_add(total);
            used += u64::from(total != 0 || rest.load(Ordering::Relaxed) != 0);
        };
        for own in self.leased.iter(place) {
            take(&own.total, &own.folded);
        }
        for common in self.common.iter(place) {
            take(&common.total, &common.pending);
        }
        (sum, used)
    }

    /// Takes the shares of a counter back that has been quiet, if nobody is in the middle of an add.
    #[cold]
    fn cool_down(&self, tally: &Tally) {
        let Some(mode) = barrier_between_adds() else {
            return;
        };
        let Some(_changing) = self.changing.lock_briefly() else {
            return;
        };
        let State::Hot(place) = tally.address().state() else {
            return;
        };
        let center = self.center(place);
        if !center.note().is_cool(tally.word().reluctance()) {
            return;
        }
        tally.set_address(Address::draining(place));
        // From here on, whoever adds finds the address draining and adds to the word, or is in the middle of a use that is seen here:
        // the barrier stands between the store and these loads, and there between the store that says so and the load of the
        // address. Acquire pairs with the Release at the end of the use: what it added is seen.
        let is_left = barrier::heavy(mode)
            && self.leased.rows().all(|(_, row)| is_left(row))
            && self.common.rows().all(|(_, row)| is_left(row));
        if is_left && Self::bring_back(tally, self.walk(place).0) {
            // Who finds this finds what was moved.
            tally.set_address(Address::cold(0));
            self.clear_shares(place);
            // Only who finds the generation over finds this.
            tally.settle();
            self.places.give(place);
        } else {
            tally.set_address(Address::hot(place));
            // Not tried again at each of the next sums.
            center.disturb();
        }
    }

    /// Moves to the word what the shares have, and nobody changes. `false`, and nothing happened, if that does not fit.
    fn bring_back(tally: &Tally, shares: i64) -> bool {
        loop {
            let word = tally.word();
            let Some(moved) = word.moved(shares) else {
                return false;
            };
            // Fails for an add to the word.
            if tally.exchange(word, moved) {
                return true;
            }
        }
    }

    /// Ends a place's generation and clears all shares, when no counter has the place any more.
    fn clear_shares(&self, place: Place) {
        self.center(place).end();
        // Relaxed, all of them: every use of the shares happens before this. A walk that is still under way finds that
        // the generation is over; nobody else looks at these shares until the place is taken again, and
        // the lock in `Places` orders that behind this.
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
    }

    /// In a forked child: adds that threads were in the middle of which do not exist here never end. Each of them was made, or
    /// was not.
    #[cfg(not(percolog_loom))]
    pub(super) fn go_on_in_a_child(&self) {
        // Relaxed, both: this is the only thread of the process. (If it forks in the middle of an add itself, in a signal
        // handler, then a row that is not its own looks used from here on, and counters stay hot.)
        for (_, row) in self.leased.rows().filter(|(at, _)| lease::is_gone(*at)) {
            row.users().store(0, Ordering::Relaxed);
        }
        for (_, row) in self.common.rows() {
            row.users().store(0, Ordering::Relaxed);
        }
    }

    /// Gives the counter's place to the next one. The counter must not be used any more.
    pub(super) fn clear(&self, tally: &mut Tally) {
        if let State::Hot(place) = tally.address().state() {
            self.clear_shares(place);
            tally.set_address(Address::cold(0));
            self.places.give(place);
        }
    }
}

/// Whether shares can be taken back at all, without an add paying for it: adds have no barrier of their own, so that
/// takes an operating system.
const CAN_TAKE_BACK: bool = cfg!(any(feature = "std", percolog_loom));

/// The mode of the barrier that orders the looks at the uses against the uses, if there is one.
fn barrier_between_adds() -> Option<BarrierMode> {
    #[cfg(percolog_loom)]
    return Some(BarrierMode::Fence);
    #[cfg(not(percolog_loom))]
    Some(barrier::mode()).filter(|mode| CAN_TAKE_BACK && *mode == BarrierMode::Membarrier)
}

/// A use of a row, during which no share of it is taken back.
struct Use<'a> {
    users: &'a AtomicUsize,
    by_owner: bool,
}

impl<'a> Use<'a> {
    /// A use by whoever holds the row's lease: plain stores. `None` if this interrupts one, in a signal handler.
    #[inline(always)]
    fn by_owner<S>(row: &'a Row<S>) -> Option<Self> {
        let users = row.users();
        if CAN_TAKE_BACK {
            // Relaxed: the owner reads what it wrote itself. What interrupts between this and the store is over when
            // the store is made.
            if users.load(Ordering::Relaxed) != 0 {
                return None;
            }
            // Relaxed: ordered against the load of the counter's word by the barrier.
            users.store(1, Ordering::Relaxed);
            light();
        }
        Some(Self {
            users,
            by_owner: true,
        })
    }

    /// A use by any thread.
    fn by_anyone<S>(row: &'a Row<S>) -> Self {
        let users = row.users();
        // Relaxed: as above.
        users.fetch_add(1, Ordering::Relaxed);
        light();
        Self {
            users,
            by_owner: false,
        }
    }
}

impl Drop for Use<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release, both: pairs with the Acquire in `Row::is_used`.
        if !self.by_owner {
            self.users.fetch_sub(1, Ordering::Release);
        } else if CAN_TAKE_BACK {
            self.users.store(0, Ordering::Release);
        }
    }
}

/// Whether the row is found without a use within a short time. An add takes nanoseconds, and is over soon unless its thread
/// was stopped.
fn is_left<S>(row: &Row<S>) -> bool {
    #[cfg(percolog_loom)]
    return !row.is_used();
    #[cfg(not(percolog_loom))]
    {
        let mut backoff = crate::sync::Backoff::new();
        while row.is_used() {
            if backoff.is_spent() {
                return false;
            }
            backoff.wait();
        }
        true
    }
}

/// The adds' side of the barrier in `Bank::cool_down`: no instruction, as shares are taken back in one mode alone.
#[inline(always)]
fn light() {
    #[cfg(not(percolog_loom))]
    crate::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(percolog_loom)]
    barrier::light(BarrierMode::Fence);
}

#[cfg(test)]
impl Bank {
    /// Whether the counter has shares.
    pub(super) fn is_hot(&self, tally: &Tally) -> bool {
        matches!(tally.address().state(), State::Hot(_))
    }

    /// Makes a hot counter drain, as in the middle of `cool_down`, for so long as `f` runs.
    pub(super) fn draining(&self, tally: &Tally, f: impl FnOnce()) {
        let State::Hot(place) = tally.address().state() else {
            unreachable!("it is hot");
        };
        let _changing = self.changing.lock();
        tally.set_address(Address::draining(place));
        f();
        tally.set_address(Address::hot(place));
    }

    /// Runs `f` as a signal handler would run in the middle of an add by the holder of the lease.
    pub(super) fn interrupted(&self, lease: usize, f: impl FnOnce()) {
        let row = self.leased.row(lease).expect("the row is there");
        let inside = Use::by_owner(row);
        assert!(inside.is_some());
        f();
    }

    /// How many places there have ever been.
    pub(super) fn places_ever(&self) -> u64 {
        self.places.ever()
    }
}
