//! One count: the word of its cold references, what has been added up of its hot ones, and what becomes of it at zero.
//!
//! # Cold and hot
//!
//! A reference is *cold* or *hot* for life; a bit of its pointer says which. Cold ones are counted as those of an `Arc`, in the
//! word. Hot ones are counted in rows and in `central`, and all of them together have one *share* in the word: a bit of it. What
//! the count is of dies with whoever leaves neither a cold reference nor the share in the word.
//!
//! | `state` | hot references | a clone of a cold reference is |
//! |---|---|---|
//! | [`COLD`] | none | cold |
//! | [`HOT`] | as many as rows and `central` say | hot |
//! | [`CHECKED`] | the collector looks whether there is one | cold |
//! | [`ORDINARY`] | counted in the word, which nobody makes hot again | cold |
//!
//! A cold clone is always right, whatever the state: it is counted in the word, and its maker has a reference, or found one there
//! in the exchange. So nobody waits for a state. A hot one is made by who has a hot one, or finds the state hot once it is in the
//! row: see `Row::add_if`, and the barrier in `Collector::check`.
//!
//! *Becoming hot* is taking the share: an exchange that turns the caller's own new cold reference into it. Only who finds no share
//! there does so; `central` is 1 since the last hot reference was gone, and that is the caller's, which is hot from here on.
//!
//! *Becoming cold* again is up to who holds `collecting`, and has found that there is no hot reference. Giving up the share is the
//! last thing that it does: the share is what keeps the count there for it.

use core::ptr::{self, NonNull};

use super::heat::{self, Heat};
use crate::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::const_fn;

/// There is no hot reference.
const COLD: u32 = 0;
/// There may be hot references, and more may be made by who has none.
const HOT: u32 = 1;
/// It is being found out whether there is one: only who has one makes more.
const CHECKED: u32 = 2;
/// All references are counted in the word, for ever.
const ORDINARY: u32 = 3;
/// Nobody has a reference, and the value was moved out.
const TAKEN: u32 = 4;

/// It never becomes hot.
const FIXED: u64 = 1;
/// Somebody looks whether it is the only reference; who adds one meanwhile takes this away.
const LOCKED: u64 = 1 << 1;
/// One of the references is the share of all hot ones.
const SHARE: u64 = 1 << 2;
/// A reference. The word has one less than there are: none makes it negative, which the processor notices by itself.
const ONE: u64 = 1 << ALL;
const ALL: u32 = 3;

/// Whether this is the word of one reference, which is cold.
const fn is_one(word: u64) -> bool {
    word & !(FIXED | LOCKED) == 0
}

const fn is_zero(word: u64) -> bool {
    (word as i64) < 0
}

/// The most weight in KiB, beyond any budget.
const MOST: u32 = u16::MAX as u32;

/// What is left to do for who has added to a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Then {
    Nothing,
    /// Much was dropped: look for what is dead.
    Look,
    /// The share is left: a round finds whether that is all.
    Wait,
    /// It was the last reference: the caller lets the count [die](Count::die).
    Die,
}

/// A number of references: the cold ones of the word and, if that has the share, `central` and what each row has.
///
/// What clones of a cold reference write is here, and what every clone reads is in [`ReadMostly`], on another line.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Count {
    /// How many cold references there are, and whether there is a share of hot ones.
    word: AtomicU64,
    heat: Heat,
    /// 1: it is among the candidates, or was found to be zero.
    pub(super) queued: AtomicU32,
    /// Of hot references, what was taken out of rows. Never a number of references by itself.
    central: AtomicI64,
    rest: *const ReadMostly,
}

/// What is read of a count by whoever has a reference, and hardly ever written.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ReadMostly {
    state: AtomicU32,
    /// What the death of this one takes from the budget of a row, in KiB.
    weight: u16,
    /// The next candidate.
    pub(super) next: AtomicPtr<Count>,
    /// What is done when the count is zero.
    dead: Dead,
}

// SAFETY: `rest` is what `link` was given, which is `Sync` and lives as long as the count; the remainder is atomic.
unsafe impl Send for Count {}
// SAFETY: as above.
unsafe impl Sync for Count {}

/// What is done when a count is zero: it is called once, by a thread that holds nothing. It is given what [`Count::link`] was, and says how
/// many values it destroyed.
///
/// # Safety
/// The count is zero for ever, and no row has anything for it.
pub(super) type Dead = unsafe fn(*const ReadMostly) -> usize;

impl ReadMostly {
    const_fn! {
        pub(super) const fn new(dead: Dead, weight: u32) -> Self {
            Self {
                state: AtomicU32::new(COLD),
                weight: if weight > MOST << 10 { MOST as u16 } else { weight.div_ceil(1 << 10) as u16 },
                next: AtomicPtr::new(ptr::null_mut()),
                dead,
            }
        }
    }

    /// Whether hot references can be made by who has none. What decides is the barrier before: see `Row::add_if`.
    #[inline(always)]
    pub(super) fn is_hot(&self) -> bool {
        // Acquire pairs with the Release in `become_hot`.
        self.state.load(Ordering::Acquire) == HOT
    }

    /// Whether the value was moved out. For who lets the count die.
    pub(super) fn is_taken(&self) -> bool {
        // Relaxed: written by the caller.
        self.state.load(Ordering::Relaxed) == TAKEN
    }
}

impl Count {
    const_fn! {
        /// A count of one, which is cold. It must be [linked](Self::link) before it is used.
        pub(super) const fn one() -> Self {
            Self {
                word: AtomicU64::new(0),
                heat: Heat::new(),
                queued: AtomicU32::new(0),
                central: AtomicI64::new(1),
                rest: ptr::null(),
            }
        }
    }

    /// Says where the rest of it is. Before it is shared.
    ///
    /// # Safety
    /// The rest belongs to this count, and lives as long; and the pointer is good for what its `dead` does with it.
    pub(super) unsafe fn link(&mut self, rest: *const ReadMostly) {
        self.rest = rest;
    }

    #[inline(always)]
    pub(super) fn rest(&self) -> &ReadMostly {
        // SAFETY: `link` was called, with what lives as long as this.
        unsafe { &*self.rest }
    }

    /// What the death of this one takes from the budget of a row.
    pub(super) fn weight(&self) -> u32 {
        u32::from(self.rest().weight) << 10
    }

    /// The address, by which rows know it.
    #[inline(always)]
    pub(super) fn key(&self) -> *mut Count {
        ptr::from_ref(self).cast_mut()
    }

    /// Adds a cold reference. Returns whether it is hot now.
    ///
    /// The caller has a reference.
    #[inline(always)]
    pub(super) fn add_cold(&self) -> bool {
        let is_due = heat::is_noted();
        // Relaxed, as in `Arc`: who has a reference hands on what it knows with it.
        if is_zero(
            self.word
                .fetch_add(ONE, Ordering::Relaxed)
                .wrapping_add(ONE),
        ) {
            // More than there is memory for: they were forgotten.
            std::process::abort();
        }
        is_due && self.note()
    }

    /// Notes a clone, one of many. Returns whether it is hot now.
    #[cold]
    #[inline(never)]
    fn note(&self) -> bool {
        self.heat.is_contended() && self.become_hot()
    }

    /// Adds a cold reference if `accepts` says so once it is there; whoever changes its mind and then [counts](Self::cold) finds
    /// the reference, or this sees the change. Returns whether the reference is hot now.
    ///
    /// The caller has a reference.
    pub(super) fn add_cold_if(&self, accepts: impl FnOnce() -> bool) -> Option<bool> {
        // Acquire pairs with the Release in `cold`: if that comes first, what its caller has changed is seen below.
        if is_zero(
            self.word
                .fetch_add(ONE, Ordering::Acquire)
                .wrapping_add(ONE),
        ) {
            std::process::abort();
        }
        if !accepts() {
            // Never the last: the caller has a reference. Release: as in `drop_cold`.
            self.word.fetch_sub(ONE, Ordering::Release);
            return None;
        }
        Some(heat::is_noted() && self.note())
    }

    /// Adds a cold reference for who has none, unless there is none at all. Returns whether it is hot now.
    pub(super) fn add_unless_zero(&self) -> Option<bool> {
        // Relaxed: the exchange says whether it was so.
        let mut now = self.word.load(Ordering::Relaxed);
        while !is_zero(now) {
            // Acquire pairs with the Release of whoever gave up a reference: what it did to the value is seen.
            let added = self.word.compare_exchange_weak(
                now,
                now + ONE,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match added {
                Ok(_) => return Some(heat::is_noted() && self.note()),
                Err(other) => now = other,
            }
        }
        None
    }

    /// Gives up a cold reference. If it was the last, the caller has the count, and nobody else does; if not, it must not be used
    /// after this.
    #[inline(always)]
    pub(super) fn drop_cold(&self) -> Then {
        // Release pairs with the Acquire in `acquire`: what the caller did to the value comes before what is done at zero.
        let left = self
            .word
            .fetch_sub(ONE, Ordering::Release)
            .wrapping_sub(ONE);
        if is_zero(left) {
            self.acquire();
            return Then::Die;
        }
        if left < ONE && left & SHARE != 0 {
            Then::Wait
        } else {
            Then::Nothing
        }
    }

    /// The word is zero: all that was done by who had references comes before what follows.
    #[inline(always)]
    fn acquire(&self) {
        // Acquire pairs with the Release of all who gave up a reference or the share. (A load, since ThreadSanitizer knows no fences.)
        self.word.load(Ordering::Acquire);
    }

    /// Turns the cold reference that the caller has just added into a hot one, if there is none. Returns whether it did.
    pub(super) fn become_hot(&self) -> bool {
        // Relaxed: the exchange says whether it was so.
        let mut now = self.word.load(Ordering::Relaxed);
        while now & (SHARE | FIXED) == 0 {
            // Acquire pairs with the Release in `end_hot`: `central` is 1, and the count is no candidate. Release: as in `drop_cold`, for
            // a reference that is there no more.
            let taken = self.word.compare_exchange_weak(
                now,
                now | SHARE,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => {
                    // Fails if it has become ordinary since: then `central` was moved to the word, and the reference with it.
                    // Release pairs with the Acquire in `is_hot`.
                    let _ = self.rest().state.compare_exchange(
                        COLD,
                        HOT,
                        Ordering::Release,
                        Ordering::Relaxed,
                    );
                    return true;
                }
                Err(other) => now = other,
            }
        }
        false
    }

    /// Whether there is a share. Exact for who holds `collecting`, if there is.
    pub(super) fn has_share(&self) -> bool {
        // Acquire pairs with the Release in `become_hot`.
        self.word.load(Ordering::Acquire) & SHARE != 0
    }

    /// Whether it stays hot though a round finds no hot reference, and is not even checked, which would be in the way of those who clone:
    /// what somebody has a cold reference of may be about to be cloned again, for some rounds. For the collector.
    pub(super) fn stays_hot(&self, is_zero: bool) -> bool {
        let is_idle = self.heat.is_idle(is_zero);
        // Relaxed: a hint. Who drops the last cold reference now leaves it to a later round, which finds it.
        is_zero && !is_idle && self.word.load(Ordering::Relaxed) >= ONE
    }

    /// There is no hot reference, and the share is given up, or becomes a cold reference for the one that there was. Returns what is left to do.
    ///
    /// The caller holds `collecting`, and has taken the count off the list of candidates; and there is a share. After this the count
    /// must not be used by who has no other reference, unless it is the caller's to let die.
    pub(super) fn end_hot(&self, becomes_cold: bool) -> Then {
        // Relaxed, all: published by the exchange, to whoever makes it hot.
        self.central.store(1, Ordering::Relaxed);
        self.queued.store(0, Ordering::Relaxed);
        // AcqRel: after whoever made it hot, and before whoever does so again (`become_hot`).
        self.rest().state.swap(COLD, Ordering::AcqRel);
        let given_up = if becomes_cold { SHARE } else { SHARE + ONE };
        // Release: as in `drop_cold`, for all who had hot references: the collector has acquired what they did.
        let before = self.word.fetch_sub(given_up, Ordering::Release);
        if !is_zero(before.wrapping_sub(given_up)) {
            return Then::Nothing;
        }
        self.acquire();
        Then::Die
    }

    /// The number of cold references, and whether there is a share, at one moment. Of who adds one on a [condition](Self::add_cold_if)
    /// and who changes that and then calls this, one sees the other.
    pub(super) fn cold(&self) -> (i64, bool) {
        // Release pairs with the Acquire in `add_cold_if`: it is an exchange for that. Acquire: as in `has_share`.
        let word = self.word.fetch_add(0, Ordering::AcqRel);
        let has_share = word & SHARE != 0;
        ((word as i64 >> ALL) + i64::from(!has_share), has_share)
    }

    /// Whether the caller's reference, a cold one, is the only one.
    pub(super) fn is_one(&self) -> bool {
        // Acquire pairs with the Release of who gave up the others.
        is_one(self.word.load(Ordering::Acquire))
    }

    /// Gives up the caller's reference, a cold one, if it is the only one. Returns whether it did: then nobody gets another one.
    pub(super) fn take(&self) -> bool {
        let mut now = 0;
        while is_one(now) {
            // Acquire pairs with the Release of who gave up the others.
            let taken = self.word.compare_exchange_weak(
                now,
                now.wrapping_sub(ONE),
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => {
                    // Relaxed: read by the caller, when it lets the count die.
                    self.rest().state.store(TAKEN, Ordering::Relaxed);
                    return true;
                }
                Err(other) => now = other,
            }
        }
        false
    }

    /// Whether there is just one reference and `also` says so while nobody adds another one.
    ///
    /// Whoever can add one while this looks has something else that `also` finds, until it has [said so](Self::unlock).
    pub(super) fn is_one_while(&self, also: impl FnOnce() -> bool) -> bool {
        let mut now = 0;
        while is_one(now) {
            // Acquire pairs with the Release of who gave up the others.
            let locked = self.word.compare_exchange_weak(
                now,
                now | LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match locked {
                Ok(_) => {
                    // The exchange fails if somebody has added one, also if that is gone: whoever adds one takes `LOCKED` away
                    // before it gives up what `also` looks for. So nobody waits for anybody, and what is left of this by a thread
                    // that a fork has left behind keeps nobody out.
                    // Relaxed, both: nothing is handed on.
                    return also()
                        && self
                            .word
                            .compare_exchange(
                                now | LOCKED,
                                now & !LOCKED,
                                Ordering::Relaxed,
                                Ordering::Relaxed,
                            )
                            .is_ok();
                }
                Err(other) => now = other,
            }
        }
        false
    }

    /// Somebody has added a reference who has something else for it: see [`is_one_while`](Self::is_one_while).
    pub(super) fn unlock(&self) {
        // Relaxed, both: what was added comes before this on the same word. Who finds with Acquire what the caller gives up
        // afterwards finds this too.
        if self.word.load(Ordering::Relaxed) & LOCKED != 0 {
            self.word.fetch_and(!LOCKED, Ordering::Relaxed);
        }
    }

    /// What has been added up of hot references.
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

    /// Begins to look whether there is a hot reference. The caller holds `collecting`, and passes a barrier before it looks.
    pub(super) fn begin_check(&self) {
        self.change_state(HOT, CHECKED);
    }

    /// There is one, or may be.
    pub(super) fn end_check(&self) {
        self.change_state(CHECKED, HOT);
    }

    fn change_state(&self, from: u32, to: u32) {
        // Release pairs with the Acquire in `is_hot`: who finds it hot again finds all that was done before it was checked.
        // It fails for a count that is not hot yet.
        let _ = self
            .rest()
            .state
            .compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether it is among the candidates. Exact if the caller holds `collecting`, and all rows.
    pub(super) fn is_candidate(&self) -> bool {
        // Acquire pairs with the exchange in `become_candidate`.
        self.queued.load(Ordering::Acquire) == 1
    }

    /// Whether no row has anything for it, for ever. Who owns a row asks while it does: then the answer holds until it
    /// leaves the row, because the count becomes ordinary while nobody is in one.
    pub(super) fn is_ordinary(&self) -> bool {
        // Acquire pairs with the Release in `become_ordinary`: who finds it ordinary finds all of it in the word.
        self.rest().state.load(Ordering::Acquire) == ORDINARY
    }

    /// Sees to it that it never becomes hot, if it is not. Returns whether that is so.
    pub(super) fn fix(&self) -> bool {
        // Relaxed: the exchange says whether it was so.
        let mut now = self.word.load(Ordering::Relaxed);
        while now & SHARE == 0 {
            // Relaxed: nothing is handed on with it. It goes on with the release sequence of the word.
            let fixed = self.word.compare_exchange_weak(
                now,
                now | FIXED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match fixed {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// From here on all references are counted in the word. There is a share; the caller holds `collecting` and all rows, gives what
    /// they had, and they have nothing any more; and the count is no candidate.
    pub(super) fn become_ordinary(&self, amount: i64) {
        // Relaxed: only who has a row writes it.
        let hot = self.central.load(Ordering::Relaxed) + amount;
        // Before the share is gone. An exchange: of this and the one in `become_hot`, which may be under way, that one comes first, or
        // fails. Release pairs with the Acquire in `is_ordinary`.
        self.rest().state.swap(ORDINARY, Ordering::AcqRel);
        // Release: whoever finds the word zero later finds what the owners of all rows did before they gave their part. (No
        // number that is negative comes here: the caller has a reference.)
        self.word.fetch_add(
            (hot as u64)
                .wrapping_sub(1)
                .wrapping_mul(ONE)
                .wrapping_sub(SHARE - FIXED),
            Ordering::Release,
        );
    }

    /// Adds 1 or −1 to an ordinary count. As [`drop_cold`](Self::drop_cold).
    #[cold]
    pub(super) fn add_ordinary(&self, one: i16) -> Then {
        if one < 0 {
            return self.drop_cold();
        }
        // Never hot.
        self.add_cold();
        Then::Nothing
    }

    /// Does what is to be done at zero. Returns how many values were destroyed.
    ///
    /// # Safety
    /// As [`Dead`] says; it was not called before.
    pub(super) unsafe fn die(this: NonNull<Count>) -> usize {
        // SAFETY: it is alive until the call below.
        let count = unsafe { this.as_ref() };
        let (dead, rest) = (count.rest().dead, count.rest);
        // SAFETY: the caller's promise.
        unsafe { dead(rest) }
    }
}
