//! Asymmetric barriers: free on the frequent side, a system call on the rare side.
//!
//! Where one side stores and then loads, and the other side does so too, with the two words
//! exchanged (*I am inside; what has changed?* against *it has changed; who is inside?*), each side
//! needs a full barrier between its store and its load, or both can miss what the other stored. A
//! full barrier is some 10 ns. Where one side runs a million times as often as the other, the Linux
//! kernel can take it off that side: `membarrier(2)` makes **every** running thread of the process
//! execute a full barrier, and one that does not run executed one when it lost its processor. So the
//! frequent side's `light` barrier only keeps the compiler from reordering, and the rare side's
//! `heavy` one is the system call. Elsewhere both are `fence(SeqCst)`. [`mode`] says which.
//!
//! # What is guaranteed
//!
//! Both sides use the same mode, and all words are atomics (any ordering):
//!
//! | one thread | another thread | at least one load sees the other's store |
//! |---|---|---|
//! | store *x*; `light`; load *y* | store *y*; `heavy`, which returned `true`; load *x* | yes |
//! | store *x*; `heavy`; load *y* | store *y*; `heavy`; load *x* | yes |
//! | store *x*; `light`; load *y* | store *y*; `light`; load *x* | only in [`BarrierMode::Fence`] |
//!
//! Why: the kernel puts a full barrier into the light side's instructions at some point between the
//! start and the end of the call. The light side's program order has that point before its load, and
//! then the load comes after the heavy side's store; or after its load, and so after its store, and
//! then that store comes before the heavy side's load.
//!
//! A `heavy` that returned `false` was no barrier at all: the kernel refused. (A filter of system
//! calls that was installed after the first call can do that.)
//!
//! # What it rests on
//!
//! * `man 2 membarrier`: `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, Linux 4.14 or later. It reaches the
//!   threads of *this process*; memory shared with other processes is not covered.
//! * The language's memory model does not know the system call. What is relied on is that a compiler
//!   fence keeps the light side's accesses in program order, and that processors do what the kernel
//!   says of them. A model checker gets two sequentially consistent fences instead, so it cannot find a
//!   place that has `light` where it needs `heavy`. ThreadSanitizer understands neither kind, and
//!   reports races where nothing but a barrier orders two accesses to plain memory.
//! * A forked child keeps the registration on the kernels we know. Where one does not, `heavy`
//!   registers again.
//!
//! # What it costs
//!
//! On a 2-processor virtual machine, Linux 6.18: `heavy` takes 0.28 µs in a process of one thread,
//! 0.40 µs when the others sleep, and 9 µs when another is running, because an interrupt goes to its
//! processor; that thread loses the time the interrupt takes. `light` costs no instruction.

#[cfg(feature = "alloc")]
use crate::sync::atomic;
use crate::sync::global::{AtomicU8, Ordering};
use core::fmt;

/// The kind of barrier that this process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BarrierMode {
    /// The frequent side has no barrier of its own; the rare side makes the kernel put one into every
    /// running thread (Linux).
    Membarrier,
    /// Both sides execute a sequentially consistent fence.
    Fence,
}

impl fmt::Display for BarrierMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Membarrier => "membarrier",
            Self::Fence => "fence",
        })
    }
}

/// The decision and its reason, as an index of `REASONS`; `UNKNOWN` before the first call.
static DECISION: AtomicU8 = AtomicU8::new(UNKNOWN);

use decided::*;

mod decided {
    //! What can be decided; each system can come to some of these.
    #![allow(dead_code)]

    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const OFFERED: u8 = 1;
    pub(super) const CHOSEN: u8 = 2;
    pub(super) const FENCE_CHOSEN: u8 = 3;
    pub(super) const NOT_OFFERED: u8 = 4;
    pub(super) const REFUSED: u8 = 5;
    pub(super) const NO_SUCH_CALL: u8 = 6;
}

/// The last decision with which the mode is [`BarrierMode::Membarrier`].
const LAST_MEMBARRIER: u8 = CHOSEN;

const REASONS: [&str; 7] = [
    "not decided",
    "the kernel offers it",
    "PERCOLOG_BARRIER says so and the kernel offers it",
    "PERCOLOG_BARRIER says so",
    "the kernel offers no expedited private membarrier",
    "the kernel refused to register the process for membarrier",
    "there is no system call for more here, or the library was built to use none",
];

/// Which barriers this process uses. Decided by the first call, and the same from then on.
///
/// `PERCOLOG_BARRIER` in the environment, `fence` or `membarrier`, overrides what would be found;
/// `membarrier` has no effect where the kernel does not offer it.
///
/// *Progress:* wait-free. *Cost:* one load of a line that nobody writes; the first call of a process
/// makes two system calls.
#[inline]
#[must_use]
pub fn mode() -> BarrierMode {
    if decision() <= LAST_MEMBARRIER {
        BarrierMode::Membarrier
    } else {
        BarrierMode::Fence
    }
}

/// Why [`mode`] is what it is.
#[must_use]
pub fn why() -> &'static str {
    REASONS[usize::from(decision())]
}

#[inline]
fn decision() -> u8 {
    // Acquire pairs with the Release in `decide`: who sees the decision comes after the registration
    // it rests on.
    match DECISION.load(Ordering::Acquire) {
        UNKNOWN => decide(),
        decided => decided,
    }
}

#[cold]
fn decide() -> u8 {
    let found = find();
    // Two threads that come first together may find different things if the environment is changed
    // meanwhile: one decision counts for all. Release pairs with the Acquire in `decision`; the
    // Acquire is that one's, for a decision made meanwhile.
    match DECISION.compare_exchange(UNKNOWN, found, Ordering::Release, Ordering::Acquire) {
        Ok(_) => found,
        Err(first) => first,
    }
}

#[cfg(feature = "std")]
fn find() -> u8 {
    match chosen() {
        Ok(Some(BarrierMode::Fence)) => FENCE_CHOSEN,
        Ok(Some(BarrierMode::Membarrier)) => match system::register() {
            OFFERED => CHOSEN,
            refused => refused,
        },
        // A value that cannot be used is treated as unset.
        Ok(None) | Err(_) => system::register(),
    }
}

#[cfg(not(feature = "std"))]
fn find() -> u8 {
    NO_SUCH_CALL
}

#[cfg(feature = "std")]
const VARIABLE: &str = "PERCOLOG_BARRIER";

/// What the environment asks for.
#[cfg(feature = "std")]
fn chosen() -> Result<Option<BarrierMode>, super::InvalidVariable> {
    let Some(value) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    match value.to_str() {
        Some("fence") => Ok(Some(BarrierMode::Fence)),
        Some("membarrier") => Ok(Some(BarrierMode::Membarrier)),
        _ => Err(super::InvalidVariable {
            name: VARIABLE,
            value: value.to_string_lossy().into_owned(),
            expected: "fence or membarrier",
        }),
    }
}

/// Whether the environment asks for what is not one of the modes, or cannot be had here.
#[cfg(feature = "std")]
pub(super) fn check_variable() -> Result<(), super::InvalidVariable> {
    if chosen()? == Some(BarrierMode::Membarrier) && mode() == BarrierMode::Fence {
        return Err(super::InvalidVariable {
            name: VARIABLE,
            value: BarrierMode::Membarrier.to_string(),
            expected: "fence, where the kernel offers no expedited private membarrier",
        });
    }
    Ok(())
}

/// The frequent side's barrier, between its store and its load. See the [module](self) for what it
/// guarantees together with `heavy`.
///
/// *Progress:* wait-free. *Cost:* nothing, or a fence.
#[cfg(feature = "alloc")]
#[inline(always)]
pub(crate) fn light(mode: BarrierMode) {
    #[cfg(not(percolog_loom))]
    if mode == BarrierMode::Membarrier {
        // The kernel's barrier, in the rare side's `heavy`, is this one's partner.
        atomic::compiler_fence(Ordering::SeqCst);
        return;
    }
    // A model in which nobody executes `heavy` meanwhile can leave the fence out, as the machine does: a fence hides what
    // is missing elsewhere.
    #[cfg(percolog_loom)]
    if mode == BarrierMode::Membarrier {
        return;
    }
    let _ = mode;
    // Its partner is the fence in `heavy`: sequentially consistent fences have one order.
    atomic::fence(Ordering::SeqCst);
}

/// The rare side's barrier, between its store and its load. See the [module](self) for what it
/// guarantees together with `light`.
///
/// `false`: the kernel refused, and **no barrier happened**. Nothing may be concluded from loads that
/// follow.
///
/// *Progress:* wait-free, apart from the system call. *Cost:* a fence, or a system call that
/// interrupts all processors on which threads of this process run.
#[cfg(feature = "alloc")]
#[must_use]
pub(crate) fn heavy(mode: BarrierMode) -> bool {
    #[cfg(all(feature = "std", not(percolog_loom)))]
    if mode == BarrierMode::Membarrier {
        // The call is a full barrier on this thread as well, as far as the processor goes; the fences
        // say the same to the compiler.
        atomic::compiler_fence(Ordering::SeqCst);
        let done = system::everywhere();
        atomic::compiler_fence(Ordering::SeqCst);
        return done;
    }
    let _ = mode;
    // Its partners are the fences in `light`, and in other threads' `heavy`.
    atomic::fence(Ordering::SeqCst);
    true
}

/// As [`heavy`], before a `fork`, which cannot be refused. Where the kernel refuses the barrier that it had offered, time takes its
/// place: a store leaves its processor within microseconds, and a thread that loses its processor passes a barrier. No manual promises
/// how long the former takes, so nothing else may rest on this than what a child finds half done.
///
/// *Progress:* as `heavy`; ten milliseconds where that is refused.
#[cfg(all(feature = "alloc", not(percolog_loom)))]
pub(crate) fn heavy_before_a_fork(mode: BarrierMode) {
    let _passed = heavy(mode);
    #[cfg(feature = "std")]
    if !_passed {
        std::thread::sleep(core::time::Duration::from_millis(10));
    }
}

#[cfg(all(
    feature = "std",
    any(target_os = "linux", target_os = "android"),
    not(any(percolog_loom, percolog_portable, miri))
))]
mod system {
    //! `membarrier(2)`.

    use super::decided::{NOT_OFFERED, OFFERED, REFUSED};

    // The kernel's numbers (`linux/membarrier.h`), which are part of its interface.
    const QUERY: libc::c_int = 0;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> libc::c_long {
        const FLAGS: libc::c_uint = 0;
        const CPU: libc::c_int = 0;
        // SAFETY: the call takes three integers and touches no memory of ours. A kernel that does not
        // know it, or the command, says so.
        unsafe { libc::syscall(libc::SYS_membarrier, command, FLAGS, CPU) }
    }

    /// Registers the process, which is no harm done twice.
    pub(super) fn register() -> u8 {
        // Negative where the kernel does not know the call: then all bits are set, so it is asked first.
        let offered = membarrier(QUERY);
        if offered < 0 || offered & libc::c_long::from(PRIVATE_EXPEDITED) == 0 {
            NOT_OFFERED
        } else if membarrier(REGISTER_PRIVATE_EXPEDITED) == 0 {
            OFFERED
        } else {
            REFUSED
        }
    }

    /// Makes every running thread of this process execute a full barrier; whether it was done.
    pub(super) fn everywhere() -> bool {
        if membarrier(PRIVATE_EXPEDITED) == 0 {
            return true;
        }
        // A process that is not registered: a child, on a kernel where it does not inherit that.
        std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
            && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0
            && membarrier(PRIVATE_EXPEDITED) == 0
    }
}

#[cfg(all(
    feature = "std",
    not(all(
        any(target_os = "linux", target_os = "android"),
        not(any(percolog_loom, percolog_portable, miri))
    ))
))]
mod system {
    //! No such system call; or none that the checker below could see.

    pub(super) fn register() -> u8 {
        super::decided::NO_SUCH_CALL
    }

    #[cfg(not(percolog_loom))]
    pub(super) fn everywhere() -> bool {
        false
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicUsize;

    #[test]
    fn the_decision_stays_and_has_a_reason() {
        let first = mode();
        assert_eq!(mode(), first);
        assert_ne!(why(), REASONS[0]);
        assert_eq!(
            first == BarrierMode::Membarrier,
            [OFFERED, CHOSEN]
                .map(|it| REASONS[it as usize])
                .contains(&why())
        );
    }

    #[test]
    fn a_barrier_of_the_mode_happens() {
        light(mode());
        assert!(heavy(mode()));
        light(BarrierMode::Fence);
        assert!(heavy(BarrierMode::Fence));
    }

    /// Store, barrier, load on both sides, over and over; how often neither saw the other. (With no
    /// barrier at all: in a tenth of the rounds, on two processors of the x86 family.)
    fn rounds_missed(barriers: [&(dyn Fn() + Sync); 2]) -> usize {
        // One processor reorders nothing that its own threads could see.
        let rounds = match std::thread::available_parallelism() {
            Ok(processors) if processors.get() > 1 => crate::sync::rounds(5_000),
            _ => crate::sync::rounds(100),
        };
        let words = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let seen = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let arrived = AtomicUsize::new(0);
        // Spins for long, so that both sides go on at nearly the same time also on a busy machine. The
        // words are read after the second meeting of a round, and the next round writes them after one
        // more.
        let meet = |meeting: usize| {
            arrived.fetch_add(1, Ordering::AcqRel);
            let mut spins = 0u32;
            while arrived.load(Ordering::Acquire) < 2 * meeting {
                spins += 1;
                if spins.is_multiple_of(1 << 14) {
                    std::thread::yield_now();
                }
                core::hint::spin_loop();
            }
        };
        let side = |me: usize| {
            let mut missed = 0;
            for round in 1..=rounds {
                meet(3 * round - 2);
                words[me].store(round, Ordering::Relaxed);
                barriers[me]();
                let other = words[1 - me].load(Ordering::Relaxed);
                seen[me].store(other, Ordering::Relaxed);
                meet(3 * round - 1);
                // Relaxed: the meetings order everything around them.
                missed += usize::from(seen.iter().all(|it| it.load(Ordering::Relaxed) < round));
                meet(3 * round);
            }
            missed
        };
        std::thread::scope(|scope| {
            scope.spawn(|| side(0));
            side(1)
        })
    }

    fn one_side_always_sees(mode: BarrierMode) {
        let heavy = || assert!(heavy(mode));
        assert_eq!(rounds_missed([&|| light(mode), &heavy]), 0);
        assert_eq!(rounds_missed([&heavy, &heavy]), 0);
    }

    #[test]
    fn fences_let_no_two_sides_miss_each_other() {
        one_side_always_sees(BarrierMode::Fence);
    }

    #[test]
    fn the_mode_found_lets_no_two_sides_miss_each_other() {
        one_side_always_sees(mode());
    }
}

#[cfg(all(test, percolog_loom))]
mod models {
    use super::*;
    use crate::sync::atomic::AtomicUsize;
    use loom::thread;
    use std::sync::Arc;

    /// Whether a side with the barrier `mine` sees what was stored on the other before `others`, or the
    /// other way round, in every interleaving.
    fn one_side_always_sees(mine: fn(), others: fn()) {
        loom::model(move || {
            let words = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let other = {
                let words = words.clone();
                thread::spawn(move || {
                    words[1].store(1, Ordering::Relaxed);
                    others();
                    words[0].load(Ordering::Relaxed)
                })
            };
            words[0].store(1, Ordering::Relaxed);
            mine();
            let seen = words[1].load(Ordering::Relaxed);
            let seen_there = other.join().expect("no panic");
            assert!(seen + seen_there > 0, "neither side saw the other");
        });
    }

    #[test]
    fn a_light_and_a_heavy_side_cannot_miss_each_other() {
        one_side_always_sees(|| light(mode()), || assert!(heavy(mode())));
    }

    #[test]
    fn two_heavy_sides_cannot_miss_each_other() {
        one_side_always_sees(|| assert!(heavy(mode())), || assert!(heavy(mode())));
    }
}
