//! Counters of requests under way, which can block or refuse new ones.
//!
//! For objects that many threads use at once, and that are now and then resized or destroyed, for which nobody may be using them.
//! Who uses the object [enters](Requests::enter) first and leaves afterwards; who resizes it [blocks](Requests::block) and
//! [opens](Requests::open) again; who destroys it [refuses](Requests::refuse). A readers-writer lock does the first two; what a
//! counter does besides is that a pass may be left by another thread than the one that entered, and that requests can be told
//! that the object is gone.
//!
//! This is the request counter of the Region objects in J. Appavoo et al., *Experience Distributing Objects in an SMMP OS*, ACM
//! Transactions on Computer Systems 25 (3), 2007, §4.3: [`SharedRequestCounter`] is the first version there, one word for all;
//! [`RequestCounter`] is the distributed one, which has a count for each thread, and the state in one word that is only read.
//!
//! # Which to use
//!
//! | | [`RequestCounter`] | [`SharedRequestCounter`] |
//! |---|---|---|
//! | enter and leave | plain stores to the thread's own line | two atomic updates of one line |
//! | block, refuse | a heavy barrier, and a line of each thread | one line |
//! | memory | a few lines for each thread that came by | 16 bytes |

// Under the model checker only the models use what is here.
#![cfg_attr(percolog_loom, allow(dead_code))]

mod control;
#[cfg(not(percolog_loom))]
mod distributed;
#[cfg(all(test, percolog_loom))]
mod models;
mod places;
mod shared;

#[cfg(not(percolog_loom))]
pub use distributed::RequestCounter;
pub use shared::SharedRequestCounter;

use crate::sync::Backoff;
use control::{Control, Patience, Stop, Stopped};
use core::fmt;

/// The state of a request counter: which requests may enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestState {
    /// Everybody.
    Open,
    /// Nobody for now: who tries waits.
    Blocked,
    /// Nobody: who tries is told so.
    Refusing,
}

impl fmt::Display for RequestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Blocked => "blocked",
            Self::Refusing => "refusing",
        })
    }
}

/// The error of [`Requests::enter`]: the counter refuses requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnterError(());

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests are refused")
    }
}

impl core::error::Error for EnterError {}

/// The error of [`Requests::try_enter`]: the counter is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TryEnterError(RequestState);

impl TryEnterError {
    /// The state at that moment.
    #[must_use]
    pub fn state(self) -> RequestState {
        self.0
    }
}

impl fmt::Display for TryEnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the counter is {}", self.0)
    }
}

impl core::error::Error for TryEnterError {}

/// An error of blocking or refusing requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopError {
    /// Somebody else has stopped them: only an open counter can be blocked. Nothing was changed.
    NotOpen(RequestState),
    /// Somebody called [`open`](Requests::open) while this call waited for requests to leave.
    Reopened,
    /// So many requests were still inside when the caller would wait no longer, or were just being turned away. A call that blocks has opened the counter again;
    /// one that refuses has left it refusing, and can be made again.
    Inside(u64),
    /// The kernel refused the [barrier](crate::cpu::barrier) that it had offered, so nobody can know who is inside. The counter is
    /// in the state that it was in before.
    Barrier,
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpen(state) => write!(f, "the counter is {state} already"),
            Self::Reopened => f.write_str("the counter was opened again while requests were leaving"),
            Self::Inside(1) => f.write_str("a request is inside"),
            Self::Inside(count) => write!(f, "{count} requests are inside"),
            Self::Barrier => f.write_str("the kernel refused the membarrier that it had offered; start the program with PERCOLOG_BARRIER=fence, or let the filter of system calls allow membarrier"),
        }
    }
}

impl core::error::Error for StopError {}

/// The interface of request counters.
///
/// ```
/// use percolog::requests::{RequestCounter, Requests, RequestState};
/// use std::sync::Mutex;
///
/// /// A table that is looked up all the time, and replaced by a larger one now and then.
/// struct Region {
///     requests: RequestCounter,
///     size: Mutex<usize>,
/// }
///
/// let region = Region { requests: RequestCounter::new(), size: Mutex::new(1) };
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         for _ in 0..1000 {
///             let pass = region.requests.enter().expect("nobody destroys it");
///             // Nobody resizes the region here.
///             drop(pass);
///         }
///     });
///     // Nobody is inside while this runs.
///     region.requests.blocked(|| *region.size.lock().expect("no panic") = 2).expect("nobody else blocks it");
/// });
/// region.requests.refuse().expect("nobody opens it");
/// assert!(region.requests.enter().is_err());
/// assert_eq!(region.requests.state(), RequestState::Refusing);
/// ```
///
/// # Contract
///
/// * **When a call that blocks or refuses has returned `Ok`, nobody is inside**, and nobody gets in until somebody opens the
///   counter. What was done inside is seen by the caller, and what the caller does until it opens the counter is seen by everybody who
///   enters afterwards.
/// * **One at a time blocks**: only an open counter can be blocked. A blocked one can be made to refuse, and then who waits is refused. Who blocked it is
///   not inside, and is not waited for: what [`blocked`](Self::blocked) runs may still be running when a call that refuses returns.
/// * A pass counts until it is left, on whatever thread; one that is forgotten counts for ever.
/// * Who blocks while it has a pass itself waits for itself: leave first, or use [`try_block`](Self::try_block) or a deadline.
///
/// The trait is implemented by this library's two counters only.
pub trait Requests: sealed::Count {
    /// Enters, once the counter is not blocked.
    ///
    /// *Progress:* wait-free while the counter is open; waits while it is blocked. *Cost:* see the counter.
    ///
    /// # Errors
    /// The counter refuses.
    #[inline(always)]
    fn enter(&self) -> Result<RequestGuard<'_, Self>, EnterError> {
        match self.count_in() {
            Ok(()) => Ok(RequestGuard { counter: self }),
            Err(word) => enter_slowly(self, word),
        }
    }

    /// Enters if the counter is open at this moment.
    ///
    /// *Progress:* wait-free.
    ///
    /// # Errors
    /// It is not: the state that it is in.
    #[inline(always)]
    fn try_enter(&self) -> Result<RequestGuard<'_, Self>, TryEnterError> {
        match self.count_in() {
            Ok(()) => Ok(RequestGuard { counter: self }),
            Err(word) => Err(TryEnterError(word.state())),
        }
    }

    /// Leaves in the place of a pass that was [kept](RequestGuard::keep).
    ///
    /// *Progress:* wait-free.
    ///
    /// # Safety
    /// A pass of this counter was kept, and is left by this call alone. (Code that rests on nobody being inside would be wrong otherwise.)
    #[inline(always)]
    unsafe fn leave_kept(&self) {
        // SAFETY: by contract.
        unsafe { self.count_out() };
    }

    /// Lets nobody in any more, and returns when all who were inside have left. Who tries to enter waits until somebody
    /// [opens](Self::open) the counter.
    ///
    /// *Progress:* blocking. *Cost:* see the counter. Who has left is noticed within two milliseconds.
    ///
    /// # Errors
    /// [`StopError`], except `Inside`.
    fn block(&self) -> Result<(), StopError> {
        self.stop(Stop::Block, Patience::Unlimited).map(drop)
    }

    /// As [`block`](Self::block) if nobody is inside; the counter is open again if somebody is.
    ///
    /// Requests that come meanwhile wait for that moment.
    ///
    /// *Progress:* wait-free but for the barrier.
    ///
    /// # Errors
    /// [`StopError`].
    fn try_block(&self) -> Result<(), StopError> {
        self.stop(Stop::Block, Patience::None).map(drop)
    }

    /// As [`block`](Self::block) if all have left by then; the counter is open again if they have not.
    ///
    /// *Progress and cost:* as of `block`, until then.
    ///
    /// # Errors
    /// [`StopError`].
    #[cfg(feature = "std")]
    fn block_until(&self, deadline: std::time::Instant) -> Result<(), StopError> {
        self.stop(Stop::Block, Patience::Until(deadline)).map(drop)
    }

    /// Refuses all requests from now on, those that wait to enter included, and returns when all who were inside have left.
    ///
    /// *Progress:* blocking. *Cost:* as [`block`](Self::block).
    ///
    /// # Errors
    /// [`StopError::Reopened`] and [`StopError::Barrier`].
    fn refuse(&self) -> Result<(), StopError> {
        self.stop(Stop::Refuse, Patience::Unlimited).map(drop)
    }

    /// Refuses all requests from now on; `Ok` if nobody is inside.
    ///
    /// *Progress:* wait-free but for the barrier. *Cost:* as [`block`](Self::block), with one look.
    ///
    /// # Errors
    /// [`StopError`], except `NotOpen`. The counter goes on refusing if somebody is inside.
    fn try_refuse(&self) -> Result<(), StopError> {
        self.stop(Stop::Refuse, Patience::None).map(drop)
    }

    /// Refuses all requests from now on, and waits until then for all to leave.
    ///
    /// *Progress and cost:* as of [`refuse`](Self::refuse), until then.
    ///
    /// # Errors
    /// [`StopError`], except `NotOpen`. The counter goes on refusing if somebody is inside.
    #[cfg(feature = "std")]
    fn refuse_until(&self, deadline: std::time::Instant) -> Result<(), StopError> {
        self.stop(Stop::Refuse, Patience::Until(deadline)).map(drop)
    }

    /// Lets everybody in, and wakes those who wait. Returns the state that it was in.
    ///
    /// *Progress:* wait-free but for a system call.
    fn open(&self) -> RequestState {
        self.control().open()
    }

    /// The state at this moment. A counter that is not open may still have somebody inside.
    ///
    /// *Progress:* wait-free. *Cost:* a load of a line that only changes when requests are stopped or let in.
    fn state(&self) -> RequestState {
        self.control().state()
    }

    /// [Blocks](Self::block), runs `alone`, and opens the counter again, also if that panics; unless somebody has made it refuse meanwhile.
    ///
    /// # Errors
    /// As `block`; `alone` was not called.
    ///
    /// # Panics
    /// Where `alone` does.
    fn blocked<R>(&self, alone: impl FnOnce() -> R) -> Result<R, StopError> {
        // Undoes the stop, but not what others have done to the word since.
        struct Undo<'a>(&'a Control, Stopped);
        impl Drop for Undo<'_> {
            fn drop(&mut self) {
                self.0.take_back(self.1);
            }
        }
        let stopped = self.stop(Stop::Block, Patience::Unlimited)?;
        let _undo = Undo(self.control(), stopped);
        Ok(alone())
    }
}

impl<C: sealed::Count> Requests for C {}

#[cold]
fn enter_slowly<C: Requests>(
    counter: &C,
    mut word: control::Word,
) -> Result<RequestGuard<'_, C>, EnterError> {
    let mut backoff = Backoff::new();
    loop {
        match word.state() {
            RequestState::Refusing => return Err(EnterError(())),
            RequestState::Blocked => counter.control().wait_while(word, &mut backoff),
            RequestState::Open => {}
        }
        match counter.count_in() {
            Ok(()) => return Ok(RequestGuard { counter }),
            Err(now) => word = now,
        }
    }
}

/// A request that has entered: it leaves when this is dropped, on any thread.
#[derive(Debug)]
#[must_use = "who drops the pass leaves at once"]
pub struct RequestGuard<'a, C: Requests> {
    counter: &'a C,
}

impl<C: Requests> RequestGuard<'_, C> {
    /// Stays inside without the pass, until [`leave_kept`](Requests::leave_kept). Costs nothing.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl<C: Requests> Drop for RequestGuard<'_, C> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the pass was counted in, and is gone with this.
        unsafe { self.counter.count_out() };
    }
}

mod sealed {
    use super::control::{Control, Patience, Stop, Stopped, Word};
    use super::{Backoff, StopError};

    /// How requests are counted.
    pub trait Count: Sized + Sync {
        /// Counts a request that comes in; takes it back, and returns the word that kept it out, if the counter is not open.
        #[doc(hidden)]
        fn count_in(&self) -> Result<(), Word>;

        /// Counts a request that goes out.
        ///
        /// # Safety
        /// It was counted in, and is counted out by this call alone: code may rest on nobody being inside. (Methods of a hidden trait can be called
        /// by who has a bound of [`Requests`](super::Requests).)
        #[doc(hidden)]
        unsafe fn count_out(&self);

        /// Makes sure that who does not see a stop is seen by the next look; `false` if that cannot be done.
        #[doc(hidden)]
        fn pass_barrier(&self) -> bool;

        /// How many are inside. Once the barrier is passed after a stop, 0 says that nobody is who did not see it.
        #[doc(hidden)]
        fn inside(&self) -> u64;

        #[doc(hidden)]
        fn control(&self) -> &Control;

        /// Stops requests, and waits for those inside.
        #[doc(hidden)]
        fn stop(&self, stop: Stop, patience: Patience) -> Result<Stopped, StopError> {
            let control = self.control();
            let stopped = control.stop(stop)?;
            if !self.pass_barrier() {
                control.take_back(stopped);
                return Err(StopError::Barrier);
            }
            let mut backoff = Backoff::new();
            loop {
                let inside = self.inside();
                // After the counts, which say nothing from then on.
                if control.was_opened_since(stopped) {
                    return Err(StopError::Reopened);
                }
                if inside == 0 {
                    return Ok(stopped);
                }
                if patience.is_over() {
                    if stop == Stop::Block {
                        control.take_back(stopped);
                    }
                    return Err(StopError::Inside(inside));
                }
                backoff.wait();
            }
        }
    }
}
