//! A table of elements that threads read and replace, with a reader that may never leave its section: how fast, and how much memory waits.
//!
//! A read takes the element of a place and reads it, in a section; an update puts a new element there and retires the old one. The same
//! allocator serves all, and elements are as large: one cache line.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use super::node::{Account, Node};
use super::trace::{BLOCK, Part, Trace};
use super::{Handle, Reclaimer, ReclaimerKind, Visitor};
use crate::runner::{self, Cell, RunError, Settings, Workload};

/// Places: as many as buckets of a small table.
const PLACES: usize = 256;

/// What a cell has found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// How fast.
    pub cell: Cell,
    /// Bytes that were retired and not freed when the threads stopped: all that was retired while a reader stayed inside, if one did and the
    /// reclaimer waits for readers one by one.
    pub waiting_bytes: u64,
}

/// Runs one cell, beside a thread that stays in a section all the while if `stalled`.
///
/// # Errors
/// A read met an element that was freed; something was not freed, or twice; or a thread could not be started. And also if a reader is to stall
/// whom every update would wait for.
pub fn run(
    kind: ReclaimerKind,
    trace: &Trace,
    settings: Settings,
    stalled: bool,
) -> Result<Found, RunError> {
    if stalled && kind.waits() {
        return Err(RunError::WrongState {
            structure: kind.name(),
            detail: "an update would wait for the reader that stays, for ever".to_owned(),
        });
    }
    kind.accept(Run {
        trace,
        settings,
        stalled,
    })
}

struct Run<'t> {
    trace: &'t Trace,
    settings: Settings,
    stalled: bool,
}

impl Visitor for Run<'_> {
    type Output = Result<Found, RunError>;

    fn visit<R: Reclaimer>(self) -> Self::Output {
        let (end, ended) = mpsc::channel::<()>();
        let duel = Duel::<R> {
            reclaimer: R::new(),
            account: Account::default(),
            places: std::array::from_fn(|_| AtomicPtr::default()),
            trace: self.trace,
            dead_reads: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            stays: Mutex::new(None),
        };
        for place in &duel.places {
            // Relaxed: the threads that look here are started later.
            place.store(duel.account.allocate().as_ptr(), Ordering::Relaxed);
        }
        thread::scope(|scope| {
            if self.stalled {
                let (tell, told) = mpsc::channel::<()>();
                let duel = &duel;
                let spawned = thread::Builder::new().spawn_scoped(scope, move || {
                    let mut handle = duel.reclaimer.register();
                    handle.section(|| {
                        // Both fail only if the other thread has given up.
                        let _ = tell.send(());
                        let _ = ended.recv();
                    });
                    drop(handle);
                    // And then the other end of `told` is gone, which says that this thread has left.
                });
                spawned.map_err(|source| RunError::Spawn { threads: 1, source })?;
                // It is inside.
                let _ = told.recv();
                let mut stays = duel.stays.lock().unwrap_or_else(PoisonError::into_inner);
                *stays = Some((end, told));
            }
            let cell = runner::run(R::NAME, &&duel, self.settings)?;
            Ok(Found {
                cell,
                // Relaxed: stored by this thread.
                waiting_bytes: duel.waiting.load(Ordering::Relaxed) * Node::BYTES,
            })
        })
    }
}

/// Lets the reader that stays go, and is told when it has gone.
type Stays = (mpsc::Sender<()>, mpsc::Receiver<()>);

struct Duel<'t, R> {
    reclaimer: R,
    account: Account,
    places: [AtomicPtr<Node>; PLACES],
    trace: &'t Trace,
    /// Reads that found an element without its mark, by the threads that have finished.
    dead_reads: AtomicU64,
    /// Elements that waited when the threads stopped.
    waiting: AtomicU64,
    stays: Mutex<Option<Stays>>,
}

struct Client<'d, H> {
    handle: H,
    trace: Part<'d>,
    /// Which place is next.
    at: usize,
    dead_reads: u64,
}

impl<'d, R: Reclaimer> Workload for &'d Duel<'_, R> {
    type Worker = Client<'d, R::Handle<'d>>;
    type Left = ();

    fn worker(&self, thread: usize) -> Self::Worker {
        Client {
            handle: self.reclaimer.register(),
            trace: self.trace.part(thread),
            at: thread * PLACES / 7,
            dead_reads: 0,
        }
    }

    fn block(&self, client: &mut Self::Worker) -> u64 {
        let mut operations = client.trace.next_block();
        self.account.retire(u64::from(operations.count_ones()));
        for _ in 0..BLOCK {
            // A step that is prime to the number of places.
            client.at = (client.at + 31) % PLACES;
            let place = &self.places[client.at];
            if operations & 1 == 1 {
                let new = self.account.allocate();
                // AcqRel: publishes the new element to readers; what is known of the old one comes along.
                if let Some(old) = NonNull::new(place.swap(new.as_ptr(), Ordering::AcqRel)) {
                    // SAFETY: the swap gave it to this thread alone; the thread is in no section.
                    unsafe { client.handle.retire(old) };
                }
            } else {
                let is_alive = client.handle.section(|| {
                    // Acquire: pairs with the swap of the update that put it there.
                    let node = NonNull::new(place.load(Ordering::Acquire));
                    // SAFETY: what is found in a section is not freed before its end.
                    node.is_none_or(|node| unsafe { node.as_ref() }.is_alive())
                });
                client.dead_reads += u64::from(!is_alive);
            }
            operations >>= 1;
        }
        BLOCK
    }

    fn leave(&self, client: Self::Worker) {
        // Relaxed: read after the threads have been joined.
        self.dead_reads
            .fetch_add(client.dead_reads, Ordering::Relaxed);
    }

    fn settle(&self) {
        // Relaxed: see `leave`; and this thread reads it.
        self.waiting.store(self.account.look(), Ordering::Relaxed);
        let stays = self.stays.lock();
        if let Some((end, told)) = stays.unwrap_or_else(PoisonError::into_inner).take() {
            drop(end);
            // Fails when the reader has left.
            let _ = told.recv();
        }
        self.reclaimer.finish();
        for place in &self.places {
            // Relaxed: the threads that used it have been joined.
            let last = place.swap(std::ptr::null_mut(), Ordering::Relaxed);
            if let Some(last) = NonNull::new(last) {
                self.account.retire(1);
                // SAFETY: no thread is left that could see it.
                unsafe { Node::free(last) };
            }
        }
    }

    fn check(&self, _left: &[()]) -> Result<(), String> {
        // Relaxed: see `leave`.
        match self.dead_reads.load(Ordering::Relaxed) {
            0 => self.account.check(),
            dead => Err(format!("{dead} reads met an element that had been freed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reclaimer_frees_everything_also_beside_a_reader_that_stays() {
        let trace = Trace::of(10_000, 50, 2);
        let settings = Settings::until(2, 5000);
        for &kind in ReclaimerKind::ALL {
            for stalled in [false, true] {
                let found = run(kind, &trace, settings, stalled);
                if stalled && kind.waits() {
                    assert!(found.is_err());
                    continue;
                }
                let found = found.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
                assert!(found.cell.operations >= BLOCK);
                // Nobody may free what the reader can see.
                assert!(!stalled || found.waiting_bytes > 0, "{kind:?}");
            }
        }
    }
}
