//! A place where all threads meet again and again, and that can be called off.
//!
//! `std::sync::Barrier` would leave everybody waiting for ever for a thread that panicked.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct Meeting {
    members: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    present: usize,
    round: u64,
    called_off: bool,
}

impl Meeting {
    pub(super) fn new(members: usize) -> Meeting {
        Meeting {
            members,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits for all others. `false`: the meeting is called off, nobody else may come.
    #[must_use]
    pub(super) fn attend(&self) -> bool {
        let mut state = self.lock();
        if state.called_off {
            return false;
        }
        state.present += 1;
        if state.present == self.members {
            state.present = 0;
            state.round += 1;
            self.changed.notify_all();
            return true;
        }
        let round = state.round;
        while state.round == round && !state.called_off {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        // A round that was complete counts, even if the meeting was called off just afterwards.
        state.round != round
    }

    /// Sends everybody home who waits or will come.
    pub(super) fn call_off(&self) {
        self.lock().called_off = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
