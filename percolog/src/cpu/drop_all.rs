//! Dropping all of many values, also behind one whose destructor panics.
//!
//! A loop that drops values one after the other leaks all that come behind a panic; so do the tables of `hashbrown`. And the second
//! destructor that panics while the first one's panic unwinds ends the process.

use allocator_api2::alloc::Allocator;
use core::ops::{Deref, DerefMut};
use hashbrown::{HashMap, HashSet, HashTable};

/// Calls `f` with each value, also behind one with which it panics. The first panic goes on at the end, unless the thread panics already.
pub(crate) fn for_each_to_the_end<T>(values: impl Iterator<Item = T>, f: impl FnMut(T)) {
    #[cfg(feature = "std")]
    {
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
        let (mut f, mut first) = (f, None);
        for value in values {
            // Unwind safety: what `f` leaves behind is looked at by nobody but the other calls, each with a value of its own.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(value))) {
                match first {
                    None => first = Some(panic),
                    // A payload can have a destructor that panics as well.
                    Some(_) => core::mem::forget(panic),
                }
            }
        }
        if let Some(panic) = first
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
    // Without std a panic does not come back.
    #[cfg(not(feature = "std"))]
    values.for_each(f);
}

/// Drops each value, also behind one whose destructor panics; as [`for_each_to_the_end`].
pub(crate) fn drop_all<T>(values: impl Iterator<Item = T>) {
    for_each_to_the_end(values, drop);
}

/// What can be emptied.
pub(crate) trait Emptied {
    /// Takes all values out and drops them: [`drop_all`].
    fn empty(&mut self);
}

impl<T, A: Allocator> Emptied for HashTable<T, A> {
    fn empty(&mut self) {
        drop_all(self.drain());
    }
}

impl<K, V, S, A: Allocator> Emptied for HashMap<K, V, S, A> {
    fn empty(&mut self) {
        drop_all(self.drain());
    }
}

impl<K, S, A: Allocator> Emptied for HashSet<K, S, A> {
    fn empty(&mut self) {
        drop_all(self.drain());
    }
}

/// A table that drops all its values, also behind one whose destructor panics.
#[derive(Debug, Clone, Default)]
pub(crate) struct DropsAll<T: Emptied>(T);

impl<T: Emptied> DropsAll<T> {
    pub(crate) const fn new(table: T) -> Self {
        Self(table)
    }
}

impl<T: Emptied> Deref for DropsAll<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Emptied> DerefMut for DropsAll<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Emptied> Drop for DropsAll<T> {
    fn drop(&mut self) {
        self.0.empty();
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    /// Panics when it is dropped, if it is told to.
    struct Value(#[allow(dead_code, reason = "it is counted")] Arc<()>, bool);

    impl Drop for Value {
        fn drop(&mut self) {
            assert!(!self.1, "a destructor panics");
        }
    }

    #[test]
    fn what_is_behind_a_destructor_that_panics_is_dropped() {
        let counted = Arc::new(());
        let mut table = DropsAll::new(HashTable::new());
        for number in 0..100 {
            let value = Value(counted.clone(), number % 10 == 3);
            table.insert_unique(number, value, |_| 0);
        }
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(table)));
        assert!(dropped.is_err(), "the first panic goes on");
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn a_thread_that_panics_already_goes_on_with_that() {
        let counted = Arc::new(());
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            let _table = DropsAll::new(HashMap::<u32, Value>::from_iter([
                (1, Value(counted.clone(), true)),
                (2, Value(counted.clone(), true)),
            ]));
            panic!("of something else");
        }));
        let panic = dropped.expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"of something else"));
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
