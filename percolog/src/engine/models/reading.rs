//! Phases of reading: readers that leave marks, and writers who look at them.

use super::{Journal, PATIENT, eager, explore, join, spawn_on};
use crate::engine::Options;
use crate::sync::atomic::{AtomicUsize, Ordering, fence};
use crate::sync::{Backoff, ObjectLock, Patience, ReaderMark, UnsafeCell};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

/// A value behind a lock with marks of two slots.
struct Marked {
    lock: ObjectLock,
    marks: [ReaderMark; 2],
    value: UnsafeCell<usize>,
}

// SAFETY: the value is used under the lock only, as loom checks.
unsafe impl Sync for Marked {}

impl Marked {
    fn new(biased: bool) -> Arc<Self> {
        let marked = Self {
            lock: ObjectLock::new(),
            marks: [ReaderMark::new(), ReaderMark::new()],
            value: UnsafeCell::new(0),
        };
        if biased {
            marked.lock.bias();
            marked.marks.iter().for_each(ReaderMark::enlist);
        }
        Arc::new(marked)
    }

    /// Goes in alone.
    fn enter(&self) {
        assert!(self.lock.exclusive(Patience::Unlimited));
        if self.lock.is_biased() {
            fence(Ordering::SeqCst);
            let mut backoff = Backoff::new();
            for mark in &self.marks {
                while !mark.is_free() {
                    backoff.wait();
                }
            }
        }
    }

    fn write(&self) {
        self.enter();
        // SAFETY: the lock is held exclusively, and no reader is inside.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.lock.release_exclusive();
    }

    /// Reads, if the mark gets it in.
    fn read_by(&self, mark: usize) -> Option<usize> {
        let mark = &self.marks[mark];
        self.lock.share_by_mark(mark).then(|| {
            // SAFETY: this thread has a share.
            let value = self.value.with(|value| unsafe { *value });
            mark.leave();
            value
        })
    }

    /// Takes a share without a mark, and calls `f` with what it reads.
    fn read(&self, f: impl FnOnce(usize)) {
        assert!(self.lock.shared(Patience::Unlimited));
        // SAFETY: the lock is held for sharing.
        f(self.value.with(|value| unsafe { *value }));
        self.lock.release_shared();
    }
}

fn start<R: 'static>(
    marked: &Arc<Marked>,
    f: impl FnOnce(&Marked) -> R + 'static,
) -> thread::JoinHandle<R> {
    let marked = marked.clone();
    thread::spawn(move || f(&marked))
}

/// Readers that leave marks while another thread writes: it waits for them, and each of them sees what it wrote or is not inside with it.
/// Both of one slot, or of two.
///
/// Loom cannot see: more than two readers.
#[test]
fn a_writer_waits_for_readers_marks() {
    for slot in [0, 1] {
        explore(move || {
            let marked = Marked::new(true);
            let reader = start(&marked, move |marked| marked.read_by(slot));
            let writer = start(&marked, Marked::write);
            let first = marked.read_by(0);
            assert!(marked.read_by(0) >= first || first.is_some());
            join(reader);
            join(writer);
            assert_eq!(marked.read_by(0), Some(1));
        });
    }
}

/// The phase ends, and another writer comes who looks at no marks: a reader that believes in the phase is not inside with it.
///
/// Loom cannot see: a phase that begins again meanwhile.
#[test]
fn a_phase_ends_when_its_readers_have_left() {
    explore(|| {
        let marked = Marked::new(true);
        let reader = start(&marked, |marked| marked.read_by(0));
        let writer = start(&marked, Marked::write);
        marked.enter();
        marked.lock.end_bias();
        marked.lock.release_exclusive();
        marked.write();
        join(reader);
        join(writer);
        assert_eq!(marked.read_by(0), None);
        marked.read(|value| assert_eq!(value, 2));
    });
}

/// The phase begins while a thread writes: a reader that marks early is not inside with a writer who looked at no marks.
///
/// Loom cannot see: more than two writers.
#[test]
fn a_phase_begins_among_writers() {
    explore(|| {
        let marked = Marked::new(false);
        marked.marks[0].enlist();
        let reader = start(&marked, |marked| marked.read_by(0));
        let begins = start(&marked, |marked| marked.read(|_| marked.lock.bias()));
        marked.write();
        join(begins);
        join(reader);
        marked.write();
        assert_eq!(marked.read_by(0), Some(2));
    });
}

/// A slot's mark is made while another thread of the slot wants to read: once that finds it enlisted, no writer overlooks it.
///
/// Loom cannot see: more than one mark that is new.
#[test]
fn a_mark_that_is_new_is_not_overlooked() {
    /// Finds the first mark by a flag that publishes nothing, as the worst of tables would.
    struct Found {
        marked: Arc<Marked>,
        made: AtomicUsize,
    }
    explore(|| {
        let found = Arc::new(Found {
            marked: Marked::new(false),
            made: AtomicUsize::new(0),
        });
        found.marked.lock.bias();
        let makes = {
            let found = found.clone();
            thread::spawn(move || {
                found.made.store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                found.marked.marks[0].enlist();
            })
        };
        let reader = {
            let found = found.clone();
            thread::spawn(move || found.marked.read_by(0))
        };
        // A writer that looks at the mark only if it finds it.
        let marked = &found.marked;
        assert!(marked.lock.exclusive(Patience::Unlimited));
        fence(Ordering::SeqCst);
        if found.made.load(Ordering::Relaxed) == 1 {
            let mut backoff = Backoff::new();
            while !marked.marks[0].is_free() {
                backoff.wait();
            }
        }
        // SAFETY: the lock is held exclusively, and no reader is inside.
        marked.value.with_mut(|value| unsafe { *value += 1 });
        marked.lock.release_exclusive();
        join(makes);
        join(reader);
    });
}

impl Journal {
    /// Biases the object to readers, as one of them does that has a share.
    fn begin_reading(&self) {
        let door = self.enter_shared(PATIENT).expect("nobody keeps it");
        self.mode.bias(&self.center.gate);
        door.leave_shared(None);
    }

    /// How many notes a shared reader is shown.
    fn read_length(&self) -> usize {
        let guard = self.read(PATIENT).expect("nothing panics");
        guard.look(Vec::len)
    }
}

/// An update in such a phase: whoever learns that it has returned is shown it.
///
/// Loom cannot see: an updater that waits for the readers' marks before it appends.
#[test]
fn a_reader_by_its_mark_is_shown_what_finished_before() {
    explore(|| {
        let journal = eager(Options::DEFAULT);
        journal.begin_reading();
        let finished = Arc::new(AtomicUsize::new(0));
        let updater = spawn_on(1, 0, &journal, {
            let finished = finished.clone();
            move |journal| {
                journal.note(1);
                finished.store(1, Ordering::Release);
            }
        });
        let before = finished.load(Ordering::Acquire);
        let shown = journal.read_length();
        assert!(before <= shown);
        assert!(shown <= journal.read_length());
        join(updater);
        assert_eq!(journal.shown(), [1]);
    });
}

/// A reader by its mark while another thread writes with an exclusive guard, then reads as well.
///
/// Loom cannot see: more than two threads.
#[test]
fn an_exclusive_guard_and_a_reader_by_its_mark_exclude_each_other() {
    explore(|| {
        let journal = eager(Options::DEFAULT);
        journal.begin_reading();
        let writer = spawn_on(1, 0, &journal, |journal| {
            let mut guard = journal.synchronize(PATIENT).expect("nothing panics");
            guard.change(|notes| notes.push(1));
        });
        let first = journal.read_length();
        assert!(first <= journal.read_length());
        join(writer);
        assert_eq!(journal.read_length(), 1);
    });
}
