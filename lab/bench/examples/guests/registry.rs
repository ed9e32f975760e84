//! prometheus-client: each worker counts the requests that it has answered, by method and status.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::metrics::counter::{Atomic, Counter};
use prometheus_client::metrics::family::Family;

use crate::{measure, random, workers};

/// Method and status.
type Labels = [(&'static str, &'static str); 2];

const COUNTED: u64 = 200;
const WARM: u64 = 20;

/// The request that is counted; most are alike.
fn labels(worker: usize, n: u64) -> Labels {
    match random(worker, n) % 10 {
        0 => [("method", "POST"), ("status", "200")],
        1 => [("method", "GET"), ("status", "404")],
        _ => [("method", "GET"), ("status", "200")],
    }
}

/// Work that has nothing to do with the counter.
fn answer(n: u64) {
    let mut page = n;
    for _ in 0..300 {
        page = std::hint::black_box(page.rotate_left(7) ^ n);
    }
}

/// The counter is looked up each time.
pub(crate) fn looked_up() {
    let requests = Family::<Labels, Counter>::default();
    measure(WARM, COUNTED, |worker, n| {
        answer(n);
        requests.get_or_create(&labels(worker, n)).inc();
    });
    let sum = |labels| requests.get_or_create(labels).get();
    let all = sum(&[("method", "POST"), ("status", "200")])
        + sum(&[("method", "GET"), ("status", "404")])
        + sum(&[("method", "GET"), ("status", "200")]);
    assert_eq!(all, workers() as u64 * (WARM + COUNTED));
}

/// The counter is looked up once, as the documentation advises.
pub(crate) fn kept() {
    let requests: Counter = Counter::default();
    count(&requests);
}

/// The same with a number for each worker, on a line of its own.
pub(crate) fn spread() {
    let requests: Counter<u64, Spread> = Counter::default();
    count(&requests);
}

fn count<A: Atomic<u64> + Sync + Send>(requests: &Counter<u64, A>) {
    measure(WARM, COUNTED, |_, n| {
        answer(n);
        requests.inc();
    });
    assert_eq!(requests.get(), workers() as u64 * (WARM + COUNTED));
}

/// A number that is the sum of those of all threads.
#[derive(Debug)]
struct Spread(Box<[Apart]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

impl Default for Spread {
    fn default() -> Self {
        // One more for the main thread.
        Self((0..=workers()).map(|_| Apart::default()).collect())
    }
}

impl Spread {
    fn mine(&self) -> &AtomicU64 {
        use std::sync::atomic::AtomicUsize;
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Relaxed));
        &self.0[NUMBER.with(|number| *number) % self.0.len()].0
    }
}

impl Atomic<u64> for Spread {
    fn inc(&self) -> u64 {
        self.inc_by(1)
    }

    fn inc_by(&self, by: u64) -> u64 {
        self.mine().fetch_add(by, Relaxed)
    }

    fn get(&self) -> u64 {
        self.0.iter().map(|part| part.0.load(Relaxed)).sum()
    }
}
