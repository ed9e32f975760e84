//! Families whose members come and go while threads count in them and somebody encodes; constructors that panic.

use percolog_prometheus::{Bounds, CounterF64, CounterU64, GaugeF64, GaugeI64, Histogram};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

type Labels = Vec<(String, String)>;

fn labels(value: &str) -> Labels {
    vec![("value".to_owned(), value.to_owned())]
}

const THREADS: u64 = 6;
const ROUNDS: u64 = 10_000;
const HOSTILE: [&str; 6] = ["", "\n", "\"} 1\nevil 2", "\\", "\u{2028}", "it"];

/// Counts the histograms that there are, and panics now and then.
#[derive(Clone, Debug, Default)]
struct Makes {
    made: Arc<AtomicUsize>,
}

impl Makes {
    fn histogram(&self) -> Histogram {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        if made % 5 == 4 {
            std::panic::resume_unwind(Box::new("the constructor is wrong"));
        }
        Histogram::new(Bounds::new([1.0]).expect("one bound"))
    }
}

#[test]
fn a_storm_loses_nothing_of_what_stays() {
    let makes = Makes::default();
    let counters = Family::<Labels, Counter<u64, CounterU64>>::default();
    let seconds = Counter::<f64, CounterF64>::default();
    let open = Gauge::<i64, GaugeI64>::default();
    let level = Gauge::<f64, GaugeF64>::default();
    let make = {
        let makes = makes.clone();
        move || makes.histogram()
    };
    let sizes = Family::<Labels, Histogram, _>::new_with_constructor(make);
    let mut registry = Registry::default();
    registry.register("counters", "In families", counters.clone());
    registry.register("seconds", "Doubles", seconds.clone());
    registry.register("open", "Whole", open.clone());
    registry.register("level", "Doubles", level.clone());
    registry.register("sizes", "In families", sizes.clone());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (counters, seconds, open, level, sizes) =
                    (&counters, &seconds, &open, &level, &sizes);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let hostile = HOSTILE[(round % 6) as usize];
                        counters.get_or_create_owned(&labels("stays")).inc();
                        counters.get_or_create(&labels(hostile)).inc_by(2);
                        seconds.inc_by(0.5);
                        open.inc();
                        open.dec_by(thread as i64);
                        open.inc_by(thread as i64);
                        level.inc_by(0.25);
                        level.dec_by(1.0);
                        level.inc_by(1.0);
                        // A constructor that panics leaves the family as it was.
                        let _ = catch_unwind(AssertUnwindSafe(|| {
                            sizes.get_or_create_owned(&labels(hostile)).observe(1.0);
                        }));
                        if round % 10 == thread {
                            counters.remove(&labels(hostile));
                            sizes.remove(&labels(hostile));
                        }
                        if round % 100 == 0 {
                            sizes.clear();
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let mut text = String::new();
                encode(&mut text, &registry).expect("it is written to memory");
                assert!(text.ends_with("# EOF\n"), "{text}");
                for line in text.lines() {
                    assert!(!line.starts_with("evil"), "{text}");
                }
            }
        });
        for thread in threads {
            thread.join().expect("its panics are caught");
        }
        done.store(true, Ordering::Release);
    });
    let all = THREADS * ROUNDS;
    assert_eq!(counters.get_or_create(&labels("stays")).get(), all);
    assert_eq!(seconds.get(), all as f64 / 2.0);
    assert_eq!(open.get(), all as i64);
    assert_eq!(level.get(), all as f64 / 4.0);
    assert!(makes.made.load(Ordering::Relaxed) > 5, "some have panicked");
    // What was removed begins anew.
    counters.clear();
    assert_eq!(counters.get_or_create(&labels("stays")).get(), 0);
}
