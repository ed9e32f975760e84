//! The same operations on memory that readers read: what a reclaimer frees too early, twice or never is found.
//!
//! A few shared places hold one object each. A read takes the object of a place and looks at its mark, some reads after
//! they have let another thread run; an update puts a new object there and retires the old one. Freed objects lose their
//! mark and stay allocated until the end, so that no late reader can take another object for the one it had.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;

use super::node::{Account, Node};
use super::trace::{BLOCK, Part, Trace};
use super::{Handle, Reclaimer, ReclaimerKind, Visitor};
use crate::runner::{self, Cell, RunError, Settings, Workload};

/// Shared places: few, so that readers and updates meet.
const PLACES: usize = 4;

/// Reads that let other threads run inside of their section: one of this many.
const READS_PER_PAUSE: u64 = 64;

/// Runs one cell with every check. Its rate says little: checking takes most of the time.
///
/// # Errors
/// An object was freed while a section could see it, or twice, or never; or a thread could not be started.
pub fn checked(kind: ReclaimerKind, trace: &Trace, settings: Settings) -> Result<Cell, RunError> {
    kind.accept(Check { trace, settings })
}

struct Check<'t> {
    trace: &'t Trace,
    settings: Settings,
}

impl Visitor for Check<'_> {
    type Output = Result<Cell, RunError>;

    fn visit<R: Reclaimer>(self) -> Self::Output {
        let places = Places::<R>::new(self.trace);
        places.fill();
        runner::run(R::NAME, &Checked(&places), self.settings)
    }
}

struct Places<'t, R> {
    reclaimer: R,
    account: Account,
    places: [AtomicPtr<Node>; PLACES],
    trace: &'t Trace,
    /// Reads that found an object without its mark, by the threads that have finished.
    dead_reads: AtomicU64,
}

impl<'t, R: Reclaimer> Places<'t, R> {
    fn new(trace: &'t Trace) -> Self {
        Self {
            reclaimer: R::new(),
            account: Account::with_graves(),
            places: Default::default(),
            trace,
            dead_reads: AtomicU64::new(0),
        }
    }

    /// Puts the first objects into the places; the account must not move from here on.
    fn fill(&self) {
        for place in &self.places {
            // Relaxed: the threads that look here are started later.
            place.store(self.account.allocate().as_ptr(), Ordering::Relaxed);
        }
    }
}

struct Worker<'p, H> {
    handle: H,
    trace: Part<'p>,
    operations: u64,
    dead_reads: u64,
}

struct Checked<'p, 't, R>(&'p Places<'t, R>);

impl<'p, R: Reclaimer> Workload for Checked<'p, '_, R> {
    type Worker = Worker<'p, R::Handle<'p>>;
    type Left = ();

    fn worker(&self, thread: usize) -> Self::Worker {
        Worker {
            handle: self.0.reclaimer.register(),
            trace: self.0.trace.part(thread),
            operations: 0,
            dead_reads: 0,
        }
    }

    fn block(&self, worker: &mut Self::Worker) -> u64 {
        let account = &self.0.account;
        let mut operations = worker.trace.next_block();
        account.retire(u64::from(operations.count_ones()));
        for _ in 0..BLOCK {
            worker.operations += 1;
            let place = &self.0.places[worker.operations as usize % PLACES];
            if operations & 1 == 1 {
                let new = account.allocate();
                // AcqRel: publishes the new object's mark to readers; what is known of the old one comes along.
                if let Some(old) = NonNull::new(place.swap(new.as_ptr(), Ordering::AcqRel)) {
                    // SAFETY: the swap gave it to this thread alone; the thread is in no section.
                    unsafe { worker.handle.retire(old) };
                }
            } else {
                let pauses = worker.operations.is_multiple_of(READS_PER_PAUSE);
                let all_alive = worker.handle.section(|| read(place, pauses));
                worker.dead_reads += u64::from(!all_alive);
            }
            operations >>= 1;
        }
        BLOCK
    }

    fn leave(&self, worker: Self::Worker) {
        // Relaxed: read after the threads have been joined.
        self.0
            .dead_reads
            .fetch_add(worker.dead_reads, Ordering::Relaxed);
    }

    fn settle(&self) {
        self.0.reclaimer.finish();
        for place in &self.0.places {
            // Relaxed: the threads that used it have been joined.
            let last = place.swap(std::ptr::null_mut(), Ordering::Relaxed);
            if let Some(last) = NonNull::new(last) {
                self.0.account.retire(1);
                // SAFETY: no thread is left that could see it.
                unsafe { Node::free(last) };
            }
        }
    }

    fn check(&self, _left: &[()]) -> Result<(), String> {
        // Relaxed: see `leave`.
        let dead = self.0.dead_reads.load(Ordering::Relaxed);
        if dead > 0 {
            return Err(format!(
                "{dead} reads met an object that had been freed inside of their section"
            ));
        }
        self.0.account.check()
    }
}

/// Reads the object of a place, inside of a section, and says whether it stayed alive.
fn read(place: &AtomicPtr<Node>, pauses: bool) -> bool {
    // Acquire: pairs with the swap of the update that put it there.
    let Some(node) = NonNull::new(place.load(Ordering::Acquire)) else {
        return true;
    };
    // SAFETY: the account keeps its nodes allocated until after the run, freed or not.
    let node = unsafe { node.as_ref() };
    let first = node.is_alive();
    if pauses {
        thread::yield_now();
    }
    first && node.is_alive()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::marker::PhantomData;

    /// Frees at once; the checks must notice.
    struct TooEarly;

    /// Frees nothing at all.
    struct Never;

    struct Wrong<R>(PhantomData<R>);

    impl<R> Handle for Wrong<R>
    where
        R: Frees,
    {
        fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T {
            inside()
        }

        unsafe fn retire(&mut self, node: NonNull<Node>) {
            R::free(node);
        }
    }

    trait Frees {
        fn free(node: NonNull<Node>);
    }

    impl Frees for TooEarly {
        fn free(node: NonNull<Node>) {
            // SAFETY: it stays allocated, so what is wrong here is noticed and does no harm.
            unsafe { Node::free(node) };
        }
    }

    impl Frees for Never {
        fn free(_node: NonNull<Node>) {}
    }

    macro_rules! wrong {
        ($($wrong:ident)*) => {$(
            impl Reclaimer for $wrong {
                const NAME: &'static str = stringify!($wrong);
                const WAITS: bool = false;
                type Handle<'r> = Wrong<Self>;

                fn new() -> Self {
                    Self
                }

                fn register(&self) -> Wrong<Self> {
                    Wrong(PhantomData)
                }

                fn finish(&self) {}
            }
        )*};
    }
    wrong!(TooEarly Never);

    fn run<R: Reclaimer>() -> Result<Cell, RunError> {
        let trace = Trace::of(10_000, 50, 2);
        let settings = Settings::until(2, 100_000);
        Check {
            trace: &trace,
            settings,
        }
        .visit::<R>()
    }

    #[test]
    fn freeing_at_once_is_noticed() {
        // Two threads need not meet in one run, on a machine with one free processor.
        let error = loop {
            if let Err(error) = run::<TooEarly>() {
                break error;
            }
        };
        assert!(error.to_string().contains("freed inside"), "{error}");
    }

    #[test]
    fn freeing_nothing_is_noticed() {
        let error = run::<Never>().expect_err("everything is lost");
        assert!(error.to_string().contains("4 freed"), "{error}");
    }
}
