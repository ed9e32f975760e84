//! A registry of entries that come and go on all cores, and are listed rarely.

use crate::cpu::{DropsAll, Environment, Native};
use crate::oplog::{
    Absorb, AddToken, LogStats, Logged, LoggedBuilder, Mode, Operation, RemoveToken, Synchronized,
    token_pair,
};
use crate::sync::const_fn;
use core::fmt;
use core::hash::{BuildHasherDefault, Hasher};
use core::ops::Deref;
use hashbrown::HashMap;

/// A registry of entries that come and go on all cores, and are listed rarely.
///
/// ```
/// use percolog::collections::Registry;
///
/// static OPEN: Registry<&str> = Registry::new();
///
/// let log = OPEN.register("/var/log/messages");   // no shared cache line
/// {
///     let _passwords = OPEN.register("/etc/passwd");
///     assert_eq!(OPEN.len(), 2);                  // exact, whatever threads have registered
/// }                                               // unregistered as its handle is dropped
/// assert!(OPEN.list().iter().all(|(_, file)| *file == "/var/log/messages"));
/// drop(log);
/// assert!(OPEN.is_empty());
/// ```
///
/// **Order.** Linearizable: a listing, and a length, show each entry whose registration has returned and whose handle has not been dropped, and
/// none whose handle's drop has returned; all of one moment.
///
/// # Which queue, and why
///
/// The stamped log of [`oplog`](crate::oplog) with *cancelling* absorption: each entry is an identity that is registered once and
/// unregistered once, which the handle sees to. So an entry that goes while its registration is still in the queue of the core leaves
/// nothing behind, and neither of the two is ever executed or takes part in a merge. That is how most entries live: a
/// file is opened, read and closed by one thread. A removal that finds its partner takes no time stamp either.
///
/// **Sustained ceiling.** None for entries that go from the core they came on before anybody lists; entries that are there for longer, or move
/// to other cores, are each executed twice, by one thread at a time.
///
/// # Cost
///
/// | what | cache lines moved | allocations | executed |
/// |---|---|---|---|
/// | register, between listings | none | none, once the core's queue and its index have grown | later, unless it is cancelled |
/// | unregister on the core of the registration, before anybody lists | none | none | never: the two cancel |
/// | unregister anywhere else | none | none, once the core's queue has grown | later |
/// | the first of these on a core after a listing | ≤ 3 | none | |
/// | at 128 pending entries of a core, nobody else having the registry | a merge: each core's lock and entries | the table's growth | what is pending |
/// | [`len`](Registry::len), [`list`](Registry::list) | a merge | the table's growth | what is pending |
///
/// Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, §5.2.2 and §6.2 (absorption); Linux' list
/// of open files, which every open and close had to lock, is the example.
///
/// # Progress
///
/// Registering and unregistering block for a few instructions only. They never wait for a listing: while somebody holds one, cores'
/// queues grow. At 128 pending entries a core merges if nobody else has the registry. Listing waits for whoever lists or merges.
///
/// # Values
///
/// A value is dropped by the thread that unregisters it, if the two cancel; else by the thread that merges. If its
/// destructor panics there, or the holder of a listing does, the registry is poisoned: listings panic until
/// [`clear_poison`](Registry::clear_poison). The table is in order all the same, and no other entry is lost: so registering and unregistering go
/// on, and so do the merges that they pay for. (What a panic has left of a *value* that a listing was changing is as it left it.)
pub struct Registry<T: Send, E: Environment = Native> {
    log: Logged<Entries<T>, Change<T>, E>,
}

/// Who is there, by number.
#[derive(Debug)]
struct Entries<T> {
    by_id: DropsAll<HashMap<u64, T, BuildHasherDefault<Spread>>>,
}

/// Numbers are given out by the program itself, mostly one after the other: a multiplication spreads them, and nobody can choose
/// them to collide.
#[derive(Debug, Default, Clone, Copy)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let wide = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The operations: an entry comes, or goes.
enum Change<T> {
    Register(AddToken, T),
    Unregister(RemoveToken),
}

impl<T: Send> Operation<Entries<T>> for Change<T> {
    const ABSORBS: bool = true;

    fn exec(self, entries: &mut Entries<T>) {
        match self {
            Self::Register(birth, value) => {
                entries.by_id.insert(birth.id(), value);
            }
            // The value is dropped when the table is in order again.
            Self::Unregister(death) => drop(entries.by_id.remove(&death.id())),
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Self::Register(birth, _) => Absorb::Add(birth),
            Self::Unregister(death) => Absorb::Remove(death),
        }
    }
}

impl<T: Send> Registry<T> {
    const_fn! {
        /// Creates a registry with nobody in it. Allocates nothing; usable in statics.
        #[must_use]
        pub const fn new() -> Self {
            Self::new_in(Native)
        }
    }
}

impl<T: Send, E: Environment> Registry<T, E> {
    const_fn! {
        /// A registry in an environment of its own: for tests that force migrations and clock skew.
        #[doc(hidden)]
        pub const fn new_in(environment: E) -> Self {
            Self {
                log: LoggedBuilder::new()
                    .mode(Mode::Deferring)
                    // Finding partners across cores takes a look into an index for each entry, and so does executing them.
                    .absorb_while_merging(false)
                    // Nobody waits for who lists.
                    .hard_limit(usize::MAX)
                    // A value's destructor runs when the table is in order again.
                    .merge_poisoned()
                    .build_in(
                        Entries {
                            by_id: DropsAll::of(HashMap::with_hasher(BuildHasherDefault::new())),
                        },
                        environment,
                    ),
            }
        }
    }

    /// Registers a value, until the handle is dropped. For a registry that is not in a static, and handles that outlive the
    /// borrow, see [`register_in`](Self::register_in).
    ///
    /// *Progress* and *cost:* see the type.
    pub fn register(&self, value: T) -> Registration<&Self> {
        Self::register_in(self, value)
    }

    /// Registers a value in a registry to which there is a pointer of any kind, which the handle keeps.
    ///
    /// ```
    /// use percolog::collections::Registry;
    /// use std::sync::Arc;
    ///
    /// let sessions = Arc::new(Registry::new());
    /// let mine = Registry::register_in(sessions.clone(), "alice");
    /// std::thread::spawn(move || {
    ///     // The session ends on another thread than it began on.
    ///     drop(mine);
    /// }).join().unwrap();
    /// assert_eq!(sessions.len(), 0);
    /// ```
    pub fn register_in<R: Deref<Target = Self>>(registry: R, value: T) -> Registration<R> {
        let (birth, death) = token_pair();
        registry.register_as(birth, value);
        Registration {
            registry,
            death: Some(death),
        }
    }

    /// Registers a value under an identity whose two halves the caller keeps: for who has no place for a handle.
    /// [`unregister`](Self::unregister) ends it.
    ///
    /// ```
    /// use percolog::collections::Registry;
    /// use percolog::oplog::token_pair;
    ///
    /// let registry = Registry::new();
    /// let (birth, death) = token_pair();
    /// registry.register_as(birth, 7);
    /// assert_eq!(registry.len(), 1);
    /// registry.unregister(death);
    /// assert_eq!(registry.len(), 0);
    /// ```
    pub fn register_as(&self, birth: AddToken, value: T) {
        self.log.queue(Change::Register(birth, value));
    }

    /// Unregisters what was registered under the other half of an identity. If it has not been registered before (or in another
    /// registry), nothing happens, now or later.
    pub fn unregister(&self, death: RemoveToken) {
        self.log.queue(Change::Unregister(death));
    }

    /// Returns the number of entries: exactly, at one moment between the call and the return.
    ///
    /// # Panics
    /// If this thread has a listing of the registry already, or the registry is poisoned.
    #[track_caller]
    #[must_use]
    pub fn len(&self) -> usize {
        self.list().len()
    }

    /// Returns whether there are no entries; as [`len`](Self::len).
    ///
    /// # Panics
    /// As [`len`](Self::len).
    #[track_caller]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries at one moment, to this thread alone, for as long as the listing lives. What is registered and unregistered meanwhile
    /// takes effect afterwards.
    ///
    /// # Panics
    /// As [`len`](Self::len).
    #[track_caller]
    pub fn list(&self) -> Listing<'_, T> {
        Listing {
            entries: self.log.synchronize(),
        }
    }

    /// Bytes that the registry has asked of the allocator, exactly while nobody registers or unregisters; brings the logs together
    /// first. What the values themselves point to is not counted.
    ///
    /// # Panics
    /// As [`len`](Self::len).
    #[track_caller]
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        let table = self.log.synchronize().by_id.allocation_size();
        self.log.memory_usage().total() + table
    }

    /// Returns whether a value's destructor, or the holder of a listing, has panicked. See [the type](Self#values).
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.log.is_poisoned()
    }

    /// Lets the registry be listed again.
    pub fn clear_poison(&self) {
        self.log.clear_poison();
    }

    /// Returns statistics: what deferring has cost so far. Locks each core's queue for a moment.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.log.stats()
    }
}

impl<T: Send> Default for Registry<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Never merges and never waits.
impl<T: Send, E: Environment> fmt::Debug for Registry<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

/// A handle of an entry in a [`Registry`]: the entry is removed when this is dropped.
///
/// `R` is the pointer to the registry.
///
/// It may be dropped on another thread, and while this thread holds a listing. One that is forgotten leaves its entry registered.
#[must_use = "the entry is unregistered as soon as this is dropped"]
pub struct Registration<R: Deref<Target: Unregister>> {
    registry: R,
    /// There until this is dropped.
    death: Option<RemoveToken>,
}

use sealed::Unregister;

mod sealed {
    use super::RemoveToken;

    /// A registry of whatever, in whatever environment: a handle needs to know no more.
    pub trait Unregister {
        fn unregister(&self, death: RemoveToken);
    }
}

impl<T: Send, E: Environment> Unregister for Registry<T, E> {
    fn unregister(&self, death: RemoveToken) {
        Self::unregister(self, death);
    }
}

impl<R: Deref<Target: Unregister>> Registration<R> {
    /// The entry's number, which no other entry of any registry in this process has.
    #[must_use]
    pub fn id(&self) -> u64 {
        match &self.death {
            Some(death) => death.id(),
            None => unreachable!("it is taken only when the handle is dropped"),
        }
    }
}

impl<R: Deref<Target: Unregister>> Drop for Registration<R> {
    fn drop(&mut self) {
        if let Some(death) = self.death.take() {
            self.registry.unregister(death);
        }
    }
}

impl<R: Deref<Target: Unregister>> fmt::Debug for Registration<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// All entries of a [`Registry`] at one moment.
#[must_use = "others can list as soon as this is dropped"]
pub struct Listing<'a, T> {
    entries: Synchronized<'a, Entries<T>>,
}

impl<T> Listing<'_, T> {
    /// Every entry, with its number, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.by_id.iter().map(|(id, value)| (*id, value))
    }

    /// Every entry, to be changed where it stands.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let by_id = &mut self.entries.by_id;
        by_id.iter_mut().map(|(id, value)| (*id, value))
    }

    /// The entry with this number, if it is there.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<&T> {
        self.entries.by_id.get(&id)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.by_id.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.by_id.is_empty()
    }
}

impl<T: fmt::Debug> fmt::Debug for Listing<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
