//! Slot numbers, time stamps, per-slot storage, asymmetric barriers, and `fork` handling.
//!
//! A *slot* is the place an update is written to. Two threads that run at the same time are normally
//! on different slots, so that no two processors write one line; but a slot is never exclusive: a
//! thread can lose its processor in mid-update, and whoever uses a slot's memory takes its lock.
//! Where a single writer is what makes an update cheap (counters), a thread *leases* a place of its
//! own instead; leases and slots are numbered apart, so nothing done to the slots
//! ([`bind`]) can put two writers on one leased place.
//!
//! Where a slot's number comes from, best first ([`slot_source`] tells):
//!
//! 1. the kernel's *concurrency id* (`mm_cid`) in the rseq area that glibc 2.35 or later registers:
//!    compact, so that a process of 4 threads on a 128-processor machine uses 4 slots;
//! 2. the processor's number in the same area;
//! 3. a number leased by each thread — musl, other systems, rseq turned off, or
//!    `PERCOLOG_SLOTS=thread` in the environment;
//! 4. without the `std` feature, what the program's [`platform!`](crate::platform) says.
//!
//! The rseq area is only read. Restartable sequences in assembly would save the slot's lock, and no
//! checker could see into them.

pub mod barrier;
#[cfg(feature = "alloc")]
pub(crate) mod biased_lock;
pub mod clock;
#[cfg(feature = "alloc")]
mod drops_all;
pub(crate) mod environment;
#[cfg(feature = "alloc")]
pub(crate) mod lease;
#[cfg(feature = "alloc")]
mod own_lines;
#[cfg(feature = "alloc")]
mod per_core;
mod platform;
#[cfg(feature = "alloc")]
pub(crate) mod prefetch;
#[cfg(all(feature = "alloc", not(percolog_loom)))]
pub(crate) mod process;
#[cfg(feature = "alloc")]
pub(crate) mod recent;
#[cfg(feature = "alloc")]
pub(crate) mod shards;
#[cfg(feature = "std")]
mod slot;
#[cfg(feature = "std")]
mod topology;
#[cfg(feature = "alloc")]
pub(crate) mod undivided;

#[cfg(feature = "alloc")]
pub(crate) use drops_all::DropsAll;
#[cfg(feature = "alloc")]
pub(crate) use environment::{Environment, Native};
#[cfg(feature = "alloc")]
pub(crate) use own_lines::{OwnLines, OwnTable};
#[cfg(feature = "alloc")]
pub use per_core::PerCore;
pub use platform::Platform;
#[cfg(not(feature = "std"))]
pub(crate) use platform::chip;
#[cfg(all(feature = "alloc", not(feature = "std")))]
pub(crate) use platform::without_preemption;
#[cfg(not(feature = "std"))]
pub use platform::{count, current, slot_source};
#[cfg(feature = "std")]
pub use slot::{bind, current, slot_source, unbind};
#[cfg(feature = "std")]
pub(crate) use slot::{chip, without_preemption};
#[cfg(feature = "std")]
pub use topology::{
    AffinityError, InvalidVariable, allowed_cpus, count, invalid_variables, set_affinity,
};

use core::fmt;

pub use crate::sync::LINE_SIZE;

/// The number of a slot.
///
/// Any number is valid. Storage that is kept per slot has [`CoreId::PLACES`] places at most; larger
/// numbers share them, which costs speed and never correctness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct CoreId(u32);

impl CoreId {
    /// How many different places per-slot storage has: 8192, the most processors a Linux kernel can
    /// be built for.
    #[cfg(not(percolog_loom))]
    pub const PLACES: usize = 8192;
    /// As few as the model checker can go through.
    #[cfg(percolog_loom)]
    pub const PLACES: usize = 4;

    /// The slot with this number.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The slot's number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot's place in per-slot storage.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) const fn place(self) -> usize {
        self.0 as usize % Self::PLACES
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Built for checkers (`--cfg percolog_portable`, or under Miri), the library uses nothing of the machine that they cannot follow.
#[cfg(all(test, feature = "std", any(percolog_portable, miri)))]
#[test]
fn a_portable_build_asks_nothing_of_the_machine() {
    assert_eq!(slot_source(), SlotSource::Thread);
    assert_eq!(barrier::mode(), barrier::BarrierMode::Fence);
    assert_eq!(clock::health().source, clock::ClockSource::SharedCounter);
    // Stamps are numbers in a row: no other test takes so many meanwhile.
    let first = clock::stamp_first();
    assert!((first + 1..first + 1_000_000).contains(&clock::stamp()));
    assert_eq!(chip(), 0);
}

/// The source of slot numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotSource {
    /// The kernel's compact concurrency id (`mm_cid`) in the thread's rseq area.
    ConcurrencyId,
    /// The processor's number (`cpu_id`) in the thread's rseq area.
    CpuId,
    /// A number that each thread leases while it lives.
    Thread,
    /// The program's own [`platform!`](crate::platform).
    Platform,
}

impl fmt::Display for SlotSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConcurrencyId => "concurrency id (rseq mm_cid)",
            Self::CpuId => "processor number (rseq cpu_id)",
            Self::Thread => "one slot a thread",
            Self::Platform => "the program's platform",
        })
    }
}
