//! What threads without the turn have to say to the one that has it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::plugin::baton::Latch;

/// The one list.
pub(super) static MESSAGES: Messages = Messages {
    latch: Latch::new(),
    any: AtomicBool::new(false),
    list: UnsafeCell::new(Vec::new()),
};

/// What a thread without the turn has to say to the one that has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// Its system call came back from the host.
    Returned(usize),
    /// It has ended, while it was let go.
    Ended(usize),
    /// QEMU needs it: it has to have the turn soon, whatever its time.
    Needed(usize),
}

/// A list that any thread may add to.
pub(super) struct Messages {
    latch: Latch,
    any: AtomicBool,
    list: UnsafeCell<Vec<Message>>,
}

// SAFETY: the list is used by whoever has closed the latch.
unsafe impl Sync for Messages {}

impl Messages {
    /// Adds to the list.
    pub(super) fn send(&self, message: Message) {
        self.latch.close();
        // SAFETY: the latch is closed.
        unsafe { (*self.list.get()).push(message) };
        // SeqCst: with the exchange of OWNER in `post`, against the store to OWNER and the load here in `go_idle`:
        // either the sender finds that nobody has the turn, or whoever gives it up finds the message.
        self.any.store(true, Ordering::SeqCst);
        self.latch.open();
    }

    /// Whether there is anything in the list.
    pub(super) fn any(&self) -> bool {
        // SeqCst: see `send`.
        self.any.load(Ordering::SeqCst)
    }

    /// Empties the list in a forked child, where nobody is using it.
    pub(super) fn forked(&self) {
        self.latch.open();
        drop(self.take());
    }

    /// Takes what is in the list.
    pub(super) fn take(&self) -> Vec<Message> {
        // SeqCst: see `send`.
        if !self.any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        self.latch.close();
        self.any.store(false, Ordering::SeqCst);
        // SAFETY: the latch is closed.
        let messages = std::mem::take(unsafe { &mut *self.list.get() });
        self.latch.open();
        messages
    }
}
