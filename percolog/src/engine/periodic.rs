//! A timer that merges, so that neither readers nor updaters pay for much.

use super::stats::Drained;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use core::pin::Pin;
use core::time::Duration;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// A structure with pending updates that a maintenance thread can execute.
pub trait Drain {
    /// Executes up to `budget` pending updates, if nobody else has the object. Never waits for a guard, and
    /// passes on no panic.
    fn drain(&self, budget: usize) -> Drained;
}

impl<D: Drain + ?Sized> Drain for &D {
    fn drain(&self, budget: usize) -> Drained {
        (**self).drain(budget)
    }
}

impl<D: Drain + ?Sized> Drain for Arc<D> {
    fn drain(&self, budget: usize) -> Drained {
        (**self).drain(budget)
    }
}

/// What is pinned is only looked at.
impl<P: Deref<Target: Drain>> Drain for Pin<P> {
    fn drain(&self, budget: usize) -> Drained {
        (**self).drain(budget)
    }
}

/// A background thread that drains objects at an interval, until this is dropped.
///
/// The published patches of LDU have such a timer, of 100 milliseconds or a second. Without one, updates that
/// nobody reads are merged when a slot's queue is at its limit; which keeps what is pending small enough for
/// most. An object that somebody has when its turn comes is left for the next time.
///
/// *Cost:* a look at each object's dirty marks at each interval, and the merges that find something.
///
/// A child made by `fork` has no such thread; dropping its copy ends nothing and waits for nothing.
///
/// ```
/// use percolog::oplog::DrainThread;
/// use percolog::ldu::{Bag, Deferred, Entry};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let open = Arc::new(Deferred::new(Bag::new()));
/// let timer = DrainThread::every(Duration::from_millis(1))?;
/// timer.add(&open);
/// open.insert(&Entry::new("a file"))?;
/// while open.stats().pending > 0 {
///     std::thread::yield_now();
/// }
/// drop(timer); // from now on by hand
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DrainThread {
    shared: Arc<ReadGuard>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

struct ReadGuard {
    state: Mutex<State>,
    stopped: Condvar,
}

struct State {
    objects: Vec<Watched>,
    stop: bool,
}

enum Watched {
    Counted(Weak<dyn Drain + Send + Sync>),
    Static(&'static (dyn Drain + Sync)),
}

impl Watched {
    /// Whether the object is still there.
    fn drain(&self) -> bool {
        match self {
            Self::Counted(object) => match object.upgrade() {
                Some(object) => _ = object.drain(usize::MAX),
                None => return false,
            },
            Self::Static(object) => _ = object.drain(usize::MAX),
        }
        true
    }
}

impl DrainThread {
    /// Starts the thread, which has nothing to do yet.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn every(interval: Duration) -> io::Result<Self> {
        let shared = Arc::new(ReadGuard {
            state: Mutex::new(State {
                objects: Vec::new(),
                stop: false,
            }),
            stopped: Condvar::new(),
        });
        let thread = Builder::new().name("percolog-drain".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(interval)
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    /// Sees to an object for as long as anybody else has it. If the last other handle goes while it is being
    /// drained, it is dropped on the timer's thread.
    pub fn add<D: Drain + Send + Sync + 'static>(&self, object: &Arc<D>) {
        let object: Weak<D> = Arc::downgrade(object);
        self.watch(Watched::Counted(object));
    }

    /// Sees to an object that is always there.
    pub fn add_static(&self, object: &'static (dyn Drain + Sync)) {
        self.watch(Watched::Static(object));
    }

    fn watch(&self, object: Watched) {
        self.shared.lock().objects.push(object);
    }
}

impl ReadGuard {
    /// A panic under the lock leaves a list of objects, as sound as before.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, interval: Duration) {
        let mut state = self.lock();
        loop {
            let began = Instant::now();
            while !state.stop {
                let Some(left) = interval.checked_sub(began.elapsed()) else {
                    break;
                };
                if left.is_zero() {
                    break;
                }
                state = self
                    .stopped
                    .wait_timeout(state, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            if state.stop {
                return;
            }
            // Drained without the lock: what they execute may add others.
            let objects = core::mem::take(&mut state.objects);
            drop(state);
            let mut kept: Vec<_> = objects.into_iter().filter(Watched::drain).collect();
            state = self.lock();
            kept.append(&mut state.objects);
            state.objects = kept;
        }
    }
}

impl Drop for DrainThread {
    /// Ends the thread, after what it is draining. On that thread itself, it ends when it is next awake.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A copy of the process has no such thread; its lock may have been held by it.
            return;
        }
        self.shared.lock().stop = true;
        self.shared.stopped.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends without a panic: `drain` passes none on.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for DrainThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrainThread").finish_non_exhaustive()
    }
}
