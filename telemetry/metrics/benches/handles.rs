//! What recording costs: through handles that are kept, and by the macros each time, beside the recorder that most programs have.
//!
//! ```text
//! cargo bench -p percolog-metrics --bench handles
//! ```
//!
//! Nanoseconds an operation on each thread: the median of the passes, which go round the recorders. Every pass ends with a
//! check that nothing was lost.

use metrics::{Key, Recorder, with_local_recorder};
use metrics_exporter_prometheus::PrometheusBuilder;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

const OPERATIONS: u64 = 1_000_000;
const PASSES: usize = 9;

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("handles", metrics::Level::INFO, None);

/// A recorder that is measured: how it is called, it itself, and what it renders.
struct Peer {
    name: &'static str,
    recorder: Box<dyn Recorder + Sync>,
    render: Box<dyn Fn() -> String>,
}

/// What is done again and again, until it has been done that often.
type Work = fn(&dyn Recorder, u64);

const WORK: [(&str, Work); 6] = [
    ("counter, handle", |recorder, times| {
        let counter = recorder.register_counter(&Key::from_static_name("counter"), &METADATA);
        for _ in 0..times {
            black_box(&counter).increment(1);
        }
    }),
    ("counter, macro", |_, times| {
        for _ in 0..times {
            metrics::counter!("counter").increment(1);
        }
    }),
    ("counter, macro with labels", |_, times| {
        for _ in 0..times {
            metrics::counter!("labelled", "path" => "/", "verb" => "GET").increment(1);
        }
    }),
    ("gauge, handle", |recorder, times| {
        let gauge = recorder.register_gauge(&Key::from_static_name("gauge"), &METADATA);
        for _ in 0..times / 2 {
            black_box(&gauge).increment(1.0);
            black_box(&gauge).decrement(1.0);
        }
    }),
    ("gauge of fractions, handle", |recorder, times| {
        let gauge = recorder.register_gauge(&Key::from_static_name("fractions"), &METADATA);
        for _ in 0..times / 2 {
            black_box(&gauge).increment(0.5);
            black_box(&gauge).decrement(0.5);
        }
    }),
    ("histogram, handle", |recorder, times| {
        let histogram = recorder.register_histogram(&Key::from_static_name("size"), &METADATA);
        for time in 0..times {
            black_box(&histogram).record((time % 16) as f64);
        }
    }),
];

fn peers() -> Vec<Peer> {
    let ours = percolog_metrics::Recorder::new();
    let our_handle = ours.handle();
    let theirs = PrometheusBuilder::new()
        .set_buckets(&percolog_metrics::Bounds::default())
        .expect("bounds are bounds")
        .build_recorder();
    let their_handle = theirs.handle();
    vec![
        Peer {
            name: "percolog-metrics",
            recorder: Box::new(ours),
            render: Box::new(move || our_handle.render()),
        },
        Peer {
            name: "metrics-exporter-prometheus",
            recorder: Box::new(theirs),
            render: Box::new(move || their_handle.render()),
        },
    ]
}

/// Nanoseconds an operation, with so many threads doing the same.
fn pass(peer: &Peer, work: Work, threads: usize) -> f64 {
    let start = Barrier::new(threads);
    let (start, recorder) = (&start, &peer.recorder);
    let took: Vec<f64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(move || {
                    with_local_recorder(&**recorder, || {
                        // Whatever happens once happens now.
                        work(&**recorder, 100);
                        start.wait();
                        let begun = Instant::now();
                        work(&**recorder, OPERATIONS);
                        begun.elapsed().as_nanos() as f64
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no work panics"))
            .collect()
    });
    took.iter().sum::<f64>() / took.len() as f64 / OPERATIONS as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let peers = peers();
    println!(
        "{:28} {:>7}  {:>28}  {:>28}  ratio",
        "", "threads", peers[0].name, peers[1].name
    );
    let mut counted = [0u64; 2];
    for (what, work) in WORK {
        for threads in [1, 2] {
            let mut figures = [vec![], vec![]];
            for _ in 0..PASSES {
                for (peer, figures) in peers.iter().zip(&mut figures) {
                    figures.push(pass(peer, work, threads));
                    // Peers that keep each record until they are scraped would run out of memory.
                    black_box((peer.render)());
                }
            }
            let done = (PASSES * threads) as u64 * (OPERATIONS + 100);
            match what {
                "counter, handle" | "counter, macro" => counted[0] += done,
                "histogram, handle" => counted[1] += done,
                _ => {}
            }
            let [ours, theirs] = figures.map(median);
            println!(
                "{what:28} {threads:>7}  {ours:>25.1} ns  {theirs:>25.1} ns  {:.2}",
                theirs / ours
            );
        }
    }
    for peer in &peers {
        let text = (peer.render)();
        for (name, count) in [("counter", counted[0]), ("size_count", counted[1])] {
            let line = format!("{name} {count}");
            assert!(
                text.lines().any(|other| other == line),
                "{}: no {line:?} in\n{text}",
                peer.name
            );
        }
    }
}
