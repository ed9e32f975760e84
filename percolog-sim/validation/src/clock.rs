//! Cycles: reading them, letting them pass, and waiting until a store has been carried out.
//!
//! Under the simulator the time-stamp counter counts cycles of the described machine, so the delays that the papers give in
//! cycles can be written down as they are. Natively it counts whatever the processor's counter counts; elsewhere than on
//! x86-64, nanoseconds.

use std::time::Instant;

/// The cycle counter.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The cycle counter: nanoseconds since it was read first.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn cycles() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns when every instruction before it has been carried out: `cpuid`, as in Figure 4-3 of the thesis.
#[inline]
pub fn complete() {
    #[cfg(target_arch = "x86_64")]
    {
        // The answer does not matter; that the processor waits for it does.
        // SAFETY: every x86-64 processor has it. Newer compilers call it safe, 1.88 does not.
        #[allow(unused_unsafe)]
        std::hint::black_box(unsafe { core::arch::x86_64::__cpuid(0) });
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Lets `count` cycles pass without touching memory.
///
/// Most of them pass in a loop of plain instructions, a quarter of what is left at a time, so that the counter, which takes
/// tens of cycles to read, is read a dozen times and not thousands of times.
#[inline]
pub fn spin(count: u64) {
    wait_until(cycles().wrapping_add(count));
}

/// Lets cycles pass until the counter shows `deadline`.
#[inline]
pub fn wait_until(deadline: u64) {
    loop {
        let left = deadline.saturating_sub(cycles());
        if left == 0 {
            return;
        }
        // An iteration is two instructions and takes two cycles at most: half of what is left passes, no more.
        if left > 4 * NEAR {
            turn(left / 4);
        }
    }
}

/// Lets cycles pass until the counter shows `deadline`, to within a few cycles where a plain instruction takes one: threads that
/// wait for the same moment go on at that moment, and not when each of them looks at the counter next. May come early.
pub fn meet(deadline: u64) {
    wait_until(deadline.saturating_sub(8 * NEAR));
    let left = deadline.saturating_sub(cycles());
    if left >= 2 {
        turn(left / 2);
    }
}

/// Cycles that reading the counter may take.
const NEAR: u64 = 64;

/// A loop of two instructions.
#[cfg(target_arch = "x86_64")]
#[inline]
fn turn(count: u64) {
    // SAFETY: counts a register of its own down; touches neither memory nor the stack. The caller's count is not zero.
    unsafe {
        core::arch::asm!(
            "2:",
            "dec {left}",
            "jnz 2b",
            left = inout(reg) count.max(1) => _,
            options(nomem, nostack),
        );
    }
}

/// A loop of a few instructions.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn turn(count: u64) {
    for at in 0..count / 4 {
        std::hint::black_box(at);
    }
}

/// How long a cycle is, from two looks at both clocks. Under the simulator both are the described machine's.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    cycles: u64,
    instant: Instant,
}

impl Stopwatch {
    /// Looks at both clocks.
    #[must_use]
    pub fn start() -> Self {
        Self {
            cycles: cycles(),
            instant: Instant::now(),
        }
    }

    /// Nanoseconds for each cycle since then: the more precise, the longer it was.
    #[must_use]
    pub fn nanoseconds_of_a_cycle(&self) -> f64 {
        let nanoseconds = self.instant.elapsed().as_nanos() as f64;
        nanoseconds / cycles().wrapping_sub(self.cycles).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_as_many_cycles_pass() {
        for count in [0, 1, 100, 1000, 100_000] {
            let start = cycles();
            spin(count);
            assert!(cycles() - start >= count, "{count}");
        }
    }

    #[test]
    fn a_deadline_in_the_past_is_no_wait() {
        wait_until(0);
        meet(0);
        complete();
    }
}
