//! Counts of things in use: percolog's, and what programs use for it today.

use std::sync::atomic::{AtomicI64, Ordering};

use contatori::counters::signed::Signed;
use contatori::counters::{CounterValue, Observable};
use percolog::counter::{Counter, SloppyCounter};
use percolog::reduce::{Reducer, Sum};

use super::long_adder::LongAdder;
use super::reducer_counter;
use super::sloppy::THRESHOLD;
use crate::interfaces::Gauge;
use crate::interfaces::Reading;

/// Keeps a word from its neighbours.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Alone<T>(T);

/// [`SloppyCounter`], with the threshold of its documentation.
#[derive(Debug)]
pub struct SloppyGauge(Alone<SloppyCounter>);

impl Gauge for SloppyGauge {
    const NAME: &'static str = "SloppyCounter";
    const READING: Reading = Reading::OneMoment;

    fn new() -> Self {
        Self(Alone(SloppyCounter::new(THRESHOLD)))
    }

    #[inline]
    fn acquire(&self) {
        self.0.0.acquire(1);
    }

    #[inline]
    fn release(&self) {
        self.0.0.release(1);
    }

    fn in_use(&self) -> i64 {
        self.0.0.in_use()
    }

    fn bytes(&self, threads: usize) -> usize {
        // The spares in each thread's row.
        size_of::<SloppyCounter>() + 16 * threads
    }
}

/// One atomic word.
#[derive(Debug)]
pub struct AtomicGauge(Alone<AtomicI64>);

impl Gauge for AtomicGauge {
    const NAME: &'static str = "AtomicI64";
    const READING: Reading = Reading::OneMoment;

    fn new() -> Self {
        Self(Alone::default())
    }

    #[inline]
    fn acquire(&self) {
        // Relaxed, as programs count; here and below.
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn release(&self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn in_use(&self) -> i64 {
        self.0.0.load(Ordering::Relaxed)
    }

    fn bytes(&self, _threads: usize) -> usize {
        size_of::<AtomicI64>()
    }
}

/// [`Counter`], up and down.
#[derive(Debug)]
pub struct CounterGauge(Alone<Counter>);

impl Gauge for CounterGauge {
    const NAME: &'static str = "Counter";
    const READING: Reading = Reading::FinishedAdds;

    fn new() -> Self {
        Self(Alone::default())
    }

    #[inline]
    fn acquire(&self) {
        self.0.0.increment();
    }

    #[inline]
    fn release(&self) {
        self.0.0.decrement();
    }

    fn in_use(&self) -> i64 {
        self.0.0.sum()
    }

    fn bytes(&self, threads: usize) -> usize {
        // A share in each thread's row.
        size_of::<Counter>() + 16 * threads
    }
}

/// A sum in a [`Reducer`], up and down.
#[derive(Debug)]
pub struct ReducerGauge(Reducer<Sum<i64>>);

impl Gauge for ReducerGauge {
    const NAME: &'static str = "Reducer<Sum>";
    const READING: Reading = Reading::OneMoment;

    fn new() -> Self {
        Self(Reducer::new())
    }

    #[inline]
    fn acquire(&self) {
        self.0.update(|sum| sum.add(1));
    }

    #[inline]
    fn release(&self) {
        self.0.update(|sum| sum.add(-1));
    }

    fn in_use(&self) -> i64 {
        self.0.read().0
    }

    fn bytes(&self, threads: usize) -> usize {
        reducer_counter::hot_bytes(threads)
    }
}

/// contatori's signed counter.
#[derive(Debug)]
pub struct ContatoriGauge(Signed);

impl Gauge for ContatoriGauge {
    const NAME: &'static str = "contatori Signed";
    const READING: Reading = Reading::FinishedAdds;

    fn new() -> Self {
        Self(Signed::new())
    }

    #[inline]
    fn acquire(&self) {
        self.0.add(1);
    }

    #[inline]
    fn release(&self) {
        self.0.sub(1);
    }

    fn in_use(&self) -> i64 {
        match self.0.value() {
            CounterValue::Signed(value) => value,
            other => unreachable!("a signed counter gave {other:?}"),
        }
    }

    fn bytes(&self, _threads: usize) -> usize {
        size_of::<Signed>()
    }
}

impl Gauge for LongAdder {
    const NAME: &'static str = "LongAdder";
    const READING: Reading = Reading::FinishedAdds;

    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn acquire(&self) {
        self.add(1);
    }

    #[inline]
    fn release(&self) {
        self.add(-1);
    }

    fn in_use(&self) -> i64 {
        self.sum()
    }

    fn bytes(&self, _threads: usize) -> usize {
        LongAdder::bytes(self)
    }
}
