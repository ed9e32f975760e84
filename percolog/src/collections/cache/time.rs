//! What tells a cache when its items have expired.

use alloc::sync::Arc;

/// A source of time for expiry, in milliseconds since any fixed moment.
///
/// It is asked by every lookup that finds an item with a lifetime, so it should be cheap, and about right. It must not go
/// back: what has expired could be found again.
///
/// ```
/// use percolog::collections::cache::TimeSource;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// Moves when a test says so.
/// #[derive(Default)]
/// struct ByHand(AtomicU64);
///
/// impl TimeSource for ByHand {
///     fn now(&self) -> u64 {
///         self.0.load(Ordering::Relaxed)
///     }
/// }
/// # assert_eq!(ByHand::default().now(), 0);
/// ```
pub trait TimeSource: Send + Sync {
    /// Milliseconds since whenever.
    fn now(&self) -> u64;
}

impl<T: TimeSource + ?Sized> TimeSource for &T {
    fn now(&self) -> u64 {
        (**self).now()
    }
}

impl<T: TimeSource + ?Sized> TimeSource for Arc<T> {
    fn now(&self) -> u64 {
        (**self).now()
    }
}

/// A time source that reads the operating system's coarse clock. On Linux it advances every few milliseconds, and a read
/// takes some nanoseconds.
#[cfg(feature = "std")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Uptime(());

#[cfg(feature = "std")]
impl TimeSource for Uptime {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn now(&self) -> u64 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes to a timespec of ours. The clock has been there since Linux 2.6.32; without it time stands still.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
        // Neither is ever negative, whatever their types.
        now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn now(&self) -> u64 {
        static BEGINNING: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        let since = BEGINNING.get_or_init(std::time::Instant::now).elapsed();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A time source that never advances: nothing expires.
///
/// For programs without an operating system that need no lifetimes.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrozenTime;

impl TimeSource for FrozenTime {
    fn now(&self) -> u64 {
        0
    }
}

/// The default time source of a cache.
#[cfg(feature = "std")]
pub type DefaultTime = Uptime;

/// What a cache tells the time by if it is not told.
#[cfg(not(feature = "std"))]
pub type DefaultTime = FrozenTime;
