//! The slot of a thread of the operating system.

use super::{CoreId, SlotSource};
use crate::sync::Isolated;
use crate::sync::global::{AtomicU8, AtomicUsize, Ordering};
use core::cell::Cell;

/// No slot of the thread's own: ask the kernel's area.
const FOLLOW: u32 = u32::MAX;
/// The chip has not been asked for.
const UNKNOWN_CHIP: u32 = u32::MAX;

std::thread_local! {
    /// The slot this thread is bound to, or has leased; `FOLLOW` when neither. A thread that is
    /// exiting keeps it when it has given its lease back: a slot may be shared.
    static SLOT: Cell<u32> = const { Cell::new(FOLLOW) };
    /// The chip a thread was on when it was first asked for, where the kernel's area does not say.
    static CHIP: Cell<u32> = const { Cell::new(UNKNOWN_CHIP) };
}

/// Where the kernel's number lies, as an offset from the thread pointer.
/// `UNKNOWN_OFFSET` until the first call, `NO_AREA` when there is none.
///
/// On lines of its own, as what lies beside it may be written: every update reads it.
static OFFSET: Isolated<AtomicUsize> = Isolated::new(AtomicUsize::new(UNKNOWN_OFFSET));
static SOURCE: AtomicU8 = AtomicU8::new(THREAD);
/// The node's number lies this far from the slot's; 0 when the kernel keeps none there.
static NODE_DISTANCE: Isolated<AtomicUsize> = Isolated::new(AtomicUsize::new(0));

const UNKNOWN_OFFSET: usize = usize::MAX;
const NO_AREA: usize = usize::MAX - 1;

const THREAD: u8 = 0;
const CPU_ID: u8 = 1;
const CONCURRENCY_ID: u8 = 2;

/// The slot of the calling thread.
///
/// A thread that is not [bound](bind) can be moved to another slot at any time, also between this
/// call and the use of its answer.
///
/// *Progress:* wait-free. *Cost:* two loads of the thread's own memory, one of a line that nobody
/// writes; no transfer. The first call of a process looks up where to read, and the first call of a
/// thread may lease a slot.
#[inline]
#[must_use]
pub fn current() -> CoreId {
    let own = SLOT.get();
    if own != FOLLOW {
        return CoreId::new(own);
    }
    // Relaxed: the value says where to read in the thread's own area; nothing is published with it.
    let offset = OFFSET.load(Ordering::Relaxed);
    if offset < NO_AREA {
        let number = area::read(offset);
        if (number as usize) < CoreId::PLACES {
            return CoreId::new(number);
        }
    }
    ask()
}

/// Binds the calling thread to a slot, until [`unbind`] or another `bind`.
///
/// For programs that give each of their workers a slot (a thread-per-core runtime), and for tests.
/// It says nothing about the processor the thread runs on: see [`set_affinity`](super::set_affinity).
/// Two threads bound to one slot are correct, and contend. Any number is accepted; see
/// [`CoreId::PLACES`].
///
/// *Progress:* wait-free.
pub fn bind(slot: CoreId) {
    // `FOLLOW` itself as a number shares its place with a smaller one.
    let number = if slot.0 == FOLLOW {
        (slot.index() % CoreId::PLACES) as u32
    } else {
        slot.0
    };
    SLOT.set(number);
}

/// Undoes [`bind`]: the thread's slot is again what the system says.
pub fn unbind() {
    SLOT.set(FOLLOW);
}

/// Where the slot numbers of this process come from.
#[must_use]
pub fn slot_source() -> SlotSource {
    if OFFSET.load(Ordering::Relaxed) == UNKNOWN_OFFSET {
        find_area();
    }
    match SOURCE.load(Ordering::Relaxed) {
        CONCURRENCY_ID => SlotSource::ConcurrencyId,
        CPU_ID => SlotSource::CpuId,
        _ => SlotSource::Thread,
    }
}

/// The chip (NUMA node) the caller runs on, or ran on lately; 0 where the system does not say.
#[inline]
pub(crate) fn chip() -> usize {
    let offset = OFFSET.load(Ordering::Relaxed);
    let distance = NODE_DISTANCE.load(Ordering::Relaxed);
    if offset < NO_AREA && distance != 0 {
        area::read(offset.wrapping_sub(distance)) as usize
    } else {
        if CHIP.get() == UNKNOWN_CHIP {
            CHIP.set(super::topology::chip_of_this_thread());
        }
        CHIP.get() as usize
    }
}

/// Runs `f` as the only writer of what belongs to its slot, where the platform can promise that.
/// Threads of an operating system cannot; they lease.
#[inline(always)]
pub(crate) fn without_preemption<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// The number this thread has leased, or leases now, to be its slot.
#[cfg(not(percolog_loom))]
fn leased() -> Option<u32> {
    super::lease::mine().map(|number| number as u32)
}

/// Models inject their slots; there is no pool for the whole process.
#[cfg(percolog_loom)]
fn leased() -> Option<u32> {
    None
}

#[cold]
fn ask() -> CoreId {
    if OFFSET.load(Ordering::Relaxed) == UNKNOWN_OFFSET {
        find_area();
        return current();
    }
    // No area, or this thread's is not registered.
    if let Some(number) = leased() {
        SLOT.set(number);
        return CoreId::new(number);
    }
    // More threads than leases, or a thread in its last moments: spread over the slots behind the
    // leased ones, by an address that differs between threads.
    let address = SLOT.with(|slot| core::ptr::from_ref(slot) as usize);
    let spread = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    CoreId::new(super::lease::LEASES as u32 + spread as u32)
}

#[cold]
fn find_area() {
    let (offset, source, distance) = area::find().unwrap_or((NO_AREA, THREAD, 0));
    SOURCE.store(source, Ordering::Relaxed);
    NODE_DISTANCE.store(distance, Ordering::Relaxed);
    OFFSET.store(offset, Ordering::Relaxed);
}

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(percolog_portable, miri))
))]
mod area {
    //! The rseq area that the C library registers for each thread.

    use super::{CONCURRENCY_ID, CPU_ID};

    /// Offsets in the kernel's `struct rseq`.
    const CPU_ID_AT: usize = 4;
    const NODE_ID_AT: usize = 20;
    const CONCURRENCY_ID_AT: usize = 24;

    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

    /// Offset from the thread pointer, kind, and distance back to the node's number.
    pub(super) fn find() -> Option<(usize, u8, usize)> {
        if std::env::var_os("PERCOLOG_SLOTS").is_some_and(|chosen| chosen == "thread") {
            return None;
        }
        // SAFETY: both names are looked up with valid C strings; where they exist, the C library
        // documents their types (`ptrdiff_t` and `unsigned int`), and they never change after start.
        let (offset, size) = unsafe {
            let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
            let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
            if offset.is_null() || size.is_null() {
                return None;
            }
            (*offset.cast::<isize>(), *size.cast::<u32>())
        };
        // Zero: the kernel has no rseq, or its registration was turned off.
        if size == 0 {
            return None;
        }
        // SAFETY: no preconditions; 0 is returned for what the kernel does not tell.
        let features = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } as usize;
        let base = offset as usize;
        // The kernel accepts no area of less than 32 bytes, which holds all fields used here, and
        // writes those it knows. (The C library's size says which fields *it* knew when it was built:
        // Debian 12's says 20, and its threads have an `mm_cid` nevertheless.)
        let has = |at: usize| features >= at + 4;
        let node = |at: usize| {
            if has(NODE_ID_AT) {
                at.wrapping_sub(NODE_ID_AT)
            } else {
                0
            }
        };
        Some(if has(CONCURRENCY_ID_AT) {
            let at = CONCURRENCY_ID_AT;
            (base.wrapping_add(at), CONCURRENCY_ID, node(at))
        } else {
            // A smaller area still has the processor's number. Its node lies behind it.
            let at = CPU_ID_AT;
            (base.wrapping_add(at), CPU_ID, node(at))
        })
    }

    /// Reads the 32-bit number at this offset from the thread pointer.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn read(offset: usize) -> u32 {
        let number: u32;
        // SAFETY: `find` got the offset of a live, aligned field of every thread's static TLS area.
        // The kernel writes it, so it is read by one instruction that the compiler cannot split or
        // keep (not `pure`).
        unsafe {
            core::arch::asm!(
                "mov {number:e}, dword ptr fs:[{offset}]",
                number = lateout(reg) number,
                offset = in(reg) offset,
                options(nostack, preserves_flags, readonly),
            );
        }
        number
    }

    /// Reads the 32-bit number at this offset from the thread pointer.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(super) fn read(offset: usize) -> u32 {
        let number: u32;
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "mrs {base}, tpidr_el0",
                "ldr {number:w}, [{base}, {offset}]",
                base = out(reg) _,
                number = lateout(reg) number,
                offset = in(reg) offset,
                options(nostack, preserves_flags, readonly),
            );
        }
        number
    }
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(percolog_portable, miri))
)))]
mod area {
    //! No kernel area to read.

    pub(super) fn find() -> Option<(usize, u8, usize)> {
        None
    }

    pub(super) fn read(_offset: usize) -> u32 {
        u32::MAX
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn binding_wins_and_unbinding_restores() {
        std::thread::spawn(|| {
            bind(CoreId::new(4321));
            assert_eq!(current(), CoreId::new(4321));
            bind(CoreId::new(u32::MAX));
            assert_eq!(current().place(), CoreId::new(u32::MAX).place());
            unbind();
            assert!(current().index() < CoreId::PLACES);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn concurrent_threads_spread_over_slots_where_the_source_promises_it() {
        if slot_source() != SlotSource::Thread {
            return;
        }
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(4));
        let threads: std::vec::Vec<_> = (0..4)
            .map(|_| {
                let barrier = barrier.clone();
                std::thread::spawn(move || {
                    let slot = current();
                    barrier.wait();
                    assert_eq!(slot, current());
                    slot
                })
            })
            .collect();
        let mut slots: std::vec::Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        slots.sort();
        slots.dedup();
        assert_eq!(slots.len(), 4);
    }

    #[test]
    fn a_compact_source_stays_compact() {
        if slot_source() != SlotSource::ConcurrencyId {
            return;
        }
        // The kernel's promise: an id is below the number of threads, and of processors.
        let cpus = super::super::allowed_cpus().map_or(CoreId::PLACES, |cpus| cpus.len());
        for _ in 0..crate::sync::rounds(1000) {
            assert!(current().index() < cpus.max(1));
        }
    }
}
