//! The processor's own counter, where it has one that can order updates.

#[cfg(all(target_arch = "aarch64", not(any(percolog_portable, miri))))]
pub(super) use aarch64::*;
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(percolog_portable, miri))
)))]
pub(super) use none::*;
#[cfg(all(target_arch = "x86_64", not(any(percolog_portable, miri))))]
pub(super) use x86_64::*;

#[cfg(all(
    feature = "std",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(percolog_portable, miri))
))]
fn kernel_keeps_time_by(name: &str) -> bool {
    const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(FILE).is_ok_and(|current| current.trim() == name)
}

#[cfg(all(target_arch = "x86_64", not(any(percolog_portable, miri))))]
mod x86_64 {
    //! The time stamp counter.

    use core::arch::x86_64;

    #[cfg(feature = "std")]
    pub(in crate::cpu::clock) const SOURCE: super::super::ClockSource =
        super::super::ClockSource::Tsc;

    /// The counter, after all earlier loads have completed.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(in crate::cpu::clock) fn stamp() -> u64 {
        super::super::tsc()
    }

    /// The counter, perhaps before earlier loads have completed.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(in crate::cpu::clock) fn early() -> u64 {
        // SAFETY: exists on every x86-64 processor, and touches no memory.
        unsafe { x86_64::_rdtsc() }
    }

    /// Keeps later loads from running before a stamp that has just been read.
    #[inline(always)]
    pub(in crate::cpu::clock) fn later() {
        // SAFETY: exists on every x86-64 processor, and touches no memory: nothing later starts before
        // everything earlier, the counter's reading among it, has completed.
        unsafe { x86_64::_mm_lfence() };
    }

    /// Whether the counter can order updates; in either case, why.
    #[cfg(feature = "std")]
    pub(in crate::cpu::clock) fn trusted() -> Result<&'static str, &'static str> {
        const ADVANCED_POWER: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        // `cpuid` exists on every x86-64 processor; the leaf is asked for only where it exists. (An
        // `unsafe` call for older compilers, a safe one for newer.)
        #[allow(unused_unsafe)]
        // SAFETY: see above.
        let invariant = unsafe {
            x86_64::__cpuid(0x8000_0000).eax >= ADVANCED_POWER
                && x86_64::__cpuid(ADVANCED_POWER).edx & INVARIANT_TSC != 0
        };
        if !invariant {
            return Err("the processor does not promise a constant rate (CPUID)");
        }
        if super::kernel_keeps_time_by("tsc") {
            Ok("the rate is constant (CPUID) and the kernel keeps time by it")
        } else {
            Err("the kernel does not keep time by the time stamp counter")
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(any(percolog_portable, miri))))]
mod aarch64 {
    //! The counter register.

    #[cfg(feature = "std")]
    pub(in crate::cpu::clock) const SOURCE: super::super::ClockSource =
        super::super::ClockSource::CounterRegister;

    /// The counter, after all earlier loads have completed.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(in crate::cpu::clock) fn stamp() -> u64 {
        super::super::counter_register()
    }

    /// The same: nothing is gained by reading it before earlier loads have completed.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(in crate::cpu::clock) fn early() -> u64 {
        stamp()
    }

    /// Keeps later loads from running before a stamp that has just been read.
    #[inline(always)]
    pub(in crate::cpu::clock) fn later() {
        // SAFETY: a barrier: nothing later is fetched before the register has been read.
        unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
    }

    /// Whether the counter can order updates; in either case, why.
    #[cfg(feature = "std")]
    pub(in crate::cpu::clock) fn trusted() -> Result<&'static str, &'static str> {
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
        if super::kernel_keeps_time_by("arch_sys_counter") {
            Ok("the counter is fast enough and the kernel keeps time by it")
        } else {
            Err("the kernel does not keep time by the counter register")
        }
    }
}

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(percolog_portable, miri))
)))]
mod none {
    //! None that is known, or none that may be used.

    use crate::sync::global::{Ordering, fence};

    #[cfg(feature = "std")]
    pub(in crate::cpu::clock) const SOURCE: super::super::ClockSource =
        super::super::ClockSource::SharedCounter;

    /// The shared counter.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(in crate::cpu::clock) fn stamp() -> u64 {
        super::super::shared_stamp()
    }

    /// The same.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(in crate::cpu::clock) fn early() -> u64 {
        stamp()
    }

    /// Keeps later loads from running before a stamp that has just been taken.
    #[inline(always)]
    pub(in crate::cpu::clock) fn later() {
        // The stamp came from an atomic update, which the fence keeps before later loads.
        fence(Ordering::SeqCst);
    }

    /// Whether the counter can order updates; in either case, why.
    #[cfg(feature = "std")]
    pub(in crate::cpu::clock) fn trusted() -> Result<&'static str, &'static str> {
        Err(if cfg!(any(percolog_portable, miri)) {
            "the library was built to use no counter of the processor"
        } else {
            "no counter of this processor is known to order updates"
        })
    }
}
