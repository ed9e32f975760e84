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
use super::word::{State, Word};
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::lease::{self, LEASES};
use crate::cpu::undivided::undivided;
use crate::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
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

/// What a counter itself consists of.
#[derive(Debug)]
pub(super) struct Tally {
    /// Bits of the counter's [`Word`]: its value, or where its shares are.
    word: AtomicU64,
    /// How much a row may keep to itself.
    batch: u64,
}

impl Tally {
    const_fn! {
        pub(super) const fn new(batch: u64) -> Self {
            Self {
                word: AtomicU64::new(Word::ZERO.bits()),
                batch,
            }
        }
    }

    #[inline(always)]
    fn word(&self) -> Word {
        // Acquire pairs with the Release in `exchange`: shares that the last owner of the place left behind are seen
        // cleared, and the first share of a counter that has become hot is seen with its value.
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Puts `new` in the place of `current`, or returns what is there instead.
    #[inline]
    fn exchange(&self, current: Word, new: Word) -> Result<(), Word> {
        // Release and Acquire: as in `word`; and all exchanges of one word follow each other, so what was done before one
        // is seen after a later one.
        self.word
            .compare_exchange(
                current.bits(),
                new.bits(),
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .map(|_| ())
            .map_err(Word::from_bits)
    }

    pub(super) fn batch(&self) -> u64 {
        self.batch
    }

    /// The amount, within what so many rows may keep to themselves.
    fn clamp(&self, pending: i64, rows: u64) -> i64 {
        let most = i64::try_from(self.batch.saturating_mul(rows)).unwrap_or(i64::MAX);
        pending.clamp(most.saturating_neg(), most)
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

    /// Adds in the row of a lease that the caller holds; `false`, and nothing happened, if the counter is not hot or
    /// [`prepare`](Self::prepare) has to be called first.
    #[inline(always)]
    pub(super) fn add_leased(&self, tally: &Tally, lease: usize, amount: i64) -> bool {
        let Some(row) = self.leased.row(lease) else {
            return false;
        };
        let Some(_use) = Use::by_owner(row) else {
            return false;
        };
        let place = tally.word().place_if_hot();
        let Some(own) = row.find(place) else {
            return false;
        };
        if own.add(amount).unsigned_abs() > tally.batch {
            own.fold(self.center(place));
        }
        true
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

    /// Makes what [`add_leased`](Self::add_leased) needs, if the counter is hot. The lease need not be held.
    pub(super) fn prepare(&self, tally: &Tally, lease: usize) {
        if let State::Hot(place) = tally.word().state() {
            self.leased.touch(lease, place);
        }
    }

    /// Adds to the word of a counter that is cold; `false`, and nothing happened, if it is not, or becomes hot because
    /// of this. Without a lease it is as if all such threads were one.
    pub(super) fn add_cold(&self, tally: &Tally, lease: Option<usize>, amount: i64) -> bool {
        let word = tally.word();
        match word.state() {
            State::Hot(_) => false,
            State::Draining(_) => {
                // Whoever adds keeps the shares from being taken back. If the exchange fails, it is decided already.
                let _ = tally.exchange(word, word.kept());
                false
            }
            State::Cold(_) => {
                let who = lease.unwrap_or(LEASES) as u64;
                let added = word
                    .added(amount, who)
                    .is_some_and(|added| tally.exchange(word, added).is_ok());
                // Hot, or another one was faster: that is contention.
                if !added {
                    self.heat_up(tally, lease);
                }
                added
            }
        }
    }

    /// Gives a counter that is cold a place for its shares, of which the first has its value.
    #[cold]
    pub(super) fn heat_up(&self, tally: &Tally, lease: Option<usize>) {
        if matches!(tally.word().state(), State::Cold(_)) {
            undivided(|| self.make_hot(tally, lease));
        }
    }

    fn make_hot(&self, tally: &Tally, lease: Option<usize>) {
        let place = self.places.take();
        // In the caller's own row, where there is one: memory that it will use. Nobody else knows the place.
        let begin = match lease {
            Some(lease) => First::Own(self.leased.touch(lease, place)),
            None => First::Common(self.common.touch(0, place)),
        };
        let center = self.centers.touch(0, place);
        let changing = self.changing.lock();
        loop {
            let word = tally.word();
            let State::Cold(value) = word.state() else {
                drop(changing);
                begin.set(0);
                center.end();
                return self.places.give(place);
            };
            begin.set(value);
            let generation = center.begin(value);
            if tally
                .exchange(word, Word::hot(place, generation, word.reluctance()))
                .is_ok()
            {
                return;
            }
        }
    }

    /// Adds without a lease; any number will do.
    pub(super) fn add_common(&self, tally: &Tally, number: usize, amount: i64) {
        while !self.add_cold(tally, None, amount)
            && !self.add_common_within(tally, number, amount, tally.batch)
        {}
    }

    /// Counts an amount from the start, also in the estimate.
    pub(super) fn begin_with(&self, tally: &mut Tally, amount: i64) {
        if let Some(word) = Word::cold(amount, 0) {
            *tally = Tally::new(tally.batch);
            // Relaxed: nobody else has it.
            tally.word.store(word.bits(), Ordering::Relaxed);
            return;
        }
        self.heat_up(tally, None);
        // A batch of zero: the amount goes straight to the center.
        let added = self.add_common_within(tally, 0, amount, 0);
        debug_assert!(added, "nobody else has it");
    }

    /// Adds in a row for threads without a lease, if the counter is hot.
    fn add_common_within(&self, tally: &Tally, number: usize, amount: i64, batch: u64) -> bool {
        let State::Hot(place) = tally.word().state() else {
            return false;
        };
        let number = number % COMMON;
        let share = self.common.touch(number, place);
        let Some(row) = self.common.row(number) else {
            unreachable!("what was touched stays");
        };
        let _use = Use::by_anyone(row);
        // Looked at again, now that nobody can take the share back: if the place is the counter's now, it stays.
        if tally.word().state() != State::Hot(place) {
            return false;
        }
        share.add(amount, batch, self.center(place));
        true
    }

    /// See [`Counter::sum`](super::Counter::sum).
    pub(super) fn sum(&self, tally: &Tally) -> i64 {
        loop {
            let word = tally.word();
            let place = match word.state() {
                State::Cold(value) => {
                    if let Some(cooled) = word.cooled() {
                        // Who fails was disturbed by an add, or by another sum.
                        let _ = tally.exchange(word, cooled);
                    }
                    return value;
                }
                State::Hot(place) | State::Draining(place) => place,
            };
            let center = self.center(place);
            let (sum, used) = self.walk(place);
            let correction = tally.clamp(center.beyond(sum), used);
            // Whoever takes the shares back ends the generation before they are cleared.
            let now = center.after_a_walk();
            if now.generation() != word.generation() {
                continue;
            }
            let next = now.summed(sum, correction);
            if center.summed(now, next) && next.is_cool(word.reluctance()) {
                undivided(|| self.cool_down(tally));
            }
            return sum;
        }
    }

    /// See [`Counter::estimate`](super::Counter::estimate).
    #[inline]
    pub(super) fn estimate(&self, tally: &Tally) -> i64 {
        loop {
            let word = tally.word();
            match word.state() {
                State::Cold(value) => return value,
                State::Hot(place) | State::Draining(place) => {
                    if let Some((central, correction)) = self.center(place).look(word.generation())
                    {
                        return central.wrapping_add(correction);
                    }
                }
            }
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
        let word = tally.word();
        let State::Hot(place) = word.state() else {
            return;
        };
        let draining = word.draining();
        let center = self.center(place);
        if !center.note().is_cool(word.reluctance()) || tally.exchange(word, draining).is_err() {
            return;
        }
        // From here on, whoever adds finds the word draining, or is in the middle of a use that is seen here: the barrier
        // stands between the exchange and these loads, and there between the store that says so and the load of the word.
        // Acquire pairs with the Release at the end of the use: what it added is seen.
        let quiet = barrier::heavy(mode)
            && self.leased.rows().all(|(_, row)| is_left(row))
            && self.common.rows().all(|(_, row)| is_left(row));
        let cold = if quiet {
            Word::cold(self.walk(place).0, word.reluctance() + 1)
        } else {
            None
        };
        // Fails if somebody has added something, or is about to.
        let done = tally
            .exchange(draining, cold.unwrap_or(word.kept()))
            .is_ok();
        if done && cold.is_some() {
            self.clear_shares(place);
            self.places.give(place);
        } else {
            // Not tried again at each of the next sums.
            center.disturb();
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
        if let State::Hot(place) | State::Draining(place) = tally.word().state() {
            self.clear_shares(place);
            // Relaxed: nobody uses it.
            tally.word.store(Word::ZERO.bits(), Ordering::Relaxed);
            self.places.give(place);
        }
    }
}

/// The share that a counter begins with when it becomes hot.
enum First<'a> {
    Own(&'a Own),
    Common(&'a Common),
}

impl First<'_> {
    /// Makes the share one that has added this much, all of it folded.
    fn set(&self, value: i64) {
        // Relaxed: nobody else knows the place yet, and the exchange of the word releases it.
        match self {
            Self::Own(own) => {
                own.total.store(value, Ordering::Relaxed);
                own.folded.store(value, Ordering::Relaxed);
            }
            Self::Common(common) => common.total.store(value, Ordering::Relaxed),
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
        matches!(tally.word().state(), State::Hot(_))
    }

    /// Makes a hot counter drain, as in the middle of `cool_down`; whether it was hot.
    pub(super) fn drain(&self, tally: &Tally) -> bool {
        let word = tally.word();
        self.is_hot(tally) && tally.exchange(word, word.draining()).is_ok()
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
