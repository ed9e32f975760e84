//! A lock that one thread takes all the time, and others hardly ever.
//!
//! The thread that a place is [leased](super::lease) to enters with a plain store and a plain load; whoever else wants the
//! value pays for both, with a [heavy barrier](super::barrier) that may be one for many locks. It is what makes an
//! update of a leased place cost a nanosecond although others can read the place at a stable moment, or empty it while
//! its owner sleeps for an hour.
//!
//! *Invariant:* `inside` is 1 while the owner uses the value, `frozen` is 1 while another thread does or waits to, and
//! never do both use it. Why: the owner stores `inside`, passes the light barrier, and loads `frozen`; the other stores
//! `frozen`, passes the heavy one, and loads `inside`. One of them sees the other ([`barrier`](super::barrier), first
//! line of the table), and the owner is the one who steps back.
//!
//! An owner that stepped back says so, and the next visitor lets it in first, unless it takes its time: who visits again
//! and again cannot keep an owner out, and an owner that was stopped while it waited keeps nobody out.

#![allow(
    dead_code,
    reason = "what is here is used by rooms that some features leave out"
)]

use super::barrier::{self, BarrierMode};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Backoff, UnsafeCell, const_fn};

/// The owner does not use the value.
const OUTSIDE: u32 = 0;
/// It does, or is about to look whether it may.
const INSIDE: u32 = 1;
/// It does not, and waits until it may.
const WAITING: u32 = 2;

/// The owner may enter.
const OPEN: u32 = 0;
/// Another thread has the value, or is about to.
const FROZEN: u32 = 1;
/// Somebody forks: another bit, as a visit that is under way then is made all the same.
const HELD: u32 = 2;

/// So often a visitor looks again whether an owner that waits has had its turn: some milliseconds, several times what the
/// owner sleeps at most between two looks.
#[cfg(not(percolog_loom))]
const POLITENESS: u32 = 24;
/// None: a model has few steps, and being polite changes nothing but who is first.
#[cfg(percolog_loom)]
const POLITENESS: u32 = 0;

/// A value that one thread owns, and others borrow.
///
/// The words come first: a value that begins small lies on the same line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BiasedLock<T> {
    inside: AtomicU32,
    frozen: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time, so sharing the lock moves the value between threads
// (`T: Send`) and never shares it.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

/// The kernel refused the barrier that it had offered, so nobody but the owners may look: see [`barrier`](super::barrier).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

/// The owner's use of the value.
#[derive(Debug)]
pub(crate) struct Owned<'a, T> {
    lock: &'a BiasedLock<T>,
}

impl<T> BiasedLock<T> {
    const_fn! {
        pub(crate) const fn new(value: T) -> Self {
            Self {
                inside: AtomicU32::new(OUTSIDE),
                frozen: AtomicU32::new(OPEN),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// The owner enters. Waits while another thread has the value.
    ///
    /// # Safety
    /// The caller is the only one who calls this for this lock until its guard is dropped: it holds the lease of the
    /// place, and is not inside already.
    #[inline(always)]
    pub(crate) unsafe fn own(&self, mode: BarrierMode) -> Owned<'_, T> {
        if !self.enter(mode) {
            self.enter_slowly(mode);
        }
        Owned { lock: self }
    }

    /// The owner enters, or finds that another thread has the value or wants it, and stays outside.
    ///
    /// # Safety
    /// As for [`own`](Self::own).
    #[inline(always)]
    pub(crate) unsafe fn try_own(&self, mode: BarrierMode) -> Option<Owned<'_, T>> {
        if self.enter(mode) {
            return Some(Owned { lock: self });
        }
        // Release: as in `Owned::drop`. The value was not touched now, but it was before.
        self.inside.store(OUTSIDE, Ordering::Release);
        None
    }

    /// The value, for an owner who is inside, and may be so more than once: so it is shared.
    ///
    /// # Safety
    /// The owner is inside until the reference is gone, and has no exclusive reference to the value meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn owned(&self) -> &T {
        // SAFETY: by contract nobody changes the value; the others wait until the owner is out.
        self.value.with(|value| unsafe { &*value })
    }

    /// The owner leaves, who [kept](Owned::keep) the lock when it entered.
    ///
    /// # Safety
    /// The caller is the owner, and is inside, and has no reference to the value any more.
    #[inline(always)]
    pub(crate) unsafe fn leave(&self) {
        // Release: as in `Owned::drop`.
        self.inside.store(OUTSIDE, Ordering::Release);
    }

    /// Whether the owner is inside. Exact if the owner asks: nobody else writes the word.
    #[inline(always)]
    pub(crate) fn is_owned(&self) -> bool {
        // Relaxed: the owner reads what it wrote itself, or what an earlier holder of the lease wrote.
        self.inside.load(Ordering::Relaxed) == INSIDE
    }

    #[inline(always)]
    fn enter(&self, mode: BarrierMode) -> bool {
        self.announce(mode) == OPEN
    }

    /// Says that the owner is inside, and returns who keeps it out.
    #[inline(always)]
    fn announce(&self, mode: BarrierMode) -> u32 {
        // Relaxed: ordered by the barriers, see the module.
        self.inside.store(INSIDE, Ordering::Relaxed);
        barrier::light(mode);
        // Acquire pairs with the Release in `thaw`: what the others did to the value is seen.
        self.frozen.load(Ordering::Acquire)
    }

    #[cold]
    fn enter_slowly(&self, mode: BarrierMode) {
        let mut backoff = Backoff::new();
        loop {
            // Release: as in `Owned::drop`. The value was not touched now, but it was before.
            self.inside.store(WAITING, Ordering::Release);
            // Relaxed: `enter` looks again.
            while self.frozen.load(Ordering::Relaxed) != OPEN {
                backoff.wait();
            }
            if self.enter(mode) {
                return;
            }
        }
    }

    /// The owner enters when no visitor has the value; and when nobody forks, unless that waits for this thread, as
    /// `is_inside` says.
    ///
    /// # Safety
    /// As for [`own`](Self::own).
    pub(crate) unsafe fn own_inside(
        &self,
        mode: BarrierMode,
        is_inside: impl FnOnce() -> bool,
    ) -> Owned<'_, T> {
        let mut is_inside = Some(is_inside);
        let mut keeps_out = FROZEN | HELD;
        let mut backoff = Backoff::new();
        loop {
            // Release: as in `enter_slowly`.
            self.inside.store(WAITING, Ordering::Release);
            // Relaxed: looked at again below.
            while self.frozen.load(Ordering::Relaxed) & keeps_out != 0 {
                if self.frozen.load(Ordering::Relaxed) & HELD != 0
                    && let Some(is_inside) = is_inside.take()
                    && is_inside()
                {
                    keeps_out = FROZEN;
                }
                backoff.wait();
            }
            if self.announce(mode) & keeps_out == 0 {
                return Owned { lock: self };
            }
        }
    }

    /// Keeps the owner out from the next [barrier](barrier::heavy) on. Waits for other threads that did so.
    fn freeze(&self) {
        let mut backoff = Backoff::new();
        for _ in 0..POLITENESS {
            // Relaxed: a hint.
            if self.inside.load(Ordering::Relaxed) != WAITING {
                break;
            }
            backoff.wait();
        }
        let mut backoff = Backoff::new();
        // Acquire pairs with the Release in `thaw` by the thread that froze it before.
        // Relaxed, where nothing is exchanged: a hint.
        let mut frozen = self.frozen.load(Ordering::Relaxed) & HELD;
        while let Err(now) = self.frozen.compare_exchange(
            frozen,
            frozen | FROZEN,
            Ordering::Acquire,
            Ordering::Relaxed,
        ) {
            if now & FROZEN != 0 {
                backoff.wait();
            }
            frozen = now & HELD;
        }
    }

    /// Lets the owner in again. The caller froze it.
    fn thaw(&self) {
        // Release pairs with the Acquire in `enter` and in `freeze`.
        self.frozen.fetch_and(!FROZEN, Ordering::Release);
    }

    /// The owner of the lock is a thread that does not exist in this process, and was not in the middle of a change.
    pub(crate) fn abandon(&self) {
        // Relaxed: nobody else writes it any more, and what the owner did happened before the process was forked.
        self.inside.store(OUTSIDE, Ordering::Relaxed);
    }

    /// What an owner does first, and no more of it: it is stopped before it looks whether it may enter.
    #[cfg(all(test, not(percolog_loom)))]
    pub(crate) fn begin_to_own(&self, mode: BarrierMode) {
        self.announce(mode);
    }

    /// The value, once its owner is not inside.
    ///
    /// # Safety
    /// The caller froze the lock, passed a heavy barrier since, and has no other reference to the value.
    #[allow(clippy::mut_from_ref, reason = "the lock is held by the caller")]
    unsafe fn borrow(&self) -> &mut T {
        let mut backoff = Backoff::new();
        // Acquire pairs with the Release in `Owned::drop`: what the owner did to the value is seen.
        while self.inside.load(Ordering::Acquire) == INSIDE {
            backoff.wait();
        }
        // SAFETY: the owner is outside, and finds the lock frozen when it comes back; other threads wait in `freeze`.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// The lock, whatever it guards.
    #[cfg(all(feature = "std", unix, not(percolog_loom)))]
    pub(super) fn words(&self) -> &BiasedLock<()> {
        // SAFETY: both begin with the same two words in the order that they are declared in, and the other one has nothing
        // else; so it is no larger, and not more aligned.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    /// The value, for who has the lock to itself, though not by a reference that says so: who forks, and a thread that ends,
    /// may read the words of a lock that is enlisted.
    ///
    /// # Safety
    /// Every use of the lock happens before this, and none begins before the reference is gone.
    #[allow(
        clippy::mut_from_ref,
        reason = "by the caller's contract nobody else has one"
    )]
    pub(crate) unsafe fn get_exclusively(&self) -> &mut T {
        // SAFETY: by contract.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// The value, for who has the lock to itself.
    #[cfg(test)]
    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// For `fork`, which keeps owners out until another process goes on. See [`undivided`](super::undivided).
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
impl BiasedLock<()> {
    /// Keeps the owner out from the next heavy barrier on.
    pub(super) fn hold(&self) {
        // Acquire pairs with the Release in `thaw`: as in `freeze`.
        self.frozen.fetch_or(HELD, Ordering::Acquire);
    }

    /// Undoes [`hold`](Self::hold).
    pub(super) fn let_go(&self) {
        // Release: as in `thaw`.
        self.frozen.fetch_and(!HELD, Ordering::Release);
    }

    /// Whether the owner is outside. It stays there if it was kept out, and the caller passed a heavy barrier since.
    pub(super) fn is_left(&self) -> bool {
        // Acquire pairs with the Release in `Owned::drop`: what the owner did to the value is copied with it, or handed
        // on with its lease.
        self.inside.load(Ordering::Acquire) != INSIDE
    }
}

impl<T> Owned<'_, T> {
    /// Stays inside without the guard, until [`BiasedLock::leave`].
    #[inline(always)]
    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }

    /// The owned value.
    #[inline(always)]
    pub(crate) fn get(&mut self) -> &mut T {
        // SAFETY: the guard is proof that the owner is inside, and `&mut self` that this is the only reference handed
        // out through it.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for Owned<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release pairs with the Acquire in `borrow`.
        self.lock.inside.store(OUTSIDE, Ordering::Release);
    }
}

/// Visits the values of several locks, as they are at one moment: when all owners are out.
///
/// An owner waits for the visit of its own lock only. What it does then is not seen, although other locks are visited
/// later: those are frozen since before, so whatever is seen in them was under way before the first was thawed, and comes
/// before all that is done after.
///
/// The locks must be given in one and the same order by everybody, such as the order of the leases, and none of them
/// may be owned by the caller at this time. A place that is made meanwhile is not visited: where it matters, the caller
/// keeps places from being made.
///
/// *Cost:* one heavy barrier for all of them; an exchange, a load and a store for each, and a transfer for each that was
/// used since the last visit.
pub(crate) fn visit<'a, T: 'a>(
    locks: &[&'a BiasedLock<T>],
    mode: BarrierMode,
    mut visit: impl FnMut(usize, &mut T),
) -> Result<(), Refused> {
    let mut frozen = Frozen::new(locks, mode)?;
    for (at, lock) in locks.iter().enumerate() {
        // SAFETY: `Frozen::new` froze it and passed the barrier; one reference at a time is made here.
        visit(at, unsafe { lock.borrow() });
        frozen.thawed = at + 1;
        lock.thaw();
    }
    Ok(())
}

/// Folds the values of several locks into one, and hands it to `then` before any of the owners is let in again.
///
/// For values that are moved between the locks and a word outside: what `then` finds in that word belongs to what was
/// seen in the locks. Everything else is as with [`visit`], but that each owner is kept out until the end.
pub(crate) fn visit_all<'a, T: 'a, A, R>(
    locks: &[&'a BiasedLock<T>],
    mode: BarrierMode,
    first: A,
    mut fold: impl FnMut(A, &mut T) -> A,
    then: impl FnOnce(A) -> R,
) -> Result<R, Refused> {
    let _frozen = Frozen::new(locks, mode)?;
    let folded = locks.iter().fold(first, |folded, lock| {
        // SAFETY: `Frozen::new` froze it and passed the barrier; one reference at a time is made here.
        fold(folded, unsafe { lock.borrow() })
    });
    Ok(then(folded))
}

/// Keeps all owners out until [`thaw_all`], beyond any scope: for `fork`, which another process returns from. Allocates
/// nothing.
#[cfg(not(percolog_loom))]
pub(crate) fn freeze_all<'a, T: 'a>(
    locks: impl Iterator<Item = &'a BiasedLock<T>> + Clone,
    mode: BarrierMode,
) {
    locks.clone().for_each(BiasedLock::freeze);
    barrier::heavy_before_a_fork(mode);
    for lock in locks {
        let mut backoff = Backoff::new();
        // Acquire pairs with the Release in `Owned::drop`: what the owner did to the value is copied.
        while lock.inside.load(Ordering::Acquire) == INSIDE {
            backoff.wait();
        }
    }
}

/// Lets the owners in again.
///
/// # Safety
/// The caller's [`freeze_all`] kept the same locks frozen.
#[cfg(not(percolog_loom))]
pub(crate) unsafe fn thaw_all<'a, T: 'a>(locks: impl Iterator<Item = &'a BiasedLock<T>>) {
    locks.for_each(BiasedLock::thaw);
}

/// Locks that are kept from their owners until this is dropped, also by a panic.
struct Frozen<'l, 'a, T> {
    locks: &'l [&'a BiasedLock<T>],
    /// So many of them are thawed already.
    thawed: usize,
}

impl<'l, 'a, T> Frozen<'l, 'a, T> {
    fn new(locks: &'l [&'a BiasedLock<T>], mode: BarrierMode) -> Result<Self, Refused> {
        for lock in locks {
            lock.freeze();
        }
        let frozen = Self { locks, thawed: 0 };
        if barrier::heavy(mode) {
            Ok(frozen)
        } else {
            Err(Refused)
        }
    }
}

impl<T> Drop for Frozen<'_, '_, T> {
    fn drop(&mut self) {
        for lock in &self.locks[self.thawed..] {
            lock.thaw();
        }
    }
}

#[cfg(all(test, percolog_loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const MODE: BarrierMode = BarrierMode::Fence;

    // All that races does so in threads of its own: the bounded search does not try to interrupt the one that a model
    // begins with.

    fn join<T>(handle: thread::JoinHandle<T>) -> T {
        handle.join().expect("no thread of a model panics")
    }

    fn take_all(locks: &[BiasedLock<i32>]) -> i32 {
        let locks: alloc::vec::Vec<_> = locks.iter().collect();
        let mut taken = 0;
        visit(&locks, MODE, |_, value| taken += core::mem::take(value))
            .expect("a fence is not refused");
        taken
    }

    /// An owner that adds twice, and somebody who takes what is there.
    #[test]
    fn an_owner_and_a_visitor_never_meet() {
        loom::model(|| {
            let locks = Arc::new([BiasedLock::new(0)]);
            let owner = thread::spawn({
                let locks = locks.clone();
                move || {
                    for _ in 0..2 {
                        // SAFETY: one thread owns it.
                        *unsafe { locks[0].own(MODE) }.get() += 1;
                    }
                }
            });
            let visitor = thread::spawn({
                let locks = locks.clone();
                move || take_all(&*locks)
            });
            join(owner);
            assert_eq!(join(visitor) + take_all(&*locks), 2);
        });
    }

    #[test]
    fn visitors_wait_for_each_other() {
        loom::model(|| {
            let locks = Arc::new([BiasedLock::new(1), BiasedLock::new(2)]);
            let visitors = [(); 2].map(|()| {
                let locks = locks.clone();
                thread::spawn(move || take_all(&*locks))
            });
            let taken = visitors.map(join);
            assert!([[3, 0], [0, 3]].contains(&taken), "{taken:?}");
        });
    }

    /// Nobody comes in while everything is still, and what was done before is seen.
    #[test]
    fn nothing_moves_while_all_is_still() {
        loom::model(|| {
            let locks = Arc::new([BiasedLock::new(()), BiasedLock::new(())]);
            let value = Arc::new(UnsafeCell::new(0));
            let owner = thread::spawn({
                let (locks, value) = (locks.clone(), value.clone());
                move || {
                    // SAFETY: one thread owns it.
                    let _inside = unsafe { locks[1].own(MODE) };
                    // SAFETY: the owner is inside.
                    value.with_mut(|value| unsafe { *value += 1 });
                }
            });
            let other = thread::spawn(move || {
                visit_all(
                    &locks.each_ref(),
                    MODE,
                    (),
                    |(), _| (),
                    |()| {
                        // SAFETY: no owner is inside.
                        value.with_mut(|value| unsafe { *value += 1 });
                    },
                )
            });
            join(owner);
            join(other).expect("a fence is not refused");
        });
    }

    /// Two threads, of which the second adds when it has seen what the first did: its part is never seen alone, whichever
    /// place is visited first.
    #[test]
    fn what_is_seen_of_all_is_of_one_moment() {
        for first in [0, 1] {
            loom::model(move || {
                let locks = Arc::new([BiasedLock::new(0), BiasedLock::new(0)]);
                let added = Arc::new(AtomicU32::new(0));
                let owners = [first, 1 - first].map(|at| {
                    let (locks, added) = (locks.clone(), added.clone());
                    thread::spawn(move || {
                        if at != first && added.load(Ordering::Acquire) == 0 {
                            return;
                        }
                        // SAFETY: each place is used by one thread.
                        *unsafe { locks[at].own(MODE) }.get() += 1;
                        added.store(1, Ordering::Release);
                    })
                });
                let visitor = thread::spawn(move || {
                    let mut seen = [0; 2];
                    visit(&locks.each_ref(), MODE, |at, value| seen[at] = *value)
                        .expect("a fence is not refused");
                    seen
                });
                owners.map(join);
                let seen = join(visitor);
                assert!(seen[first] >= seen[1 - first], "{seen:?}");
            });
        }
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_owner_adds_while_others_take() {
        const ADDS: u64 = crate::sync::rounds(200_000) as u64;
        let mode = barrier::mode();
        let locks: [BiasedLock<u64>; 2] = [BiasedLock::new(0), BiasedLock::new(0)];
        let taken = std::thread::scope(|scope| {
            let owners = locks.each_ref().map(|lock| {
                scope.spawn(move || {
                    for _ in 0..ADDS {
                        // SAFETY: each lock is given to one thread.
                        *unsafe { lock.own(mode) }.get() += 1;
                    }
                })
            });
            let mut taken = 0;
            while !owners.iter().all(|owner| owner.is_finished()) {
                visit(&locks.each_ref(), mode, |_, value| {
                    taken += core::mem::take(value)
                })
                .expect("the kernel does what it offers");
            }
            taken
        });
        let left: u64 = locks.map(BiasedLock::into_inner).iter().sum();
        assert_eq!(taken + left, 2 * ADDS);
    }

    #[test]
    fn an_owner_that_will_not_wait_is_told() {
        let mode = barrier::mode();
        let locks = [BiasedLock::new(1), BiasedLock::new(2)];
        let seen = visit_all(
            &locks.each_ref(),
            mode,
            0,
            |sum, value| sum + *value,
            // SAFETY: this thread is the only one.
            |sum| (sum, unsafe { locks[0].try_own(mode) }.is_none()),
        );
        assert_eq!(seen, Ok((3, true)));
        // SAFETY: as above.
        assert!(unsafe { locks[0].try_own(mode) }.is_some());
    }

    #[test]
    fn a_panic_in_a_visit_lets_the_owners_in_again() {
        let mode = barrier::mode();
        let locks = [BiasedLock::new(1), BiasedLock::new(2)];
        let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            let _ = visit(&locks.each_ref(), mode, |at, _: &mut i32| assert_eq!(at, 0));
        }));
        assert!(outcome.is_err());
        for lock in &locks {
            // SAFETY: this thread is the only one.
            *unsafe { lock.own(mode) }.get() += 1;
        }
        assert_eq!(locks.map(BiasedLock::into_inner), [2, 3]);
    }
}
