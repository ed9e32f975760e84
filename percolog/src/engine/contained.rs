//! Keeping a panic where it happened.

#[cfg(all(feature = "std", not(percolog_loom)))]
use core::mem;

/// Runs `f` and keeps a panic from going further; what it means has been recorded by then.
pub(super) fn contained(f: impl FnOnce()) {
    #[cfg(all(feature = "std", not(percolog_loom)))]
    {
        // Unwind safety: the object is poisoned, which is how its users are told.
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
            // A payload whose own destructor panics must not get out this way either.
            if let Err(again) =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(panic)))
            {
                mem::forget(again);
            }
        }
    }
    #[cfg(not(all(feature = "std", not(percolog_loom))))]
    f();
}
