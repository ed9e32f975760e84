//! The same sequential `BTreeMap`, made one for threads in two ways: behind percolog's log for each core, and by `node-replication`,
//! which keeps a replica for each chip and one log between them.
//!
//! In both a lookup waits until all changes that have finished before are in what it reads. `node-replication` executes every change on
//! every replica and answers it; a [`Logged`] map executes it once, in the next read, and answers only who asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use node_replication::{Dispatch, Log, Replica, ReplicaToken};
use percolog::oplog::{Absorb, Logged, Operation};

use super::Table;
use percolog_validation::hash::mix;

type Sequential = BTreeMap<u64, u64>;

/// A change of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// Adds or replaces.
    Put(u64, u64),
    /// Takes out.
    Delete(u64),
}

impl Operation<Sequential> for Plain {
    fn exec(self, map: &mut Sequential) {
        match self {
            Self::Put(key, value) => map.insert(key, value),
            Self::Delete(key) => map.remove(&key),
        };
    }
}

/// A change that replaces an earlier one of the same key.
#[derive(Clone, Copy, Debug)]
pub struct Latest(Plain);

impl Latest {
    fn key(self) -> u64 {
        match self.0 {
            Plain::Put(key, _) | Plain::Delete(key) => key,
        }
    }
}

impl Operation<Sequential> for Latest {
    const ABSORBS: bool = true;

    fn exec(self, map: &mut Sequential) {
        self.0.exec(map);
    }

    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(mix(self.key()))
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.key() == earlier.key()
    }
}

/// How a [`Logged`] map writes its changes down.
pub trait Change: Operation<Sequential> + From<Plain> + Send {
    /// How figures call the map.
    const NAME: &'static str;
}

impl Change for Plain {
    const NAME: &'static str = "Logged<BTreeMap>";
}

impl From<Plain> for Latest {
    fn from(change: Plain) -> Self {
        Self(change)
    }
}

impl Change for Latest {
    const NAME: &'static str = "Logged<BTreeMap>, absorbing";
}

/// The map behind a log for each core, with the default limit and policy.
#[derive(Debug)]
pub struct Tree<C: Change>(Logged<Sequential, C>);

/// One whose changes are all executed.
pub type LoggedTree = Tree<Plain>;

/// One where a later change of a key replaces an earlier one that is still queued on the same core.
pub type AbsorbingTree = Tree<Latest>;

impl<C: Change> Table for Tree<C> {
    const NAME: &'static str = C::NAME;
    type Handle = ();

    fn new(_threads: usize) -> Self {
        Self(Logged::new(Sequential::new()))
    }

    fn handle(&self, _thread: usize) {}

    #[inline]
    fn get(&self, (): &mut (), key: u64) -> Option<u64> {
        self.0.synchronize().get(&key).copied()
    }

    #[inline]
    fn put(&self, (): &mut (), key: u64, value: u64) {
        self.0.queue(Plain::Put(key, value).into());
    }

    #[inline]
    fn delete(&self, (): &mut (), key: u64) {
        self.0.queue(Plain::Delete(key).into());
    }

    #[inline]
    fn put_and_tell(&self, (): &mut (), key: u64, value: u64) -> bool {
        self.0.with(|map| map.insert(key, value)).is_none()
    }

    #[inline]
    fn delete_and_tell(&self, (): &mut (), key: u64) -> bool {
        self.0.with(|map| map.remove(&key)).is_some()
    }

    fn len(&self, (): &mut ()) -> usize {
        self.0.synchronize().len()
    }
}

/// What a replica is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// For a value.
    Get(u64),
    /// How many there are.
    Len,
}

/// One replica's map.
#[derive(Debug, Default)]
pub struct Replicated(Sequential);

impl Dispatch for Replicated {
    type ReadOperation = Question;
    type WriteOperation = Plain;
    /// The value that was there, or is; or a number.
    type Response = Option<u64>;

    fn dispatch(&self, question: Question) -> Option<u64> {
        match question {
            Question::Get(key) => self.0.get(&key).copied(),
            Question::Len => Some(self.0.len() as u64),
        }
    }

    fn dispatch_mut(&mut self, change: Plain) -> Option<u64> {
        match change {
            Plain::Put(key, value) => self.0.insert(key, value),
            Plain::Delete(key) => self.0.remove(&key),
        }
    }
}

/// Threads of a replica: the cores of a chip of the machines that this is simulated on. Here it makes one replica of what the machine
/// has, as the crate's authors recommend for a chip.
const THREADS_A_REPLICA: usize = 6;

/// Bytes of the log: the crate's default. It has to hold all that happens before each replica's threads have done something: a replica that
/// nobody uses stops all others when the log is full.
const LOG_BYTES: usize = 32 << 20;

/// `node-replication` 0.1, a replica for each chip.
pub struct ReplicatedTree(Vec<Arc<Replica<'static, Replicated>>>);

impl fmt::Debug for ReplicatedTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicatedTree").finish_non_exhaustive()
    }
}

impl ReplicatedTree {
    fn replica(&self, thread: usize) -> &Arc<Replica<'static, Replicated>> {
        &self.0[thread / THREADS_A_REPLICA % self.0.len()]
    }
}

/// A thread's replica, and what it is known by there.
#[derive(Debug)]
pub struct Registered {
    replica: Arc<Replica<'static, Replicated>>,
    token: ReplicaToken,
}

impl Table for ReplicatedTree {
    const NAME: &'static str = "node-replication";
    type Handle = Registered;

    fn new(threads: usize) -> Self {
        let log = Arc::new(Log::new(LOG_BYTES));
        let replicas = threads.div_ceil(THREADS_A_REPLICA).max(1);
        Self((0..replicas).map(|_| Replica::new(&log)).collect())
    }

    fn handle(&self, thread: usize) -> Registered {
        let replica = Arc::clone(self.replica(thread));
        let token = replica.register().expect("a replica has room for 256");
        Registered { replica, token }
    }

    #[inline]
    fn get(&self, here: &mut Registered, key: u64) -> Option<u64> {
        here.replica.execute(Question::Get(key), here.token)
    }

    #[inline]
    fn put(&self, here: &mut Registered, key: u64, value: u64) {
        here.replica.execute_mut(Plain::Put(key, value), here.token);
    }

    #[inline]
    fn delete(&self, here: &mut Registered, key: u64) {
        here.replica.execute_mut(Plain::Delete(key), here.token);
    }

    #[inline]
    fn put_and_tell(&self, here: &mut Registered, key: u64, value: u64) -> bool {
        let before = here.replica.execute_mut(Plain::Put(key, value), here.token);
        before.is_none()
    }

    #[inline]
    fn delete_and_tell(&self, here: &mut Registered, key: u64) -> bool {
        let before = here.replica.execute_mut(Plain::Delete(key), here.token);
        before.is_some()
    }

    fn len(&self, here: &mut Registered) -> usize {
        let len = here.replica.execute(Question::Len, here.token);
        len.map_or(0, |len| len as usize)
    }
}
