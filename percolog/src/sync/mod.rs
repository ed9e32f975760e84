//! The one door to atomics, cells, back-off and locks.
//!
//! Everything above this room takes its shared memory from here, so that a model checker
//! (`--cfg percolog_loom`) sees every access the algorithms make. The names follow `core`;
//! under loom they are loom's.
//!
//! Two locks live here because the algorithms are built around what they cost:
//!
//! * [`SlotLock`] guards one slot's queue. Uncontended it costs one atomic exchange and one plain
//!   store, on a line that only its slot writes; it is held for an append or a swap, never while
//!   user code runs.
//! * [`ObjectLock`] guards the merged state. It is held for as long as a user keeps a guard, can be
//!   shared, downgraded and waited for with a deadline; in phases of reading it is biased to readers, who then leave a
//!   [`ReaderMark`] on a line of their slot and write nothing that they share.
//!
//! Both spin briefly and then give the processor away: threads may outnumber cores, and nobody may
//! spin out a time slice behind an owner that is not running.

#[cfg(all(test, percolog_loom))]
mod explore;
#[cfg(feature = "alloc")]
pub(crate) mod held;
mod isolated;
#[cfg(feature = "alloc")]
mod object_lock;
#[cfg(feature = "alloc")]
mod panics;
#[cfg(feature = "alloc")]
mod reader_mark;
#[cfg(feature = "alloc")]
mod slot_lock;
#[cfg(feature = "alloc")]
mod thread_id;
#[cfg(any(feature = "alloc", feature = "std"))]
mod wait;

#[cfg(all(test, percolog_loom))]
pub(crate) use explore::{explore, explore_deeply};
#[cfg(feature = "alloc")]
pub(crate) use isolated::Isolated;
pub use isolated::LINE_SIZE;
#[cfg(feature = "alloc")]
pub(crate) use object_lock::{ObjectLock, Patience};
#[cfg(feature = "alloc")]
pub(crate) use panics::despite_panics;
#[cfg(feature = "alloc")]
pub(crate) use reader_mark::ReaderMark;
#[cfg(feature = "alloc")]
pub(crate) use slot_lock::{SlotGuard, SlotLock};
#[cfg(feature = "alloc")]
pub(crate) use thread_id::ThreadId;
#[cfg(feature = "alloc")]
pub(crate) use wait::Backoff;
#[cfg(feature = "alloc")]
pub(crate) use wait::ParkingWord;

/// So many rounds of a unit test, or a thousandth under Miri, where each takes a thousand times as long.
#[cfg(all(test, feature = "std", not(percolog_loom)))]
pub(crate) const fn rounds(many: usize) -> usize {
    if cfg!(miri) {
        many.div_ceil(1000)
    } else {
        many
    }
}

#[cfg(all(feature = "alloc", not(percolog_loom)))]
pub(crate) mod atomic {
    //! The atomics of the algorithms.
    pub(crate) use core::sync::atomic::{
        AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
    };
}

#[cfg(percolog_loom)]
pub(crate) mod atomic {
    //! The atomics of the algorithms, as loom models them.
    pub(crate) use loom::sync::atomic::{
        AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub(crate) mod global {
    //! Atomics for process-wide facts (which clock, which slot source): set once or rarely, no part
    //! of any algorithm, and needed in statics, which loom's types cannot live in; and for statistics.
    #[cfg(feature = "alloc")]
    pub(crate) use core::sync::atomic::AtomicU32;
    #[cfg(not(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(percolog_portable, miri))
    )))]
    pub(crate) use core::sync::atomic::fence;
    #[cfg(feature = "std")]
    #[allow(unused_imports, reason = "for forks, which models have none of")]
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicUsize};
    pub(crate) use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
}

#[cfg(all(feature = "alloc", not(percolog_loom)))]
mod cell {
    /// `core::cell::UnsafeCell` with the closure interface that loom's has.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T: ?Sized>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(all(feature = "alloc", not(percolog_loom)))]
pub(crate) use cell::UnsafeCell;
#[cfg(percolog_loom)]
pub(crate) use loom::cell::UnsafeCell;

/// Declares a `const fn` that is an ordinary `fn` under loom, whose types have no `const`
/// constructors.
#[cfg(feature = "alloc")]
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis const fn $($rest:tt)*) => {
        #[cfg(not(percolog_loom))]
        $(#[$attribute])* $visibility const fn $($rest)*
        #[cfg(percolog_loom)]
        $(#[$attribute])* $visibility fn $($rest)*
    };
}
#[cfg(feature = "alloc")]
pub(crate) use const_fn;
