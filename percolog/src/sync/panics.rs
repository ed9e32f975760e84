//! Doing something for many items when it may panic for some of them.

/// Runs `f` on each item, also on those behind one at which it panics. The first panic goes on in the end, unless the thread
/// is panicking already; others are reported by the panic hook, and go no further.
///
/// Where panics cannot be caught, the items behind the first one are left to the iterator's destructor.
pub(crate) fn despite_panics<T>(items: impl IntoIterator<Item = T>, mut f: impl FnMut(T)) {
    #[cfg(all(feature = "std", not(percolog_loom)))]
    {
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

        let mut items = items.into_iter();
        let mut first = None;
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| items.by_ref().for_each(&mut f)))
        {
            if first.is_none() {
                first = Some(payload);
            } else if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                // What was thrown panics when it is dropped.
                core::mem::forget(second);
            }
        }
        if let Some(payload) = first
            && !std::thread::panicking()
        {
            resume_unwind(payload);
        }
    }
    #[cfg(not(all(feature = "std", not(percolog_loom))))]
    items.into_iter().for_each(&mut f);
}
