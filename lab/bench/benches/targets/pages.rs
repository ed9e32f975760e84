//! The page manager of `percolog_papers::faults` with lists of free frames for each slot, beside the one with a lock: a frame is taken and
//! given back.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use percolog::clustered;
use percolog_papers::faults::{Choice, Kind, System};

use crate::figures::{Line, Target, Unit, medians, on};
use crate::{Effort, Measured};

/// Frames that a thread takes before it gives them back.
const BATCH: usize = 8;

/// How often it does so.
const ROUNDS: usize = 20_000;

/// Nanoseconds for taking a frame and giving it back, on each of so many threads.
fn taken_and_given_back(kind: Kind, threads: usize) -> f64 {
    let choice = Choice {
        pages: kind,
        ..Choice::DISTRIBUTED
    };
    let frames = (threads * 4 * BATCH) as u32;
    let system = System::new(choice, frames, 4 * BATCH).expect("there is room");
    let manager = system.page_manager();
    let start = Barrier::new(threads);
    let pass = |rounds: usize| {
        let mut taken = Vec::with_capacity(BATCH);
        for _ in 0..rounds {
            // A section for each batch, as for each fault.
            let section = clustered::enter();
            let pages = manager.get(&section).expect("the system is there");
            taken.extend((0..BATCH).map(|_| pages.allocate(&section).expect("there are enough")));
            for frame in taken.drain(..) {
                pages.give_back(&section, frame);
            }
        }
    };
    let times: Vec<Duration> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    pass(ROUNDS / 10);
                    start.wait();
                    let started = Instant::now();
                    pass(ROUNDS);
                    started.elapsed()
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert_eq!(system.free(), system.frames());
    let sum: Duration = times.iter().sum();
    sum.as_secs_f64() * 1e9 / (threads * ROUNDS * BATCH) as f64
}

pub(crate) fn all(effort: Effort) -> Measured {
    let lines = [1, 2].map(|threads| {
        let [shared, distributed] = medians(
            effort.samples,
            [&|| taken_and_given_back(Kind::Shared, threads), &|| {
                taken_and_given_back(Kind::Distributed, threads)
            }],
        );
        let name = format!(
            "Page manager, a frame taken and given back, {}",
            on(threads)
        );
        let line = Line::published(name, distributed, Unit::Nanoseconds)
            .beside("the same with one lock", shared);
        if threads == 1 {
            line
        } else {
            line.target(Target::RatioAtMost(0.5))
        }
    });
    Ok(lines.into())
}
