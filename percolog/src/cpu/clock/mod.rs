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
    let stamp = if cfg!(all(feature = "std", target_arch = "x86_64"))
        && MODE.load(Ordering::Acquire) == PROCESSOR
    {
        early()
    } else {
        stamp()
    };
    later();
    stamp
}

/// The counter, perhaps before earlier loads have completed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn early() -> u64 {
    // SAFETY: exists on every x86-64 processor, and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The counter; asked for on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn early() -> u64 {
    stamp()
}

/// Keeps later loads from running before a stamp that has just been read.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn later() {
    // SAFETY: exists on every x86-64 processor, and touches no memory: nothing later starts before
    // everything earlier, the counter's reading among it, has completed.
    unsafe { core::arch::x86_64::_mm_lfence() };
}

/// Keeps later loads from running before a stamp that has just been read.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn later() {
    // SAFETY: a barrier: nothing later is fetched before the register has been read.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
}

/// Keeps later loads from running before a stamp that has just been read.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn later() {
    // The stamp came from an atomic update, which the fence keeps before later loads.
    crate::sync::global::fence(Ordering::SeqCst);
}

#[cold]
fn other_stamp() -> u64 {
    #[cfg(feature = "std")]
    if MODE.load(Ordering::Acquire) == UNKNOWN {
        let mode = if trusted().is_ok() { PROCESSOR } else { SHARED };
        // Relaxed: a fact that everyone finds alike. Only from UNKNOWN, so that a clock marked sick
        // meanwhile stays so.
        let _ = MODE.compare_exchange(UNKNOWN, mode, Ordering::Relaxed, Ordering::Relaxed);
        return stamp();
    }
    // Relaxed: an atomic addition alone gives every caller a larger number than any caller before
    // it, and callers that know of each other are ordered by the counter's modification order.
    NEXT.0.fetch_add(1, Ordering::Relaxed)
}

#[cfg(not(feature = "std"))]
#[inline(always)]
fn processor_stamp() -> u64 {
    crate::cpu::platform::stamp()
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
#[inline(always)]
fn processor_stamp() -> u64 {
    tsc()
}

#[cfg(all(feature = "std", target_arch = "aarch64"))]
#[inline(always)]
fn processor_stamp() -> u64 {
    counter_register()
}

#[cfg(all(
    feature = "std",
    not(any(target_arch = "x86_64", target_arch = "aarch64"))
))]
#[inline(always)]
fn processor_stamp() -> u64 {
    NEXT.0.fetch_add(1, Ordering::Relaxed)
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

/// Whether the processor's counter can order updates; in either case, why.
#[cfg(all(feature = "std", target_arch = "x86_64"))]
fn trusted() -> Result<&'static str, &'static str> {
    const ADVANCED_POWER: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    // `cpuid` exists on every x86-64 processor; the leaf is asked for only where it exists. (An
    // `unsafe` call for older compilers, a safe one for newer.)
    #[allow(unused_unsafe)]
    // SAFETY: see above.
    let invariant = unsafe {
        core::arch::x86_64::__cpuid(0x8000_0000).eax >= ADVANCED_POWER
            && core::arch::x86_64::__cpuid(ADVANCED_POWER).edx & INVARIANT_TSC != 0
    };
    if !invariant {
        return Err("the processor does not promise a constant rate (CPUID)");
    }
    if kernel_keeps_time_by("tsc") {
        Ok("the rate is constant (CPUID) and the kernel keeps time by it")
    } else {
        Err("the kernel does not keep time by the time stamp counter")
    }
}

/// Whether the processor's counter can order updates; in either case, why.
#[cfg(all(feature = "std", target_arch = "aarch64"))]
fn trusted() -> Result<&'static str, &'static str> {
    // A tick must be shorter than the fastest hand-off of a line between two cores, or an update
    // could carry the stamp of one that it has seen. 20 ns leaves room.
    const SLOWEST: u64 = 50_000_000;
    let frequency: u64;
    // SAFETY: reads a register that user code may read.
    unsafe {
        core::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack));
    }
    if frequency < SLOWEST {
        return Err("the counter ticks slower than a line moves between two cores");
    }
    if kernel_keeps_time_by("arch_sys_counter") {
        Ok("the counter is fast enough and the kernel keeps time by it")
    } else {
        Err("the kernel does not keep time by the counter register")
    }
}

/// Whether the processor's counter can order updates; in either case, why.
#[cfg(all(
    feature = "std",
    not(any(target_arch = "x86_64", target_arch = "aarch64"))
))]
fn trusted() -> Result<&'static str, &'static str> {
    Err("no counter of this processor is known to order updates")
}

#[cfg(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn kernel_keeps_time_by(name: &str) -> bool {
    const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(FILE).is_ok_and(|current| current.trim() == name)
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
    match trusted() {
        Ok(why) if cfg!(target_arch = "aarch64") => (ClockSource::CounterRegister, why),
        Ok(why) => (ClockSource::Tsc, why),
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
        for _ in 0..10_000 {
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
