//! Time stamps that order updates.
//!
//! A stamp must order after everything its thread has seen. Plain `rdtsc` may execute before an
//! earlier load has completed, so a stamp is `lfence; rdtsc` (on aarch64 a barrier and the counter
//! register): *the stamp is most of the cost of an ordered update*, and structures whose updates
//! commute do not take one.
//!
//! The processor's counter is trusted when it says that it runs at a constant rate **and** the
//! operating system itself keeps time by it; nothing is pinned or probed at start. Otherwise stamps
//! come from one shared counter, which costs a cache-line transfer an update and is said so by
//! [`health`]. `CLOCK_MONOTONIC` is no substitute: two processors can read the same nanosecond, one
//! after having seen the other's write.
//!
//! Every merge checks the stamps it meets. A stamp that is out of order or in the future marks the
//! clock *sick*, and from then on all stamps come from the shared counter, starting beyond every
//! stamp given out before.
//!
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*,
//! §5.1 (the clock that stands in for tracking causality) and §6.2.

mod counter;
#[cfg(feature = "std")]
mod verify;

#[cfg(feature = "std")]
pub use verify::{ClockPair, Skew, VerifyError, verify};

use crate::sync::global::{AtomicU8, AtomicU64, Ordering};
use core::fmt;

/// The source of stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockSource {
    /// The processor's time stamp counter (x86-64).
    Tsc,
    /// The processor's counter register (aarch64).
    CounterRegister,
    /// One counter that all slots share: a cache-line transfer a stamp.
    SharedCounter,
    /// The program's [`platform!`](crate::platform).
    Platform,
}

impl fmt::Display for ClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tsc => "time stamp counter",
            Self::CounterRegister => "counter register",
            Self::SharedCounter => "shared counter",
            Self::Platform => "the program's platform",
        })
    }
}

/// The state of the clock: the source of stamps, and whether it can be trusted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClockHealth {
    /// Where stamps come from now.
    pub source: ClockSource,
    /// Why from there.
    pub why: &'static str,
    /// Whether a merge has met a stamp that was out of order or in the future.
    pub sick: bool,
    /// How many such stamps were met.
    pub violations: u64,
}

#[cfg(feature = "std")]
const UNKNOWN: u8 = 0;
const PROCESSOR: u8 = 1;
const SHARED: u8 = 2;

#[cfg(feature = "std")]
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Without an operating system the platform's word is taken.
#[cfg(not(feature = "std"))]
static MODE: AtomicU8 = AtomicU8::new(PROCESSOR);

/// The next stamp of the shared counter. Alone on its line: in that mode every update writes it.
#[repr(align(128))]
struct Shared(AtomicU64);
static NEXT: Shared = Shared(AtomicU64::new(1));

static VIOLATIONS: AtomicU64 = AtomicU64::new(0);

/// How far beyond the largest stamp met the shared counter starts when the processor's counter has
/// proved sick: some 20 days of ticks, more than any skew between processors that are up.
const LEAP: u64 = 1 << 52;

/// A stamp: greater than every stamp whose taking the calling thread can know of.
///
/// *Progress:* wait-free. *Cost:* about 15 ns where the processor's counter is trusted, and no
/// transfer; else one transfer of a line that every stamp of the process writes.
#[inline(always)]
#[must_use]
pub fn stamp() -> u64 {
    // Acquire pairs with the Release in `mark_sick`: who sees the new mode also sees the leap.
    if MODE.load(Ordering::Acquire) == PROCESSOR {
        processor_stamp()
    } else {
        other_stamp()
    }
}

/// A stamp that is taken before anything the calling thread does later: no later load runs ahead of it.
///
/// [`stamp`] is the other way about: it is taken after everything earlier. The counter is read like any
/// other instruction, whenever its turn comes in the processor's window, unless something holds it.
///
/// *Progress:* wait-free. *Cost:* about 10 ns where the processor's counter is trusted; else as [`stamp`].
#[inline(always)]
#[must_use]
pub fn stamp_first() -> u64 {
    // Acquire as in `stamp`.
    let stamp = if MODE.load(Ordering::Acquire) == PROCESSOR {
        processor_stamp_early()
    } else {
        other_stamp()
    };
    counter::later();
    stamp
}

#[cold]
fn other_stamp() -> u64 {
    #[cfg(feature = "std")]
    if MODE.load(Ordering::Acquire) == UNKNOWN {
        let mode = if counter::trusted().is_ok() {
            PROCESSOR
        } else {
            SHARED
        };
        // Relaxed: a fact that everyone finds alike. Only from UNKNOWN, so that a clock marked sick
        // meanwhile stays so.
        let _ = MODE.compare_exchange(UNKNOWN, mode, Ordering::Relaxed, Ordering::Relaxed);
        return stamp();
    }
    shared_stamp()
}

/// The next stamp of the shared counter.
#[inline(always)]
fn shared_stamp() -> u64 {
    // Relaxed: an atomic addition alone gives every caller a larger number than any caller before
    // it, and callers that know of each other are ordered by the counter's modification order.
    NEXT.0.fetch_add(1, Ordering::Relaxed)
}

#[cfg(not(feature = "std"))]
#[inline(always)]
fn processor_stamp() -> u64 {
    crate::cpu::platform::stamp()
}

#[cfg(feature = "std")]
#[inline(always)]
fn processor_stamp() -> u64 {
    counter::stamp()
}

#[cfg(not(feature = "std"))]
#[inline(always)]
fn processor_stamp_early() -> u64 {
    processor_stamp()
}

#[cfg(feature = "std")]
#[inline(always)]
fn processor_stamp_early() -> u64 {
    counter::early()
}

/// The processor's time stamp counter, read after all earlier loads have completed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn tsc() -> u64 {
    // SAFETY: both instructions exist on every x86-64 processor and touch no memory. `lfence` does
    // not complete before all earlier loads have, and nothing later starts before it.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

/// The processor's virtual counter, read after all earlier loads have completed.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[must_use]
pub fn counter_register() -> u64 {
    let stamp: u64;
    // SAFETY: reads a counter that user code may read. `dsb ishld` waits for earlier loads, `isb`
    // keeps the register from being read before that. It does not wait for stores: who needs those to
    // be visible first has a full fence before `stamp`, which loads the mode behind it, and waiting for
    // that load is waiting for the stores.
    unsafe {
        core::arch::asm!(
            "dsb ishld",
            "isb",
            "mrs {}, cntvct_el0",
            out(reg) stamp,
            options(nostack, preserves_flags),
        );
    }
    stamp
}

/// What is known of the clock.
#[must_use]
pub fn health() -> ClockHealth {
    let violations = VIOLATIONS.load(Ordering::Relaxed);
    let sick = violations != 0;
    let (source, why) = source_and_reason(sick);
    ClockHealth {
        source,
        why,
        sick,
        violations,
    }
}

const SICK: &str = "a merge met a stamp that was out of order or in the future";

#[cfg(not(feature = "std"))]
fn source_and_reason(sick: bool) -> (ClockSource, &'static str) {
    if sick {
        (ClockSource::SharedCounter, SICK)
    } else {
        (ClockSource::Platform, "the program says so")
    }
}

#[cfg(feature = "std")]
fn source_and_reason(sick: bool) -> (ClockSource, &'static str) {
    if sick {
        return (ClockSource::SharedCounter, SICK);
    }
    match counter::trusted() {
        Ok(why) => (counter::SOURCE, why),
        Err(why) => (ClockSource::SharedCounter, why),
    }
}

/// Gives up the processor's counter: a stamp was out of order. `latest` is the largest stamp met.
///
/// From here on stamps come from the shared counter, which starts so far beyond `latest` that every
/// stamp still being taken from the processor's counter is smaller.
#[cfg_attr(not(feature = "alloc"), allow(dead_code))]
#[cold]
pub(crate) fn mark_sick(latest: u64) {
    VIOLATIONS.fetch_add(1, Ordering::Relaxed);
    if MODE.load(Ordering::Acquire) != SHARED {
        NEXT.0
            .fetch_max(latest.saturating_add(LEAP), Ordering::Relaxed);
        // Release pairs with the Acquire in `stamp`.
        MODE.store(SHARED, Ordering::Release);
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn stamps_increase_on_one_thread() {
        let mut last = stamp();
        for _ in 0..crate::sync::rounds(10_000) {
            let next = stamp();
            assert!(next > last, "{next} after {last}");
            last = next;
        }
    }

    #[test]
    fn health_says_why() {
        assert!(!health().why.is_empty());
    }
}
