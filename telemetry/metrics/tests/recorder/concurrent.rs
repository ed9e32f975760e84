//! Eight threads at full speed, scraped by a ninth.

use crate::common::Scrape;
use metrics::{Recorder as _, with_local_recorder};
use percolog_metrics::{Bounds, Recorder, Value};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: usize = 8;
const EACH: u64 = 30_000;

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("concurrent", metrics::Level::INFO, None);

/// Runs `work` on each thread with its number, and `look` on this one until all are done.
fn beside(work: impl Fn(usize) + Sync, mut look: impl FnMut()) {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: [_; THREADS] = std::array::from_fn(|thread| scope.spawn(move || work(thread)));
        while threads.iter().any(|thread| !thread.is_finished()) {
            look();
        }
    });
}

#[test]
fn totals_are_exact_and_no_scrape_goes_back() {
    let recorder = Recorder::builder()
        .bounds(Bounds::new([1.0, 2.0]).expect("increasing"))
        .build();
    let handle = recorder.handle();
    let mut last = (0, 0);
    let mut scrapes = 0;
    let work = |thread: usize| {
        with_local_recorder(&recorder, || {
            // By the macros each time, as most programs do it.
            for round in 0..EACH {
                metrics::counter!("rounds").increment(1);
                metrics::gauge!("open", "kind" => "a").increment(2.0);
                metrics::histogram!("size").record([0.5, 1.5, 2.5][round as usize % 3]);
                metrics::gauge!("open", "kind" => "a").decrement(if thread == 0 {
                    1.5
                } else {
                    2.0
                });
            }
        });
    };
    let look = || {
        let text = handle.render();
        let scrape = Scrape::parse(&text);
        scrapes += 1;
        if scrape.names() != ["open", "rounds", "size"] {
            return;
        }
        let seen = (
            scrape.counter("rounds", &[]),
            scrape.histogram("size", &[]).count,
        );
        assert!(
            seen.0 >= last.0 && seen.1 >= last.1,
            "{seen:?} after {last:?}"
        );
        last = seen;
    };
    beside(work, look);
    println!("{scrapes} scrapes");
    let scrape = Scrape::parse(&handle.render());
    let all = THREADS as u64 * EACH;
    assert_eq!(scrape.counter("rounds", &[]), all);
    assert_eq!(scrape.gauge("open", &[("kind", "a")]), EACH as f64 / 2.0);
    let size = scrape.histogram("size", &[]);
    assert_eq!(
        size.buckets,
        [(1.0, all / 3), (2.0, all / 3 * 2), (f64::INFINITY, all)]
    );
    assert_eq!(size.sum, all as f64 * 1.5);
}

#[test]
fn a_counter_follows_what_others_count() {
    let recorder = Recorder::new();
    let counter = recorder.register_counter(&"outside".into(), &METADATA);
    let outside = AtomicU64::new(0);
    let mut last = 0;
    let handle = recorder.handle();
    let work = |_| {
        for _ in 0..EACH / 100 {
            // Relaxed: one variable, nothing else depends on it.
            counter.absolute(outside.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let look = || {
        let text = handle.render();
        let seen = Scrape::parse(&text).counter("outside", &[]);
        assert!(seen >= last, "{seen} after {last}");
        last = seen;
    };
    beside(work, look);
    let seen = Scrape::parse(&handle.render()).counter("outside", &[]);
    assert_eq!(seen, THREADS as u64 * (EACH / 100));
}

/// Two threads that raise a counter to the same value at the same time.
#[test]
fn a_counter_is_not_raised_twice() {
    const ROUNDS: u64 = 500;
    let recorder = Recorder::new();
    let counter = recorder.register_counter(&"outside".into(), &METADATA);
    let arrived = AtomicU64::new(0);
    // Waits for the other thread without going to sleep, so that both go on at the same time.
    let meet = |times: u64| {
        // AcqRel and Acquire: what a thread did before it came is seen by the other one when it goes on.
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < 2 * times {
            std::thread::yield_now();
        }
    };
    // Not asserted there and then: the other thread would wait for ever.
    let raise = || {
        let mut wrong = None;
        for round in 1..=ROUNDS {
            meet(2 * round - 1);
            counter.absolute(round * 1000);
            meet(2 * round);
            let seen = recorder.handle().snapshot();
            let seen = seen.get("outside", &[]).cloned();
            if seen != Some(Value::Counter(round * 1000)) {
                wrong = wrong.or(Some((round, seen)));
            }
        }
        wrong
    };
    let wrong = std::thread::scope(|scope| {
        let other = scope.spawn(raise);
        (raise(), other.join().expect("it does not panic"))
    });
    assert_eq!(wrong, (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// One thread's operations, beside a plain variable.
    #[test]
    fn a_counter_is_one_variable(operations in prop::collection::vec((any::<bool>(), any::<u64>()), 1..40)) {
        let recorder = Recorder::new();
        let counter = recorder.register_counter(&"n".into(), &METADATA);
        let mut model = 0u64;
        for (absolute, value) in operations {
            if absolute {
                counter.absolute(value);
                model = model.max(value);
            } else {
                counter.increment(value);
                model = model.wrapping_add(value);
            }
            let seen = recorder.handle().snapshot();
            prop_assert_eq!(seen.get("n", &[]), Some(&Value::Counter(model)));
        }
    }
}
