//! What makes a sequential state one for threads. All of them promise the same: an update that has returned is in whatever is read afterwards.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use node_replication::{Dispatch, Replica, ReplicaToken};
use percolog::oplog::{Logged, LoggedBuilder, Mode, Operation};

use super::states::State;

/// A state that threads share.
pub trait Shared<S: State>: Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// What a thread needs to get at it.
    type Handle;

    /// An empty one, for so many threads.
    fn new(threads: usize) -> Self;

    /// For a thread, and made on it.
    fn handle(&self, thread: usize) -> Self::Handle;

    /// Makes an update.
    fn update(&self, handle: &mut Self::Handle, update: S::Update);

    /// Reads what belongs to a random number.
    fn read(&self, handle: &mut Self::Handle, drawn: u64) -> u64;

    /// Calls `f` with the state, when all threads have gone.
    fn show(&self, f: &mut dyn FnMut(&S));
}

/// One of std's locks, or of `parking_lot`'s.
macro_rules! lock {
    ($type:ident, $lock:ty, $name:literal, $about:literal, |$it:ident| $write:expr, $read:expr) => {
        #[doc = $about]
        #[derive(Debug, Default)]
        pub struct $type<S>($lock);

        impl<S: State> Shared<S> for $type<S> {
            const NAME: &'static str = $name;
            type Handle = ();

            fn new(_threads: usize) -> Self {
                Self::default()
            }

            fn handle(&self, _thread: usize) {}

            #[inline]
            fn update(&self, (): &mut (), update: S::Update) {
                let $it = &self.0;
                update.exec(&mut $write);
            }

            #[inline]
            fn read(&self, (): &mut (), drawn: u64) -> u64 {
                let $it = &self.0;
                $read.read(drawn)
            }

            fn show(&self, f: &mut dyn FnMut(&S)) {
                let $it = &self.0;
                f(&$read);
            }
        }
    };
}

lock!(
    StdMutex,
    Mutex<S>,
    "Mutex",
    "`std::sync::Mutex`.",
    |it| it.lock().unwrap_or_else(PoisonError::into_inner),
    it.lock().unwrap_or_else(PoisonError::into_inner)
);
lock!(
    StdRwLock,
    RwLock<S>,
    "RwLock",
    "`std::sync::RwLock`.",
    |it| it.write().unwrap_or_else(PoisonError::into_inner),
    it.read().unwrap_or_else(PoisonError::into_inner)
);
lock!(
    ParkingMutex,
    parking_lot::Mutex<S>,
    "parking_lot::Mutex",
    "`parking_lot::Mutex`.",
    |it| it.lock(),
    it.lock()
);
lock!(
    ParkingRwLock,
    parking_lot::RwLock<S>,
    "parking_lot::RwLock",
    "`parking_lot::RwLock`.",
    |it| it.write(),
    it.read()
);

/// [`Logged`] as it is made without a word, or in a fixed mode.
#[derive(Debug)]
pub struct Log<S, O: Operation<S>, const MODE: u8>(Logged<S, O>);

/// As it is made without a word.
pub const ADAPTIVE: u8 = 0;
/// Always a lock.
pub const EAGER: u8 = 1;
/// Always a log.
pub const DEFERRING: u8 = 2;

impl<S: State, const MODE: u8> Shared<S> for Log<S, S::Update, MODE> {
    const NAME: &'static str = match MODE {
        EAGER => "Logged, eager",
        DEFERRING => "Logged, deferring",
        _ => "Logged",
    };
    type Handle = ();

    fn new(_threads: usize) -> Self {
        let mode = match MODE {
            EAGER => Mode::Eager,
            DEFERRING => Mode::Deferring,
            _ => Mode::Adaptive,
        };
        Self(LoggedBuilder::new().mode(mode).build(S::default()))
    }

    fn handle(&self, _thread: usize) {}

    #[inline]
    fn update(&self, (): &mut (), update: S::Update) {
        self.0.queue(update);
    }

    #[inline]
    fn read(&self, (): &mut (), drawn: u64) -> u64 {
        self.0.read().read(drawn)
    }

    fn show(&self, f: &mut dyn FnMut(&S)) {
        f(&self.0.synchronize());
    }
}

/// One replica's state.
#[derive(Debug, Default)]
pub struct Replicated<S>(S);

impl<S: State> Dispatch for Replicated<S> {
    type ReadOperation = u64;
    type WriteOperation = S::Update;
    type Response = u64;

    fn dispatch(&self, drawn: u64) -> u64 {
        self.0.read(drawn)
    }

    fn dispatch_mut(&mut self, update: S::Update) -> u64 {
        update.exec(&mut self.0);
        0
    }
}

/// `node-replication` 0.1, a replica for each chip of a simulated machine: each six threads.
pub struct Replicas<S: State>(Vec<Arc<Replica<'static, Replicated<S>>>>);

impl<S: State> fmt::Debug for Replicas<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").finish_non_exhaustive()
    }
}

const THREADS_A_REPLICA: usize = 6;

/// The crate's default; it has to hold all that happens before each replica's threads have done something.
const LOG_BYTES: usize = 32 << 20;

impl<S: State> Shared<S> for Replicas<S> {
    const NAME: &'static str = "node-replication";
    type Handle = (Arc<Replica<'static, Replicated<S>>>, ReplicaToken);

    fn new(threads: usize) -> Self {
        let log = Arc::new(node_replication::Log::new(LOG_BYTES));
        let replicas = threads.div_ceil(THREADS_A_REPLICA).max(1);
        Self((0..replicas).map(|_| Replica::new(&log)).collect())
    }

    fn handle(&self, thread: usize) -> Self::Handle {
        let replica = Arc::clone(&self.0[thread / THREADS_A_REPLICA % self.0.len()]);
        let token = replica.register().expect("a replica has room for 256");
        (replica, token)
    }

    #[inline]
    fn update(&self, (replica, token): &mut Self::Handle, update: S::Update) {
        replica.execute_mut(update, *token);
    }

    #[inline]
    fn read(&self, (replica, token): &mut Self::Handle, drawn: u64) -> u64 {
        replica.execute(drawn, *token)
    }

    fn show(&self, f: &mut dyn FnMut(&S)) {
        self.0[0].verify(|state| f(&state.0));
    }
}
