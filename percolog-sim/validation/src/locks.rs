//! Two locks around a serial section of a given length: Figures of the thesis, and what it names as the way out.

use std::cell::UnsafeCell;
use std::fmt;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::alone::Alone;
use super::clock;
use super::crew::{self, CrewError, Shift, Work};

/// A mutual exclusion that threads enter under their number.
pub trait Lock: Sync {
    /// Waits until the lock is this thread's.
    fn lock(&self, thread: usize);

    /// Lets the next one in. The caller must hold the lock, as `thread`.
    fn unlock(&self, thread: usize);
}

/// The ticket lock of Figure A-1: both fields in one line, as Linux had it. At most 2³² threads.
#[derive(Debug, Default)]
pub struct TicketLock {
    fields: Alone<Fields>,
}

#[derive(Debug, Default)]
struct Fields {
    current_ticket: AtomicU32,
    next_ticket: AtomicU32,
}

impl TicketLock {
    /// How often the lock has been taken, if nobody holds it or waits for it.
    fn taken(&self) -> u32 {
        let Fields {
            current_ticket,
            next_ticket,
        } = &self.fields.0;
        let taken = next_ticket.load(Ordering::Relaxed);
        if current_ticket.load(Ordering::Relaxed) == taken {
            taken
        } else {
            u32::MAX
        }
    }
}

impl Lock for TicketLock {
    #[inline]
    fn lock(&self, _: usize) {
        let Fields {
            current_ticket,
            next_ticket,
        } = &self.fields.0;
        // Relaxed: what the holder before did is acquired below.
        let ticket = next_ticket.fetch_add(1, Ordering::Relaxed);
        // Acquire: with the release in `unlock`.
        while ticket != current_ticket.load(Ordering::Acquire) {}
    }

    #[inline]
    fn unlock(&self, _: usize) {
        increment(&self.fields.0.current_ticket);
    }
}

/// `current_ticket++`: one instruction that reads and writes and need not be atomic, as only the holder writes the field.
///
/// As a load and a store of its own it would ask for the line twice.
#[cfg(target_arch = "x86_64")]
#[inline]
fn increment(field: &AtomicU32) {
    // SAFETY: the pointer is that of a live atomic. On x86-64 the store half is a release, and an aligned one that no other
    // thread can see in part. No `nomem`: the compiler must not move the serial section beyond it.
    unsafe {
        core::arch::asm!("inc dword ptr [{field}]", field = in(reg) field.as_ptr(), options(nostack));
    }
}

/// `current_ticket++`, only ever by the lock's holder.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn increment(field: &AtomicU32) {
    let ticket = field.load(Ordering::Relaxed);
    // Release: with the acquire in `lock`.
    field.store(ticket.wrapping_add(1), Ordering::Release);
}

/// The queue lock of Mellor-Crummey and Scott: each thread waits on a line of its own.
#[derive(Debug)]
pub struct McsLock {
    tail: Alone<McsTail>,
    places: McsPlaces,
}

impl McsLock {
    /// A lock for the threads `0..threads`.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            tail: Alone::default(),
            places: McsPlaces::new(threads),
        }
    }
}

impl Lock for McsLock {
    #[inline]
    fn lock(&self, thread: usize) {
        self.tail.0.lock(&self.places, thread);
    }

    #[inline]
    fn unlock(&self, thread: usize) {
        self.tail.0.unlock(&self.places, thread);
    }
}

/// Where threads wait for queue locks. A place serves any number of locks, one after the other; a thread has one for each lock that
/// it can hold at once.
#[derive(Debug)]
pub struct McsPlaces(Vec<Alone<Place>>);

#[derive(Debug, Default)]
struct Place {
    waiting: AtomicBool,
    /// The place behind this one, plus one.
    next: AtomicUsize,
}

impl McsPlaces {
    /// The places `0..places`.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self((0..places).map(|_| Alone::default()).collect())
    }
}

/// A queue lock without the places that its queue is made of.
#[derive(Debug, Default)]
pub struct McsTail {
    /// The last place in the queue, plus one; 0 if there is no queue.
    last: AtomicUsize,
}

impl McsTail {
    /// Waits at the place `own`, which is this thread's and not in use, until the lock is this thread's.
    #[inline]
    pub fn lock(&self, places: &McsPlaces, own: usize) {
        let place = &places.0[own].0;
        place.next.store(0, Ordering::Relaxed);
        place.waiting.store(true, Ordering::Relaxed);
        // Release: our place is ready before others can find it. Acquire: the holder before has left, if there is no queue.
        let before = self.last.swap(own + 1, Ordering::AcqRel);
        if before != 0 {
            // Release: with the acquire of `next` in `unlock`.
            places.0[before - 1]
                .0
                .next
                .store(own + 1, Ordering::Release);
            // Acquire: with the release of `waiting` in `unlock`.
            #[allow(
                clippy::missing_spin_loop,
                reason = "as in the ticket lock that it is compared with: Figure A-1 spins without a pause"
            )]
            while place.waiting.load(Ordering::Acquire) {}
        }
    }

    /// Takes the lock if nobody has it.
    #[inline]
    #[must_use]
    pub fn try_lock(&self, places: &McsPlaces, own: usize) -> bool {
        places.0[own].0.next.store(0, Ordering::Relaxed);
        // As in `lock`.
        self.last
            .compare_exchange(0, own + 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Lets the next one in. The caller must hold the lock, from the place `own`.
    #[inline]
    pub fn unlock(&self, places: &McsPlaces, own: usize) {
        let place = &places.0[own].0;
        // Acquire: with the release of `next` in `lock`; the place behind is ready.
        let mut next = place.next.load(Ordering::Acquire);
        if next == 0 {
            // Release: with the swap of whoever comes next.
            let alone =
                self.last
                    .compare_exchange(own + 1, 0, Ordering::Release, Ordering::Relaxed);
            if alone.is_ok() {
                return;
            }
            // Somebody has joined the queue and is about to say so.
            while next == 0 {
                hint::spin_loop();
                next = place.next.load(Ordering::Acquire);
            }
        }
        // Release: with the acquire of `waiting` in `lock`.
        places.0[next - 1].0.waiting.store(false, Ordering::Release);
    }
}

/// What a [`TicketLock`] guards: a structure of a kernel behind its spin lock.
pub struct Spun<T> {
    lock: TicketLock,
    value: UnsafeCell<T>,
}

// SAFETY: only who holds the lock reaches the value, one thread after the other, and the lock's release and acquire order what they do.
unsafe impl<T: Send> Sync for Spun<T> {}

impl<T> Spun<T> {
    /// Guards a value.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            lock: TicketLock::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// Calls `change` with the value, alone. If it panics, nobody gets in any more.
    pub fn with<R>(&self, thread: usize, change: impl FnOnce(&mut T) -> R) -> R {
        self.lock.lock(thread);
        // SAFETY: the lock is held, so there is no other reference; the closure cannot keep this one.
        let result = change(unsafe { &mut *self.value.get() });
        self.lock.unlock(thread);
        result
    }
}

impl<T> fmt::Debug for Spun<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spun")
            .field("lock", &self.lock)
            .finish_non_exhaustive()
    }
}

/// Which lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// [`TicketLock`].
    Ticket,
    /// [`McsLock`].
    Mcs,
}

/// Each thread holds the lock for `section` of every `total` cycles that it takes when it is alone.
///
/// # Errors
/// A thread could not be started, or the ticket lock's account is wrong.
pub fn run(shift: Shift, kind: LockKind, section: u64, total: u64) -> Result<Work, CrewError> {
    match kind {
        LockKind::Ticket => {
            let lock = TicketLock::default();
            percolog_roi::label(&lock.fields.0, "ticket lock");
            let work = drive(shift, &lock, section, total)?;
            work.checked(lock.taken().into(), work.all)
        }
        LockKind::Mcs => {
            let lock = McsLock::new(shift.threads);
            percolog_roi::label(&lock.tail.0.last, "tail of the MCS lock");
            drive(shift, &lock, section, total)
        }
    }
}

fn drive(shift: Shift, lock: &impl Lock, section: u64, total: u64) -> Result<Work, CrewError> {
    crew::run(shift, |thread| {
        move || {
            lock.lock(thread);
            clock::spin(section);
            lock.unlock(thread);
            clock::spin(total.saturating_sub(section));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Two threads, as a third would spend whole time slices waiting for one that does not run.
    fn excludes(lock: &impl Lock) {
        const TURNS: u64 = 20_000;
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let count = &count;
                scope.spawn(move || {
                    for _ in 0..TURNS {
                        lock.lock(thread);
                        // A load and a store: what the lock does not keep apart gets lost.
                        let before = count.load(Ordering::Relaxed);
                        count.store(before + 1, Ordering::Relaxed);
                        lock.unlock(thread);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 2 * TURNS);
    }

    #[test]
    fn tickets_exclude() {
        let lock = TicketLock::default();
        excludes(&lock);
        assert_eq!(lock.taken(), 40_000);
    }

    #[test]
    fn queues_exclude() {
        excludes(&McsLock::new(2));
    }

    #[test]
    fn both_fields_are_in_one_line() {
        let lock = TicketLock::default();
        let line = |field: &AtomicU32| field.as_ptr().addr() / 64;
        assert_eq!(
            line(&lock.fields.0.current_ticket),
            line(&lock.fields.0.next_ticket)
        );
    }
}
