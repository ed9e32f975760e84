//! The order in which keys were last used, kept exactly by all threads: one sequential list behind a lock, the same list replicated by
//! `node-replication`, and `percolog::collections::Lru`, which logs touches for each core.
//!
//! Every touch moves its key to the front; whoever asks for a key sees all touches that have finished before.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use node_replication::{Dispatch, Log, Replica, ReplicaToken};
use percolog::collections::Lru;

use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};
use percolog_validation::hash::mix;

/// Keys, by when they were last touched.
pub trait Recency: Send + Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// What a thread needs to get at it.
    type Handle;

    /// With all keys below `keys`, for so many threads; and for others behind them that will do nothing.
    fn new(keys: u64, threads: usize, idle: usize) -> Self;

    /// For a thread, and made on it: the idle ones have the last numbers.
    fn handle(&self, thread: usize) -> Self::Handle;

    /// Touches a key.
    fn touch(&self, handle: &mut Self::Handle, key: u64);

    /// Whether a key is there, all that has been done considered.
    fn contains(&self, handle: &mut Self::Handle, key: u64) -> bool;

    /// How many there are.
    fn len(&self, handle: &mut Self::Handle) -> usize;

    /// Whether there are none.
    fn is_empty(&self, handle: &mut Self::Handle) -> bool {
        self.len(handle) == 0
    }
}

/// A list through an array: the key used last comes first.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Before and after each key; the last element is the list's own.
    links: Vec<(usize, usize)>,
}

impl Order {
    fn new(keys: u64) -> Self {
        let keys = keys as usize;
        let ring = keys + 1;
        let links = (0..ring).map(|at| ((at + keys) % ring, (at + 1) % ring));
        Self {
            links: links.collect(),
        }
    }

    fn touch(&mut self, key: u64) {
        let (at, head) = (key as usize, self.links.len() - 1);
        let (before, after) = self.links[at];
        self.links[before].1 = after;
        self.links[after].0 = before;
        let first = self.links[head].1;
        self.links[at] = (head, first);
        self.links[first].0 = at;
        self.links[head].1 = at;
    }

    fn contains(&self, key: u64) -> bool {
        (key as usize) < self.links.len() - 1
    }

    /// By walking over it, so that a broken list is noticed.
    fn len(&self) -> usize {
        let head = self.links.len() - 1;
        let next = |at: &usize| Some(self.links[*at].1).filter(|next| *next != head);
        std::iter::successors(next(&head), next)
            .take(head + 1)
            .count()
    }
}

/// The list behind a lock.
#[derive(Debug)]
pub struct LockedOrder(Mutex<Order>);

impl Recency for LockedOrder {
    const NAME: &'static str = "Mutex<list>";
    type Handle = ();

    fn new(keys: u64, _threads: usize, _idle: usize) -> Self {
        Self(Mutex::new(Order::new(keys)))
    }

    fn handle(&self, _thread: usize) {}

    #[inline]
    fn touch(&self, (): &mut (), key: u64) {
        let mut order = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        order.touch(key);
    }

    #[inline]
    fn contains(&self, (): &mut (), key: u64) -> bool {
        let order = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        order.contains(key)
    }

    fn len(&self, (): &mut ()) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// `percolog::collections::Lru`.
#[derive(Debug)]
pub struct OurOrder(Lru<u64>);

impl Recency for OurOrder {
    const NAME: &'static str = "Lru";
    type Handle = ();

    fn new(keys: u64, _threads: usize, _idle: usize) -> Self {
        let order = Lru::new();
        (0..keys).for_each(|key| order.insert(key));
        Self(order)
    }

    fn handle(&self, _thread: usize) {}

    #[inline]
    fn touch(&self, (): &mut (), key: u64) {
        self.0.touch(key);
    }

    #[inline]
    fn contains(&self, (): &mut (), key: u64) -> bool {
        self.0.contains(&key)
    }

    fn len(&self, (): &mut ()) -> usize {
        self.0.len()
    }
}

/// What a replica is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether a key is there.
    Contains(u64),
    /// How many there are.
    Len,
}

/// A change of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch(u64);

/// How many keys a replica begins with: the crate makes replicas by `Default`.
const REPLICATED: u64 = 4096;

/// One replica's list.
#[derive(Debug)]
pub struct ReplicatedList(Order);

impl Default for ReplicatedList {
    fn default() -> Self {
        Self(Order::new(REPLICATED))
    }
}

impl Dispatch for ReplicatedList {
    type ReadOperation = Question;
    type WriteOperation = Touch;
    type Response = usize;

    fn dispatch(&self, question: Question) -> usize {
        match question {
            Question::Contains(key) => self.0.contains(key).into(),
            Question::Len => self.0.len(),
        }
    }

    fn dispatch_mut(&mut self, Touch(key): Touch) -> usize {
        self.0.touch(key);
        0
    }
}

/// Threads of a replica: the cores of a chip of the machines that this is simulated on.
const THREADS_A_REPLICA: usize = 6;

/// Bytes of the log: the crate's default.
const LOG_BYTES: usize = 32 << 20;

/// `node-replication` 0.1, a replica for each chip, and one for each idle thread, as if that were on a chip of its own.
pub struct ReplicatedOrder {
    replicas: Vec<Arc<Replica<'static, ReplicatedList>>>,
    /// Those that are not idle.
    threads: usize,
}

/// How many replicas so many threads have.
fn replicas(threads: usize) -> usize {
    threads.div_ceil(THREADS_A_REPLICA).max(1)
}

impl fmt::Debug for ReplicatedOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicatedOrder").finish_non_exhaustive()
    }
}

/// A thread's replica, and what it is known by there.
#[derive(Debug)]
pub struct Registered {
    replica: Arc<Replica<'static, ReplicatedList>>,
    token: ReplicaToken,
}

impl Recency for ReplicatedOrder {
    const NAME: &'static str = "node-replication";
    type Handle = Registered;

    fn new(keys: u64, threads: usize, idle: usize) -> Self {
        assert_eq!(keys, REPLICATED, "its replicas begin with so many");
        let log = Arc::new(Log::new(LOG_BYTES));
        let all = replicas(threads) + idle;
        Self {
            replicas: (0..all).map(|_| Replica::new(&log)).collect(),
            threads,
        }
    }

    fn handle(&self, thread: usize) -> Registered {
        let own = match thread.checked_sub(self.threads) {
            Some(idle) => replicas(self.threads) + idle,
            None => thread / THREADS_A_REPLICA,
        };
        let replica = Arc::clone(&self.replicas[own]);
        let token = replica.register().expect("a replica has room for 256");
        Registered { replica, token }
    }

    #[inline]
    fn touch(&self, here: &mut Registered, key: u64) {
        here.replica.execute_mut(Touch(key), here.token);
    }

    #[inline]
    fn contains(&self, here: &mut Registered, key: u64) -> bool {
        here.replica.execute(Question::Contains(key), here.token) == 1
    }

    fn len(&self, here: &mut Registered) -> usize {
        here.replica.execute(Question::Len, here.token)
    }
}

/// Operations between two looks at the stop flag.
const BLOCK: u64 = 256;

/// Keys of the list.
pub const KEYS: u64 = REPLICATED;

/// One thread.
struct Client<H> {
    handle: H,
    random: u64,
    missing: u64,
}

impl<H> Client<H> {
    fn new(handle: H, thread: usize) -> Self {
        Self {
            handle,
            // Never zero, where xorshift would stay.
            random: mix(thread as u64 + 1) | 1,
            missing: 0,
        }
    }

    /// Touches keys, and asks for them so many times in a hundred.
    #[inline(always)]
    fn operations<R: Recency<Handle = H>>(&mut self, list: &R, reads: u64, operations: u64) {
        for _ in 0..operations {
            // Marsaglia's xorshift.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let key = (self.random >> 20) % KEYS;
            if self.random % 100 < reads {
                self.missing += u64::from(!list.contains(&mut self.handle, key));
            } else {
                list.touch(&mut self.handle, key);
            }
        }
    }
}

struct Duel<R> {
    list: R,
    reads: u64,
}

impl<R: Recency> Workload for Duel<R> {
    type Worker = Client<R::Handle>;
    /// Keys that were not found.
    type Left = u64;

    fn worker(&self, thread: usize) -> Self::Worker {
        Client::new(self.list.handle(thread), thread)
    }

    fn block(&self, client: &mut Self::Worker) -> u64 {
        client.operations(&self.list, self.reads, BLOCK);
        BLOCK
    }

    fn step(&self, client: &mut Self::Worker) -> u64 {
        client.operations(&self.list, self.reads, STEP);
        STEP
    }

    fn leave(&self, client: Self::Worker) -> u64 {
        client.missing
    }

    fn settle(&self) {
        let mut handle = self.list.handle(0);
        std::hint::black_box(self.list.contains(&mut handle, 0));
    }

    fn check(&self, left: &[u64]) -> Result<(), String> {
        let missing: u64 = left.iter().sum();
        let there = self.list.len(&mut self.list.handle(0));
        if missing == 0 && there as u64 == KEYS {
            Ok(())
        } else {
            Err(format!(
                "{missing} keys were not found, and {there} of {KEYS} are there"
            ))
        }
    }
}

/// Runs one cell, in which so many of a hundred operations ask for a key and the others touch one.
///
/// # Errors
/// A key was lost; or a thread could not be started.
pub fn run<R: Recency>(settings: Settings, reads: u64) -> Result<Cell, RunError> {
    let list = R::new(KEYS, settings.threads, 0);
    runner::run(R::NAME, &Duel { list, reads }, settings)
}

/// What a thread has done so far, on lines of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Done(AtomicU64);

/// Runs one cell beside so many threads that have touched a key and do nothing now, and counts what is done within the time.
///
/// A structure in which an idle thread stops all others never lets go of its threads: they are left where they are, and end with the
/// process. So nothing is checked in the end, and nothing is freed.
///
/// # Errors
/// A thread could not be started.
pub fn beside_idle<R: Recency + 'static>(
    threads: usize,
    idle: usize,
    time: Duration,
) -> Result<Cell, RunError> {
    let list: &'static R = Box::leak(Box::new(R::new(KEYS, threads, idle)));
    let done: &'static [Done] = Vec::leak((0..threads).map(|_| Done::default()).collect());
    let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let start = |work: Box<dyn FnOnce() + Send>| {
        // Not joined: it may never end.
        let spawned = thread::Builder::new().spawn(work);
        spawned.map_err(|source| RunError::Spawn { threads, source })
    };
    let (touched, all_have) = mpsc::channel();
    for thread in threads..threads + idle {
        let touched = touched.clone();
        start(Box::new(move || {
            let mut client = Client::new(list.handle(thread), thread);
            client.operations(list, 0, 1);
            // The receiver waits for it.
            let _ = touched.send(());
            loop {
                thread::park();
            }
        }))?;
    }
    drop(touched);
    all_have.iter().take(idle).for_each(drop);
    let started = Instant::now();
    for (thread, done) in done.iter().enumerate() {
        start(Box::new(move || {
            let mut client = Client::new(list.handle(thread), thread);
            // Relaxed: the flag carries no data.
            while !stop.load(Ordering::Relaxed) {
                client.operations(list, 0, STEP);
                // Relaxed: a number that is looked at now and then.
                done.0.fetch_add(STEP, Ordering::Relaxed);
            }
        }))?;
    }
    thread::sleep(time);
    stop.store(true, Ordering::Relaxed);
    Ok(Cell {
        operations: done.iter().map(|done| done.0.load(Ordering::Relaxed)).sum(),
        elapsed: started.elapsed(),
        drift: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touched_key_comes_first_and_none_is_lost() {
        let mut order = Order::new(4);
        for key in [2, 0, 2, 3] {
            order.touch(key);
        }
        let head = order.links.len() - 1;
        let next = |at: &usize| Some(order.links[*at].1).filter(|next| *next != head);
        let keys: Vec<usize> = std::iter::successors(next(&head), next).collect();
        assert_eq!(keys, [3, 2, 0, 1]);
        assert_eq!(order.len(), 4);
        assert!(order.contains(3) && !order.contains(4));
    }

    #[test]
    fn idle_threads_stop_nobody_for_a_while() {
        for beside_idle in [
            beside_idle::<LockedOrder>,
            beside_idle::<OurOrder>,
            beside_idle::<ReplicatedOrder>,
        ] {
            // A busy machine may give the thread no time at all for a while. If it stands still, this does not end.
            while beside_idle(1, 2, Duration::from_millis(5))
                .expect("threads can be had")
                .operations
                == 0
            {}
        }
    }

    #[test]
    fn every_list_keeps_its_keys() {
        for run in [run::<LockedOrder>, run::<OurOrder>, run::<ReplicatedOrder>] {
            for reads in [0, 50] {
                let settings = Settings::until(2, 2000);
                let cell = run(settings, reads).expect("no key is lost");
                assert!(cell.operations > 0);
            }
        }
    }
}
