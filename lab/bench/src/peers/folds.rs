//! A sum: in a [`Reducer`], which shows what an update costs besides what it does, and behind a lock.

use std::sync::{Mutex, PoisonError};

use percolog::reduce::{Max, Reducer, Sum};

use crate::reducers::Fold;

/// What is kept.
type Value = Sum<u64>;

/// Each thread has a share.
#[derive(Debug)]
pub struct ReducerFold(Reducer<Value>);

impl Fold for ReducerFold {
    const NAME: &'static str = "Reducer";

    type Handle = ();

    fn new() -> Self {
        Self(Reducer::new())
    }

    fn handle(&self) {}

    #[inline]
    fn fold(&self, (): &mut (), _number: u64) {
        self.0.update(|sum| sum.add(1));
    }

    fn folded(&self) -> u64 {
        self.0.read().0
    }
}

/// Each thread has a share of three numbers: how many, their sum, and the largest.
#[derive(Debug)]
pub struct ReducerOfThree(Reducer<(Value, Value, Max<u64>)>);

impl Fold for ReducerOfThree {
    const NAME: &'static str = "Reducer of three";

    type Handle = ();

    fn new() -> Self {
        Self(Reducer::new())
    }

    fn handle(&self) {}

    #[inline]
    fn fold(&self, (): &mut (), number: u64) {
        self.0.update(|(count, sum, largest)| {
            count.add(1);
            sum.add(number);
            largest.observe(number);
        });
    }

    fn folded(&self) -> u64 {
        self.0.read().0.0
    }
}

/// All have one: what most programs have today.
#[derive(Debug)]
pub struct MutexFold(Mutex<Value>);

impl Fold for MutexFold {
    const NAME: &'static str = "Mutex<u64>";

    type Handle = ();

    fn new() -> Self {
        Self(Mutex::default())
    }

    fn handle(&self) {}

    #[inline]
    fn fold(&self, (): &mut (), _number: u64) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sum.add(1);
    }

    fn folded(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}
