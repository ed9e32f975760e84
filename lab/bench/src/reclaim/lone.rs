//! Single costs: a section, an update beside idle threads, what one stalled reader holds back.

use std::mem;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::node::{Account, Node};
use super::{Handle, Reclaimer, ReclaimerKind, Visitor};
use crate::runner::{self, Cell, RunError, Settings, Workload};

/// Runs empty sections and nothing else, on each thread.
///
/// # Errors
/// A thread could not be started.
pub fn sections(kind: ReclaimerKind, settings: Settings) -> Result<Cell, RunError> {
    kind.accept(Sections(settings))
}

struct Sections(Settings);

impl Visitor for Sections {
    type Output = Result<Cell, RunError>;

    fn visit<R: Reclaimer>(self) -> Self::Output {
        let reclaimer = R::new();
        runner::run(R::NAME, &Reading(&reclaimer), self.0)
    }
}

struct Reading<'r, R>(&'r R);

impl<'r, R: Reclaimer> Workload for Reading<'r, R> {
    type Worker = R::Handle<'r>;
    type Left = ();

    fn worker(&self, _thread: usize) -> Self::Worker {
        self.0.register()
    }

    fn block(&self, handle: &mut Self::Worker) -> u64 {
        const BLOCK: u64 = 4096;
        handle.reads(BLOCK);
        BLOCK
    }

    fn leave(&self, _handle: Self::Worker) {}

    fn settle(&self) {
        self.0.finish();
    }

    fn check(&self, _left: &[()]) -> Result<(), String> {
        Ok(())
    }
}

/// The nanoseconds of one update on one thread, for each of these numbers of threads that have been in a section and do
/// nothing now. At least `updates` updates, and at least `least` of time, are measured for each.
///
/// # Errors
/// Something was not freed, or a thread could not be started.
pub fn beside_idle_threads(
    kind: ReclaimerKind,
    idle: &[usize],
    updates: u64,
    least: Duration,
) -> Result<Vec<f64>, RunError> {
    idle.iter()
        .map(|&idle| {
            kind.accept(Idle {
                idle,
                updates,
                least,
            })
        })
        .collect()
}

struct Idle {
    idle: usize,
    updates: u64,
    least: Duration,
}

/// The stack of a thread that does nothing.
const SMALL_STACK: usize = 64 << 10;

impl Visitor for Idle {
    type Output = Result<f64, RunError>;

    fn visit<R: Reclaimer>(self) -> Self::Output {
        let reclaimer = R::new();
        let account = Account::default();
        let nanoseconds = thread::scope(|scope| {
            let (ready, is_ready) = mpsc::channel();
            let mut ends = Vec::with_capacity(self.idle);
            for _ in 0..self.idle {
                let (end, ended) = mpsc::channel::<()>();
                let (reclaimer, ready) = (&reclaimer, ready.clone());
                thread::Builder::new()
                    .stack_size(SMALL_STACK)
                    .spawn_scoped(scope, move || {
                        let mut handle = reclaimer.register();
                        handle.read();
                        // Both fail only if the measuring thread has given up.
                        let _ = ready.send(());
                        let _ = ended.recv();
                    })
                    .map_err(|source| RunError::Spawn {
                        threads: self.idle,
                        source,
                    })?;
                ends.push(end);
            }
            for _ in 0..self.idle {
                if is_ready.recv().is_err() {
                    break;
                }
            }
            let mut updater = Updater::new::<R>(&reclaimer, &account);
            // What has to be found out about the idle threads once is no part of the cost.
            updater.update(self.updates);
            let started = Instant::now();
            let mut updates = 0;
            let elapsed = loop {
                updater.update(self.updates);
                updates += self.updates;
                let elapsed = started.elapsed();
                if elapsed >= self.least {
                    break elapsed;
                }
            };
            updater.leave();
            drop(ends);
            Ok(elapsed.as_secs_f64() * 1e9 / updates as f64)
        })?;
        close::<R>(&reclaimer, &account)?;
        Ok(nanoseconds)
    }
}

/// What is held back while one thread stays in its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage {
    /// Objects that were retired and not freed when the section ended. An update that waits does not get that far.
    pub peak: u64,
    /// Those that were left after a tenth as many further updates.
    pub left: u64,
    /// Updates that finished while the section was open.
    pub updates: u64,
}

/// Lets one thread make `updates` updates while another one stays in a section, and a tenth as many afterwards. Where an
/// update waits, the section ends after `patience`, with one update begun.
///
/// # Errors
/// Something was not freed, or a thread could not be started.
pub fn beside_a_stalled_reader(
    kind: ReclaimerKind,
    updates: u64,
    patience: Duration,
) -> Result<Garbage, RunError> {
    kind.accept(Stalled { updates, patience })
}

struct Stalled {
    updates: u64,
    patience: Duration,
}

impl Visitor for Stalled {
    type Output = Result<Garbage, RunError>;

    fn visit<R: Reclaimer>(self) -> Self::Output {
        let reclaimer = R::new();
        let account = Account::default();
        let inside = Barrier::new(2);
        let (end, ended) = mpsc::channel::<()>();
        let garbage = thread::scope(|scope| {
            let (reclaimer, inside) = (&reclaimer, &inside);
            // Before anybody is inside: a thread that registers may have to wait for those who are.
            let mut updater = Updater::new::<R>(reclaimer, &account);
            scope.spawn(move || {
                let mut handle = reclaimer.register();
                handle.section(|| {
                    inside.wait();
                    // Fails only if the other thread has given up.
                    let _ = if R::WAITS {
                        ended.recv_timeout(self.patience).is_ok()
                    } else {
                        ended.recv().is_ok()
                    };
                });
            });
            inside.wait();
            let mut garbage = Garbage {
                peak: 1,
                left: 0,
                updates: 0,
            };
            if R::WAITS {
                updater.update(1);
            } else {
                updater.update(self.updates);
                garbage.peak = account.look();
                garbage.updates = self.updates;
            }
            drop(end);
            updater.update((self.updates / 10).max(1));
            garbage.left = account.look();
            updater.leave();
            garbage
        });
        close::<R>(&reclaimer, &account)?;
        Ok(garbage)
    }
}

/// A thread that does nothing but updates.
struct Updater<'a, H> {
    handle: H,
    account: &'a Account,
    current: std::ptr::NonNull<Node>,
}

impl<'a, H: Handle> Updater<'a, H> {
    fn new<R: Reclaimer<Handle<'a> = H> + 'a>(reclaimer: &'a R, account: &'a Account) -> Self {
        Self {
            handle: reclaimer.register(),
            account,
            current: account.allocate(),
        }
    }

    fn update(&mut self, times: u64) {
        for _ in 0..times {
            let old = mem::replace(&mut self.current, self.account.allocate());
            // SAFETY: it was in no place but `current`, and is retired this once; the thread is in no section.
            unsafe { self.handle.retire(old) };
        }
        self.account.retire(times);
    }

    fn leave(self) {
        self.account.retire(1);
        // SAFETY: no other thread ever had it.
        unsafe { Node::free(self.current) };
    }
}

/// Frees what is left, and sees that it was everything.
fn close<R: Reclaimer>(reclaimer: &R, account: &Account) -> Result<(), RunError> {
    reclaimer.finish();
    account.check().map_err(|detail| RunError::WrongState {
        structure: R::NAME,
        detail,
    })
}
