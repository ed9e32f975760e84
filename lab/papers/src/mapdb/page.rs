//! A mapping as the database knows it, and how mappings lead to each other.

use percolog::lock::{NodeGuard, NodeLock};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The name of a page in an address space: two ids, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) space: u64,
    pub(super) page: u64,
}

/// A name that changes under somebody's lock.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Zero, which no id is, for no name.
    space: AtomicU64,
    page: AtomicU64,
}

impl Link {
    pub(super) fn get(&self) -> Option<Name> {
        // Relaxed, here and below: the lock that guards the link orders it; [`Page`] says which one.
        let space = self.space.load(Ordering::Relaxed);
        let page = self.page.load(Ordering::Relaxed);
        (page != 0).then_some(Name { space, page })
    }

    pub(super) fn set(&self, name: Option<Name>) {
        let (space, page) = name.map_or((0, 0), |name| (name.space, name.page));
        // Relaxed: as above.
        self.space.store(space, Ordering::Relaxed);
        self.page.store(page, Ordering::Relaxed);
    }
}

/// What a page is at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Its address is set aside.
    Reserved,
    /// It belongs to the call that is making it: nothing can be aliased from it, and who would take it away waits.
    Filling,
    /// Its making has failed, and it is being taken away: nothing can be aliased from it.
    Failed,
    /// It is mapped.
    Live,
}

/// A page of an address space.
#[derive(Debug)]
pub(super) struct Page {
    /// Guards `first_child`, the `before` and `next` of all children, and the way from `Reserved` to `Filling`. Freed when the page is
    /// condemned: all of these are then its remover's.
    pub(super) lock: NodeLock,
    state: AtomicU8,
    /// Everything below it is gone, and it is its parent's remover who is to remove it.
    done: AtomicBool,
    /// The id of the frame, or zero. Written while the page is being filled.
    frame: AtomicU64,
    /// What it was aliased from; nothing, if it was granted. Written while the page is being filled.
    pub(super) parent: Link,
    pub(super) first_child: Link,
    pub(super) before: Link,
    pub(super) next: Link,
}

impl Page {
    pub(super) fn new(state: State) -> Self {
        Self {
            lock: NodeLock::new(),
            state: AtomicU8::new(state as u8),
            done: AtomicBool::new(false),
            frame: AtomicU64::new(0),
            parent: Link::default(),
            first_child: Link::default(),
            before: Link::default(),
            next: Link::default(),
        }
    }

    pub(super) fn state(&self) -> State {
        // Acquire pairs with the Release in `set_state`: who sees a page live sees what it was filled with.
        match self.state.load(Ordering::Acquire) {
            0 => State::Reserved,
            1 => State::Filling,
            2 => State::Failed,
            _ => State::Live,
        }
    }

    pub(super) fn set_state(&self, state: State) {
        // Release pairs with the Acquire in `state`.
        self.state.store(state as u8, Ordering::Release);
    }

    pub(super) fn is_done(&self) -> bool {
        // Acquire pairs with the Release in `set_done`: all that was below the page has gone before it goes.
        self.done.load(Ordering::Acquire)
    }

    pub(super) fn set_done(&self) {
        // Release pairs with the Acquire in `is_done`.
        self.done.store(true, Ordering::Release);
    }

    pub(super) fn frame(&self) -> u64 {
        // Relaxed: written before the state became live, which was seen, or by the caller himself.
        self.frame.load(Ordering::Relaxed)
    }

    pub(super) fn set_frame(&self, frame: u64) {
        // Relaxed: published with the state.
        self.frame.store(frame, Ordering::Relaxed);
    }

    /// The page's lock; `None` if it has been condemned. (Nothing that is done under one of these locks panics half-way, so
    /// one that is poisoned is as good as any.)
    pub(super) fn lock(&self) -> Option<NodeGuard<'_>> {
        match self.lock.lock() {
            Ok(guard) => Some(guard),
            Err(error) => error.into_guard(),
        }
    }
}

/// Waiting for another thread that is in the middle of something.
#[derive(Default)]
pub(super) struct Pause {
    waited: u32,
}

impl Pause {
    pub(super) fn wait(&mut self) {
        if self.waited < 64 {
            self.waited += 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
