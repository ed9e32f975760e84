//! What a thread remembers of its look-ups: nothing is counted twice, elsewhere, or lost.

use metrics::{counter, gauge, histogram, with_local_recorder};
use percolog_metrics::{Recorder, RecorderHandle, Value};
use std::cell::RefCell;

fn count(handle: &RecorderHandle, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
    match handle.snapshot().get(name, labels) {
        Some(Value::Counter(count)) => Some(*count),
        Some(other) => panic!("{name} is not a counter: {other:?}"),
        None => None,
    }
}

#[test]
fn recorders_that_take_turns_on_a_thread_stay_apart() {
    let recorders = [Recorder::new(), Recorder::new(), Recorder::new()];
    for round in 0..10u64 {
        for (number, recorder) in recorders.iter().enumerate() {
            with_local_recorder(recorder, || {
                for _ in 0..=number {
                    counter!("hits").increment(round);
                }
            });
        }
    }
    for (recorder, times) in recorders.iter().zip(1..) {
        assert_eq!(count(&recorder.handle(), "hits", &[]), Some(45 * times));
    }
}

#[test]
fn a_recorder_made_where_another_one_was_is_another_one() {
    for _ in 0..10 {
        let recorder = Recorder::new();
        with_local_recorder(&recorder, || counter!("hits").increment(1));
        assert_eq!(count(&recorder.handle(), "hits", &[]), Some(1));
    }
}

#[test]
fn one_name_for_every_kind_is_three_metrics() {
    let recorder = Recorder::new();
    for _ in 0..3 {
        with_local_recorder(&recorder, || {
            counter!("it").increment(1);
            gauge!("it").increment(0.5);
            histogram!("it").record(2.0);
        });
    }
    let seen = recorder.handle().snapshot();
    let values: Vec<_> = seen
        .families
        .iter()
        .map(|family| &family.series[0].value)
        .collect();
    assert_eq!(values[..2], [&Value::Counter(3), &Value::Gauge(1.5)]);
    assert!(matches!(values[2], Value::Histogram(histogram) if histogram.sum() == 6.0));
}

#[test]
fn more_labels_than_a_thread_remembers() {
    const LABELS: usize = 3000;
    let recorder = Recorder::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                with_local_recorder(&recorder, || {
                    for _ in 0..3 {
                        for label in 0..LABELS {
                            counter!("hits", "label" => label.to_string()).increment(1);
                        }
                    }
                });
            });
        }
    });
    let seen = recorder.handle().snapshot();
    assert_eq!(seen.families[0].series.len(), LABELS);
    assert!(
        seen.families[0]
            .series
            .iter()
            .all(|series| series.value == Value::Counter(12))
    );
}

#[test]
fn handles_outlive_their_thread_and_their_recorder() {
    let recorder = Recorder::new();
    let handle = recorder.handle();
    let counters: Vec<_> = std::thread::scope(|scope| {
        let look_up = || with_local_recorder(&recorder, || [counter!("hits"), counter!("hits")]);
        scope.spawn(look_up).join().expect("it looks up").into()
    });
    drop(recorder);
    for counter in &counters {
        counter.increment(1);
    }
    assert_eq!(count(&handle, "hits", &[]), Some(2));
}

/// Counts when its thread ends.
struct Last(RefCell<Option<Recorder>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(recorder) = self.0.take() {
            with_local_recorder(&recorder, || {
                for _ in 0..3 {
                    counter!("ends").increment(1);
                }
            });
        }
    }
}

thread_local! {
    static BEFORE: Last = const { Last(RefCell::new(None)) };
    static AFTER: Last = const { Last(RefCell::new(None)) };
}

#[test]
fn destructors_of_thread_local_values_count() {
    let recorder = Recorder::new();
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                // One is touched before the thread's memory of handles, one after it: they are destroyed in another order.
                BEFORE.with(|last| *last.0.borrow_mut() = Some(recorder.clone()));
                with_local_recorder(&recorder, || counter!("ends").increment(1));
                AFTER.with(|last| *last.0.borrow_mut() = Some(recorder.clone()));
            });
        }
    });
    // A scope waits for the closures, not for what threads do after them.
    let handle = recorder.handle();
    while count(&handle, "ends", &[]) < Some(70) {
        std::thread::yield_now();
    }
    assert_eq!(count(&handle, "ends", &[]), Some(70));
}
