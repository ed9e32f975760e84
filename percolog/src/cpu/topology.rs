//! How many slots there are, and which processors a thread may run on.

use crate::sync::global::{AtomicUsize, Ordering};
use core::fmt;
use std::string::{String, ToString};
use std::vec::Vec;

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many slots this process is expected to use: the processors it may run on, limited by its
/// cgroup's quota; `PERCOLOG_CORES` in the environment overrides it.
///
/// A measure for sizing, not a bound: affinity can be widened and slots above the count work as well.
/// The first answer is kept.
///
/// *Progress:* wait-free after the first call, which reads files.
#[must_use]
pub fn count() -> usize {
    // Relaxed: a fact computed the same way by whoever comes first.
    let known = COUNT.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let counted = chosen_count().ok().flatten().unwrap_or_else(|| {
        // Affinity and cgroup quota (both versions) are respected there.
        std::thread::available_parallelism().map_or(1, core::num::NonZero::get)
    });
    COUNT.store(counted, Ordering::Relaxed);
    counted
}

/// An environment variable with a value that percolog cannot use: it is treated as unset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidVariable {
    /// The variable's name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub expected: &'static str,
}

impl fmt::Display for InvalidVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {:?} and has no effect; expected {}",
            self.name, self.value, self.expected
        )
    }
}

impl core::error::Error for InvalidVariable {}

fn chosen_count() -> Result<Option<usize>, InvalidVariable> {
    let Some(value) = std::env::var_os("PERCOLOG_CORES") else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    match value.trim().parse() {
        Ok(count) if (1..=super::CoreId::PLACES).contains(&count) => Ok(Some(count)),
        _ => Err(InvalidVariable {
            name: "PERCOLOG_CORES",
            value: value.to_string(),
            expected: "a number from 1 to 8192",
        }),
    }
}

fn chosen_source() -> Result<(), InvalidVariable> {
    match std::env::var_os("PERCOLOG_SLOTS") {
        None => Ok(()),
        Some(value) if value == "thread" => Ok(()),
        Some(value) => Err(InvalidVariable {
            name: "PERCOLOG_SLOTS",
            value: value.to_string_lossy().to_string(),
            expected: "thread",
        }),
    }
}

/// The environment variables that are set and have no effect because their value cannot be used.
#[must_use]
pub fn invalid_variables() -> Vec<InvalidVariable> {
    [
        chosen_count().err(),
        chosen_source().err(),
        super::barrier::check_variable().err(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// An error of the system when a thread's affinity is read or changed.
#[derive(Debug)]
pub struct AffinityError {
    cause: std::io::Error,
}

impl fmt::Display for AffinityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the thread's affinity was not changed: {}", self.cause)
    }
}

impl core::error::Error for AffinityError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.cause)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use super::AffinityError;
    use std::vec::Vec;

    /// 8192 processors: the largest mask a Linux kernel can be built for.
    const MASK_BYTES: usize = 1024;

    fn failed() -> AffinityError {
        AffinityError {
            cause: std::io::Error::last_os_error(),
        }
    }

    pub(super) fn allowed() -> Result<Vec<usize>, AffinityError> {
        let mut mask = [0u64; MASK_BYTES / 8];
        // SAFETY: the kernel writes at most `MASK_BYTES` bytes to the live array; 0 means this thread.
        let got = unsafe {
            libc::sched_getaffinity(0, MASK_BYTES, mask.as_mut_ptr().cast::<libc::cpu_set_t>())
        };
        if got != 0 {
            return Err(failed());
        }
        Ok((0..MASK_BYTES * 8)
            .filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1)
            .collect())
    }

    pub(super) fn pin(cpu: usize) -> Result<(), AffinityError> {
        let mut mask = [0u64; MASK_BYTES / 8];
        let Some(word) = mask.get_mut(cpu / 64) else {
            return Err(AffinityError {
                cause: std::io::Error::from(std::io::ErrorKind::InvalidInput),
            });
        };
        *word |= 1 << (cpu % 64);
        // SAFETY: the kernel reads at most `MASK_BYTES` bytes of the live array; 0 means this thread.
        let set = unsafe {
            libc::sched_setaffinity(0, MASK_BYTES, mask.as_ptr().cast::<libc::cpu_set_t>())
        };
        if set == 0 { Ok(()) } else { Err(failed()) }
    }

    /// The chip (NUMA node) the calling thread runs on.
    #[cfg(not(any(percolog_portable, miri)))]
    pub(super) fn chip() -> u32 {
        let (mut cpu, mut node) = (0u32, 0u32);
        // SAFETY: both pointers are to live integers; the third argument is unused by the kernel.
        let got = unsafe {
            libc::syscall(
                libc::SYS_getcpu,
                &raw mut cpu,
                &raw mut node,
                core::ptr::null_mut::<libc::c_void>(),
            )
        };
        if got == 0 { node } else { 0 }
    }

    /// One for all.
    #[cfg(any(percolog_portable, miri))]
    pub(super) fn chip() -> u32 {
        0
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use super::AffinityError;
    use std::vec::Vec;

    fn unsupported() -> AffinityError {
        AffinityError {
            cause: std::io::Error::from(std::io::ErrorKind::Unsupported),
        }
    }

    pub(super) fn allowed() -> Result<Vec<usize>, AffinityError> {
        Err(unsupported())
    }

    pub(super) fn pin(_cpu: usize) -> Result<(), AffinityError> {
        Err(unsupported())
    }

    pub(super) fn chip() -> u32 {
        0
    }
}

/// The processors the calling thread may run on, by the operating system's numbers.
///
/// # Errors
/// Where the system has no such thing, or refuses to say.
pub fn allowed_cpus() -> Result<Vec<usize>, AffinityError> {
    system::allowed()
}

/// Pins the calling thread to one processor, by the operating system's number.
///
/// This is about where the thread *runs*; [`bind`](super::bind) is about where it *writes*.
///
/// # Errors
/// Where the processor does not exist, the process may not use it, or the system has no affinity.
/// Nothing has changed then.
pub fn set_affinity(cpu: usize) -> Result<(), AffinityError> {
    system::pin(cpu)
}

pub(crate) fn chip_of_this_thread() -> u32 {
    system::chip()
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_at_least_one_and_stays() {
        assert!(count() >= 1);
        assert_eq!(count(), count());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn pins_where_it_may_and_says_where_it_may_not() {
        std::thread::spawn(|| {
            let allowed = allowed_cpus().expect("Linux says");
            set_affinity(allowed[0]).expect("the process may run there");
            assert_eq!(allowed_cpus().expect("Linux says"), [allowed[0]]);
            assert!(set_affinity(usize::MAX).is_err());
            assert_eq!(allowed_cpus().expect("Linux says"), [allowed[0]]);
        })
        .join()
        .expect("no panic");
    }
}
