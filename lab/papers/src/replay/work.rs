//! Other work: what a process does besides updating the objects of a subsystem, as cycles that pass.

/// Lets `cycles` of the processor's counter pass, without touching memory.
///
/// Most of them pass in a loop of plain instructions, a part of what is left at a time: the counter takes tens of
/// cycles to read, and a simulator longer. Under `percolog sim` the counter shows cycles of the simulated machine.
#[cfg(target_arch = "x86_64")]
pub(super) fn pass(cycles: u64) {
    use std::arch::asm;
    use std::arch::x86_64::_rdtsc;

    // SAFETY: every x86-64 processor has the instruction, and operating systems allow it.
    let now = || unsafe { _rdtsc() };
    let end = now().saturating_add(cycles);
    loop {
        let left = end.saturating_sub(now());
        if left == 0 {
            return;
        }
        // A turn of the loop takes two cycles at most, so this never passes more than half of what is left.
        let turns = (left / 4).max(1);
        // SAFETY: counts a register of its own down from at least one to zero; touches neither memory nor stack.
        unsafe {
            asm!(
                "2: sub {turns}, 1",
                "jnz 2b",
                turns = inout(reg) turns => _,
                options(nomem, nostack),
            );
        }
    }
}

/// Lets nanoseconds pass: here is no counter that every program may read.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn pass(cycles: u64) {
    use std::time::{Duration, Instant};

    let begun = Instant::now();
    while begun.elapsed() < Duration::from_nanos(cycles) {
        std::hint::spin_loop();
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #[test]
    fn at_least_as_many_cycles_pass() {
        for cycles in [0, 1, 100, 10_000] {
            // SAFETY: as above.
            let now = || unsafe { std::arch::x86_64::_rdtsc() };
            let begun = now();
            super::pass(cycles);
            assert!(now() - begun >= cycles, "{cycles}");
        }
    }
}
