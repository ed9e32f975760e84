//! A histogram of each thread's values: percolog's, one of `hdrhistogram` behind a lock, and that crate's own for threads.

use std::sync::{Mutex, PoisonError};

use hdrhistogram::sync::{Recorder, SyncHistogram};
use percolog::reduce::HdrHistogram;

use crate::reducers::Fold;

/// Latencies of up to a minute, in nanoseconds, to one percent, in each of the three.
const HIGH: u64 = 60_000_000_000;
const FIGURES: u8 = 2;

/// What is recorded: some thousands of nanoseconds, on a few lines of the counts.
fn value(number: u64) -> u64 {
    3_000 + 40 * (number % 64)
}

fn counts() -> hdrhistogram::Histogram<u64> {
    // The crate accepts these bounds; a default is better than a panic if it ever does not.
    hdrhistogram::Histogram::new_with_bounds(1, HIGH, FIGURES)
        .unwrap_or_else(|_| unreachable!("{HIGH} to {FIGURES} figures is a histogram"))
}

/// percolog's.
#[derive(Debug)]
pub struct PercologHistogram(HdrHistogram);

impl Fold for PercologHistogram {
    const NAME: &'static str = "Histogram";

    type Handle = ();

    fn new() -> Self {
        Self(HdrHistogram::new())
    }

    fn handle(&self) {}

    #[inline]
    fn fold(&self, (): &mut (), number: u64) {
        self.0.record(value(number));
    }

    fn folded(&self) -> u64 {
        self.0.read().count()
    }
}

/// One for all, behind a lock: what most programs have today.
#[derive(Debug)]
pub struct MutexHistogram(Mutex<hdrhistogram::Histogram<u64>>);

impl Fold for MutexHistogram {
    const NAME: &'static str = "Mutex<hdrhistogram>";

    type Handle = ();

    fn new() -> Self {
        Self(Mutex::new(counts()))
    }

    fn handle(&self) {}

    #[inline]
    fn fold(&self, (): &mut (), number: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.saturating_record(value(number));
    }

    fn folded(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// `SyncHistogram`: a recorder for each thread, which hands its counts over when the reader asks and it records next, or
/// when it is dropped.
#[derive(Debug)]
pub struct RecorderHistogram(Mutex<SyncHistogram<u64>>);

impl Fold for RecorderHistogram {
    const NAME: &'static str = "SyncHistogram's recorders";

    type Handle = Recorder<u64>;

    fn new() -> Self {
        Self(Mutex::new(counts().into_sync()))
    }

    fn handle(&self) -> Recorder<u64> {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.recorder()
    }

    #[inline]
    fn fold(&self, recorder: &mut Recorder<u64>, number: u64) {
        recorder.saturating_record(value(number));
    }

    fn folded(&self) -> u64 {
        let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.refresh();
        histogram.len()
    }
}
