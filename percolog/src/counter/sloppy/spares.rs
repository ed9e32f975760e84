//! The spare references, and how they move between the slots and the central counter.
//!
//! *Invariant:* whenever every owner of a share is out, the central counter is what is in use plus the sum of all shares.
//!
//! # Why what is read is exact
//!
//! An operation changes its share and the central counter inside the share's [`BiasedLock`], or changes the central
//! counter alone, in one step. A reader freezes all shares, waits until their owners are out, and looks at the central
//! counter before it lets any of them in again. So it finds each operation whole or not at all, and all operations that it
//! finds come before all that it does not: a later one of an owner that is kept out goes to the central counter, where it
//! is found or not by the same look as everybody else's.
//!
//! A share that is made meanwhile is not frozen. Its owner can keep references in it, and another thread that knows of
//! that can take others from the central counter before the reader looks there; the reader would count what was taken
//! and not what was kept. So it looks for new shares after it has looked at the central counter, and begins again if
//! there are any: who made one did so before it kept anything in it, so that whoever sees what came after sees the
//! share as well. Each round but the last finds a chunk of shares that was not there before, of which a process makes a
//! few for each of its threads.
//!
//! # What a `fork` finds
//!
//! Nobody who looks: that is [undivided](crate::cpu::undivided). Of operations of other threads it can find one half that is
//! one step: then the operation was made in the child or not, and only the mark stays that its thread is inside. A reader takes that
//! away, of threads that do not exist. An operation that changes its share *and* the central counter says so in its row, and
//! looks whether somebody forks; `fork` looks at the rows, with a barrier between on both sides.

use crate::counter::ids::{Place, Places};
use crate::counter::memory::Zero;
use crate::counter::rows::Rows;
use crate::cpu;
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::biased_lock::{BiasedLock, Owned, Refused, visit_all};
use crate::cpu::lease::{self, LEASES};
use crate::cpu::undivided::{is_forking, undivided};
#[cfg(not(percolog_loom))]
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use crate::sync::const_fn;
use alloc::vec::Vec;

/// A counter's share in one row: the spares that the row's owner holds.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Spares(BiasedLock<u64>);

impl Default for Spares {
    fn default() -> Self {
        Self(BiasedLock::new(0))
    }
}

impl Spares {
    /// The spares, unless somebody looks at them; or the owner is in the middle of using them already, which happens to
    /// what interrupts it on its own thread: a signal handler.
    ///
    /// # Safety
    /// The caller holds the lease of the row.
    #[inline(always)]
    unsafe fn enter(&self, mode: BarrierMode) -> Option<Owned<'_, u64>> {
        // What interrupts between this and the next step is outside again when that is made.
        if self.0.is_owned() {
            return None;
        }
        // SAFETY: the owner is not inside, and nobody else comes here.
        unsafe { self.0.try_own(mode) }
    }
}

// SAFETY: integers, of which zero is the default: nobody inside, not frozen, no spares. No destructor.
unsafe impl Zero for Spares {}

/// What is kept of a counter beside its central word.
#[derive(Debug)]
pub(super) struct Account {
    /// Bits of the counter's [`Place`]; none until spares are kept.
    place: AtomicU64,
    /// The most spares that one share holds.
    threshold: u64,
}

impl Account {
    const_fn! {
        pub(super) const fn new(threshold: u64) -> Self {
            Self { place: AtomicU64::new(0), threshold }
        }
    }

    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    #[inline(always)]
    fn place(&self) -> Place {
        Place::kept_in(&self.place)
    }
}

/// A share's spares once one more release put `n` there, and how many of them are to be given back: none unless they are
/// more than the threshold, and then those above half of it.
///
/// What is returned adds up to `held + n`, modulo 2⁶⁴.
#[inline(always)]
fn settle(held: u64, n: u64, threshold: u64) -> (u64, u64) {
    match held.checked_add(n) {
        Some(now) if now <= threshold => (now, 0),
        _ => {
            let kept = threshold / 2;
            (kept, held.wrapping_add(n).wrapping_sub(kept))
        }
    }
}

/// Takes references from the central counter.
pub(super) fn take_centrally(central: &AtomicI64, n: u64) {
    // Release pairs with the Acquire in `Bank::in_use`: who counts these references sees what came before them. Acquire:
    // as that one.
    central.fetch_add(n as i64, Ordering::AcqRel);
}

/// Gives references back to the central counter.
pub(super) fn give_centrally(central: &AtomicI64, n: u64) {
    // Release pairs with the Acquire in `Bank::in_use`: who finds nothing in use comes after every use. Acquire: as that
    // one.
    central.fetch_sub(n as i64, Ordering::AcqRel);
}

/// The shares of all counters.
///
/// The process has one; model checks and tests make their own.
#[derive(Debug)]
pub(super) struct Bank {
    /// Row `n` is owned by whoever holds lease `n`.
    rows: Rows<Spares, LEASES>,
    places: Places,
}

impl Bank {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { rows: Rows::new(), places: Places::new() }
        }
    }

    /// Takes `n` spares of the share of a lease; `false`, and nothing happened, if there are not as many, or somebody looks
    /// at them.
    ///
    /// # Safety
    /// The caller holds the lease.
    #[inline(always)]
    pub(super) unsafe fn take(
        &self,
        account: &Account,
        lease: usize,
        n: u64,
        mode: BarrierMode,
    ) -> bool {
        let Some(share) = self.rows.find(lease, account.place()) else {
            return false;
        };
        // SAFETY: by contract.
        let Some(mut spares) = (unsafe { share.enter(mode) }) else {
            return false;
        };
        let spares = spares.get();
        if *spares < n {
            return false;
        }
        *spares -= n;
        true
    }

    /// Keeps `n` spares in the share of a lease, and gives back what is too much; `false`, and nothing happened, if there
    /// is no such share, or somebody looks at it.
    ///
    /// # Safety
    /// The caller holds the lease.
    #[inline(always)]
    pub(super) unsafe fn keep(
        &self,
        account: &Account,
        central: &AtomicI64,
        lease: usize,
        n: u64,
        mode: BarrierMode,
    ) -> bool {
        let Some(share) = self.rows.find(lease, account.place()) else {
            return false;
        };
        // SAFETY: by contract.
        let Some(mut spares) = (unsafe { share.enter(mode) }) else {
            return false;
        };
        let held = spares.get();
        let (kept, too_many) = settle(*held, n, account.threshold);
        if too_many != 0 {
            return self.unless_forking(lease, mode, || {
                *held = kept;
                // Before the owner is out: nobody may find the one without the other.
                give_centrally(central, too_many);
            });
        }
        *held = kept;
        true
    }

    /// Runs a change of two words that no `fork` may cut in two; `false`, and nothing happened, if somebody forks.
    ///
    /// The caller holds the lease, and is inside one of its shares.
    fn unless_forking(&self, lease: usize, mode: BarrierMode, change: impl FnOnce()) -> bool {
        let Some(row) = self.rows.row(lease) else {
            return false;
        };
        // In the middle of another one: this is a signal handler. Relaxed: the owner reads what it wrote itself.
        if row.users().load(Ordering::Relaxed) != 0 {
            return false;
        }
        // Relaxed: ordered by the barriers, here and in `wait_before_a_fork`.
        row.users().store(1, Ordering::Relaxed);
        barrier::light(mode);
        let goes_on = !is_forking();
        if goes_on {
            change();
        }
        // Release pairs with the Acquire in `wait_before_a_fork`: the change is copied with this.
        row.users().store(0, Ordering::Release);
        goes_on
    }

    /// Waits for changes under way. Somebody forks, and has said so: none begins.
    #[cfg(not(percolog_loom))]
    pub(super) fn wait_before_a_fork(&self, mine: Option<usize>, mode: BarrierMode) {
        if self.rows.rows().next().is_none() {
            return;
        }
        barrier::heavy_before_a_fork(mode);
        // Who forks in the middle of one, in a signal handler, goes on with it itself. And in a child, an owner that was about to
        // look when its process was copied looks no more.
        let goes_on = |at: usize| Some(at) != mine && !lease::is_gone(at);
        for (_, row) in self.rows.rows().filter(|(at, _)| goes_on(*at)) {
            let mut backoff = Backoff::new();
            while row.is_used() {
                backoff.wait();
            }
        }
    }

    /// What an owner does before a change, and no more of it: it is stopped before it looks whether somebody forks.
    #[cfg(all(test, not(percolog_loom)))]
    pub(super) fn begin_to_change(&self, account: &Account, lease: usize) {
        self.prepare(account, lease);
        if let Some(row) = self.rows.row(lease) {
            row.users().store(1, Ordering::Relaxed);
        }
    }

    /// Makes the share that [`keep`](Self::keep) needs. The lease need not be held.
    pub(super) fn prepare(&self, account: &Account, lease: usize) {
        self.rows.touch(lease, self.places.of(&account.place));
    }

    /// What is in use at one moment.
    pub(super) fn in_use(
        &self,
        account: &Account,
        central: &AtomicI64,
        mode: BarrierMode,
    ) -> Result<i64, Refused> {
        self.at_one_moment(
            account,
            mode,
            |spares| *spares,
            |all| {
                // Acquire pairs with the Release of whoever changed it: what is counted has happened, and what made others
                // count it.
                central.load(Ordering::Acquire).wrapping_sub(all as i64)
            },
        )
    }

    /// Gives all spares back, and returns what is in use at that moment: the central counter's value.
    pub(super) fn reconcile(
        &self,
        account: &Account,
        central: &AtomicI64,
        mode: BarrierMode,
    ) -> Result<i64, Refused> {
        self.at_one_moment(account, mode, core::mem::take, |all| {
            // Both orderings: as in `in_use`, and as in `give_centrally`.
            central
                .fetch_sub(all as i64, Ordering::AcqRel)
                .wrapping_sub(all as i64)
        })
    }

    /// Adds up what `visit` returns of each share, and hands it to `then` while no owner is inside.
    ///
    /// Where new shares appear it begins again: what the last round returned counts.
    fn at_one_moment(
        &self,
        account: &Account,
        mode: BarrierMode,
        visit: impl Fn(&mut u64) -> u64,
        then: impl Fn(u64) -> i64,
    ) -> Result<i64, Refused> {
        undivided(|| self.look(account, mode, &visit, &then))
    }

    fn look(
        &self,
        account: &Account,
        mode: BarrierMode,
        visit: &impl Fn(&mut u64) -> u64,
        then: &impl Fn(u64) -> i64,
    ) -> Result<i64, Refused> {
        loop {
            // In the order of the leases, as everybody freezes them.
            let shares: Vec<_> = self
                .rows
                .rows()
                .filter_map(|(lease, row)| {
                    let lock = &row.find(account.place())?.0;
                    if lease::is_gone(lease) {
                        // It was in the middle of a change of one word, or of none.
                        lock.abandon();
                    }
                    Some(lock)
                })
                .collect();
            let value = if shares.is_empty() {
                // Nobody is kept out, and no barrier is needed.
                then(0)
            } else {
                let add_up = |sum: u64, spares: &mut u64| sum.wrapping_add(visit(spares));
                // Who is kept out does not wait for this, but others who look do.
                cpu::without_preemption(|| visit_all(&shares, mode, 0, add_up, then))?
            };
            if self.rows.iter(account.place()).count() == shares.len() {
                return Ok(value);
            }
        }
    }

    /// Gives all spares back, and the counter's place to the next one. The counter must not be used any more.
    pub(super) fn close(&self, account: &mut Account, central: &AtomicI64) {
        let place = account.place();
        if place == Place::NONE {
            return;
        }
        let mut all = 0u64;
        for share in self.rows.iter(place) {
            // SAFETY: every use of the counter happens before this, and nobody looks at its shares until the place is
            // taken again, which the lock in `Places` orders behind this.
            let spares = unsafe { share.0.get_exclusively() };
            // A share that is zero is left alone, so that no untouched page comes to life.
            if *spares != 0 {
                all = all.wrapping_add(core::mem::take(spares));
            }
        }
        if all != 0 {
            give_centrally(central, all);
        }
        self.places.take_back(&account.place);
    }
}

#[cfg(test)]
impl Bank {
    /// What is in each touched share.
    pub(super) fn spares(&self, account: &Account, mode: BarrierMode) -> Vec<u64> {
        let shares: Vec<_> = self
            .rows
            .iter(account.place())
            .map(|share| &share.0)
            .collect();
        let seen = visit_all(
            &shares,
            mode,
            Vec::new(),
            |mut seen, spares| {
                seen.push(*spares);
                seen
            },
            |seen| seen,
        );
        seen.expect("tests run where the barrier is not refused")
    }

    /// Runs `f` as a signal handler would run in the middle of an acquire by the holder of the lease.
    pub(super) fn interrupted(
        &self,
        account: &Account,
        lease: usize,
        mode: BarrierMode,
        f: impl FnOnce(),
    ) {
        let share = self.rows.touch(lease, self.places.of(&account.place));
        // SAFETY: the caller holds the lease, and is in the middle of nothing.
        let inside = unsafe { share.enter(mode) };
        assert!(inside.is_some());
        f();
    }

    /// How many places there have ever been.
    pub(super) fn places_ever(&self) -> u64 {
        self.places.ever()
    }
}
