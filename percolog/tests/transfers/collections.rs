//! What the collections move: touches of a cache's keys, changes of a set, pushes and pops of a core's own list, lookups of what this
//! core has looked up before. And that the same with one lock moves more.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use percolog::collections::{
    Cache, DefaultHashBuilder, Lru, PerCoreList, Sessions, Set, TableCache,
};
use percolog::oplog::{LoggedBuilder, Mode};
use percolog::reclaim::Domain;
use percolog::testing::Native;

use super::workloads::on_every_core;
use super::{AFTER_A_READ, FEW_CORES, SHARED_LINE, breaks, keeps, keeps_on};

/// A collection, and what is done to it.
pub(crate) trait Collection: Sync {
    /// For that many threads.
    fn new(threads: usize) -> Self;
    /// The thread's use of that number.
    fn make_use(&self, thread: usize, number: u64);
    /// What makes all cores give up what they have: a read, an update.
    fn collect(&self);
    /// Fails if something was lost of these uses by each thread.
    fn check(&self, threads: usize, uses: u64);
}

/// Uses of each thread that nobody counts: the second one finds entered in tables what all made in the first, and a lookup leaves a
/// copy. What comes and goes does so twice: to come again can take another way through the code, which reads other words of the program.
const WARM_UP: u64 = 4 * KEYS;
const FEW: u64 = 100;
const ALL: u64 = 100_000;

/// A touch's entry, whose bytes are its stamp, its hash and kind, and its key, travels to whoever merges, and the memory that it was in travels
/// back. The rest is for locks and marks.
const SUSTAINED_TOUCH: f64 = 2.0 * 24.0 / 64.0 + 0.1;

/// Keys that each thread uses.
pub(crate) const KEYS: u64 = 16;

/// Turns of a loop that takes a core about as long as others take to get a line that it has: see `workloads`.
const WORK: u64 = 100;

#[repr(align(128))]
struct Alone<C>(C);

fn make_uses<C: Collection>(collection: &C, thread: usize, numbers: std::ops::Range<u64>) {
    for number in numbers {
        collection.make_use(thread, number);
        black_box((0..WORK).fold(number, |result, turn| {
            (result ^ turn).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }));
    }
}

fn counted<C: Collection>(collection: &C, thread: usize, numbers: std::ops::Range<u64>) {
    let uses = numbers.end - numbers.start;
    percolog_roi::begin();
    make_uses(collection, thread, numbers);
    percolog_roi::end(uses);
}

/// Uses of threads that have used the collection before, so many of each, with nothing that collects.
fn uses_of_each<C: Collection>(threads: usize, each: u64) {
    let Alone(collection) = &*Box::new(Alone(C::new(threads)));
    on_every_core(threads, |thread, together| {
        for round in 0..WARM_UP / KEYS {
            let numbers = round * KEYS..(round + 1) * KEYS;
            together.alone(|| make_uses(collection, thread, numbers));
            together.wait();
        }
        counted(collection, thread, WARM_UP..WARM_UP + each);
    });
    collection.check(threads, WARM_UP + each);
}

pub(crate) fn between<C: Collection>(threads: usize) {
    uses_of_each::<C>(threads, FEW);
}

pub(crate) fn sustained<C: Collection>(threads: usize) {
    uses_of_each::<C>(threads, ALL.div_ceil(threads as u64));
}

/// One use of each thread after something has collected.
pub(crate) fn first_after<C: Collection>(threads: usize) {
    const ROUNDS_TO_WARM_UP: u64 = 2;
    const ROUNDS: u64 = 5;
    let Alone(collection) = &*Box::new(Alone(C::new(threads)));
    on_every_core(threads, |thread, together| {
        for number in 0..ROUNDS_TO_WARM_UP + ROUNDS {
            if number < ROUNDS_TO_WARM_UP {
                together.alone(|| make_uses(collection, thread, number..number + 1));
            } else {
                counted(collection, thread, number..number + 1);
            }
            if together.wait().is_leader() {
                collection.collect();
            }
            together.wait();
        }
    });
    collection.check(threads, ROUNDS_TO_WARM_UP + ROUNDS);
}

pub(crate) fn key(thread: usize, number: u64, keys: u64) -> u64 {
    thread as u64 * keys + number % keys
}

/// `Lru::touch` of as many keys by each thread: few absorb each other, more do not.
struct Recent<const EACH: u64>(Lru<u64>);

/// Fewer than a queue has places.
type Hot = Recent<KEYS>;
/// Four times as many as a queue has places: none is touched again before its queue is merged.
type Spread = Recent<512>;

impl<const EACH: u64> Collection for Recent<EACH> {
    fn new(threads: usize) -> Self {
        let recent = Lru::<u64>::builder().mode(Mode::Deferring).build();
        (0..threads as u64 * EACH).for_each(|key| recent.insert(key));
        assert_eq!(recent.len() as u64, threads as u64 * EACH);
        percolog_roi::label(&recent, "Lru");
        Self(recent)
    }

    fn make_use(&self, thread: usize, number: u64) {
        self.0.touch(key(thread, number, EACH));
    }

    fn collect(&self) {
        let _ = self.0.len();
    }

    fn check(&self, threads: usize, uses: u64) {
        let order = self.0.order();
        assert_eq!(order.len() as u64, threads as u64 * EACH);
        if self.0.stats().discarded > 0 {
            return;
        }
        // Each thread's keys are in the order in which it has touched them.
        for thread in 0..threads {
            let mine = order.iter().filter(|key| **key / EACH == thread as u64);
            let touched = uses.min(EACH);
            let last = (uses - touched..uses).map(|number| key(thread, number, EACH));
            assert!(mine.skip((EACH - touched) as usize).copied().eq(last));
        }
    }
}

/// A set of which each thread inserts all its keys, then removes them all, and so on.
trait Keys: Sync {
    fn new() -> Self;
    fn insert(&self, key: u64);
    fn remove(&self, key: u64);
    fn read(&self) -> BTreeSet<u64>;
}

/// A set that logs always.
const LOGGED: LoggedBuilder = LoggedBuilder::new().mode(Mode::Deferring);

impl Keys for Set<u64> {
    fn new() -> Self {
        Self::build(LOGGED, BTreeSet::new())
    }

    fn insert(&self, key: u64) {
        self.insert(key);
    }

    fn remove(&self, key: u64) {
        self.remove(key);
    }

    fn read(&self) -> BTreeSet<u64> {
        self.read().clone()
    }
}

impl Keys for Set<u64, HashSet<u64>> {
    fn new() -> Self {
        Self::build(LOGGED, HashSet::default())
    }

    fn insert(&self, key: u64) {
        self.insert(key);
    }

    fn remove(&self, key: u64) {
        self.remove(key);
    }

    fn read(&self) -> BTreeSet<u64> {
        self.read().iter().copied().collect()
    }
}

impl Keys for Mutex<BTreeSet<u64>> {
    fn new() -> Self {
        Self::default()
    }

    fn insert(&self, key: u64) {
        self.lock().expect("nobody panics").insert(key);
    }

    fn remove(&self, key: u64) {
        self.lock().expect("nobody panics").remove(&key);
    }

    fn read(&self) -> BTreeSet<u64> {
        self.lock().expect("nobody panics").clone()
    }
}

struct Coming<S>(S);

type Ordered = Coming<Set<u64>>;
type Hashed = Coming<Set<u64, HashSet<u64>>>;
/// The same behind one lock.
type Locked = Coming<Mutex<BTreeSet<u64>>>;

impl<S: Keys> Collection for Coming<S> {
    fn new(_threads: usize) -> Self {
        let set = S::new();
        percolog_roi::label(&set, "Set");
        Self(set)
    }

    fn make_use(&self, thread: usize, number: u64) {
        let key = key(thread, number, KEYS);
        if (number / KEYS).is_multiple_of(2) {
            self.0.insert(key);
        } else {
            self.0.remove(key);
        }
    }

    fn collect(&self) {
        self.0.read();
    }

    fn check(&self, threads: usize, uses: u64) {
        let mut expected = BTreeSet::new();
        for number in 0..uses {
            if (number / KEYS).is_multiple_of(2) {
                expected.insert(number % KEYS);
            } else {
                expected.remove(&(number % KEYS));
            }
        }
        let all = (0..threads as u64)
            .flat_map(|thread| expected.iter().map(move |place| thread * KEYS + place));
        assert!(all.eq(self.0.read()));
    }
}

/// `PerCoreList`: each thread pushes an item to its own list and pops it.
struct OwnList(PerCoreList<u64>);

impl Collection for OwnList {
    fn new(_threads: usize) -> Self {
        let list = PerCoreList::new();
        percolog_roi::label(&list, "PerCoreList");
        Self(list)
    }

    fn make_use(&self, thread: usize, number: u64) {
        self.0.push(thread as u64 * ALL + number);
        // On the real machine two threads can be on one core, and each pop what the other pushed.
        assert!(self.0.pop().is_some());
    }

    fn collect(&self) {
        assert_eq!(self.0.len(), 0);
    }

    fn check(&self, _threads: usize, _uses: u64) {
        assert!(self.0.is_empty());
    }
}

/// The same with one list behind one lock.
struct OneList(Mutex<VecDeque<u64>>);

impl Collection for OneList {
    fn new(_threads: usize) -> Self {
        Self(Mutex::default())
    }

    fn make_use(&self, thread: usize, _number: u64) {
        let lock = || self.0.lock().expect("nobody panics");
        lock().push_back(thread as u64);
        assert!(lock().pop_front().is_some());
    }

    fn collect(&self) {}

    fn check(&self, _threads: usize, _uses: u64) {
        assert!(self.0.lock().expect("nobody panics").is_empty());
    }
}

/// A session of the thread's own that is opened, touched and closed, and touches of a few sessions of all threads.
struct Requests(Sessions<u64, u64, u64, DefaultHashBuilder, Native>);

impl Collection for Requests {
    fn new(_threads: usize) -> Self {
        let deferring = LoggedBuilder::new().mode(Mode::Deferring);
        let sessions = Sessions::build_in(deferring, DefaultHashBuilder::new(), Native);
        (0..KEYS).for_each(|key| sessions.open(key, key, 0));
        assert_eq!(sessions.len(), KEYS as usize);
        percolog_roi::label(&sessions, "Sessions");
        Self(sessions)
    }

    fn make_use(&self, thread: usize, number: u64) {
        let own = (KEYS + thread as u64) << 32 | number;
        self.0.touch(number % KEYS, number);
        self.0.open(own, number, number);
        (1..4).for_each(|time| self.0.touch(own, number + time));
        self.0.close(own);
    }

    fn collect(&self) {
        assert_eq!(self.0.len(), KEYS as usize);
    }

    fn check(&self, _threads: usize, uses: u64) {
        let list = self.0.list();
        assert_eq!(list.len(), KEYS as usize);
        assert!(list.iter().all(|(_, _, touched)| touched + KEYS >= uses));
    }
}

/// `TableCache::get` of keys that the core has looked up before.
struct Names(TableCache<u64, u64>);

impl Collection for Names {
    fn new(_threads: usize) -> Self {
        let names = TableCache::new();
        (0..KEYS).for_each(|key| _ = names.insert(key, !key));
        percolog_roi::label(&names, "TableCache");
        Self(names)
    }

    fn make_use(&self, _thread: usize, number: u64) {
        let key = number % KEYS;
        assert_eq!(self.0.get(&key), Some(!key));
    }

    fn collect(&self) {}

    fn check(&self, threads: usize, _uses: u64) {
        // On a simulated machine each thread has a core of its own; on the real one they share what there are.
        let copies = self.0.copies() as u64;
        assert!((KEYS..=threads as u64 * KEYS).contains(&copies));
    }
}

/// The same with every lookup in the central table: what counting its readers costs, as a readers-writer lock does.
struct Central {
    readers: AtomicUsize,
    names: HashMap<u64, u64>,
}

impl Collection for Central {
    fn new(_threads: usize) -> Self {
        Self {
            readers: AtomicUsize::new(0),
            names: (0..KEYS).map(|key| (key, !key)).collect(),
        }
    }

    fn make_use(&self, _thread: usize, number: u64) {
        // No writer is about: the order does not matter.
        self.readers.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.names[&(number % KEYS)], !(number % KEYS));
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }

    fn collect(&self) {}

    fn check(&self, _threads: usize, _uses: u64) {}
}

static DOMAIN: Domain = Domain::new();

/// `Cache::observe` of keys that everybody looks up: hits that are noted, since nobody evicts and sets their marks.
struct Hits(Cache<'static, u64, u64>);

impl Collection for Hits {
    fn new(_threads: usize) -> Self {
        let cache = Cache::<u64, u64>::builder(1 << 20).build(&DOMAIN);
        let cache = cache.expect("there is memory");
        for key in 0..KEYS {
            cache.set(key, !key).expect("there is room");
        }
        percolog_roi::label(&cache, "Cache");
        Self(cache)
    }

    fn make_use(&self, _thread: usize, number: u64) {
        let key = number % KEYS;
        assert_eq!(self.0.observe(&key, |value| *value), Some(!key));
    }

    fn collect(&self) {}

    fn check(&self, threads: usize, uses: u64) {
        assert_eq!(self.0.stats().hits, threads as u64 * uses);
    }
}

#[test]
fn hits_of_a_cache() {
    keeps(sustained::<Hits>, 0.0);
}

#[test]
fn touches_between_evictions() {
    keeps(between::<Hot>, 0.0);
}

#[test]
fn touches_of_few_keys_sustained() {
    keeps(sustained::<Hot>, 0.0);
}

#[test]
fn touches_after_an_eviction() {
    keeps(first_after::<Hot>, AFTER_A_READ);
}

/// While one core merges, touches of others whose queues are full are discarded, and move nothing.
#[test]
fn touches_of_many_keys_sustained() {
    keeps_on(FEW_CORES, sustained::<Spread>, SUSTAINED_TOUCH);
}

#[test]
fn sessions_sustained() {
    keeps(sustained::<Requests>, 0.0);
}

#[test]
fn sets_between_reads() {
    keeps_on(FEW_CORES, between::<Ordered>, 0.0);
    keeps_on(FEW_CORES, between::<Hashed>, 0.0);
}

#[test]
fn sets_sustained() {
    keeps(sustained::<Ordered>, 0.0);
    keeps(sustained::<Hashed>, 0.0);
}

#[test]
fn sets_after_a_read() {
    keeps(first_after::<Ordered>, AFTER_A_READ);
    keeps(first_after::<Hashed>, AFTER_A_READ);
}

#[test]
fn one_set_behind_a_lock() {
    breaks(between::<Locked>, 0.0, SHARED_LINE);
}

#[test]
fn own_lists() {
    keeps(sustained::<OwnList>, 0.0);
}

#[test]
fn own_lists_after_somebody_looked() {
    keeps(first_after::<OwnList>, AFTER_A_READ);
}

#[test]
fn one_list_for_all() {
    breaks(between::<OneList>, 0.0, SHARED_LINE);
}

#[test]
fn lookups_of_copies() {
    keeps(sustained::<Names>, 0.0);
}

#[test]
fn lookups_in_one_table() {
    breaks(between::<Central>, 0.0, SHARED_LINE);
}

/// On the real machine, where lines cannot be counted: nothing is lost.
#[test]
fn collections_end_with_all_their_uses() {
    fn all<C: Collection>() {
        for workload in [between::<C>, sustained::<C>, first_after::<C>] {
            workload(4);
        }
    }
    all::<Hot>();
    all::<Spread>();
    all::<Ordered>();
    all::<Hashed>();
    all::<Locked>();
    all::<OwnList>();
    all::<OneList>();
    // Not `first_after`: seven lookups are fewer than there are keys.
    between::<Names>(4);
    sustained::<Names>(4);
    between::<Hits>(4);
    sustained::<Hits>(4);
}
