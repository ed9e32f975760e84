//! References, and what programs have today.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use percolog::refcount::{CoreArc, CoreWeak, Generation};

use super::objects::{Packed, Padded, Place, Shared};
use super::workloads::{between_reads, first_after_a_read, sustained};
use super::{FEW_CORES, SHARED_LINE, breaks, keeps, keeps_on};

/// The lines of the row's words, of its map of places and of the place, each fetched and made one's own.
const AFTER_A_ROUND: f64 = 6.0;

/// A number on lines of its own: how often each thread has updated, for the test alone.
#[repr(align(128))]
#[derive(Default)]
struct Alone(AtomicU64);

fn numbers(threads: usize) -> Vec<Alone> {
    (0..threads).map(|_| Alone::default()).collect()
}

impl Alone {
    fn add(&self) {
        // Relaxed, and not an exchange: one thread writes it, and whoever reads has waited for that thread.
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now + 1, Ordering::Relaxed);
    }
}

fn sum(numbers: &[Alone]) -> u64 {
    numbers
        .iter()
        .map(|number| number.0.load(Ordering::Relaxed))
        .sum()
}

/// A clone and a drop of a `CoreArc`.
struct Cloned(CoreArc<u64>, Vec<Alone>);

impl Shared for Cloned {
    fn new(threads: usize) -> Self {
        let object = Self(CoreArc::into_hot(CoreArc::new(7)), numbers(threads));
        percolog_roi::label(&*object.0, "CoreArc");
        object
    }

    fn update(&self, thread: usize, _number: u64) {
        drop(std::hint::black_box(self.0.clone()));
        self.1[thread].add();
    }

    fn read(&self) -> u64 {
        assert_eq!(CoreArc::count(&self.0), 1);
        sum(&self.1)
    }
}

/// An upgrade of a `CoreWeak`, and a drop.
struct Upgraded(CoreArc<u64>, CoreWeak<u64>, Vec<Alone>);

impl Shared for Upgraded {
    fn new(threads: usize) -> Self {
        let strong = CoreArc::into_hot(CoreArc::new(7));
        let weak = CoreArc::downgrade(&strong);
        Self(strong, weak, numbers(threads))
    }

    fn update(&self, thread: usize, _number: u64) {
        drop(std::hint::black_box(self.1.upgrade()));
        self.2[thread].add();
    }

    fn read(&self) -> u64 {
        assert_eq!(CoreArc::count(&self.0), 1);
        sum(&self.2)
    }
}

/// A reference of a name that is looked up, taken only if its generation is still the same, and a drop.
struct LookedUp(CoreArc<Generation>, Vec<Alone>);

impl Shared for LookedUp {
    fn new(threads: usize) -> Self {
        Self(
            CoreArc::into_hot(CoreArc::new(Generation::new())),
            numbers(threads),
        )
    }

    fn update(&self, thread: usize, _number: u64) {
        let name = &self.0;
        let seen = name.current().expect("nobody changes it");
        let reference = CoreArc::clone_if(name, name, seen);
        assert!(std::hint::black_box(reference).is_some());
        self.1[thread].add();
    }

    fn read(&self) -> u64 {
        assert_eq!(CoreArc::count(&self.0), 1);
        sum(&self.1)
    }
}

/// The least that a row does for a clone and a drop: its version and what it has for the one object, in one word for each thread.
struct Rows<P>(Vec<P>, Vec<Alone>);

impl<P: Place<AtomicU64>> Shared for Rows<P> {
    fn new(threads: usize) -> Self {
        let rows: Vec<_> = (0..threads).map(|_| P::new(AtomicU64::new(0))).collect();
        percolog_roi::label(&rows[..], "rows");
        Self(rows, numbers(threads))
    }

    fn update(&self, thread: usize, _number: u64) {
        let word = self.0[thread].get();
        for one in [1, u64::MAX] {
            let now = word.load(Ordering::Relaxed);
            let amount = now.wrapping_add(one) & 0xffff;
            // Release, as the row's.
            word.store(((now >> 16) + 1) << 16 | amount, Ordering::Release);
        }
        self.1[thread].add();
    }

    fn read(&self) -> u64 {
        let amounts = self.0.iter().map(|row| row.get().load(Ordering::Acquire));
        assert_eq!(amounts.map(|word| word & 0xffff).sum::<u64>(), 0);
        sum(&self.1)
    }
}

/// A clone and a drop of an `Arc`: what programs have today.
struct ClonedArc(Arc<u64>, Vec<Alone>);

impl Shared for ClonedArc {
    fn new(threads: usize) -> Self {
        Self(Arc::new(7), numbers(threads))
    }

    fn update(&self, thread: usize, _number: u64) {
        drop(std::hint::black_box(self.0.clone()));
        self.1[thread].add();
    }

    fn read(&self) -> u64 {
        sum(&self.1)
    }
}

#[test]
fn references_between_reads() {
    keeps(between_reads::<Cloned>, 0.0);
}

#[test]
fn references_sustained() {
    keeps(sustained::<Cloned>, 0.0);
}

#[test]
fn references_after_a_read() {
    keeps(first_after_a_read::<Cloned>, AFTER_A_ROUND);
}

#[test]
fn upgrades_between_reads() {
    keeps(between_reads::<Upgraded>, 0.0);
}

#[test]
fn lookups_between_changes() {
    keeps(between_reads::<LookedUp>, 0.0);
}

#[test]
fn padded_rows_between_reads() {
    keeps_on(FEW_CORES, between_reads::<Rows<Padded<AtomicU64>>>, 0.0);
}

#[test]
fn packed_rows_between_reads() {
    breaks(between_reads::<Rows<Packed<AtomicU64>>>, 0.0, SHARED_LINE);
}

#[test]
fn references_of_today_move_lines() {
    breaks(between_reads::<ClonedArc>, 0.0, SHARED_LINE);
}
