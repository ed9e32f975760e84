//! The same program with `metrics-exporter-prometheus` and with this crate: what changing the recorder gains.
//!
//! ```text
//! recorders before|after macro|handle [THREADS]
//! ```
//!
//! Each thread counts requests: by `counter!` in place, or through a handle that it keeps. On a real machine the program prints the
//! time of one increment; `percolog sim` measures the part between the marks.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;
use std::{env, process, thread};

use metrics::counter;
use metrics_exporter_prometheus::PrometheusBuilder;

/// Increments of each thread, on a real machine and in a simulation.
const MEASURED: u64 = 1_000_000;
const SIMULATED: u64 = 300;

/// On lines of its own: threads that leave the barrier write to it.
#[repr(align(128))]
struct Apart(Barrier);

fn count(by_macro: bool, times: u64) {
    if by_macro {
        for _ in 0..times {
            counter!("requests_total", "path" => "/").increment(1);
        }
    } else {
        let requests = counter!("requests_total", "path" => "/");
        for _ in 0..times {
            black_box(&requests).increment(1);
        }
    }
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (recorder, how, threads) = match words[..] {
        [recorder, how] => (recorder, how, None),
        [recorder, how, threads] => (recorder, how, threads.parse().ok()),
        _ => usage(),
    };
    let by_macro = match how {
        "macro" => true,
        "handle" => false,
        _ => usage(),
    };
    let render: Box<dyn Fn() -> String> = match recorder {
        "before" => {
            let handle = PrometheusBuilder::new().install_recorder();
            let handle = handle.expect("nothing else is installed");
            Box::new(move || handle.render())
        }
        "after" => {
            let handle = percolog_metrics::install().expect("nothing else is installed");
            Box::new(move || handle.render())
        }
        _ => usage(),
    };
    let threads = threads
        .or_else(|| thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1);
    // Each thread begins by placing itself on a core, which only a simulator answers.
    let simulated = percolog_roi::core(0);
    let times = if simulated { SIMULATED } else { MEASURED };
    let together = Apart(Barrier::new(threads));
    let took: f64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let together = &together.0;
                scope.spawn(move || {
                    percolog_roi::core(thread);
                    // What happens once in a thread happens now.
                    for _ in 0..2 {
                        count(by_macro, 10);
                        together.wait();
                    }
                    percolog_roi::begin();
                    let begun = Instant::now();
                    count(by_macro, times);
                    let took = begun.elapsed();
                    percolog_roi::end(times);
                    together.wait();
                    took.as_secs_f64()
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("counting does not panic"))
            .sum()
    });
    let expected = format!(
        "requests_total{{path=\"/\"}} {}",
        threads as u64 * (times + 20)
    );
    assert!(
        render().lines().any(|line| line == expected),
        "no {expected:?} in\n{}",
        render()
    );
    if !simulated {
        let nanoseconds = took / threads as f64 / times as f64 * 1e9;
        println!("{recorder}, {how}, {threads} threads: {nanoseconds:.1} ns an increment");
    }
}

fn usage() -> ! {
    eprintln!("usage: recorders before|after macro|handle [THREADS]");
    process::exit(2)
}
