//! Random sequences of operations, handed from thread to thread, beside a sequential model.

use percolog_instruments::{Gauge, IntGauge};
use proptest::prelude::*;
use std::sync::mpsc;

/// Enough threads to find what is kept by thread.
const THREADS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// In eighths: sums of these are exact in doubles, so that the model has no rounding of its own.
    Add(i32),
    Set(i32),
    Read,
}

fn operations() -> impl Strategy<Value = Vec<(usize, Operation)>> {
    let operation = prop_oneof![
        6 => any::<i32>().prop_map(Operation::Add),
        2 => (-2i32..3).prop_map(|whole| Operation::Add(whole * 8)),
        1 => any::<i32>().prop_map(Operation::Set),
        2 => Just(Operation::Read),
    ];
    prop::collection::vec((0..THREADS, operation), 1..60)
}

/// Runs each operation on its thread, one after the other, and returns what each has returned.
fn hand_over(operations: &[(usize, Operation)], run: impl Fn(Operation) -> f64 + Sync) -> Vec<f64> {
    let run = &run;
    std::thread::scope(|scope| {
        let (answer, answers) = mpsc::channel();
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (order, orders) = mpsc::channel();
                let answer = answer.clone();
                scope.spawn(move || {
                    for operation in orders {
                        answer
                            .send(run(operation))
                            .expect("the test waits for the answer");
                    }
                });
                order
            })
            .collect();
        operations
            .iter()
            .map(|&(thread, operation)| {
                threads[thread]
                    .send(operation)
                    .expect("threads live until the orders end");
                answers.recv().expect("threads answer")
            })
            .collect()
    })
}

/// What a single variable would return.
fn model(operations: &[(usize, Operation)]) -> Vec<f64> {
    let mut value = 0.0;
    operations
        .iter()
        .map(|&(_, operation)| match operation {
            Operation::Add(eighths) => {
                value += f64::from(eighths) / 8.0;
                0.0
            }
            Operation::Set(eighths) => std::mem::replace(&mut value, f64::from(eighths) / 8.0),
            Operation::Read => value,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_gauge_is_one_variable(operations in operations()) {
        let gauge = Gauge::new();
        let seen = hand_over(&operations, |operation| match operation {
            Operation::Add(eighths) => {
                gauge.add(f64::from(eighths) / 8.0);
                0.0
            }
            Operation::Set(eighths) => gauge.set(f64::from(eighths) / 8.0),
            Operation::Read => gauge.value(),
        });
        prop_assert_eq!(seen, model(&operations));
    }

    #[test]
    fn a_whole_gauge_is_one_variable(operations in operations()) {
        let gauge = IntGauge::new();
        let seen = hand_over(&operations, |operation| match operation {
            Operation::Add(amount) => {
                gauge.add(i64::from(amount));
                0.0
            }
            Operation::Set(value) => gauge.set(i64::from(value)) as f64 / 8.0,
            Operation::Read => gauge.value() as f64 / 8.0,
        });
        prop_assert_eq!(seen, model(&operations));
    }
}

#[test]
fn infinities_last_until_the_next_set() {
    let gauge = Gauge::new();
    gauge.add(2.0);
    gauge.add(f64::INFINITY);
    assert_eq!(gauge.value(), f64::INFINITY);
    gauge.add(f64::NEG_INFINITY);
    assert!(gauge.value().is_nan());
    assert!(gauge.set(5.0).is_nan());
    gauge.add(0.5);
    gauge.add(1.0);
    assert_eq!(gauge.value(), 6.5);
    gauge.set(f64::NAN);
    assert!(gauge.value().is_nan());
    gauge.set(1.0);
    assert_eq!(gauge.value(), 1.0);
}

#[test]
fn whole_gauges_wrap_around() {
    let gauge = IntGauge::new();
    gauge.set(i64::MAX);
    gauge.add(1);
    assert_eq!(gauge.value(), i64::MIN);
    assert_eq!(gauge.set(3), i64::MIN);
    gauge.add(i64::MIN);
    gauge.add(i64::MIN);
    assert_eq!(gauge.value(), 3);
}

#[test]
fn what_a_thread_added_outlives_it() {
    let gauge = Gauge::new();
    for _ in 0..100 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gauge.add(1.0);
                gauge.add(0.25);
            });
        });
    }
    assert_eq!(gauge.value(), 125.0);
}

/// What the pages say of memory.
#[test]
fn sizes_are_as_documented() {
    use percolog_instruments::{FloatSum, Histogram};
    assert!(size_of::<IntGauge>() <= 64);
    assert!(size_of::<FloatSum>() <= 104);
    assert!(size_of::<Gauge>() <= 176);
    assert!(size_of::<Histogram>() <= 88);
}
