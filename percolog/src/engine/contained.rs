//! Keeping a panic where it happened.

#[cfg(all(feature = "std", not(percolog_loom)))]
use core::{cell::Cell, mem};

#[cfg(all(feature = "std", not(percolog_loom)))]
std::thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// In how many calls of [`contained`] this thread is, as far as threads have a place to note it.
pub(super) fn depth() -> usize {
    #[cfg(all(feature = "std", not(percolog_loom)))]
    return DEPTH.get();
    #[cfg(not(all(feature = "std", not(percolog_loom))))]
    0
}

/// Runs `f` and keeps a panic from going further; what it means has been recorded by then. Whether `f` has returned.
pub(super) fn contained(f: impl FnOnce()) -> bool {
    #[cfg(all(feature = "std", not(percolog_loom)))]
    DEPTH.set(depth() + 1);
    let returned = caught(f);
    #[cfg(all(feature = "std", not(percolog_loom)))]
    DEPTH.set(depth() - 1);
    returned
}

/// The same for an `f` in which nothing is merged, so that it needs no [`depth`].
#[inline(always)]
pub(super) fn caught(f: impl FnOnce()) -> bool {
    #[cfg(all(feature = "std", not(percolog_loom)))]
    {
        // Unwind safety: the object is poisoned, which is how its users are told.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        let returned = result.is_ok();
        if let Err(panic) = result {
            forget_panic(panic);
        }
        returned
    }
    #[cfg(not(all(feature = "std", not(percolog_loom))))]
    {
        f();
        true
    }
}

/// Drops what a panic carried. A payload whose own destructor panics must not get out this way either.
#[cfg(all(feature = "std", not(percolog_loom)))]
#[cold]
fn forget_panic(panic: std::boxed::Box<dyn core::any::Any + Send>) {
    if let Err(again) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(panic))) {
        mem::forget(again);
    }
}
