//! Values that tell whether they are there, and how many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many values of a test there are.
#[derive(Clone, Default)]
pub(crate) struct Alive(pub(crate) Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn value(&self, number: u64) -> Value {
        self.0.fetch_add(1, Ordering::Relaxed);
        Value {
            number: AtomicU64::new(number),
            check: !number,
            alive: self.0.clone(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that is counted, and that can be seen to be whole.
pub(crate) struct Value {
    number: AtomicU64,
    check: u64,
    alive: Arc<AtomicUsize>,
}

impl Value {
    /// What it was made with.
    pub(crate) fn number(&self) -> u64 {
        assert_eq!(
            self.check,
            !self.number.load(Ordering::Relaxed),
            "a value that is not there"
        );
        !self.check
    }

    /// One more of the same number, counted with this one.
    pub(crate) fn another(&self) -> Self {
        Alive(self.alive.clone()).value(self.number())
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.number();
        self.check = 0;
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}
