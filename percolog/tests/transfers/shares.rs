//! Reducers and what is built on them, and the least that does what they do, with padding and without.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use percolog::reduce::{CounterMap, Reducer, Sum, Summary, TopK};

use super::objects::{Packed, Padded, Place, Shared};
use super::workloads::{between_reads, first_after_a_read, sustained};
use super::{FEW_CORES, SHARED_LINE, breaks, keeps, keeps_on};

/// The line of the lock's words and of the share, and that of a table: each fetched, and then made one's own.
const AFTER_A_READ: f64 = 4.0;

/// `Reducer::update`.
struct Reduced(Reducer<Sum<u64>>);

impl Shared for Reduced {
    fn new(_threads: usize) -> Self {
        let object = Self(Reducer::new());
        percolog_roi::label(&object.0, "Reducer");
        object
    }

    fn update(&self, _thread: usize, _number: u64) {
        self.0.update(|share| share.add(1));
    }

    fn read(&self) -> u64 {
        self.0.read().0
    }
}

/// Labels of which all are hot; each is met while a thread warms up.
fn label(number: u64) -> u64 {
    number % 2
}

/// `CounterMap::add`.
struct Labelled(CounterMap<u64>);

impl Shared for Labelled {
    fn new(_threads: usize) -> Self {
        let object = Self(CounterMap::new(100));
        percolog_roi::label(&object.0, "CounterMap");
        object
    }

    fn update(&self, _thread: usize, number: u64) {
        self.0.add(&label(number), 1);
    }

    fn read(&self) -> u64 {
        self.0.read().total()
    }
}

/// `TopK::add`, of keys that each thread's table has.
struct Ranked(TopK<u64>);

impl Shared for Ranked {
    fn new(_threads: usize) -> Self {
        let object = Self(TopK::new(10));
        percolog_roi::label(&object.0, "TopK");
        object
    }

    fn update(&self, _thread: usize, number: u64) {
        self.0.add(&label(number), 1);
    }

    fn read(&self) -> u64 {
        self.0.read().total()
    }
}

/// `Summary::record`.
struct Observed(Summary);

impl Shared for Observed {
    fn new(_threads: usize) -> Self {
        let object = Self(Summary::new());
        percolog_roi::label(&object.0, "Summary");
        object
    }

    fn update(&self, _thread: usize, number: u64) {
        self.0.record(label(number) as f64);
    }

    fn read(&self) -> u64 {
        self.0.read().count()
    }
}

/// What a share holds.
trait Held: Send {
    fn new() -> Self;
    fn fold(&mut self, number: u64);
    fn folded(&self) -> u64;
}

impl Held for u64 {
    fn new() -> Self {
        0
    }

    fn fold(&mut self, _number: u64) {
        *self += 1;
    }

    fn folded(&self) -> u64 {
        *self
    }
}

impl Held for HashMap<u64, u64> {
    fn new() -> Self {
        HashMap::new()
    }

    fn fold(&mut self, number: u64) {
        *self.entry(label(number)).or_default() += 1;
    }

    fn folded(&self) -> u64 {
        self.values().sum()
    }
}

/// A share for each thread, with the two words through which its owner comes in.
struct Shares<T, P> {
    shares: Vec<P>,
    holds: std::marker::PhantomData<fn() -> T>,
}

struct Share<T> {
    inside: AtomicU32,
    frozen: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is used by the thread whose share it is, and by others only when that one has ended or waits.
unsafe impl<T: Send> Sync for Share<T> {}

type PackedShares<T> = Shares<T, Packed<Share<T>>>;
type PaddedShares<T> = Shares<T, Padded<Share<T>>>;

impl<T: Held, P: Place<Share<T>>> Shared for Shares<T, P> {
    fn new(threads: usize) -> Self {
        let shares: Vec<_> = (0..threads)
            .map(|_| {
                P::new(Share {
                    inside: AtomicU32::new(0),
                    frozen: AtomicU32::new(0),
                    value: UnsafeCell::new(None),
                })
            })
            .collect();
        percolog_roi::label(&shares[..], "shares");
        Self {
            shares,
            holds: std::marker::PhantomData,
        }
    }

    fn update(&self, thread: usize, number: u64) {
        let share = self.shares[thread].get();
        // As `Reducer` does it where the kernel has `membarrier`. Nobody reads meanwhile here, so nobody is waited for.
        share.inside.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        assert_eq!(share.frozen.load(Ordering::Acquire), 0);
        // SAFETY: this is the thread's own share, and nobody reads now.
        let value = unsafe { &mut *share.value.get() };
        value.get_or_insert_with(T::new).fold(number);
        share.inside.store(0, Ordering::Release);
    }

    fn read(&self) -> u64 {
        // SAFETY: all threads have ended, or wait until this is done.
        let values = self
            .shares
            .iter()
            .map(|share| unsafe { &*share.get().value.get() });
        values.flatten().map(T::folded).sum()
    }
}

type Counts = HashMap<u64, u64>;

#[test]
fn reducers_between_reads() {
    keeps(between_reads::<Reduced>, 0.0);
}

#[test]
fn reducers_sustained() {
    keeps(sustained::<Reduced>, 0.0);
}

#[test]
fn reducers_after_a_read() {
    keeps(first_after_a_read::<Reduced>, AFTER_A_READ);
}

#[test]
fn counter_maps_between_reads() {
    keeps(between_reads::<Labelled>, 0.0);
}

#[test]
fn counter_maps_after_a_read() {
    keeps(first_after_a_read::<Labelled>, AFTER_A_READ);
}

#[test]
fn heaviest_keys_between_reads() {
    keeps(between_reads::<Ranked>, 0.0);
}

#[test]
fn summaries_between_reads() {
    keeps(between_reads::<Observed>, 0.0);
}

#[test]
fn padded_shares_between_reads() {
    keeps_on(FEW_CORES, between_reads::<PaddedShares<u64>>, 0.0);
    keeps_on(FEW_CORES, between_reads::<PaddedShares<Counts>>, 0.0);
}

#[test]
fn packed_shares_between_reads() {
    breaks(between_reads::<PackedShares<u64>>, 0.0, SHARED_LINE);
    breaks(between_reads::<PackedShares<Counts>>, 0.0, SHARED_LINE);
}

#[cfg(feature = "histogram")]
mod histogram {
    use super::*;
    use percolog::reduce::HdrHistogram;

    /// Values that two counts stand for.
    fn value(number: u64) -> u64 {
        1000 + 100 * label(number)
    }

    /// `HdrHistogram::record`.
    struct Recorded(HdrHistogram);

    impl Shared for Recorded {
        fn new(_threads: usize) -> Self {
            let object = Self(HdrHistogram::new());
            percolog_roi::label(&object.0, "Histogram");
            object
        }

        fn update(&self, _thread: usize, number: u64) {
            self.0.record(value(number));
        }

        fn read(&self) -> u64 {
            self.0.read().count()
        }
    }

    #[test]
    fn histograms_between_reads() {
        keeps(between_reads::<Recorded>, 0.0);
    }

    #[test]
    fn histograms_after_a_read() {
        keeps(first_after_a_read::<Recorded>, AFTER_A_READ);
    }

    #[test]
    fn a_histogram_ends_with_all_its_updates() {
        ends_with_all_its_updates::<Recorded>();
    }
}

fn ends_with_all_its_updates<S: Shared>() {
    for workload in [between_reads::<S>, sustained::<S>, first_after_a_read::<S>] {
        workload(4);
    }
}

/// On the real machine, where lines cannot be counted: no update is lost.
#[test]
fn every_share_ends_with_all_its_updates() {
    ends_with_all_its_updates::<Reduced>();
    ends_with_all_its_updates::<Labelled>();
    ends_with_all_its_updates::<Ranked>();
    ends_with_all_its_updates::<Observed>();
    ends_with_all_its_updates::<PaddedShares<u64>>();
    ends_with_all_its_updates::<PackedShares<Counts>>();
}
