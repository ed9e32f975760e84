//! A table of sessions: opened, touched many times on all cores, closed, and rarely listed.

use crate::cpu::{DropsAll, Environment, Native};
use crate::hash::DefaultHashBuilder;
use crate::oplog::{Absorb, Combined, LogStats, Logged, LoggedBuilder, Operation, Synchronized};
use crate::sync::const_fn;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::mem;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// A table of sessions: opened, touched many times on all cores, closed, and rarely listed.
///
/// Before: each request takes the lock of the whole table, or of a part of it, to write down when its session was last used.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use std::time::{Duration, Instant};
///
/// let sessions = Mutex::new(HashMap::new());
/// let opened = Instant::now();
/// sessions.lock().unwrap().insert("3f2a", ("alice", opened));
/// if let Some((_, used)) = sessions.lock().unwrap().get_mut("3f2a") {
///     *used = opened + Duration::from_secs(5);
/// }
/// let before = opened + Duration::from_secs(60);
/// sessions.lock().unwrap().retain(|_, (_, used)| *used >= before);
/// assert!(sessions.lock().unwrap().is_empty());
/// ```
///
/// After: a request writes memory of its own core, and what cores have written is brought together when somebody asks.
///
/// ```
/// use percolog::collections::Sessions;
/// use std::time::{Duration, Instant};
///
/// let sessions = Sessions::new();
/// let opened = Instant::now();
/// sessions.open("3f2a", "alice", opened);
/// sessions.touch("3f2a", opened + Duration::from_secs(5));
/// let expired = sessions.expire(opened + Duration::from_secs(60));
/// assert_eq!(expired, [("3f2a", "alice")]);
/// assert!(sessions.is_empty());
/// ```
///
/// `T` is the time by which sessions expire, of any clock that you have: an `Instant`, seconds since the start. The calls take it as a parameter: often the
/// caller knows it already, and asking a clock can take longer than the rest.
///
/// # Keys
///
/// **A key names one session**: the number of a connection, an identifier drawn at random. It is touched and closed by who has learned that it was
/// opened. A key that was closed can be opened again once the table was listed. Before that, updates of both sessions may wait on several cores, and what
/// was meant for one of them may be done to the other.
///
/// **Order.** For such keys linearizable: a listing shows each session that was opened and not closed, and the latest time of those with which
/// it was touched, by calls that have returned; all of one moment. What is touched and not open stays so.
///
/// # Which queue, and why
///
/// The stamped log of [`oplog`](crate::oplog) with *combining* absorption. The first touch of a session on a core since the last listing is appended to
/// the core's log; each later one changes that one. A session that is opened and closed on one core before anybody lists leaves nothing
/// behind, however often it was touched. While one thread uses the table it is a lock, and everything is done at once: see [`Mode`](crate::oplog::Mode).
///
/// **Sustained ceiling.** None between listings: a core's log has two operations a session at most, and merges at 1024 that are different.
///
/// # Cost
///
/// | what | cache lines moved | allocations | executed |
/// |---|---|---|---|
/// | open, on a core of many, between listings | none | none, once the core's log and its index have grown | later, unless it is closed before |
/// | touch, again | none | none | never |
/// | touch, for the first time since the last listing | none | as open | later |
/// | close on the core of the opening, before anybody lists | none | none | never: nothing is left of both |
/// | close anywhere else | none | as open | later |
/// | at 1024 pending operations of a core, nobody else having the table | a merge: each core's lock and entries | the table's growth | what is pending |
/// | [`list`](Sessions::list), [`expire`](Sessions::expire), [`len`](Sessions::len) | a merge | the table's growth | what is pending |
/// | on one thread | none | the table's growth | at once |
///
/// **Use something else** on one thread, where a lock is a third faster, and where requests look something up in the table: a map, with the time in each
/// entry.
///
/// Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, §5.2.2 (absorption).
///
/// # Progress
///
/// Updates block for a few instructions, and for another thread's update while the table is a lock. They do not wait for a listing: while somebody holds one,
/// cores' logs grow.
///
/// # Keys and values
///
/// `Hash` is used by the caller, once for each call; `Eq` also by whoever lists or merges, and under the lock of a core's log: neither it nor a key's destructor
/// may use the table. Values are dropped by whoever closes the session, if nothing is left of both; else by whoever lists or merges. If a destructor
/// panics there the table is poisoned: listings panic until [`clear_poison`](Sessions::clear_poison). No other session is lost.
pub struct Sessions<K, V, T, H = DefaultHashBuilder, E = Native>
where
    K: Eq + Send,
    V: Send,
    T: Ord + Copy + Send,
    E: Environment,
{
    log: Logged<Table<K, V, T>, Change<K, V, T>, E>,
    hasher: H,
}

/// So many sessions are touched on each core before they are merged: more are more likely to be touched again.
const LIMIT: usize = 1024;

/// Who is there, by key.
struct Table<K, V, T> {
    sessions: DropsAll<HashTable<Session<K, V, T>>>,
}

struct Session<K, V, T> {
    hash: u64,
    key: K,
    value: V,
    touched: T,
}

/// The operations. All of one key make up one, or none.
struct Change<K, V, T> {
    hash: u64,
    key: K,
    what: What<V, T>,
}

enum What<V, T> {
    Open(V, T),
    Touch(T),
    Close,
}

impl<K: Eq, V, T: Ord + Copy> Table<K, V, T> {
    /// Opens a session, and returns the one that had the key.
    fn open(&mut self, session: Session<K, V, T>) -> Option<Session<K, V, T>> {
        let is_it =
            |other: &Session<K, V, T>| other.hash == session.hash && other.key == session.key;
        match self.sessions.entry(session.hash, is_it, |other| other.hash) {
            Entry::Occupied(mut before) => Some(mem::replace(before.get_mut(), session)),
            Entry::Vacant(place) => {
                place.insert(session);
                None
            }
        }
    }

    fn get_mut(&mut self, hash: u64, key: &K) -> Option<&mut Session<K, V, T>> {
        let is_it = |session: &Session<K, V, T>| session.hash == hash && session.key == *key;
        self.sessions.find_mut(hash, is_it)
    }

    fn close(&mut self, hash: u64, key: &K) -> Option<Session<K, V, T>> {
        let is_it = |session: &Session<K, V, T>| session.hash == hash && session.key == *key;
        let found = self.sessions.find_entry(hash, is_it).ok()?;
        Some(found.remove().0)
    }
}

impl<K, V, T> Operation<Table<K, V, T>> for Change<K, V, T>
where
    K: Eq + Send,
    V: Send,
    T: Ord + Copy + Send,
{
    const ABSORBS: bool = true;

    fn exec(self, table: &mut Table<K, V, T>) {
        let Self { hash, key, what } = self;
        // What is dropped is dropped when the table is in order again.
        match what {
            What::Open(value, touched) => drop(table.open(Session {
                hash,
                key,
                value,
                touched,
            })),
            What::Touch(at) => {
                if let Some(session) = table.get_mut(hash, &key) {
                    session.touched = at.max(session.touched);
                }
            }
            What::Close => drop(table.close(hash, &key)),
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        Absorb::Combine(self.hash)
    }

    fn combine(&mut self, later: Self) -> Combined<Self> {
        if self.hash != later.hash || self.key != later.key {
            return Combined::Apart(later);
        }
        match (&mut self.what, &later.what) {
            (What::Open(_, touched) | What::Touch(touched), What::Touch(at)) => {
                *touched = (*touched).max(*at);
                Combined::One
            }
            (What::Open(..), What::Close) => Combined::Nothing,
            (What::Touch(_), What::Close) => {
                self.what = What::Close;
                Combined::One
            }
            // A key that is opened again.
            (_, What::Open(..)) | (What::Close, _) => Combined::Apart(later),
        }
    }
}

impl<K, V, T> Sessions<K, V, T>
where
    K: Hash + Eq + Send,
    V: Send,
    T: Ord + Copy + Send,
{
    /// Creates a table without sessions. Allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(DefaultHashBuilder::new())
    }
}

impl<K, V, T, H> Sessions<K, V, T, H>
where
    K: Hash + Eq + Send,
    V: Send,
    T: Ord + Copy + Send,
    H: BuildHasher,
{
    const_fn! {
        /// Creates one that hashes keys in another way. Allocates nothing; usable in statics.
        #[must_use]
        pub const fn with_hasher(hasher: H) -> Self {
            Self::new_in(hasher, Native)
        }
    }
}

impl<K, V, T, H, E> Sessions<K, V, T, H, E>
where
    K: Hash + Eq + Send,
    V: Send,
    T: Ord + Copy + Send,
    H: BuildHasher,
    E: Environment,
{
    const_fn! {
        /// A table in an environment of its own: for tests that force migrations and clock skew.
        #[doc(hidden)]
        pub const fn new_in(hasher: H, environment: E) -> Self {
            Self::build_in(LoggedBuilder::new().limit(LIMIT), hasher, environment)
        }
    }

    const_fn! {
        /// The same with limits: for tests.
        #[doc(hidden)]
        pub const fn build_in(limits: LoggedBuilder, hasher: H, environment: E) -> Self {
            Self {
                log: limits
                    // Nobody waits for who lists.
                    .hard_limit(usize::MAX)
                    // A value's destructor runs when the table is in order again.
                    .merge_poisoned()
                    .build_in(
                        Table { sessions: DropsAll::of(HashTable::new()) },
                        environment,
                    ),
                hasher,
            }
        }
    }

    fn queue(&self, key: K, what: What<V, T>) {
        let hash = self.hasher.hash_one(&key);
        self.log.queue(Change { hash, key, what });
    }

    /// Opens a session, which was touched now.
    ///
    /// *Progress* and *cost:* see the type.
    pub fn open(&self, key: K, value: V, now: T) {
        self.queue(key, What::Open(value, now));
    }

    /// Says that a session is used, if it is open. Times need not come in order: the latest counts.
    ///
    /// *Progress* and *cost:* see the type.
    pub fn touch(&self, key: K, now: T) {
        self.queue(key, What::Touch(now));
    }

    /// Closes a session, if it is open, and drops its value. To have the value, [list](Self::list) and [take](SessionList::take) it.
    ///
    /// *Progress* and *cost:* see the type.
    pub fn close(&self, key: K) {
        self.queue(key, What::Close);
    }

    /// Closes all sessions that were last touched before some time, and returns them, in no order.
    ///
    /// # Panics
    /// If this thread has a listing of the table already, or the table is poisoned.
    #[track_caller]
    pub fn expire(&self, before: T) -> Vec<(K, V)> {
        let mut list = self.list();
        let expired = (list.table.sessions).extract_if(|session| session.touched < before);
        expired
            .map(|session| (session.key, session.value))
            .collect()
    }

    /// All sessions at one moment, to this thread alone, for as long as the listing lives. What is done to sessions meanwhile takes effect afterwards.
    ///
    /// # Panics
    /// As [`expire`](Self::expire).
    #[track_caller]
    pub fn list(&self) -> SessionList<'_, K, V, T, H> {
        SessionList {
            table: self.log.synchronize(),
            hasher: &self.hasher,
        }
    }

    /// Returns the number of sessions: exactly, at one moment between the call and the return.
    ///
    /// # Panics
    /// As [`expire`](Self::expire).
    #[track_caller]
    #[must_use]
    pub fn len(&self) -> usize {
        self.list().len()
    }

    /// Returns whether there are no sessions; as [`len`](Self::len).
    ///
    /// # Panics
    /// As [`expire`](Self::expire).
    #[track_caller]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the table has asked of the allocator, exactly while nobody uses it; brings the logs together first. What keys and values
    /// themselves point to is not counted.
    ///
    /// # Panics
    /// As [`expire`](Self::expire).
    #[track_caller]
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        let table = self.log.synchronize().sessions.allocation_size();
        self.log.memory_usage().total() + table
    }

    /// Returns whether a destructor, or the holder of a listing, has panicked. See [the type](Self#keys-and-values).
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.log.is_poisoned()
    }

    /// Lets the table be listed again.
    pub fn clear_poison(&self) {
        self.log.clear_poison();
    }

    /// Returns statistics: what deferring has cost so far. Locks each core's log for a moment.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.log.stats()
    }
}

impl<K, V, T> Default for Sessions<K, V, T>
where
    K: Hash + Eq + Send,
    V: Send,
    T: Ord + Copy + Send,
{
    fn default() -> Self {
        Self::new()
    }
}

/// Never merges and never waits.
impl<K, V, T, H, E> fmt::Debug for Sessions<K, V, T, H, E>
where
    K: Eq + Send,
    V: Send,
    T: Ord + Copy + Send,
    E: Environment,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// All of the [`Sessions`] at one moment.
#[must_use = "others can list as soon as this is dropped"]
pub struct SessionList<'a, K, V, T, H = DefaultHashBuilder> {
    table: Synchronized<'a, Table<K, V, T>>,
    hasher: &'a H,
}

impl<K, V, T, H> SessionList<'_, K, V, T, H>
where
    K: Hash + Eq,
    T: Ord + Copy,
    H: BuildHasher,
{
    /// Every session, and when it was last touched, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V, T)> {
        let sessions = self.table.sessions.iter();
        sessions.map(|session| (&session.key, &session.value, session.touched))
    }

    /// The value of a session that is open, and when it was last touched.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<(&V, T)> {
        let hash = self.hasher.hash_one(key);
        let found = (self.table.sessions).find(hash, |session| session.key == *key)?;
        Some((&found.value, found.touched))
    }

    /// Closes a session, and returns its value.
    pub fn take(&mut self, key: &K) -> Option<V> {
        let closed = self.table.close(self.hasher.hash_one(key), key)?;
        Some(closed.value)
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.sessions.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, V, T, H> fmt::Debug for SessionList<'_, K, V, T, H>
where
    K: fmt::Debug,
    V: fmt::Debug,
    T: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sessions = self.table.sessions.iter();
        let entries = sessions.map(|session| (&session.key, (&session.value, &session.touched)));
        f.debug_map().entries(entries).finish()
    }
}
