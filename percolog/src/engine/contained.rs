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
    {
        DEPTH.set(depth() + 1);
        // Unwind safety: the object is poisoned, which is how its users are told.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        DEPTH.set(depth() - 1);
        let returned = result.is_ok();
        if let Err(panic) = result {
            // A payload whose own destructor panics must not get out this way either.
            if let Err(again) =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(panic)))
            {
                mem::forget(again);
            }
        }
        returned
    }
    #[cfg(not(all(feature = "std", not(percolog_loom))))]
    {
        f();
        true
    }
}
