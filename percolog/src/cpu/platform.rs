//! The program as the platform: slots, time and pre-emption of a kernel, at link time.

#[cfg(not(feature = "std"))]
use super::{CoreId, SlotSource};

/// The machine as percolog sees it where there is no operating system.
///
/// With the `std` feature the operating system is asked instead, and an implementation has no effect.
///
/// Implement it once in the final program and name the type to [`platform!`](crate::platform); the
/// functions are found at link time, so libraries in between need not know about it.
///
/// # Safety
/// Memory safety rests on three things:
///
/// * **[`stamp`](Self::stamp) does what it says.** A [`Domain`](crate::reclaim::Domain) with
///   [`DomainOptions::tsc`](crate::reclaim::DomainOptions::tsc) destroys objects by stamps: after one that is too small, it frees
///   what a section still reads. (Domains with the coarse clock take no stamps. Logs and queues order operations by stamps, and
///   after a wrong one execute them in a wrong order, each of them once.)
/// * **No method unwinds.** The library calls them in the middle of its operations.
/// * **No method uses this library**, for the same reason; but `stamp` may read the processor's counter with it.
///
/// It rests on nothing else that the methods answer. A number of a slot that two processors share at the same time, or a
/// [`without_preemption`](Self::without_preemption) that does not prevent what it should, loses counts of
/// [counters](crate::counter), and lets a context that interrupts another wait for it for ever. A wrong
/// [`chip`](Self::chip) or [`count`](Self::count) costs speed.
pub unsafe trait Platform {
    /// The slot of the calling context, usually the processor's number. Small numbers are best; see
    /// [`CoreId::PLACES`](super::CoreId::PLACES).
    fn slot() -> u32;

    /// A stamp that increases strictly along causality: greater than every stamp whose taking the
    /// caller can know of, on any processor. Not taken before the caller's earlier loads completed. Less than 2<sup>62</sup>.
    ///
    /// The function [`clock::tsc`](super::clock::tsc) is a good answer where the processors' time
    /// stamp counters are known to be synchronized.
    fn stamp() -> u64;

    /// One pause of a spinning processor; may yield to a scheduler.
    fn relax() {
        core::hint::spin_loop();
    }

    /// Runs `f`, once, while nothing else can run on this slot: no pre-emption, no migration, no interrupt
    /// that updates percolog's structures. Counters then write with plain stores.
    fn without_preemption(f: &mut dyn FnMut());

    /// The chip (NUMA node) of the caller; a hint.
    fn chip() -> u32 {
        0
    }

    /// How many slots are expected to be used; a hint.
    fn count() -> usize {
        1
    }
}

/// Names the program's [`Platform`](crate::cpu::Platform), once, in the final program.
///
/// Without the `std` feature a program that does not do so fails to link, naming
/// `_percolog_0_slot`; one that does so twice fails to link as well.
///
/// The repository's `examples/toy-kernel` is a whole program that does this.
#[macro_export]
macro_rules! platform {
    ($platform:ty) => {
        const _: () = {
            #[unsafe(no_mangle)]
            extern "Rust" fn _percolog_0_slot() -> u32 {
                <$platform as $crate::cpu::Platform>::slot()
            }
            #[unsafe(no_mangle)]
            extern "Rust" fn _percolog_0_stamp() -> u64 {
                <$platform as $crate::cpu::Platform>::stamp()
            }
            #[unsafe(no_mangle)]
            extern "Rust" fn _percolog_0_relax() {
                <$platform as $crate::cpu::Platform>::relax()
            }
            #[unsafe(no_mangle)]
            extern "Rust" fn _percolog_0_without_preemption(f: &mut dyn FnMut()) {
                <$platform as $crate::cpu::Platform>::without_preemption(f)
            }
            #[unsafe(no_mangle)]
            extern "Rust" fn _percolog_0_chip() -> u32 {
                <$platform as $crate::cpu::Platform>::chip()
            }
            #[unsafe(no_mangle)]
            extern "Rust" fn _percolog_0_count() -> usize {
                <$platform as $crate::cpu::Platform>::count()
            }
        };
    };
}

#[cfg(all(feature = "alloc", not(feature = "std")))]
pub(crate) use at_link_time::without_preemption;
#[cfg(not(feature = "std"))]
pub(crate) use at_link_time::{chip, stamp};
#[cfg(not(feature = "std"))]
pub use at_link_time::{count, current, slot_source};

#[cfg(not(feature = "std"))]
mod at_link_time {
    //! What `platform!` defines.

    use super::{CoreId, SlotSource};

    // SAFETY: the only definitions are those of `platform!`, whose signatures these are.
    unsafe extern "Rust" {
        safe fn _percolog_0_slot() -> u32;
        safe fn _percolog_0_stamp() -> u64;
        #[cfg(feature = "alloc")]
        safe fn _percolog_0_without_preemption(f: &mut dyn FnMut());
        safe fn _percolog_0_chip() -> u32;
        safe fn _percolog_0_count() -> usize;
    }

    /// The slot of the caller, as the program's platform says.
    #[inline]
    #[must_use]
    pub fn current() -> CoreId {
        CoreId::new(_percolog_0_slot())
    }

    /// How many slots the program's platform expects to be used. A measure for sizing, not a bound.
    #[must_use]
    pub fn count() -> usize {
        _percolog_0_count().max(1)
    }

    /// Where slot numbers come from: the platform.
    #[must_use]
    pub fn slot_source() -> SlotSource {
        SlotSource::Platform
    }

    #[inline]
    pub(crate) fn stamp() -> u64 {
        _percolog_0_stamp()
    }

    #[inline]
    pub(crate) fn chip() -> usize {
        _percolog_0_chip() as usize
    }

    /// Runs `f` as the only user of its slot.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn without_preemption<R>(f: impl FnOnce() -> R) -> R {
        let mut f = Some(f);
        let mut result = None;
        _percolog_0_without_preemption(&mut || {
            if let Some(f) = f.take() {
                result = Some(f());
            }
        });
        result.expect("the platform's without_preemption runs what it is given")
    }
}
