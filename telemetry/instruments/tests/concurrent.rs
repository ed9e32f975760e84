//! Eight threads at full speed, with somebody who reads and sets meanwhile.

use percolog_instruments::{Bounds, FloatSum, Gauge, Histogram, IntGauge};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const THREADS: usize = 8;
/// Each thread works at least so many rounds, and until this one has looked so many times.
const ROUNDS: usize = 50_000;
const LOOKS: usize = 5000;

/// Runs `work` again and again on each thread, with the thread's number, and `look` on this one. Returns how many rounds each thread
/// has worked. Ends if either panics.
fn beside(work: impl Fn(usize) + Sync, mut look: impl FnMut()) -> [usize; THREADS] {
    let stop = AtomicBool::new(false);
    let ready = AtomicUsize::new(0);
    let (work, stop, ready) = (&work, &stop, &ready);
    std::thread::scope(|scope| {
        let threads: [_; THREADS] = std::array::from_fn(|thread| {
            scope.spawn(move || {
                let mut rounds = 0;
                // Relaxed, here and below: seen at some time; `join` orders all else.
                while !stop.load(Ordering::Relaxed) {
                    work(thread);
                    rounds += 1;
                    if rounds == ROUNDS {
                        ready.fetch_add(1, Ordering::Relaxed);
                    }
                }
                rounds
            })
        });
        // Also when `look` panics.
        let stopped = Stop(stop);
        let mut looks = 0;
        while looks < LOOKS || ready.load(Ordering::Relaxed) < THREADS {
            look();
            looks += 1;
            if threads.iter().any(|thread| thread.is_finished()) {
                // It has panicked.
                break;
            }
        }
        drop(stopped);
        threads.map(|thread| thread.join().expect("no thread panics"))
    })
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        // Relaxed: see `beside`.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the threads have done, if a round of each of them was worth that much.
fn total(rounds: [usize; THREADS], worth: impl Fn(usize) -> f64) -> f64 {
    (0..THREADS)
        .map(|thread| rounds[thread] as f64 * worth(thread))
        .sum()
}

#[test]
fn a_whole_gauge_hands_over_every_change_once() {
    let gauge = IntGauge::new();
    let mut taken = 0;
    let worth = |thread| if thread % 2 == 0 { 3 } else { -1 };
    let rounds = beside(|thread| gauge.add(worth(thread)), || taken += gauge.set(0));
    taken += gauge.value();
    assert_eq!(taken as f64, total(rounds, |thread| worth(thread) as f64));
}

// Here and below everything is a multiple of a half, and far from 2^52: the model does not round.

#[test]
fn a_gauge_hands_over_every_change_once() {
    let gauge = Gauge::new();
    let mut taken = 0.0;
    let worth = |thread| if thread % 2 == 0 { 3.0 } else { -0.5 };
    let rounds = beside(
        |thread| gauge.add(worth(thread)),
        || taken += gauge.set(0.0),
    );
    taken += gauge.value();
    assert_eq!(taken, total(rounds, worth));
}

/// A set that takes the place of another one discards what came since that one, and nothing that it has discarded already.
#[test]
fn two_threads_that_set_share_the_changes() {
    let gauge = Gauge::new();
    let taken = Mutex::new(0.0);
    let take = || {
        let before = gauge.set(0.0);
        assert!(before >= 0.0, "{before}: something was discarded twice");
        *taken.lock().expect("no thread panics") += before;
    };
    let work = |thread| match thread {
        0 => take(),
        _ => gauge.add(0.5),
    };
    let rounds = beside(work, take);
    take();
    let changes = total(rounds, |thread| if thread == 0 { 0.0 } else { 0.5 });
    assert_eq!(*taken.lock().expect("no thread panics"), changes);
}

#[test]
fn sums_never_go_back_and_end_exact() {
    let sum = FloatSum::new();
    let mut last = 0.0;
    let look = || {
        let seen = sum.value();
        assert!(seen >= last, "{seen} after {last}");
        last = seen;
    };
    let worth = |thread| [1.0, 0.1][thread % 2];
    let rounds = beside(|thread| sum.add(worth(thread)), look);
    // In units of 2^-64, of which a tenth has a whole number.
    let units = |thread: usize| rounds[thread] as i128 * (worth(thread) * 2f64.powi(64)) as i128;
    let exact: i128 = (0..THREADS).map(units).sum();
    assert_eq!(sum.value(), exact as f64 / 2f64.powi(64));
}

#[test]
fn each_read_of_a_histogram_fits_together() {
    let values = [0.5, 1.5, 3.0, 8.0];
    let histogram = Histogram::new(Bounds::new([1.0, 2.0, 4.0]).expect("increasing"));
    let mut last = vec![0; 4];
    let look = || {
        let seen = histogram.read();
        let counted = values.iter().zip(seen.counts());
        let expected: f64 = counted.map(|(value, count)| value * *count as f64).sum();
        assert_eq!(seen.sum(), expected, "{seen:?}");
        let mut pairs = last.iter().zip(seen.counts());
        assert!(
            pairs.all(|(before, now)| before <= now),
            "{seen:?} after {last:?}"
        );
        last = seen.counts().to_vec();
    };
    let rounds = beside(|thread| histogram.record(values[thread % 4]), look);
    let expected: Vec<_> = (0..4)
        .map(|value| (rounds[value] + rounds[value + 4]) as u64)
        .collect();
    assert_eq!(histogram.read().counts(), expected);
}
