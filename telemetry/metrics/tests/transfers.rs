//! On 48 simulated cores: recording moves no cache line, through handles and by the macros in place.
//!
//! `cargo test --release -p percolog-metrics --test transfers -- --nocapture` prints the figures.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::hint::black_box;
use std::io::{self, Write};
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;

use metrics::{Key, Recorder as _, with_local_recorder};
use percolog_metrics::Recorder;
use percolog_sim::assert::Assertion;

const CORES: usize = 48;
const UPDATES: u64 = 100;

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("transfers", metrics::Level::INFO, None);

/// What each thread does.
type Update = fn(&Threads);

/// What the threads share.
struct Threads {
    counter: metrics::Counter,
    gauge: metrics::Gauge,
    histogram: metrics::Histogram,
    /// What a counter is in most programs.
    atomic: metrics::Counter,
}

/// On lines of its own: who still leaves the barrier writes to it while others count already, and they would wait for what happens
/// to stand beside it on the stack.
#[repr(align(128))]
struct Apart(Barrier);

/// The same code before the part that counts and in it: what a core reads of the program is fetched before.
fn updates(shared: &Threads, update: Update) {
    for number in 0..UPDATES {
        update(shared);
        // About as long as a line takes: a core that did nothing but update would be done before others have begun.
        black_box((0..100).fold(number, |result: u64, turn| {
            (result ^ turn).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }));
    }
}

/// Cache lines that an update moves, data and rights together; `None` where that cannot be found out, which is then said.
fn moved(update: Update) -> Option<f64> {
    if cfg!(debug_assertions) {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = writeln!(
            io::stderr(),
            "ELSEWHERE: {test}: counts lines of optimized code only: cargo test --release -p percolog-metrics --test transfers"
        );
        return None;
    }
    let measured = Assertion::on(CORES).measure_or_skip(|| {
        let recorder = Recorder::new();
        let shared = Threads {
            counter: recorder.register_counter(&Key::from_static_name("counter"), &METADATA),
            gauge: recorder.register_gauge(&Key::from_static_name("gauge"), &METADATA),
            histogram: recorder.register_histogram(&Key::from_static_name("size"), &METADATA),
            atomic: metrics::Counter::from_arc(std::sync::Arc::new(AtomicU64::new(0))),
        };
        let together = Apart(Barrier::new(CORES));
        std::thread::scope(|scope| {
            for thread in 0..CORES {
                let (recorder, shared, together) = (&recorder, &shared, &together.0);
                scope.spawn(move || {
                    percolog_roi::core(thread);
                    with_local_recorder(recorder, || {
                        // The first time each thread enters itself into tables beside others; the second time, once all have,
                        // it finds itself there.
                        for _ in 0..2 {
                            updates(shared, update);
                            together.wait();
                        }
                        percolog_roi::begin();
                        updates(shared, update);
                        percolog_roi::end(UPDATES);
                        together.wait();
                    });
                });
            }
        });
    })?;
    let moved = measured.transfers_per_operation() + measured.upgrades_per_operation();
    println!(
        "{}: {moved:.3} transfers and upgrades per operation",
        measured.machine
    );
    Some(moved)
}

/// No update moves a line.
#[track_caller]
fn nothing(update: Update) {
    if let Some(moved) = moved(update) {
        assert_eq!(moved, 0.0);
    }
}

#[test]
fn a_counters_handle() {
    nothing(|shared| shared.counter.increment(1));
}

#[test]
fn a_gauges_handle() {
    nothing(|shared| {
        shared.gauge.increment(1.0);
        shared.gauge.decrement(0.5);
    });
}

#[test]
fn a_histograms_handle() {
    nothing(|shared| shared.histogram.record(0.3));
}

#[test]
fn the_macros_in_place() {
    nothing(|_| {
        metrics::counter!("hits", "path" => "/").increment(1);
        metrics::gauge!("open").increment(1.0);
        metrics::histogram!("seconds", "path" => "/").record(0.3);
    });
}

/// That the measurement sees lines where they do move.
#[test]
fn an_atomic_moves_its_line_each_time() {
    if let Some(moved) = moved(|shared| shared.atomic.increment(1)) {
        assert!(moved > 0.5, "{moved}");
    }
}
