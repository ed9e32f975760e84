//! Shared guards, and the lock below all guards.

use super::{PATIENT, explore, join, journal, spawn_on};
use crate::engine::{Options, Synchronized};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{ObjectLock, Patience, SlotLock, UnsafeCell};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

/// Readers of a clean object while another thread updates it: each is shown what finished before it
/// began, whether it found the object clean or had to merge.
///
/// Loom cannot see: more than one update, or marks on several chips.
#[test]
fn a_shared_reader_is_shown_what_finished_before() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        journal.note(1);
        assert_eq!(journal.shown(), [1]);
        let finished = Arc::new(AtomicUsize::new(0));
        let updater = spawn_on(0, 0, &journal, {
            let finished = finished.clone();
            move |journal| {
                journal.note(2);
                finished.store(1, Ordering::Release);
            }
        });
        let read = |journal: &super::Journal, finished: &AtomicUsize| {
            let before = finished.load(Ordering::Acquire);
            let shown = journal
                .read(PATIENT)
                .expect("nothing panics")
                .look(Vec::clone);
            assert!(before < shown.len() && shown == [1, 2][..shown.len()]);
            shown.len()
        };
        let reader = spawn_on(1, 0, &journal, {
            let finished = finished.clone();
            move |journal| read(journal, &finished)
        });
        let first = read(&journal, &finished);
        assert!(first <= read(&journal, &finished), "no update goes away");
        join(reader);
        join(updater);
        assert_eq!(read(&journal, &finished), 2);
    });
}

/// A reader of a clean object gets in while another one is inside, without waiting for it.
///
/// Loom cannot see: that the two cost each other a cache line.
#[test]
fn readers_of_a_clean_object_are_inside_together() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        journal.note(1);
        drop(journal.synchronize(PATIENT));
        let guard = journal.read(PATIENT).expect("nothing panics");
        let other = spawn_on(1, 0, &journal, |journal| {
            let guard = journal.read(super::Wait::No).expect("no writer about");
            guard.look(Vec::len)
        });
        assert_eq!(guard.look(Vec::len), 1);
        // Joined with the guard still held.
        assert_eq!(join(other), 1);
    });
}

/// A guard that is downgraded lets no writer in: its holder sees the state as it was left, though an
/// update has been queued and another thread waits to write.
///
/// Loom cannot see: two writers that wait.
#[test]
fn nobody_writes_between_an_exclusive_guard_and_its_downgrade() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        let mut guard = journal.synchronize(PATIENT).expect("nothing panics");
        let writer = spawn_on(0, 0, &journal, |journal| {
            journal.note(2);
            journal
                .synchronize(PATIENT)
                .expect("nothing panics")
                .change(|notes| notes.push(3));
        });
        guard.change(|notes| notes.push(1));
        let guard = Synchronized::downgrade(guard);
        assert!(guard.look(|notes| *notes == [1]));
        drop(guard);
        join(writer);
        assert_eq!(journal.shown(), [1, 2, 3]);
    });
}

/// A guard that is downgraded lets readers in, who see what was written while it was exclusive.
///
/// Loom cannot see: that they get in without being woken one by one.
#[test]
fn readers_see_what_was_written_before_a_downgrade() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        let mut guard = journal.synchronize(PATIENT).expect("nothing panics");
        let reader = spawn_on(1, 0, &journal, |journal| {
            let guard = journal.read(PATIENT).expect("nothing panics");
            assert!(guard.look(|notes| *notes == [1]));
        });
        guard.change(|notes| notes.push(1));
        let guard = Synchronized::downgrade(guard);
        // Joined with the guard still held.
        join(reader);
        assert!(guard.look(|notes| *notes == [1]));
    });
}

/// A value behind an [`ObjectLock`].
struct Locked {
    lock: ObjectLock,
    value: UnsafeCell<usize>,
}

// SAFETY: the value is used under the lock only, as loom checks.
unsafe impl Sync for Locked {}

impl Locked {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: ObjectLock::new(),
            value: UnsafeCell::new(0),
        })
    }

    fn write(&self) {
        assert!(self.lock.exclusive(Patience::Unlimited));
        // SAFETY: the lock is held exclusively.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.lock.release_exclusive();
    }

    fn read(&self) -> usize {
        assert!(self.lock.shared(Patience::Unlimited));
        // SAFETY: the lock is held for sharing.
        let value = self.value.with(|value| unsafe { *value });
        self.lock.release_shared();
        value
    }
}

/// Writers exclude each other and readers, and each sees what those before it wrote. A thread that has
/// looked at the lock a few times in vain leaves a mark in it and sleeps: it is woken.
///
/// Loom cannot see: the kernel's queue of sleepers. A sleeper of the model compares the word and goes
/// to sleep in one step, as the kernel does, and is woken by nothing else; who is never woken is found
/// as a deadlock.
#[test]
fn the_objects_lock_excludes_and_wakes() {
    for readers in 0..=2 {
        explore(move || {
            let locked = Locked::new();
            let threads: Vec<_> = (0..2)
                .map(|number| {
                    let locked = locked.clone();
                    thread::spawn(move || {
                        if number < readers {
                            assert!(locked.read() <= 2);
                        } else {
                            locked.write();
                        }
                    })
                })
                .collect();
            locked.write();
            threads.into_iter().for_each(join);
            assert_eq!(locked.read(), 3 - readers);
        });
    }
}

/// A writer that becomes a reader: whoever slept behind it is woken, and no other writer got in
/// between.
///
/// Loom cannot see: as above.
#[test]
fn a_downgraded_lock_wakes_who_slept() {
    explore(|| {
        let locked = Locked::new();
        let threads = [false, true].map(|writes| {
            let locked = locked.clone();
            thread::spawn(move || {
                if writes {
                    locked.write();
                } else {
                    locked.read();
                }
            })
        });
        assert!(locked.lock.exclusive(Patience::Unlimited));
        // SAFETY: the lock is held exclusively.
        let written = locked.value.with_mut(|value| unsafe {
            *value += 1;
            *value
        });
        locked.lock.downgrade();
        // SAFETY: the lock is held for sharing.
        assert_eq!(locked.value.with(|value| unsafe { *value }), written);
        locked.lock.release_shared();
        threads.into_iter().for_each(join);
        assert_eq!(locked.read(), 2);
    });
}

/// A writer that gives up at its deadline leaves no mark behind that would keep readers out; and another
/// one, that sleeps behind the same mark, is woken all the same.
///
/// Loom cannot see: a deadline that comes while the writer sleeps. Here it is over from the start.
#[test]
fn who_gives_up_waiting_keeps_nobody_out() {
    for another in [false, true] {
        explore(move || {
            let locked = Locked::new();
            assert!(locked.lock.shared(Patience::Unlimited));
            let hasty = thread::spawn({
                let locked = locked.clone();
                move || {
                    let over = Patience::Until(std::time::Instant::now());
                    assert!(!locked.lock.exclusive(over), "a reader is inside");
                }
            });
            let patient = another.then(|| {
                let locked = locked.clone();
                thread::spawn(move || locked.write())
            });
            join(hasty);
            if !another {
                assert!(locked.lock.try_shared(), "nobody waits any more");
                locked.lock.release_shared();
            }
            locked.lock.release_shared();
            patient.into_iter().for_each(join);
            assert_eq!(locked.read(), usize::from(another));
        });
    }
}

/// The lock's two ways of trying never wait, and never let two in who exclude each other.
///
/// Loom cannot see: exchanges that fail for no reason, as some processors' do.
#[test]
fn trying_excludes_as_well() {
    explore(|| {
        let locked = Locked::new();
        let other = thread::spawn({
            let locked = locked.clone();
            move || {
                let taken = locked.lock.try_shared();
                if taken {
                    // SAFETY: the lock is held for sharing.
                    locked.value.with(|value| unsafe { *value });
                    locked.lock.release_shared();
                }
                taken
            }
        });
        let taken = locked.lock.try_exclusive();
        if taken {
            // SAFETY: the lock is held exclusively.
            locked.value.with_mut(|value| unsafe { *value += 1 });
            locked.lock.release_exclusive();
        }
        assert!(join(other) || taken, "somebody was first");
        assert_eq!(locked.read(), usize::from(taken));
    });
}

/// Who wants the lock only for what its holder does meanwhile goes on as soon as that is done, and the lock is still held.
#[test]
fn who_waits_for_what_is_settled_meanwhile_does_not_wait_for_the_release() {
    explore(|| {
        let settled = Arc::new(SlotLock::new(false));
        let locked = Locked::new();
        assert!(locked.lock.exclusive(Patience::Unlimited));
        let holder = {
            let (locked, settled) = (locked.clone(), settled.clone());
            thread::spawn(move || {
                *settled.lock().get() = true;
                locked.lock.let_updaters_go();
            })
        };
        let updater = {
            let locked = locked.clone();
            thread::spawn(move || {
                assert!(!locked.lock.exclusive_unless(|| *settled.lock().get()));
            })
        };
        holder.join().expect("no panic");
        updater.join().expect("no panic");
        locked.lock.release_exclusive();
    });
}

/// The same where another one has waited, and left the marks of sleepers behind, which the first finds or has set itself.
///
/// Loom cannot see: a lock that is freed, taken and marked again between a waiter's last look and its sleep. The other one is played by the
/// thread that holds the lock: with three threads there are too many interleavings.
#[test]
fn who_waits_for_what_is_settled_is_not_misled_by_the_marks_of_others() {
    explore(|| {
        let settled = Arc::new(SlotLock::new(false));
        let locked = Locked::new();
        assert!(locked.lock.exclusive(Patience::Unlimited));
        let updater = {
            let (locked, settled) = (locked.clone(), settled.clone());
            thread::spawn(move || {
                assert!(!locked.lock.exclusive_unless(|| *settled.lock().get()));
            })
        };
        *settled.lock().get() = true;
        locked.lock.let_updaters_go();
        // Asks in vain, leaves its marks, and is told when it asks again.
        let mut asked = false;
        let other = || core::mem::replace(&mut asked, true);
        assert!(!locked.lock.exclusive_unless(other));
        // Joined with the lock still held.
        join(updater);
        locked.lock.release_exclusive();
    });
}
