//! Giving the processor away: brief spinning, then parking.

#[cfg(feature = "alloc")]
use super::atomic::AtomicU32;
#[cfg(percolog_loom)]
use super::atomic::Ordering;
#[cfg(feature = "alloc")]
use super::const_fn;

/// One waiter's patience: a few pauses, then rounds of yields with a sleep behind each, the later the longer.
///
/// Used where the owner is known to hold the lock for a handful of instructions. It needs no wake
/// from the owner, so the owner's release stays a plain store; the price is that a waiter that has
/// gone to sleep may find the lock up to two milliseconds late.
///
/// Many can wait for one lock, and each time it is free one of them has it. So they look seldom, lest the line be busy with that; they
/// yield long enough for dozens to have had their turn, again after each sleep; and they do not sleep in step. Otherwise all would wake
/// together, let one of them have the lock, and sleep the longest time again, however short it is held.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    step: u32,
}

const PAUSES: u32 = 6;
/// In a round, with twice as many pauses behind each as in the last of the steps before. Where nobody else wants the
/// processor that is a quarter of a millisecond on a Zen 5, where the shortest sleep takes 0.17 with what the kernel adds.
#[cfg(all(feature = "std", not(percolog_loom)))]
const YIELDS: u32 = 100;

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { step: 0 }
    }

    /// Waits a little, longer each time.
    pub(crate) fn wait(&mut self) {
        #[cfg(percolog_loom)]
        {
            self.step += 1;
            loom::thread::yield_now();
        }
        #[cfg(not(percolog_loom))]
        {
            if self.step < PAUSES {
                pause(self.step);
            } else {
                self.give_way();
            }
            self.step = self.step.saturating_add(1);
        }
    }

    #[cfg(all(feature = "std", not(percolog_loom)))]
    fn give_way(&self) {
        let beyond = self.step - PAUSES;
        let (round, at) = (beyond / (YIELDS + 1), beyond % (YIELDS + 1));
        if at < YIELDS {
            std::thread::yield_now();
            pause(PAUSES);
        } else {
            let micros = 50u64 << (round / 2).min(4);
            // Up to as much again, by where the thread's stack lies.
            let stack = core::ptr::from_ref(self).addr() as u64 >> 12;
            let more = (stack.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % micros;
            std::thread::sleep(core::time::Duration::from_micros(micros + more));
        }
    }

    #[cfg(all(not(feature = "std"), not(percolog_loom)))]
    fn give_way(&self) {
        // The platform's `relax` is where a kernel yields to the scheduler.
        relax();
    }

    /// Whether the brief spinning is over.
    #[cfg(feature = "alloc")]
    pub(crate) fn is_spent(&self) -> bool {
        // A model that spins first has many more interleavings, and no new ones that matter.
        cfg!(percolog_loom) || self.step >= PAUSES
    }

    /// Whether the processor has been given away a few times as well: if the other side shares it, it has had its turn.
    #[cfg(all(feature = "alloc", feature = "std"))]
    pub(crate) fn has_yielded(&self) -> bool {
        // As above.
        cfg!(percolog_loom) || self.step >= PAUSES + 4
    }
}

/// So many pauses, by their binary logarithm.
#[inline]
pub(super) fn pause(step: u32) {
    // A model would have no new interleavings by it.
    #[cfg(percolog_loom)]
    let _ = step;
    #[cfg(not(percolog_loom))]
    for _ in 0..1u32 << step {
        relax();
    }
}

/// Spins while it is so, for some ten microseconds.
///
/// Looks soon, and then seldom: each look takes the line from who uses it. Between two looks the thread that has a lock can take it
/// dozens of times without a transfer, and where that is so, waiting longer is faster for all.
#[cfg(feature = "alloc")]
pub(crate) fn spin_while(mut is_so: impl FnMut() -> bool) {
    // A model that spins first has many more interleavings, and no new ones that matter.
    #[cfg(percolog_loom)]
    let _ = &mut is_so;
    #[cfg(not(percolog_loom))]
    for steps in [5, 7, 9] {
        pause(steps);
        if !is_so() {
            return;
        }
    }
}

/// One pause of a spinning thread.
#[cfg(not(percolog_loom))]
#[inline]
fn relax() {
    #[cfg(feature = "std")]
    core::hint::spin_loop();
    #[cfg(not(feature = "std"))]
    _percolog_0_relax();
}

#[cfg(not(feature = "std"))]
// SAFETY: the only definition is that of `platform!`, whose signature this is.
unsafe extern "Rust" {
    safe fn _percolog_0_relax();
}

/// A word that threads can sleep on until it changes.
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub(crate) struct ParkingWord {
    word: AtomicU32,
    /// The model checker's kernel: who sleeps on this word.
    #[cfg(percolog_loom)]
    sleepers: std::sync::Mutex<std::vec::Vec<loom::thread::Thread>>,
}

#[cfg(feature = "alloc")]
impl core::ops::Deref for ParkingWord {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

#[cfg(feature = "alloc")]
impl ParkingWord {
    const_fn! {
        pub(crate) const fn new(value: u32) -> Self {
            Self {
                word: AtomicU32::new(value),
                #[cfg(percolog_loom)]
                sleepers: std::sync::Mutex::default(),
            }
        }
    }

    /// Sleeps until the word no longer holds `expected`, a wake, or the deadline. May return early.
    ///
    /// Returns `false` when the deadline has passed.
    #[cfg(all(feature = "std", not(percolog_loom)))]
    pub(crate) fn park(
        &self,
        expected: u32,
        deadline: Option<std::time::Instant>,
        backoff: &mut Backoff,
    ) -> bool {
        let left = match deadline {
            None => None,
            Some(deadline) => {
                let now = std::time::Instant::now();
                if now >= deadline {
                    return false;
                }
                Some(deadline - now)
            }
        };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let _ = backoff;
            let timeout = left.map(|left| libc::timespec {
                tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
                // Below 10^9, so it fits whatever the field's width.
                tv_nsec: left.subsec_nanos() as _,
            });
            let timeout = timeout
                .as_ref()
                .map_or(core::ptr::null(), core::ptr::from_ref);
            // SAFETY: the word outlives the call, `timeout` is null or points to a live timespec.
            // Every outcome (woken, value changed, interrupted, timed out) makes the caller look again.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    expected,
                    timeout,
                );
            }
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            let _ = (expected, left);
            backoff.wait();
        }
        true
    }

    /// Wakes everyone parked on the word.
    #[cfg(all(feature = "std", not(percolog_loom)))]
    pub(crate) fn unpark_all(&self) {
        self.unpark(i32::MAX);
    }

    /// Wakes one of those parked on the word.
    #[cfg(all(feature = "std", not(percolog_loom)))]
    pub(crate) fn unpark_one(&self) {
        self.unpark(1);
    }

    #[cfg(all(feature = "std", not(percolog_loom)))]
    fn unpark(&self, most: i32) {
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = most;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: the kernel only uses the address as a key; waking nobody is no error.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                most,
            );
        }
    }

    /// As the kernel does it: comparing and going to sleep are one step, since the model switches
    /// threads at nothing between the exchange, which reads the newest value, and `park`.
    #[cfg(percolog_loom)]
    pub(crate) fn park(
        &self,
        expected: u32,
        deadline: Option<std::time::Instant>,
        _backoff: &mut Backoff,
    ) -> bool {
        // Every run of a model must do the same, so its deadlines are over from the start.
        if deadline.is_some_and(|deadline| deadline <= std::time::Instant::now()) {
            return false;
        }
        if self.word.fetch_or(0, Ordering::Relaxed) == expected {
            self.sleepers().push(loom::thread::current());
            loom::thread::park();
        }
        true
    }

    #[cfg(percolog_loom)]
    pub(crate) fn unpark_all(&self) {
        for sleeper in self.sleepers().drain(..) {
            sleeper.unpark();
        }
    }

    /// The one that has slept longest, as Linux does where all have one priority.
    #[cfg(percolog_loom)]
    pub(crate) fn unpark_one(&self) {
        let mut sleepers = self.sleepers();
        if !sleepers.is_empty() {
            sleepers.remove(0).unpark();
        }
    }

    #[cfg(percolog_loom)]
    fn sleepers(&self) -> std::sync::MutexGuard<'_, std::vec::Vec<loom::thread::Thread>> {
        self.sleepers.lock().expect("nothing panics under it")
    }
}
