//! Tables that drop all their values, also those behind one whose destructor panics: those of `hashbrown` leak them.

use crate::sync::despite_panics;
use allocator_api2::alloc::Allocator;
use core::mem::needs_drop;
use core::ops::{Deref, DerefMut};
use hashbrown::{HashMap, HashSet, HashTable};

/// What can be emptied.
pub(crate) trait Emptied {
    /// Takes all values out and drops them, whatever destructors do.
    fn empty(&mut self);
}

impl<T, A: Allocator> Emptied for HashTable<T, A> {
    fn empty(&mut self) {
        if needs_drop::<T>() {
            despite_panics(self.drain(), drop);
        }
    }
}

impl<K, V, S, A: Allocator> Emptied for HashMap<K, V, S, A> {
    fn empty(&mut self) {
        if needs_drop::<(K, V)>() {
            despite_panics(self.drain(), drop);
        }
    }
}

impl<K, S, A: Allocator> Emptied for HashSet<K, S, A> {
    fn empty(&mut self) {
        if needs_drop::<K>() {
            despite_panics(self.drain(), drop);
        }
    }
}

/// A table that drops all its values, also behind one whose destructor panics.
#[derive(Debug, Clone, Default)]
pub(crate) struct DropsAll<T: Emptied>(T);

impl<T: Emptied> DropsAll<T> {
    pub(crate) const fn of(table: T) -> Self {
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
    struct Value {
        _counted: Arc<()>,
        panics: bool,
    }

    impl Drop for Value {
        fn drop(&mut self) {
            assert!(!self.panics, "a destructor panics");
        }
    }

    #[test]
    fn what_is_behind_a_destructor_that_panics_is_dropped() {
        let counted = Arc::new(());
        let mut table = DropsAll::of(HashTable::new());
        for number in 0..100 {
            let value = Value {
                _counted: counted.clone(),
                panics: number % 10 == 3,
            };
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
            let _table = DropsAll::of(HashMap::<u32, Value>::from_iter([
                (
                    1,
                    Value {
                        _counted: counted.clone(),
                        panics: true,
                    },
                ),
                (
                    2,
                    Value {
                        _counted: counted.clone(),
                        panics: true,
                    },
                ),
            ]));
            panic!("of something else");
        }));
        let panic = dropped.expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"of something else"));
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
