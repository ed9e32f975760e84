//! Every call of every instrument from many threads at once, which come and go and panic: what was added is there, what was set
//! is one of the values that were set, and reads fit together.

use percolog_instruments::{Bounds, FloatSum, Gauge, Histogram, IntGauge};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const THREADS: i64 = 6;
const ROUNDS: i64 = 2000;

#[derive(Debug)]
struct All {
    sum: FloatSum,
    gauge: Gauge,
    set: Gauge,
    whole: IntGauge,
    whole_set: IntGauge,
    histogram: Histogram,
}

impl All {
    fn new() -> Self {
        Self {
            sum: FloatSum::new(),
            gauge: Gauge::new(),
            set: Gauge::new(),
            whole: IntGauge::new(),
            whole_set: IntGauge::new(),
            histogram: Histogram::new(Bounds::new([0.5, 1.5]).expect("increasing")),
        }
    }

    fn record(&self, thread: i64, round: i64) {
        self.sum.add(0.125);
        self.sum.add(2.0);
        self.gauge.add(0.5);
        self.gauge.add(f64::from(3));
        self.gauge.add(-3.0);
        self.whole.add(thread);
        self.whole.add(-thread);
        self.whole.add(i64::MAX);
        self.whole.add(i64::MIN);
        // A thousand and what was added since: halves and ones of which a set may have discarded the other half.
        let before = self.set.set(1000.0);
        assert!(
            before == 0.0 || (990.0..=1010.0).contains(&before),
            "{before}"
        );
        self.set.add(0.5);
        self.set.add(-0.5);
        let before = self.whole_set.set(1000);
        assert!(before == 0 || (990..=1010).contains(&before), "{before}");
        self.whole_set.add(1);
        self.whole_set.add(-1);
        self.histogram
            .record([0.25, 1.0, 2.0][(round % 3) as usize]);
        self.histogram.record_many(0.25, 2);
        let _ = format!("{self:?}");
    }
}

#[test]
fn a_storm_loses_nothing() {
    let all = All::new();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let all = &all;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let result = catch_unwind(AssertUnwindSafe(|| {
                            all.record(thread, round);
                            if round % 100 == 3 {
                                std::panic::resume_unwind(Box::new("the program is wrong"));
                            }
                        }));
                        assert_eq!(result.is_err(), round % 100 == 3);
                        if round % 500 == 0 {
                            let short = move || all.record(thread, round);
                            thread::scope(|scope| {
                                scope.spawn(short);
                            });
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let (mut sum, mut count) = (0.0, 0);
            while !done.load(Ordering::Acquire) {
                let now = all.sum.value();
                assert!(now >= sum, "{now} after {sum}");
                sum = now;
                let seen = all.histogram.read();
                assert!(seen.count() >= count, "{} after {count}", seen.count());
                count = seen.count();
                // Every value is a multiple of a quarter, and the sum is that of the buckets.
                let [low, middle, high] = seen.counts() else {
                    panic!("there are two bounds");
                };
                let of_buckets = *low as f64 * 0.25 + *middle as f64 + *high as f64 * 2.0;
                assert_eq!(seen.sum(), of_buckets);
            }
        });
        for thread in threads {
            thread.join().expect("its panics are caught");
        }
        done.store(true, Ordering::Release);
    });
    let records = THREADS * (ROUNDS + ROUNDS / 500);
    assert_eq!(all.sum.value(), records as f64 * 2.125);
    assert_eq!(all.gauge.value(), records as f64 * 0.5);
    assert_eq!(all.whole.value(), -records);
    assert_eq!(all.histogram.read().count(), 3 * records as u64);
    assert!((990.0..=1010.0).contains(&all.set.set(1.0)));
    assert!((990..=1010).contains(&all.whole_set.set(1)));
    assert_eq!((all.set.value(), all.whole_set.value()), (1.0, 1));
}
