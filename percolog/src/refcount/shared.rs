//! The counts of the process, and the objects that they are of.

use alloc::boxed::Box;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::collector::{Collector, Round};
use super::count::{Count, Then};
use super::row::LEAST_WEIGHT;
use crate::cpu::process::{self, AroundForks};
use crate::cpu::{barrier, lease};
use crate::reclaim::contain;
use crate::sync::global::{AtomicU8, AtomicU64, Ordering};

/// All counts of the process.
pub(super) static COLLECTOR: Collector = Collector::new(|| process::around_forks(&AROUND_FORKS));

/// What is half done when the process forks would stay so in the child.
static AROUND_FORKS: AroundForks = AroundForks {
    before: || COLLECTOR.hold(barrier::mode()),
    after: |is_child| {
        // SAFETY: `before` was called on this thread.
        unsafe { COLLECTOR.go_on(is_child) };
    },
};

/// Destructors that panicked.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Values that were destroyed.
static DESTROYED: AtomicU64 = AtomicU64::new(0);

/// What every object begins with.
#[repr(C)]
pub(super) struct Header {
    /// Of `CoreArc`s.
    pub(super) strong: Count,
    /// Of `CoreWeak`s, and one for all `CoreArc`s together. The header is freed at zero.
    pub(super) weak: Count,
    /// 1: the value was moved out.
    pub(super) taken: AtomicU8,
}

/// A value beside its counts.
#[repr(C)]
pub(super) struct Inline<T> {
    pub(super) header: Header,
    pub(super) value: ManuallyDrop<T>,
}

/// A value in the box that it came in.
#[repr(C)]
pub(super) struct Boxed<T: ?Sized> {
    pub(super) header: Header,
    pub(super) value: NonNull<T>,
}

impl Header {
    pub(super) fn new(strong: super::count::Dead, weak: super::count::Dead, size: usize) -> Self {
        let weight = u32::try_from(size).unwrap_or(u32::MAX).max(LEAST_WEIGHT);
        Self {
            strong: Count::one(strong, weight),
            weak: Count::one(weak, LEAST_WEIGHT),
            taken: AtomicU8::new(0),
        }
    }

    /// Says where the whole allocation begins.
    ///
    /// # Safety
    /// Nobody else knows of the header.
    pub(super) unsafe fn set_object(this: *mut Header, object: *mut u8) {
        // SAFETY: the caller's promise.
        let this = unsafe { &mut *this };
        this.strong.set_object(object);
        this.weak.set_object(object);
    }

    /// Drops the value, unless it was moved out: then it frees what the value was in.
    ///
    /// # Safety
    /// The strong count is zero for ever, and this was not called before.
    unsafe fn end(
        this: NonNull<Header>,
        drop_value: impl FnOnce(),
        free_empty: impl FnOnce(),
    ) -> usize {
        // SAFETY: the header lives as long as its weak count, of which one is given up below.
        let taken = unsafe { &raw const (*this.as_ptr()).taken };
        // Relaxed: written before the reference of who took it was given up, and who found the count zero acquired that.
        // SAFETY: as above.
        let is_there = unsafe { (*taken).load(Ordering::Relaxed) } == 0;
        if is_there {
            let mut drop_value = Some(drop_value);
            let panics = contain(|| {
                if let Some(drop_value) = drop_value.take() {
                    drop_value();
                }
            });
            // Relaxed: numbers for people.
            PANICS.fetch_add(panics, Ordering::Relaxed);
            DESTROYED.fetch_add(1, Ordering::Relaxed);
        } else {
            free_empty();
        }
        // SAFETY: the one weak reference of all strong ones. A field's address is not null.
        unsafe { give_up(NonNull::new_unchecked(&raw mut (*this.as_ptr()).weak)) };
        usize::from(is_there)
    }
}

/// # Safety
/// As [`Dead`](super::count::Dead) says, of the strong count of an `Inline<T>`.
pub(super) unsafe fn end_inline<T>(object: *mut u8) -> usize {
    let inline: *mut Inline<T> = object.cast();
    // SAFETY: the header, which comes first, lives as long as its weak count, of which `end` gives one up at its end. Nobody
    // has a reference to the value any more.
    unsafe {
        Header::end(
            NonNull::new_unchecked(inline.cast()),
            || ManuallyDrop::drop(&mut (*inline).value),
            || (),
        )
    }
}

/// # Safety
/// As [`Dead`](super::count::Dead) says, of the weak count of an `Inline<T>`.
pub(super) unsafe fn free_inline<T>(object: *mut u8) -> usize {
    // SAFETY: `CoreArc::new` made it from a box, and nobody has a reference of any kind. The value was dropped or moved
    // out, and is not dropped again: it is in a `ManuallyDrop`.
    drop(unsafe { Box::from_raw(object.cast::<Inline<T>>()) });
    0
}

/// # Safety
/// As [`Dead`](super::count::Dead) says, of the strong count of a `Boxed<T>`.
pub(super) unsafe fn end_boxed<T: ?Sized>(object: *mut u8) -> usize {
    let boxed: *mut Boxed<T> = object.cast();
    // SAFETY: as in `end_inline`; the value came from a box, which is empty if the value was moved out.
    unsafe {
        let value = (*boxed).value.as_ptr();
        Header::end(
            NonNull::new_unchecked(boxed.cast()),
            || drop(Box::from_raw(value)),
            || drop(Box::from_raw(value as *mut ManuallyDrop<T>)),
        )
    }
}

/// # Safety
/// As [`Dead`](super::count::Dead) says, of the weak count of a `Boxed<T>`.
pub(super) unsafe fn free_boxed<T: ?Sized>(object: *mut u8) -> usize {
    // SAFETY: as in `free_inline`; the box of the value is gone.
    drop(unsafe { Box::from_raw(object.cast::<Boxed<T>>()) });
    0
}

/// # Safety
/// The caller has a reference that the count counts.
#[inline(always)]
pub(super) unsafe fn take_one(count: &Count) {
    // SAFETY: the lease is the caller's own; its promise. Making one leaves nothing to do.
    let _ = unsafe { COLLECTOR.add(barrier::mode(), lease::mine(), count, 1) };
}

/// # Safety
/// The caller has a reference that the count counts, and does not use it again.
#[inline(always)]
pub(super) unsafe fn give_up(count: NonNull<Count>) {
    let mode = barrier::mode();
    // SAFETY: the lease is the caller's own; its promise, by which the count is there until its reference is given up.
    let then = unsafe { COLLECTOR.add(mode, lease::mine(), count.as_ref(), -1) };
    if then != Then::Nothing {
        // SAFETY: that is left to do for this count.
        unsafe { go_on(then, count) };
    }
}

/// # Safety
/// The collector has left this to the caller, when a reference of the count was given up.
#[cold]
unsafe fn go_on(then: Then, count: NonNull<Count>) {
    if then == Then::Die {
        // SAFETY: an ordinary count that is zero: no row has anything for it, and nobody can make a reference any more.
        unsafe { Count::die(count) };
    } else {
        bury(COLLECTOR.round(barrier::mode()));
    }
}

/// Destroys what a round found. Returns how many counts died, and how many values were destroyed.
fn bury(round: Round) -> (usize, usize) {
    let mut values = 0;
    for &count in &round.dead {
        // SAFETY: the collector found it zero for ever, and gives it to one round.
        values += unsafe { Count::die(count) };
    }
    (round.dead.len(), values)
}

/// Destroys every value of which the last [`CoreArc`](super::CoreArc) was dropped before this call, unless another thread is destroying
/// it already. Returns how many values it destroyed.
///
/// Values of which the last reference is dropped by a destructor that runs here are destroyed too.
///
/// *Progress:* blocking: waits for the round of another thread, and runs destructors. *Cost:* two or three rounds, and two
/// more for each level of values that own each other. A round visits each row that was used since the last one, and makes
/// the kernel interrupt all processors that run threads of this process twice or more (10 µs each); it allocates.
///
/// A destructor that panics is contained, and [counted](RefcountStats::panics).
pub fn reclaim() -> usize {
    let mode = barrier::mode();
    let mut destroyed = 0;
    loop {
        let (dead, values) = bury(COLLECTOR.round(mode));
        destroyed += values;
        if dead == 0 {
            return destroyed;
        }
    }
}

/// Statistics of reclaiming [`CoreArc`](super::CoreArc) values, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefcountStats {
    /// Rounds, of all threads.
    pub rounds: u64,
    /// Values destroyed.
    pub destroyed: u64,
    /// Destructors that panicked.
    pub panics: u64,
}

/// What finding zeros has cost so far, in this process.
#[must_use]
pub fn stats() -> RefcountStats {
    // Relaxed: numbers for people.
    RefcountStats {
        rounds: COLLECTOR.rounds(),
        destroyed: DESTROYED.load(Ordering::Relaxed),
        panics: PANICS.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn counts_take_what_the_documentation_says() {
        assert_eq!(size_of::<Header>(), 104);
        assert_eq!(size_of::<Inline<u64>>(), 112);
    }
}
