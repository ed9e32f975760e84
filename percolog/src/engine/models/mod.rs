//! Every interleaving of the engine's algorithms, within loom's bounds.
//!
//! The world is small: four places a slot can have, two dirty bits (so slots 0 and 2 share one, and 1
//! and 3), queues that only keep what they are given, and states whose every use loom watches. Each
//! model says what it shows and what it leaves out. What no model here can see:
//!
//! * the processor's clock: stamps come from one counter that cannot be wrong;
//! * a thread that is moved to another slot between asking for its slot and locking it — it uses the
//!   slot it was told, under that slot's lock, like any other thread of that slot;
//! * the kernel in which waiting threads sleep: the model's own compares the word and goes to sleep in
//!   one step, as a kernel does, and knows no deadline that comes meanwhile; whoever waits for a slot's
//!   lock does not sleep at all, but yields;
//! * what is recorded of held guards;
//! * the allocator, panics, and the figures in `stats`, which publish nothing.
//!
//! Loom does not produce load buffering, and takes `SeqCst` accesses for `AcqRel`: where an algorithm uses the latter (a
//! reader that looks at the lock behind its mark) it has a fence beside it in models.

mod cut;
mod eager;
mod limits;
mod marks;
mod places;
mod reading;
mod sharing;

use super::gate::Wait;
use super::limits::{Mode, Options, Policy};
use super::object::Object;
use super::queue::{Absorbed, Execute, Limits, Queue};
use crate::cpu::{CoreId, Environment};
use crate::sync::global::{AtomicU64, Ordering};
use crate::sync::{Patience, UnsafeCell};
pub(crate) use crate::sync::{explore, explore_deeply};
use alloc::vec::Vec;
use core::cell::Cell;
use core::panic::Location;
use loom::sync::Arc;
use loom::thread;

pub(crate) fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// As long as it takes.
pub(crate) const PATIENT: Wait = Wait::For(Patience::Unlimited);

loom::thread_local! {
    static PLACE: Cell<(u32, usize)> = Cell::new((0, 0));
}

/// Puts this thread of the model on a slot, and on a chip.
pub(crate) fn bind(slot: u32, chip: usize) {
    PLACE.with(|place| place.set((slot, chip)));
}

/// Slots as [`bind`] says, and time from one counter.
///
/// The counter is not loom's: taking a stamp orders nothing in the model, and a thread can be
/// interrupted behind it at its next access.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    stamps: AtomicU64,
}

impl Environment for Scripted {
    fn slot(&self) -> CoreId {
        CoreId::new(PLACE.with(Cell::get).0)
    }

    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn chip(&self) -> usize {
        PLACE.with(Cell::get).1
    }

    fn disorder(&self, latest: u64) {
        panic!("this clock is right, yet stamp {latest} was found out of order");
    }
}

/// A state of which loom sees every use.
#[derive(Debug)]
pub(crate) struct Watched<T>(UnsafeCell<T>);

// SAFETY: `&Watched<T>` gives out `&T` only; changes need `&mut Watched<T>`.
unsafe impl<T: Sync> Sync for Watched<T> {}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn look<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: changes need `&mut self`.
        self.0.with(|value| f(unsafe { &*value }))
    }

    pub(crate) fn change<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: `&mut self`.
        self.0.with_mut(|value| f(unsafe { &mut *value }))
    }
}

/// What is queued: a number for the list.
pub(super) type Note = u8;

/// A list of the numbers in the order in which they took effect.
pub(super) type Notes = Watched<Vec<Note>>;

/// The plainest queue: stamped numbers.
#[derive(Debug)]
pub(super) struct Pad(Vec<(u64, Note)>);

impl Queue<Notes> for Pad {
    type Operation = Note;
    type Scratch = ();
    type Swept = ();
    const STAMPED: bool = true;

    fn new(_limits: Limits) -> Self {
        Self(Vec::new())
    }

    fn append(
        &mut self,
        note: Note,
        stamp: u64,
        _origin: Option<&'static Location<'static>>,
    ) -> Absorbed<Note> {
        assert!(self.0.last().is_none_or(|(last, _)| *last <= stamp));
        self.0.push((stamp, note));
        Absorbed::Nothing
    }

    fn sweep(&mut self) {}

    fn len(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        0
    }

    fn apply(pads: &mut [Self], notes: &mut Notes, budget: usize, _scratch: &mut ()) -> usize {
        for executed in 0..budget {
            let next = pads
                .iter_mut()
                .filter(|pad| !pad.0.is_empty())
                .min_by_key(|pad| pad.0[0].0);
            let Some(next) = next else {
                return executed;
            };
            let (_, note) = next.0.remove(0);
            notes.change(|notes| notes.push(note));
        }
        budget
    }
}

impl Execute<Notes> for Pad {
    const ABSORBS: bool = false;

    fn at_once(_note: &Note) -> bool {
        true
    }

    fn execute(
        note: Note,
        _origin: Option<&'static Location<'static>>,
        notes: &mut Notes,
        _scratch: &mut Option<()>,
    ) -> Option<Note> {
        notes.change(|notes| notes.push(note));
        None
    }
}

/// The object of the models.
pub(super) type Journal = Object<Notes, Pad, Scripted>;

/// One that defers all updates.
pub(super) fn journal(options: Options) -> Arc<Journal> {
    eager(Options {
        mode: Mode::Deferring,
        ..options
    })
}

/// One that executes them at once, unless the options say something else.
pub(super) fn eager(options: Options) -> Arc<Journal> {
    bind(0, 0);
    let notes = Watched::new(Vec::new());
    Arc::new(Object::new(notes, options, Scripted::default()))
}

/// At the limit with the second operation, at the hard limit with the third.
pub(super) fn narrow(policy: Policy) -> Options {
    Options {
        limit: 1,
        hard_limit: 2,
        policy,
        ..Options::DEFAULT
    }
}

impl Journal {
    /// Queues on this thread's slot.
    fn note(&self, note: Note) {
        self.queue(note, None).expect("there is room, or will be");
    }

    /// Everything that a reader is shown now.
    fn shown(&self) -> Vec<Note> {
        let guard = self.synchronize(PATIENT).expect("nothing panics");
        guard.look(Vec::clone)
    }
}

/// Starts a thread of the model on a slot of its own.
pub(super) fn spawn_on<R: 'static>(
    slot: u32,
    chip: usize,
    journal: &Arc<Journal>,
    f: impl FnOnce(&Journal) -> R + 'static,
) -> thread::JoinHandle<R> {
    let journal = journal.clone();
    thread::spawn(move || {
        bind(slot, chip);
        f(&journal)
    })
}
