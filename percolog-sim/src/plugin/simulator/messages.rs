//! What threads without the turn have to say to the one that has it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::plugin::common::Common;
use crate::plugin::latch::Latch;
use crate::plugin::processes;

/// The one list.
pub(super) static MESSAGES: Common<Messages> = Common::new(Messages {
    latch: Latch::new(),
    any: AtomicBool::new(false),
    list: UnsafeCell::new(Vec::new()),
});

/// What a thread without the turn has to say to the one that has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// Its system call came back from the host.
    Returned(Sender),
    /// It has ended, while it was let go.
    Ended(Sender),
    /// QEMU needs it: it has to have the turn soon, whatever its time.
    Needed(Sender),
    /// Its process did not become another program after all.
    Stays(Sender),
    /// Its process is ended by this signal.
    Dies(Sender, i32),
}

/// A thread. Its number may be another's when what it says is heard: then its process has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) thread: usize,
    pub(super) process: usize,
}

impl Sender {
    /// A thread of this process.
    pub(super) fn new(thread: usize) -> Self {
        let process = processes::this();
        Sender { thread, process }
    }
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
