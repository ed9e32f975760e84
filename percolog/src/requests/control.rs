//! The word that says who may enter, and those who wait for it to change.

use super::{RequestState, StopError};
use crate::sync::atomic::Ordering;
use crate::sync::{Backoff, ParkingWord, const_fn};

/// The bits that say the state.
const STATE: u32 = 0b11;
const OPEN: u32 = 0;
const BLOCKED: u32 = 1;
const REFUSING: u32 = 2;
/// The other bits count how often the counter was opened, modulo 2³⁰: who waits for requests to leave finds out that its stop is over.
const OPENING: u32 = 1 << 2;

/// The word as it was at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(u32);

impl Word {
    #[inline(always)]
    pub(super) fn is_open(self) -> bool {
        self.0 & STATE == OPEN
    }

    pub(super) fn state(self) -> RequestState {
        match self.0 & STATE {
            OPEN => RequestState::Open,
            BLOCKED => RequestState::Blocked,
            _ => RequestState::Refusing,
        }
    }
}

/// A stop that was made: the word before and after.
#[derive(Debug, Clone, Copy)]
pub struct Stopped {
    before: Word,
    after: Word,
}

/// How requests are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// They wait.
    Block,
    /// They are told.
    Refuse,
}

/// How long who stops requests waits for those inside.
#[derive(Debug, Clone, Copy)]
pub enum Patience {
    /// Not at all.
    None,
    /// As long as it takes.
    Unlimited,
    /// Until this instant.
    #[cfg(feature = "std")]
    Until(std::time::Instant),
}

impl Patience {
    pub(super) fn is_over(self) -> bool {
        match self {
            Self::None => true,
            Self::Unlimited => false,
            #[cfg(feature = "std")]
            Self::Until(deadline) => std::time::Instant::now() >= deadline,
        }
    }
}

/// The state of a counter, in a word that changes only when requests are stopped or let in.
#[derive(Debug)]
pub struct Control {
    word: ParkingWord,
}

impl Control {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { word: ParkingWord::new(OPEN) }
        }
    }

    /// The word, for who has just counted itself in, with a barrier between.
    #[inline(always)]
    pub(super) fn load(&self) -> Word {
        // Acquire pairs with the Release in `open`: who is let in sees what was done while nobody was.
        Word(self.word.load(Ordering::Acquire))
    }

    pub(super) fn state(&self) -> RequestState {
        self.load().state()
    }

    /// Stops requests. Blocks only if they are let in.
    pub(super) fn stop(&self, stop: Stop) -> Result<Stopped, StopError> {
        // Relaxed: a hint, as the exchange says whether it still holds.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let state = match stop {
                Stop::Block if word & STATE != OPEN => {
                    return Err(StopError::NotOpen(Word(word).state()));
                }
                Stop::Block => BLOCKED,
                Stop::Refuse => REFUSING,
            };
            let stopped = word & !STATE | state;
            // Acquire pairs with the Release in `open`: what was done while others kept requests out is seen. Release pairs with
            // the Acquire in `load`: what came before is seen by who is refused.
            match self
                .word
                .compare_exchange(word, stopped, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => {
                    // Who waits is refused.
                    self.wake_after(word);
                    return Ok(Stopped {
                        before: Word(word),
                        after: Word(stopped),
                    });
                }
                Err(now) => word = now,
            }
        }
    }

    /// Undoes a [`stop`](Self::stop), unless somebody has changed the word since.
    pub(super) fn take_back(&self, stopped: Stopped) {
        let Stopped { before, after } = stopped;
        let again = if before.is_open() {
            before.0.wrapping_add(OPENING)
        } else {
            before.0
        };
        // Release: as in `open`. Relaxed, where somebody was faster: nothing is read.
        let result =
            self.word
                .compare_exchange(after.0, again, Ordering::Release, Ordering::Relaxed);
        if result.is_ok() {
            self.wake_after(after.0);
        }
    }

    /// Lets requests in, wakes who waits, and returns the state before.
    pub(super) fn open(&self) -> RequestState {
        // Relaxed: a hint, as the exchange says whether it still holds.
        let mut word = self.word.load(Ordering::Relaxed);
        while word & STATE != OPEN {
            let open = (word & !STATE).wrapping_add(OPENING);
            // Release pairs with the Acquire in `load`, and in `stop`. Relaxed, where it fails: tried again.
            match self
                .word
                .compare_exchange(word, open, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => {
                    self.wake_after(word);
                    return Word(word).state();
                }
                Err(now) => word = now,
            }
        }
        RequestState::Open
    }

    /// Whether somebody let requests in after this stop.
    pub(super) fn was_opened_since(&self, stopped: Stopped) -> bool {
        // Relaxed: if it was not opened, that is where the stop is complete, and who opens it comes afterwards. The counts were loaded before, with Acquire.
        self.word.load(Ordering::Relaxed) & !STATE != stopped.after.0 & !STATE
    }

    /// Waits until the word is another one. May return early.
    pub(super) fn wait_while(&self, word: Word, backoff: &mut Backoff) {
        #[cfg(feature = "std")]
        {
            self.word.park(word.0, None, backoff);
        }
        #[cfg(not(feature = "std"))]
        {
            let _ = word;
            backoff.wait();
        }
    }

    /// Wakes those who wait for this word to change. Only in a blocked counter does anybody.
    fn wake_after(&self, word: u32) {
        #[cfg(feature = "std")]
        if word & STATE == BLOCKED {
            self.word.unpark_all();
        }
        #[cfg(not(feature = "std"))]
        let _ = word;
    }
}
