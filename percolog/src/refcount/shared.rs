//! The counts of the process, and the objects that they are of.

use alloc::boxed::Box;
use core::mem::{ManuallyDrop, offset_of};
use core::ptr::NonNull;

use super::collector::{Collector, Round};
use super::count::{Count, Dead, ReadMostly, Then};
use super::row::LEAST_WEIGHT;
use crate::cpu::process::{self, AroundForks};
use crate::cpu::{self, barrier, lease};
use crate::reclaim::contain;
use crate::sync::Isolated;
use crate::sync::global::{AtomicU64, Ordering};

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

/// Values that were destroyed, by where: an atomic of all threads would be what clones and drops do without.
static DESTROYED: [Isolated<AtomicU64>; 16] = [const { Isolated::new(AtomicU64::new(0)) }; 16];

/// What every object begins with.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Header {
    /// Of `CoreArc`s.
    pub(super) strong: Count,
    /// Of `CoreWeak`s, and one for all `CoreArc`s together. The header is freed at zero.
    pub(super) weak: Count,
    // From here on, and on into the value, what is read and hardly ever written. That of the strong count lies a line and more behind what its
    // clones and rounds write, wherever the allocator puts it: to align all of it would make an allocation take three times as long.
    weak_rest: ReadMostly,
    strong_rest: ReadMostly,
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

/// One of an object's two counts, and what is read of it.
#[derive(Clone, Copy)]
pub(super) struct Counted<'a> {
    pub(super) count: &'a Count,
    pub(super) rest: &'a ReadMostly,
}

impl Header {
    pub(super) fn new(strong: Dead, weak: Dead, size: usize) -> Self {
        let weight = u32::try_from(size).unwrap_or(u32::MAX).max(LEAST_WEIGHT);
        Self {
            strong: Count::one(),
            weak: Count::one(),
            weak_rest: ReadMostly::new(weak, LEAST_WEIGHT),
            strong_rest: ReadMostly::new(strong, weight),
        }
    }

    /// Says where everything lies.
    ///
    /// # Safety
    /// The pointer is good for the whole allocation, which begins with this header and was made for the functions in it; and nobody else knows of it.
    pub(super) unsafe fn link(this: *mut Header) {
        // SAFETY: the caller's promise.
        unsafe {
            (*this).strong.link(&raw mut (*this).strong_rest);
            (*this).weak.link(&raw mut (*this).weak_rest);
        }
    }

    #[inline(always)]
    pub(super) fn strong(&self) -> Counted<'_> {
        Counted {
            count: &self.strong,
            rest: &self.strong_rest,
        }
    }

    #[inline(always)]
    pub(super) fn weak(&self) -> Counted<'_> {
        Counted {
            count: &self.weak,
            rest: &self.weak_rest,
        }
    }

    /// Where the header is of which this is a part.
    ///
    /// # Safety
    /// It was [linked](Self::link).
    unsafe fn of_strong(rest: *const ReadMostly) -> *mut Header {
        // SAFETY: the caller's promise.
        unsafe { rest.byte_sub(offset_of!(Header, strong_rest)) }
            .cast::<Header>()
            .cast_mut()
    }

    /// As [`of_strong`](Self::of_strong).
    ///
    /// # Safety
    /// As there.
    unsafe fn of_weak(rest: *const ReadMostly) -> *mut Header {
        // SAFETY: the caller's promise.
        unsafe { rest.byte_sub(offset_of!(Header, weak_rest)) }
            .cast::<Header>()
            .cast_mut()
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
        let is_there = !unsafe { this.as_ref() }.strong_rest.is_taken();
        if is_there {
            let mut drop_value = Some(drop_value);
            let panics = contain(|| {
                if let Some(drop_value) = drop_value.take() {
                    drop_value();
                }
            });
            // Relaxed: numbers for people.
            PANICS.fetch_add(panics, Ordering::Relaxed);
            let here = cpu::current().index() % DESTROYED.len();
            DESTROYED[here].fetch_add(1, Ordering::Relaxed);
        } else {
            free_empty();
        }
        // The one weak reference of all strong ones, which is cold.
        // SAFETY: it was there until now. A field's address is not null.
        unsafe {
            give_up(
                NonNull::new_unchecked(&raw mut (*this.as_ptr()).weak),
                false,
            )
        };
        usize::from(is_there)
    }
}

/// # Safety
/// As [`Dead`] says, of the strong count of an `Inline<T>`.
pub(super) unsafe fn end_inline<T>(rest: *const ReadMostly) -> usize {
    // SAFETY: it was linked when the object was made.
    let object = unsafe { Header::of_strong(rest) };
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
/// As [`Dead`] says, of the weak count of an `Inline<T>`.
pub(super) unsafe fn free_inline<T>(rest: *const ReadMostly) -> usize {
    // SAFETY: it was linked when the object was made.
    let object = unsafe { Header::of_weak(rest) };
    // SAFETY: `CoreArc::new` made it from a box, and nobody has a reference of any kind. The value was dropped or moved
    // out, and is not dropped again: it is in a `ManuallyDrop`.
    drop(unsafe { Box::from_raw(object.cast::<Inline<T>>()) });
    0
}

/// # Safety
/// As [`Dead`] says, of the strong count of a `Boxed<T>`.
pub(super) unsafe fn end_boxed<T: ?Sized>(rest: *const ReadMostly) -> usize {
    // SAFETY: it was linked when the object was made.
    let object = unsafe { Header::of_strong(rest) };
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
/// As [`Dead`] says, of the weak count of a `Boxed<T>`.
pub(super) unsafe fn free_boxed<T: ?Sized>(rest: *const ReadMostly) -> usize {
    // SAFETY: it was linked when the object was made.
    let object = unsafe { Header::of_weak(rest) };
    // SAFETY: as in `free_inline`; the box of the value is gone.
    drop(unsafe { Box::from_raw(object.cast::<Boxed<T>>()) });
    0
}

/// Makes a reference out of one. Returns whether it is hot.
///
/// # Safety
/// The caller has a reference that the count counts, which is hot or not as it says.
#[inline(always)]
pub(super) unsafe fn take_one(counted: Counted<'_>, is_hot: bool) -> bool {
    if is_hot {
        // SAFETY: the caller has a hot one.
        unsafe { take_one_hot(counted.count) };
        return true;
    }
    // SAFETY: its promise. The count is there as long as its reference.
    counted.rest.is_hot() && unsafe { take_one_if_hot(counted) } || counted.count.add_cold()
}

/// # Safety
/// The caller has a hot reference of the count.
#[inline(never)]
unsafe fn take_one_hot(count: &Count) {
    // SAFETY: the lease is the caller's own; its promise. Making one leaves nothing to do.
    let _ = unsafe { COLLECTOR.add(barrier::mode(), lease::mine(), count, 1) };
}

/// Makes a hot reference where there are some. Returns whether it did.
///
/// # Safety
/// The count is not freed meanwhile.
#[inline(never)]
pub(super) unsafe fn take_one_if_hot(counted: Counted<'_>) -> bool {
    let Counted { count, rest } = counted;
    // SAFETY: the lease is the caller's own; its promise.
    unsafe { COLLECTOR.add_if_hot(barrier::mode(), lease::mine(), count, rest) }
}

/// # Safety
/// The caller has a reference that the count counts, which is hot or not as it says, and does not use it again.
#[inline(always)]
pub(super) unsafe fn give_up(count: NonNull<Count>, is_hot: bool) {
    if is_hot {
        // SAFETY: its promise.
        return unsafe { give_up_hot(count) };
    }
    // SAFETY: the count is there until the caller's reference is given up.
    let then = unsafe { count.as_ref() }.drop_cold();
    if then != Then::Nothing {
        // SAFETY: that is left to do for this count.
        unsafe { go_on(then, count) };
    }
}

/// # Safety
/// The caller has a hot reference of the count, and does not use it again.
#[inline(never)]
unsafe fn give_up_hot(count: NonNull<Count>) {
    let (mode, lease) = (barrier::mode(), lease::mine());
    // SAFETY: the lease is the caller's own; the count is there until the caller's reference is given up.
    let then = unsafe { COLLECTOR.add(mode, lease, count.as_ref(), -1) };
    if then != Then::Nothing {
        // SAFETY: that is left to do for this count.
        unsafe { go_on(then, count) };
    }
}

/// # Safety
/// The collector has left this to the caller, when a reference of the count was given up.
#[cold]
unsafe fn go_on(then: Then, count: NonNull<Count>) {
    let mode = barrier::mode();
    match then {
        // SAFETY: the word is zero, so no row has anything for it, and nobody can make a reference any more.
        Then::Die => _ = unsafe { Count::die(count) },
        // SAFETY: the lease is the caller's own.
        Then::Wait if unsafe { COLLECTOR.charge(mode, lease::mine()) } == Then::Nothing => {}
        _ => _ = bury(COLLECTOR.round(mode)),
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

/// Destroys every [hot](super::CoreArc#cold-and-hot) value of which the last [`CoreArc`](super::CoreArc) was dropped before this call, unless
/// another thread is destroying it already. Returns how many values it destroyed. Cold ones are gone already.
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
        destroyed: DESTROYED.iter().map(|of| of.load(Ordering::Relaxed)).sum(),
        panics: PANICS.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn counts_take_what_the_documentation_says() {
        assert_eq!(size_of::<Header>(), 112);
        assert_eq!(size_of::<Inline<u64>>(), 120);
        // What each clone reads lies on another line than the last of what clones and rounds write, or a round at least.
        assert!(offset_of!(Header, strong_rest) >= 64 + 16 + size_of::<i64>());
    }
}
