//! The counters of J. Appavoo et al., *Experience Distributing Objects in an SMMP OS* (ACM TOCS 25(3), 2007, section 1.1 and Figure 1): how
//! many requests a server has seen, in the paper's four ways, behind one interface.
//!
//! Who counts holds an [`ObjectRef<dyn Count>`](Count), and cannot tell them apart but by how long they take: on the paper's 24 processors three
//! of them make a request of 1193 cycles ten times as long and more, and one does not.
//!
//! ```
//! use percolog_papers::counters::Counting;
//!
//! for counting in Counting::ALL {
//!     let requests = counting.create()?;
//!     requests.call(|requests| requests.increment())?;
//!     requests.call(|requests| requests.increment())?;
//!     assert_eq!(requests.call(|requests| requests.value())?, 2, "{counting}");
//!     requests.destroy()?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use percolog::clustered::{self, ObjectRef, Place, Root, Shared, Siblings};
use percolog::cpu;
use percolog::namespace::InsertReason;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts.
pub trait Count: Sync {
    /// One more. It is in each [`value`](Self::value) that begins when this has returned.
    fn increment(&self);

    /// How many there were: exact while nobody increments, and otherwise at least those that had returned, and at most those that had begun.
    fn value(&self) -> u64;
}

/// How requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// One counter under a lock.
    Locked,
    /// One counter, incremented atomically.
    Atomic,
    /// A counter for each slot, side by side: nothing is shared, but lines are.
    Packed,
    /// A counter for each slot, each in its own lines.
    Padded,
}

impl Counting {
    /// All, in the paper's order.
    pub const ALL: [Self; 4] = [Self::Locked, Self::Atomic, Self::Packed, Self::Padded];

    /// A counter of that kind, at 0. Whoever made it [destroys](ObjectRef::destroy) it.
    ///
    /// # Errors
    /// If there is no room for another object.
    pub fn create(self) -> Result<ObjectRef<dyn Count>, InsertReason> {
        match self {
            Self::Locked => made(Shared::new(Alone(Locked::default()), |it| {
                &it.0 as &dyn Count
            })),
            Self::Atomic => made(Shared::new(Alone(Atomic::default()), |it| {
                &it.0 as &dyn Count
            })),
            Self::Packed => made(PackedCounts::new()),
            Self::Padded => made(PaddedCounts),
        }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locked => "locked",
            Self::Atomic => "atomic",
            Self::Packed => "packed",
            Self::Padded => "padded",
        })
    }
}

fn made<R: Root<Interface = dyn Count>>(root: R) -> Result<ObjectRef<dyn Count>, InsertReason> {
    clustered::try_create(root).map_err(|full| full.reason)
}

/// In lines of its own.
#[repr(align(128))]
struct Alone<T>(T);

#[derive(Default)]
struct Locked(Mutex<u64>);

impl Count for Locked {
    fn increment(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn value(&self) -> u64 {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Atomic(AtomicU64);

// Everywhere here, Relaxed: a count orders nothing. Increments are atomic even where a slot has its own, since a thread can lose its slot
// in the middle of one.
impl Count for Atomic {
    fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn sum<'a>(counts: impl IntoIterator<Item = &'a AtomicU64>) -> u64 {
    let values = counts
        .into_iter()
        .map(|count| count.load(Ordering::Relaxed));
    values.sum()
}

/// An array, and who increments what of it.
struct PackedCounts {
    counts: Arc<[AtomicU64]>,
}

struct Packed {
    number: usize,
    counts: Arc<[AtomicU64]>,
}

impl PackedCounts {
    fn new() -> Self {
        let counts = (0..cpu::count().max(1)).map(|_| AtomicU64::new(0));
        Self {
            counts: counts.collect(),
        }
    }
}

impl Root for PackedCounts {
    type Interface = dyn Count;
    type Rep = Packed;

    fn create(&self, place: &Place<'_, Packed>) -> Packed {
        Packed {
            // There can be more slots than were expected.
            number: place.number() % self.counts.len(),
            counts: self.counts.clone(),
        }
    }

    fn interface(rep: &Packed) -> &Self::Interface {
        rep
    }
}

impl Count for Packed {
    fn increment(&self) {
        self.counts[self.number].fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        sum(&*self.counts)
    }
}

/// Each slot's count is in its representative, which has lines of its own.
struct PaddedCounts;

struct Padded {
    count: AtomicU64,
    siblings: Siblings<Self>,
}

impl Root for PaddedCounts {
    type Interface = dyn Count;
    type Rep = Padded;

    fn create(&self, place: &Place<'_, Padded>) -> Padded {
        Padded {
            count: AtomicU64::new(0),
            siblings: place.siblings(),
        }
    }

    fn interface(rep: &Padded) -> &Self::Interface {
        rep
    }
}

impl Count for Padded {
    fn increment(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.siblings
            .visit(|all| sum(all.iter().map(|(_, slot)| &slot.count)))
            // The implementation was exchanged for another one, which has the count.
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use percolog::cpu::CoreId;
    use std::thread;

    #[test]
    fn every_increment_of_every_slot_is_counted() {
        for counting in Counting::ALL {
            let counter = counting.create().expect("there is room");
            thread::scope(|scope| {
                for slot in 0..5 {
                    scope.spawn(move || {
                        cpu::bind(CoreId::new(slot));
                        for before in 0..1000 {
                            let value = counter.call(|counter| {
                                counter.increment();
                                counter.value()
                            });
                            assert!(value.expect("it is there") > before, "{counting}");
                        }
                    });
                }
            });
            let value = counter.call(|counter| counter.value());
            assert_eq!(value.expect("it is there"), 5000, "{counting}");
            counter.destroy().expect("it is there");
        }
    }
}
