//! Finding the counts that are zero.
//!
//! A *round* takes from every row what it has and adds it up (`Row::empty_all`; each row's thread waits for its own row
//! only). A count that was ever seen to add up to zero is a *candidate*, and is *checked*: its state is set so that no
//! reference is made out of a weak one, and after a heavy barrier the collector looks at the count's way in every row, at
//! `central`, and at every row once more. The count is dead if no row had anything for it, `central` was zero, and the
//! second look at the rows found the versions of the first.
//!
//! # Why it is zero
//!
//! Adding up while others go on proves nothing by itself: references that hop from row to row ahead of the collector add
//! up to zero for ever. (That a count has stayed zero for an epoch or two does not prove it either, for the same reason.)
//!
//! Let *S* be the changes of the count that the collector has seen: of each row the ones up to the version it found, and
//! all of `central` that it read. *S* adds up to zero. And *S* has with each change all that happened before it: let the
//! giving up of a reference be in *S* and its making have been on another row, *r*. Threads that hand references on
//! synchronize, so the making happened before the giving up; that is written with Release, and the collector reads it
//! with Acquire, at the latest at `central`. So the making happened before the second look at *r*, which finds it; and
//! since the first look found the same version, it is in *S*. (Where a row has moved its part to `central`, it did so
//! before it gave the part up, with Release; who sees it without sees `central` with it.) So every reference that was
//! given up in *S* was also made in *S*, and as many were given up as made: there is none. Whoever makes one later
//! without having one makes it out of a weak one; and of the collector and whoever does so one sees the other, by the
//! barriers.
//!
//! # Why it is found
//!
//! A count becomes hot with `central` at 1. When the last hot reference is gone and no row has anything for it, `central` is zero;
//! whoever moved the last part there found the sum zero, and made the count a candidate. A candidate stays one until it
//! is not hot any more, or `central` is not zero.
//!
//! # Hot and cold
//!
//! What a round looks for is zero *hot* references: the count above is of those alone, and a cold reference does for a weak one, out of
//! which a hot one can be made. Then the round gives up their [share](super::count), and who leaves nothing in the word by that has the dead.
//! Otherwise the count is cold, and can become hot again.
//!
//! *A later heat is not mistaken for an earlier one.* Who adds to its row finds the count hot and is counted, or finds it not hot
//! and takes the addition back before it leaves the row: so a row never has anything of an earlier heat. If it finds the count hot that was
//! cold in between, its addition belongs to the later heat, in which it is there from the beginning.
//!
//! *The share keeps the count.* Whoever looks at candidates holds `collecting`, and shares are given up by nobody else.
//!
//! # Ordinary counts
//!
//! A count can be made *ordinary*: all of it is in the word, and every later change is an exchange there, as that of an
//! `Arc`; whoever takes the last one away finds zero in that exchange, and the count dies in its hands. The collector makes
//! it so while no round is under way, all rows are frozen and none is made; whoever adds looks whether the count is
//! ordinary while it owns its row. So every addition either ended before, and what it left in the row is moved to the word
//! by whoever makes the count ordinary; or it begins after, and finds it so. Rows have nothing for the count from then on.
//! (A count that is not hot becomes so by one exchange.)
//!
//! *Nobody looks in vain.* A count is looked at only if it does not have its way in the row, where an addition is slow
//! already: whoever makes it ordinary takes the way from it in every row, and who finds it ordinary does not give it one
//! again. The way of an older count that lay at the same address is taken too.
//!
//! *It dies once, and not in a list.* When it becomes ordinary somebody has a reference, so it is not zero, and not among
//! what a round has found dead. It is taken off the list of candidates. Only who moves something out of a row makes a count
//! a candidate, and no row has anything for this one: it is never in the list again, and no round sees it.
//!
//! *What was done before happened before.* What the owners of rows did is known to whoever makes the count ordinary, who
//! had their rows from them; it makes an exchange of the word too, with Release; and all later changes are exchanges of
//! the word, so that the last one, followed by an Acquire, has seen them all.
//!
//! # Counting
//!
//! What rows have is found while all of them are frozen, and shares are given up by nobody: it does not change meanwhile. The word
//! is read once, by an exchange; so the sum is of that moment. Of who adds on a condition and who changes the condition and then counts, one sees the
//! other: by the barriers in a row, and by the order of the exchanges in the word.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::{self, NonNull};

use super::candidates::Candidates;
use super::count::{Count, ReadMostly, Then};
use super::row::{Row, Seen};
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::biased_lock::{self, BiasedLock, Refused};
use crate::cpu::lease::LEASES;
use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Backoff, Isolated, SlotGuard, SlotLock, const_fn};

/// Rows for threads without a lease, who take turns.
#[cfg(not(percolog_loom))]
const COMMON: usize = 8;
#[cfg(percolog_loom)]
const COMMON: usize = 1;

const ROWS: usize = LEASES + COMMON;

/// So many rows are frozen at once: a thread waits at most until so many are emptied.
const FROZEN: usize = 16;

/// All rows, and what is known of counts.
#[derive(Debug)]
pub(super) struct Collector {
    rows: [AtomicPtr<Isolated<Row>>; ROWS],
    /// One more than the number of the last row that was made.
    end: AtomicUsize,
    /// Held while a row is made.
    making: SlotLock<()>,
    /// The owners of the common rows.
    turns: [SlotLock<()>; COMMON],
    candidates: Candidates,
    /// Called before a row is made, or a round begins.
    #[cfg(not(percolog_loom))]
    prepare: fn(),
    /// Held by the collector: one thread at a time.
    collecting: SlotLock<()>,
    rounds: AtomicU64,
}

/// What two looks found of the hot references of a count.
#[derive(Debug)]
struct Found {
    /// All of it, if `is_settled`.
    sum: i64,
    /// Whether a row has something for it.
    in_rows: bool,
    /// Whether the second look found what the first did.
    is_settled: bool,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            sum: 0,
            in_rows: false,
            is_settled: true,
        }
    }
}

/// What a round did.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Counts that are zero for ever. Whoever has them has to see to it that each dies.
    pub(super) dead: Vec<NonNull<Count>>,
    /// Whether the kernel refused the barrier: then nothing is found.
    pub(super) refused: bool,
}

impl Collector {
    const_fn! {
        pub(super) const fn new(#[cfg(not(percolog_loom))] prepare: fn()) -> Self {
            #[cfg(not(percolog_loom))]
            let (rows, turns) = (
                [const { AtomicPtr::new(ptr::null_mut()) }; ROWS],
                [const { SlotLock::new(()) }; COMMON],
            );
            #[cfg(percolog_loom)]
            let (rows, turns) = (
                core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
                core::array::from_fn(|_| SlotLock::new(())),
            );
            Self {
                rows,
                end: AtomicUsize::new(0),
                making: SlotLock::new(()),
                turns,
                candidates: Candidates::new(),
                #[cfg(not(percolog_loom))]
                prepare,
                collecting: SlotLock::new(()),
                rounds: AtomicU64::new(0),
            }
        }
    }

    /// Adds 1 or −1. Returns what is left to do for the caller: to [look](Self::round) for what is dead, or to let the
    /// count die.
    ///
    /// # Safety
    /// The caller holds the lease, or has none. It has a hot reference of the count, and gives it up if `one` is negative.
    #[inline(always)]
    pub(super) unsafe fn add(
        &self,
        mode: BarrierMode,
        lease: Option<usize>,
        count: &Count,
        one: i16,
    ) -> Then {
        match lease {
            // SAFETY: the caller's promises.
            Some(lease) => unsafe { self.row(lease).add(mode, count, one, &self.candidates) },
            // SAFETY: as above.
            None => unsafe { self.add_in_common(mode, count, one) },
        }
    }

    /// # Safety
    /// As for [`add`](Self::add); the caller has no lease.
    #[cold]
    unsafe fn add_in_common(&self, mode: BarrierMode, count: &Count, one: i16) -> Then {
        // SAFETY: `in_common` lends the row to one thread at a time; the caller's promise.
        self.in_common(|row| unsafe { row.add(mode, count, one, &self.candidates) })
    }

    /// Adds 1 if `accepts` says so to what `look` sees: see [`Row::add_if`].
    ///
    /// # Safety
    /// The caller holds the lease, or has none; the count is not freed before this returns; and the two functions use no
    /// count. If the caller has no hot reference, `accepts` says no where there is no share.
    #[inline(always)]
    pub(super) unsafe fn add_if<S>(
        &self,
        mode: BarrierMode,
        lease: Option<usize>,
        count: &Count,
        look: impl Fn() -> S,
        accepts: impl Fn(&S) -> bool,
    ) -> Option<S> {
        match lease {
            // SAFETY: the caller's promises.
            Some(lease) => unsafe {
                self.row(lease)
                    .add_if(mode, count, &self.candidates, look, accepts)
            },
            None => self.in_common(|row| {
                // SAFETY: `in_common` lends the row to one thread at a time; the caller's promises.
                unsafe { row.add_if(mode, count, &self.candidates, look, accepts) }
            }),
        }
    }

    /// Adds a hot reference if the count, which that is the rest of, is hot, for who has none. Returns whether it did. Whoever finds it cold before
    /// does not need a row for that.
    ///
    /// # Safety
    /// The caller holds the lease, or has none; and the count is not freed before this returns.
    pub(super) unsafe fn add_if_hot(
        &self,
        mode: BarrierMode,
        lease: Option<usize>,
        count: &Count,
        rest: &ReadMostly,
    ) -> bool {
        let is_hot = || rest.is_hot();
        // SAFETY: the caller's promises; who finds it hot finds its share.
        unsafe { self.add_if(mode, lease, count, is_hot, |is_hot| *is_hot) == Some(true) }
    }

    /// Somebody has dropped the last cold reference of a count that is hot. Returns whether it is to look.
    ///
    /// # Safety
    /// The caller holds the lease, or has none.
    pub(super) unsafe fn charge(&self, mode: BarrierMode, lease: Option<usize>) -> Then {
        match lease {
            // SAFETY: the caller's promise.
            Some(lease) => unsafe { self.row(lease).charge(mode) },
            // SAFETY: `in_common` lends the row to one thread at a time.
            None => self.in_common(|row| unsafe { row.charge(mode) }),
        }
    }

    #[inline(always)]
    fn row(&self, at: usize) -> &Row {
        // Acquire pairs with the Release in `make_row`: the row is initialized.
        let row = self.rows[at].load(Ordering::Acquire);
        // SAFETY: a row lives as long as the collector.
        match unsafe { row.as_ref() } {
            Some(row) => row,
            None => self.make_row(at),
        }
    }

    #[cold]
    fn make_row(&self, at: usize) -> &Row {
        #[cfg(not(percolog_loom))]
        (self.prepare)();
        let fresh = Box::new(Isolated::new(Row::new()));
        let _making = self.making.lock();
        // Relaxed: the last one was made under the same lock.
        if self.rows[at].load(Ordering::Relaxed).is_null() {
            // Relaxed, both: released by the store below. Whoever finds the row finds the end beyond it.
            let end = self.end.load(Ordering::Relaxed);
            self.end.store(end.max(at + 1), Ordering::Relaxed);
            // Release pairs with the Acquire in `row` and `all_rows`.
            self.rows[at].store(Box::into_raw(fresh), Ordering::Release);
        }
        // SAFETY: it was made above, or before, and lives as long as the collector.
        unsafe { &*self.rows[at].load(Ordering::Relaxed) }
    }

    /// Lends a row to a thread without a lease.
    #[cold]
    fn in_common<R>(&self, f: impl FnOnce(&Row) -> R) -> R {
        let at = common();
        // Before the turn: making it waits for who forks, and who forks waits for all turns.
        let row = self.row(LEASES + at);
        let _turn = self.turns[at].lock();
        f(row)
    }

    /// Begins what one thread does at a time. Also where no row was made yet: who forks waits for it.
    fn begin(&self) -> SlotGuard<'_, ()> {
        #[cfg(not(percolog_loom))]
        (self.prepare)();
        self.collecting.lock()
    }

    /// A round, after the one that may be under way.
    pub(super) fn round(&self, mode: BarrierMode) -> Round {
        let _collecting = self.begin();
        self.collect(mode)
    }

    /// The caller holds `collecting`.
    fn collect(&self, mode: BarrierMode) -> Round {
        // Relaxed: a number for people.
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let mut round = Round::default();
        if self.add_up(mode).is_err() {
            round.refused = true;
            return round;
        }
        let mut candidates: Vec<NonNull<Count>> = Vec::new();
        for candidate in self.candidates.take() {
            // SAFETY: a candidate has its share until that is given up, below.
            let count = unsafe { candidate.as_ref() };
            let is_zero = count.central() == 0;
            if count.stays_hot(is_zero) || !is_zero && count.leave_candidates() {
                self.candidates.add(count);
            } else if is_zero {
                candidates.push(candidate);
            }
        }
        if candidates.is_empty() {
            return round;
        }
        // SAFETY: as above.
        let of = |candidate: &NonNull<Count>| unsafe { candidate.as_ref() };
        match self.check(mode, &candidates) {
            Ok(zero) => {
                for (candidate, is_zero) in candidates.iter().zip(zero) {
                    if !is_zero {
                        self.keep(of(candidate));
                    } else if of(candidate).end_hot(false) == Then::Die {
                        round.dead.push(*candidate);
                    }
                }
            }
            Err(Refused) => {
                round.refused = true;
                candidates
                    .iter()
                    .for_each(|candidate| self.keep(of(candidate)));
            }
        }
        round
    }

    /// A candidate that was checked and has hot references remains one. (One that can be none any more leaves when its sum
    /// is looked at next.)
    fn keep(&self, count: &Count) {
        count.end_check();
        self.candidates.add(count);
    }

    /// Empties all rows.
    fn add_up(&self, mode: BarrierMode) -> Result<(), Refused> {
        let rows: Vec<&Row> = self
            .all_rows()
            .flatten()
            .filter(|row| !row.looks_empty())
            .collect();
        for rows in rows.chunks(FROZEN) {
            let locks: Vec<&BiasedLock<i64>> = rows.iter().map(|row| &row.lock).collect();
            biased_lock::visit(&locks, mode, |at, _| rows[at].empty_all(&self.candidates))?;
        }
        Ok(())
    }

    /// Which of the counts have no hot reference. To those that may have none nobody adds one who has none.
    fn check(&self, mode: BarrierMode, counts: &[NonNull<Count>]) -> Result<Vec<bool>, Refused> {
        // SAFETY: the caller's, all alive.
        let counts: Vec<&Count> = counts
            .iter()
            .map(|count| unsafe { count.as_ref() })
            .collect();
        counts.iter().for_each(|count| count.begin_check());
        // Pairs with the light barrier in `Row::add_if`.
        if !barrier::heavy(mode) {
            return Err(Refused);
        }
        let nothing = |found: Found| found.is_settled && !found.in_rows && found.sum == 0;
        Ok(self.look_twice(&counts).into_iter().map(nothing).collect())
    }

    /// What each of the counts is, if nothing happened to it meanwhile.
    fn look_twice(&self, counts: &[&Count]) -> Vec<Found> {
        let mut found: Vec<Found> = counts.iter().map(|_| Found::default()).collect();
        let mut first: Vec<Seen> = Vec::new();
        for row in self.all_rows() {
            for (count, found) in counts.iter().zip(&mut found) {
                let seen = row.map_or(Seen::default(), |row| row.look(count));
                let amount = seen.amount_for(count);
                found.sum += i64::from(amount);
                found.in_rows |= amount != 0;
                first.push(seen);
            }
        }
        // Between the two looks.
        for (count, found) in counts.iter().zip(&mut found) {
            found.sum += count.central();
        }
        let mut first = first.into_iter();
        for row in self.all_rows() {
            for (count, found) in counts.iter().zip(&mut found) {
                let seen = row.map_or(Seen::default(), |row| row.look(count));
                // Of a row that was made since, nothing was seen.
                found.is_settled &= seen == first.next().unwrap_or_default();
            }
        }
        found
    }

    /// The rows in order, those that are not there too.
    fn all_rows(&self) -> impl Iterator<Item = Option<&Row>> + Clone {
        // Acquire: pairs with the Release in `make_row`, through whoever told the caller of a row.
        let end = self.end.load(Ordering::Acquire);
        (0..end).map(|at| {
            // Acquire: as in `row`.
            let row = self.rows[at].load(Ordering::Acquire);
            // SAFETY: a row lives as long as the collector.
            unsafe { row.as_ref() }.map(|row| &**row)
        })
    }

    /// Makes a count cold, if there is no hot reference but the caller's. If the caller `has_one` it is cold from here on. Returns
    /// whether that is so; not if the kernel refuses.
    ///
    /// The caller has a reference.
    pub(super) fn cool(&self, mode: BarrierMode, count: &Count, has_one: bool) -> bool {
        self.with_all_rows(mode, |rows| {
            // Of an ordinary count all references are cold.
            if !count.has_share() {
                return true;
            }
            if self.hot(rows, count) != i64::from(has_one) {
                return false;
            }
            self.take_out(rows, count);
            // Never the last: the caller has a cold one, or gets it.
            let _ = count.end_hot(has_one);
            true
        })
        .unwrap_or(false)
    }

    /// How many hot references there are, if the count has its share.
    fn hot(&self, rows: &[&Row], count: &Count) -> i64 {
        let of_row = |row: &&Row| i64::from(row.look(count).amount_for(count));
        count.central() + rows.iter().map(of_row).sum::<i64>()
    }

    /// Takes from all rows and from the candidates what they have of a count. Returns what the rows had.
    fn take_out(&self, rows: &[&Row], count: &Count) -> i64 {
        // Nobody adds it again: that takes a row that has something for it.
        if count.is_candidate() {
            self.candidates.remove(count);
        }
        rows.iter().map(|row| row.leave(count)).sum()
    }

    /// Makes counts ordinary, if they are not. The caller has a reference of each, and keeps it.
    pub(super) fn switch_to_atomic(
        &self,
        mode: BarrierMode,
        counts: &[&Count],
    ) -> Result<(), Refused> {
        if counts.iter().all(|count| count.fix()) {
            return Ok(());
        }
        self.with_all_rows(mode, |rows| {
            for count in counts {
                if !count.fix() {
                    count.become_ordinary(self.take_out(rows, count));
                }
            }
        })
    }

    /// What is done while there is no round, and nobody owns a row or makes one.
    fn with_all_rows<R>(
        &self,
        mode: BarrierMode,
        f: impl FnOnce(&[&Row]) -> R,
    ) -> Result<R, Refused> {
        let _collecting = self.begin();
        // A row that is made meanwhile would not be frozen.
        let _making = self.making.lock();
        let rows: Vec<&Row> = self.all_rows().flatten().collect();
        let locks: Vec<&BiasedLock<i64>> = rows.iter().map(|row| &row.lock).collect();
        biased_lock::visit_all(&locks, mode, (), |(), _| (), |()| f(&rows))
    }

    /// What the count was at one moment of this call.
    pub(super) fn sum(&self, mode: BarrierMode, count: &Count) -> i64 {
        let (cold, has_share) = count.cold();
        if !has_share {
            return cold;
        }
        let exactly = |rows: &[&Row]| {
            let (cold, has_share) = count.cold();
            cold + if has_share { self.hot(rows, count) } else { 0 }
        };
        if let Ok(sum) = self.with_all_rows(mode, exactly) {
            return sum;
        }
        // Needs no barrier, and takes until nothing happens to the count for a moment.
        let mut backoff = Backoff::new();
        loop {
            let before = count.cold();
            let found = self.look_twice(&[count]);
            if let [found] = &found[..]
                && found.is_settled
                && count.cold() == before
            {
                return before.0 + if before.1 { found.sum } else { 0 };
            }
            backoff.wait();
        }
    }

    /// Whether a count would be found without hot references now.
    #[cfg(all(test, percolog_loom))]
    pub(super) fn is_zero(&self, mode: BarrierMode, count: &Count) -> bool {
        let _collecting = self.begin();
        let zero = self.check(mode, &[NonNull::from(count)]);
        count.end_check();
        zero == Ok(alloc::vec![true])
    }

    /// Adds up what one row has.
    #[cfg(all(test, percolog_loom))]
    pub(super) fn empty(&self, mode: BarrierMode, row: usize) {
        let row = self.row(row);
        biased_lock::visit(&[&row.lock], mode, |_, _| row.empty_all(&self.candidates))
            .expect("a fence is not refused");
    }

    /// Waits until nothing is half done, and keeps it so until [`go_on`](Self::go_on): around a `fork`, whose child has no
    /// other thread to finish it.
    #[cfg(not(percolog_loom))]
    pub(super) fn hold(&self, mode: BarrierMode) {
        // Turns first: nobody takes one who has another of these.
        self.turns.iter().for_each(|turn| turn.lock().keep());
        self.collecting.lock().keep();
        self.making.lock().keep();
        let locks = self.all_rows().flatten().map(|row| &row.lock);
        biased_lock::freeze_all(locks, mode);
    }

    /// Goes on, in the process that forked or in its child.
    ///
    /// # Safety
    /// The calling thread called [`hold`](Self::hold).
    #[cfg(not(percolog_loom))]
    pub(super) unsafe fn go_on(&self, is_child: bool) {
        let locks = self.all_rows().flatten().map(|row| &row.lock);
        if is_child {
            // Owners were about to find that they are kept out, and nobody here takes back that they are inside.
            locks.clone().for_each(BiasedLock::abandon);
        }
        // SAFETY: the same rows: none is made meanwhile.
        unsafe { biased_lock::thaw_all(locks) };
        // SAFETY: all kept by `hold`.
        unsafe {
            drop(self.making.resume());
            drop(self.collecting.resume());
            for turn in &self.turns {
                drop(turn.resume());
            }
        }
    }

    /// What the owner of a row does first, and no more of it.
    #[cfg(all(test, not(percolog_loom)))]
    pub(super) fn begin_to_own(&self, row: usize, mode: BarrierMode) {
        self.row(row).lock.begin_to_own(mode);
    }

    /// What a row has for a count.
    #[cfg(all(test, percolog_loom))]
    pub(super) fn amount(&self, row: usize, count: &Count) -> i16 {
        self.row(row).look(count).amount_for(count)
    }

    /// How many rounds there were.
    pub(super) fn rounds(&self) -> u64 {
        // Relaxed: a number for people.
        self.rounds.load(Ordering::Relaxed)
    }
}

/// Which of the common rows the caller uses.
#[cfg(not(percolog_loom))]
fn common() -> usize {
    crate::cpu::current().index() % COMMON
}

#[cfg(percolog_loom)]
fn common() -> usize {
    0
}

impl Drop for Collector {
    fn drop(&mut self) {
        for row in &self.rows {
            // Relaxed: `&mut self` came after all use.
            let row = row.load(Ordering::Relaxed);
            if !row.is_null() {
                // SAFETY: it was made by `make_row`, and nobody has it any more.
                drop(unsafe { Box::from_raw(row) });
            }
        }
    }
}
