//! One count: what has been added up of it, and what becomes of it at zero.

use core::ptr::{self, NonNull};

use crate::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, Ordering, fence};
use crate::sync::const_fn;

/// Somebody may have a reference, and more may be made out of weak ones.
pub(super) const LIVE: u32 = 0;
/// It is being found out whether anybody has a reference: whoever wants to make one out of a weak one waits.
pub(super) const CHECKED: u32 = 1;
/// No reference can be made any more.
pub(super) const DEAD: u32 = 2;

/// What is left to do for who has added to a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Then {
    Nothing,
    /// Much was dropped: look for what is dead.
    Look,
    /// The count was ordinary, and is zero: the caller lets it [die](Count::die).
    Die,
}

/// A number of references: `central` and, of each row, what the row has for it. If the count is *ordinary*, no row has
/// anything for it, and never will.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Count {
    /// What was taken out of rows. Never a number of references by itself, unless the count is ordinary.
    central: AtomicI64,
    state: AtomicU32,
    /// 1: it is among the candidates, or was found to be zero.
    queued: AtomicU32,
    /// The next candidate.
    next: AtomicPtr<Count>,
    /// What is done when the count is zero, and with what.
    dead: Dead,
    object: *mut u8,
    /// What the death of this one takes from the budget of a row.
    pub(super) weight: u32,
    /// 1: it is ordinary, from here on.
    ordinary: AtomicU32,
}

// SAFETY: `object` is used by `dead` alone, which whoever made the count allows on any thread.
unsafe impl Send for Count {}
// SAFETY: as above; the rest is atomic.
unsafe impl Sync for Count {}

/// What is done when a count is zero: it is called once, by a thread that holds nothing. It is given the object that the
/// count was made for, and says how many values it destroyed.
///
/// # Safety
/// The count is zero for ever, and no row has anything for it.
pub(super) type Dead = unsafe fn(*mut u8) -> usize;

impl Count {
    const_fn! {
        /// A count of one.
        pub(super) const fn one(dead: Dead, weight: u32) -> Self {
            Self {
                central: AtomicI64::new(1),
                state: AtomicU32::new(LIVE),
                queued: AtomicU32::new(0),
                next: AtomicPtr::new(ptr::null_mut()),
                dead,
                object: ptr::null_mut(),
                weight,
                ordinary: AtomicU32::new(0),
            }
        }
    }

    /// Says what it counts the references of. Before it is shared.
    pub(super) fn set_object(&mut self, object: *mut u8) {
        self.object = object;
    }

    /// The address, by which rows know it.
    #[inline(always)]
    pub(super) fn key(&self) -> *mut Count {
        ptr::from_ref(self).cast_mut()
    }

    /// What has been added up.
    pub(super) fn central(&self) -> i64 {
        // Acquire pairs with the Release in `move_here`: see `collector`, "Why it is zero".
        self.central.load(Ordering::Acquire)
    }

    /// Adds what a row had. The row must still have it: until it has given it up the count cannot be found dead.
    /// Returns whether the count has to be put among the candidates, by the caller and before the row gives it up.
    pub(super) fn move_here(&self, amount: i64) -> bool {
        // AcqRel: whoever finds the sum finds what the owners of all rows did before they gave their part (`central`).
        let sum = self.central.fetch_add(amount, Ordering::AcqRel) + amount;
        sum == 0 && self.become_candidate()
    }

    /// Whether the caller has to put it among the candidates.
    fn become_candidate(&self) -> bool {
        // AcqRel, as the exchange in `leave_candidates`: whichever comes second sees what came before the first. A mover
        // that finds it queued has told the collector, who looks at the sum after it.
        self.queued.swap(1, Ordering::AcqRel) == 0
    }

    /// The collector, who has taken it off the list, does not keep it. Returns whether it has to go back: its sum has
    /// become zero meanwhile.
    pub(super) fn leave_candidates(&self) -> bool {
        // AcqRel: see `become_candidate`.
        self.queued.swap(0, Ordering::AcqRel);
        self.central() == 0 && self.become_candidate()
    }

    /// Whether references may be made out of weak ones.
    #[inline(always)]
    pub(super) fn state(&self) -> u32 {
        // Acquire pairs with the Release in `set_state`. What decides is the barrier before: see `Row::add_if`.
        self.state.load(Ordering::Acquire)
    }

    /// Only the collector does this.
    pub(super) fn set_state(&self, state: u32) {
        // Release: who finds it live again finds all that was done before it was checked.
        self.state.store(state, Ordering::Release);
    }

    /// Whether it is among the candidates. Exact if the caller holds `collecting`, and all rows.
    pub(super) fn is_candidate(&self) -> bool {
        // Acquire pairs with the exchange in `become_candidate`.
        self.queued.load(Ordering::Acquire) == 1
    }

    /// Whether no row has anything for it, for ever. Who owns a row asks while it does: then the answer holds until it
    /// leaves the row, because the count becomes ordinary while nobody is in one.
    pub(super) fn is_ordinary(&self) -> bool {
        // Acquire pairs with the Release in `become_ordinary`: who finds it ordinary finds all of it in `central`.
        self.ordinary.load(Ordering::Acquire) == 1
    }

    /// From here on every change goes to `central`. The caller holds all rows, gives what they had, and they have nothing
    /// any more; and the count is no candidate.
    pub(super) fn become_ordinary(&self, amount: i64) {
        // AcqRel, also if it is nothing: whoever finds the count zero later, by an exchange with Acquire, finds what the
        // owners of all rows did before they gave their part.
        self.central.fetch_add(amount, Ordering::AcqRel);
        // Release pairs with the Acquire in `is_ordinary`.
        self.ordinary.store(1, Ordering::Release);
    }

    /// Adds 1 or −1 to an ordinary count. Who gives up the last reference has the count, and nobody else does: else it must
    /// not be used after this.
    ///
    /// The caller owns a row while it does so, for those who [count exactly](super::collector::Collector::exactly), and has a
    /// reference that it gives up if `one` is negative.
    #[cold]
    pub(super) fn add_ordinary(&self, one: i16) -> Then {
        // AcqRel: what the caller did with the object before it gives up its reference comes before what is done at zero.
        let before = self.central.fetch_add(i64::from(one), Ordering::AcqRel);
        if before + i64::from(one) == 0 {
            Then::Die
        } else {
            Then::Nothing
        }
    }

    /// Adds 1 to an ordinary count unless it is zero, if `accepts` says so to what `look` sees before and after. Returns what
    /// was seen last, or nothing if the count is zero.
    ///
    /// The caller owns a row, as above. If it has no reference, `accepts` must not change its mind while it does.
    #[cold]
    pub(super) fn add_ordinary_if<S>(
        &self,
        look: impl Fn() -> S,
        accepts: impl Fn(&S) -> bool,
    ) -> Option<S> {
        let seen = look();
        if !accepts(&seen) {
            return Some(seen);
        }
        // Relaxed: the exchange says whether it was so.
        let mut now = self.central.load(Ordering::Relaxed);
        while now != 0 {
            // AcqRel: an upgrade sees what was done to the object by who has given up a reference.
            let added = self.central.compare_exchange_weak(
                now,
                now + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match added {
                Ok(_) => return Some(self.look_again(look, accepts)),
                Err(other) => now = other,
            }
        }
        None
    }

    /// Once 1 was added: takes it back unless `accepts` still says so.
    fn look_again<S>(&self, look: impl Fn() -> S, accepts: impl Fn(&S) -> bool) -> S {
        // Pairs with the fence in `ordinary`: whoever counts finds the 1, or this sees what that thread has put up.
        fence(Ordering::SeqCst);
        let seen = look();
        if !accepts(&seen) {
            // Never the last: `accepts` has changed its mind, so the caller has a reference.
            // AcqRel: as in `add_ordinary`.
            self.central.fetch_sub(1, Ordering::AcqRel);
        }
        seen
    }

    /// How many references there are, if the count is ordinary.
    pub(super) fn ordinary(&self) -> Option<i64> {
        if !self.is_ordinary() {
            return None;
        }
        // Pairs with the fence in `look_again`.
        fence(Ordering::SeqCst);
        Some(self.central())
    }

    /// Does what is to be done at zero. Returns how many values were destroyed.
    ///
    /// # Safety
    /// As [`Dead`] says; it was not called before.
    pub(super) unsafe fn die(this: NonNull<Count>) -> usize {
        // SAFETY: it is alive until the call below.
        let count = unsafe { this.as_ref() };
        let (dead, object) = (count.dead, count.object);
        // SAFETY: the caller's promise.
        unsafe { dead(object) }
    }
}

/// Counts whose sum was zero once since they were looked at.
#[derive(Debug)]
pub(super) struct Candidates {
    first: AtomicPtr<Count>,
}

impl Candidates {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { first: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Adds one, which is not in the list. Lock-free.
    pub(super) fn add(&self, count: &Count) {
        // Relaxed: the exchange below says whether it was the newest.
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            count.next.store(first, Ordering::Relaxed);
            // Release pairs with the Acquire in `take`, of which the list is one release sequence.
            match self.first.compare_exchange_weak(
                first,
                count.key(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes off the list all that are in it and among the given. Only the collector does this, while nobody can add them again.
    pub(super) fn remove(&self, counts: &[&Count]) {
        for candidate in self.take() {
            // SAFETY: a candidate is alive until the collector, who calls this, finds it dead.
            let count = unsafe { candidate.as_ref() };
            if counts.iter().any(|gone| ptr::eq(*gone, count)) {
                // Relaxed: nobody asks until the caller lets the rows go.
                count.queued.store(0, Ordering::Relaxed);
            } else {
                self.add(count);
            }
        }
    }

    /// Takes all. Only the collector does this.
    pub(super) fn take(&self) -> Taken {
        // Acquire: pairs with the Release in `add`.
        Taken(self.first.swap(ptr::null_mut(), Ordering::Acquire))
    }
}

/// Candidates that were taken.
#[derive(Debug)]
pub(super) struct Taken(*mut Count);

impl Iterator for Taken {
    type Item = NonNull<Count>;

    fn next(&mut self) -> Option<NonNull<Count>> {
        let count = NonNull::new(self.0)?;
        // SAFETY: a candidate is alive until the collector, who calls this, finds it dead.
        // Relaxed: `Candidates::take` acquired it.
        self.0 = unsafe { count.as_ref() }.next.load(Ordering::Relaxed);
        Some(count)
    }
}
