//! The time for which a thread has had a processor, which is less than the time that passed if others had it meanwhile.

use std::time::Duration;

/// The processor time of the calling thread; `None` where the system does not say.
#[cfg(unix)]
pub(super) fn of_this_thread() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a `timespec` of this function's, which the call fills and does not keep.
    let refused = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if refused != 0 {
        return None;
    }
    Some(Duration::new(
        u64::try_from(time.tv_sec).ok()?,
        u32::try_from(time.tv_nsec).ok()?,
    ))
}

/// Not known here.
#[cfg(not(unix))]
pub(super) fn of_this_thread() -> Option<Duration> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_work() {
        let before = of_this_thread().expect("it is known");
        while of_this_thread().expect("it is known") == before {
            std::hint::spin_loop();
        }
    }
}
