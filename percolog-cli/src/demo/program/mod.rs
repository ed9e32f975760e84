//! The program of the demonstration, in two versions that differ in one import, and what runs either.
//!
//! `percolog demo-program VERSION` is the program by itself: an ordinary one, which the simulator runs.

mod after;
mod before;

use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use percolog_cli::failure::Failure;
use percolog_cli::format;
use percolog_cli::output::Output;

use super::cpu_time::of_this_thread;

/// The program as it was found.
pub(super) const BEFORE: &str = include_str!("before.rs");
/// The program with the fix.
pub(super) const AFTER: &str = include_str!("after.rs");

/// Requests that each worker answers first, so that all memory is where it will be, and the reference has found out that it is contended; they do
/// not count.
const WARM_UP: u64 = 256;
/// Requests between two looks at whether the time is up.
const CHUNK: u64 = 128;

/// Which version of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Version {
    /// As it was found
    Before,
    /// With the fix
    After,
}

impl Version {
    /// What the command line calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// Arguments of `percolog demo-program`.
#[derive(Debug, clap::Args)]
pub(crate) struct Program {
    /// The version
    version: Version,
    /// Workers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Requests that each worker answers
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    requests: u64,
}

/// Runs the program by itself.
pub(crate) fn run(program: &Program, output: &mut Output) -> Result<(), Failure> {
    let threads = usize::from(program.threads);
    match program.version {
        Version::Before => {
            let settings = before::settings();
            serve(threads, program.requests, |requests| {
                before::work(&settings, requests)
            });
        }
        Version::After => {
            let settings = after::settings();
            serve(threads, program.requests, |requests| {
                after::work(&settings, requests)
            });
        }
    }
    output.line(&format!(
        "{} answered {} requests",
        format::threads(threads),
        threads as u64 * program.requests
    ))
}

/// Workers that answer so many requests each, in a region that the simulator knows.
fn serve(workers: usize, requests: u64, work: impl Fn(std::ops::Range<u64>) -> usize + Sync) {
    let arrived = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                black_box(work(0..WARM_UP));
                meet(&arrived, workers);
                percolog_roi::begin();
                black_box(work(WARM_UP..WARM_UP + requests));
                percolog_roi::end(requests);
                // A thread that ends writes to memory, which would be in the way of those that still work.
                meet(&arrived, 2 * workers);
            });
        }
    });
}

/// Waits until `all` have arrived. It spins, so that all go on at once: who is woken one after the other is late by as much as all
/// requests take.
fn meet(arrived: &AtomicUsize, all: usize) {
    const SPINS: usize = 10_000;
    let mut spins = 0;
    // Relaxed, both: nothing else is handed over by this count.
    arrived.fetch_add(1, Ordering::Relaxed);
    while arrived.load(Ordering::Relaxed) < all {
        spins += 1;
        if spins > SPINS {
            // More workers than processors.
            thread::yield_now();
        } else {
            spin_loop();
        }
    }
}

/// What some workers did in some time, all together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    /// Requests a millisecond.
    pub(super) per_ms: f64,
    /// Requests.
    pub(super) requests: u64,
    /// Nanoseconds that passed, added up over the workers.
    pub(super) wall_ns: f64,
    /// Nanoseconds of them in which the workers had a processor; none where the system does not say.
    pub(super) cpu_ns: Option<f64>,
}

/// Measures some workers for some time.
pub(super) fn measure(version: Version, workers: usize, time: Duration) -> Served {
    match version {
        Version::Before => {
            let settings = before::settings();
            for_time(workers, time, |requests| before::work(&settings, requests))
        }
        Version::After => {
            let settings = after::settings();
            for_time(workers, time, |requests| after::work(&settings, requests))
        }
    }
}

fn for_time(
    workers: usize,
    time: Duration,
    work: impl Fn(std::ops::Range<u64>) -> usize + Sync,
) -> Served {
    let together = Barrier::new(workers);
    let over = AtomicBool::new(false);
    let worker = || {
        black_box(work(0..WARM_UP));
        together.wait();
        let (begun, cpu_before) = (Instant::now(), of_this_thread());
        let mut done = 0;
        // Relaxed: whether it is over is all that the first to see it (below) says to the others.
        while !over.load(Ordering::Relaxed) {
            black_box(work(done..done + CHUNK));
            done += CHUNK;
            if begun.elapsed() >= time {
                over.store(true, Ordering::Relaxed);
            }
        }
        let wall = begun.elapsed().as_nanos() as f64;
        let cpu = of_this_thread()
            .zip(cpu_before)
            .map(|(after, before)| after.saturating_sub(before).as_nanos() as f64);
        Served {
            per_ms: done as f64 / wall * 1e6,
            requests: done,
            wall_ns: wall,
            cpu_ns: cpu,
        }
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        running
            .into_iter()
            // A worker has nothing to panic of; if one does, its panic goes on here.
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .fold(
                Served {
                    cpu_ns: Some(0.0),
                    ..Served::default()
                },
                |all, one| Served {
                    per_ms: all.per_ms + one.per_ms,
                    requests: all.requests + one.requests,
                    wall_ns: all.wall_ns + one.wall_ns,
                    cpu_ns: all.cpu_ns.zip(one.cpu_ns).map(|(all, one)| all + one),
                },
            )
    })
}

/// A line of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// It is gone.
    Removed(&'static str),
    /// It is new.
    Added(&'static str),
}

/// What the fix changes: lines that differ between two files of equally many lines.
pub(super) fn fix() -> Vec<Changed> {
    BEFORE
        .lines()
        .zip(AFTER.lines())
        .filter(|(before, after)| before != after)
        .flat_map(|(before, after)| [Changed::Removed(before), Changed::Added(after)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_is_one_import() {
        assert_eq!(BEFORE.lines().count(), AFTER.lines().count());
        assert_eq!(
            fix(),
            [
                Changed::Removed("use std::sync::Arc;"),
                Changed::Added("use percolog::refcount::CoreArc as Arc;"),
            ]
        );
    }

    #[test]
    fn both_versions_send_the_same() {
        let sent = before::work(&before::settings(), 3..1000);
        assert_eq!(after::work(&after::settings(), 3..1000), sent);
        assert_ne!(sent, 0);
    }

    #[test]
    fn what_is_measured_was_done() {
        for version in [Version::Before, Version::After] {
            let served = measure(version, 2, Duration::from_millis(1));
            assert!(served.requests >= 2 * CHUNK && served.requests.is_multiple_of(CHUNK));
            assert!(served.per_ms > 0.0 && served.wall_ns > 0.0);
        }
    }
}
