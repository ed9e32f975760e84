//! The loops whose instructions are counted.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::thread;

use percolog::counter::Counter;
use percolog::ldu::{Bag, Deferred, DeferredBuilder, Entry};
use percolog::lock::NodeLock;
use percolog::namespace::Namespace;
use percolog::oplog::Policy;
use percolog::oplog::{Absorb, Combined, Logged, LoggedBuilder, LoggedFn, Mode, Operation};
use percolog::reclaim::{Domain, Link, Owned};
use percolog::reduce::{Reducer, Sum};
use percolog::refcount::CoreArc;
use percolog::slab::Slab;

/// Entries that are put into a log before it is read: one less than the default limit.
const BATCH: u64 = 127;

/// An operation of 24 bytes whose execution costs next to nothing.
struct Note([u64; 3]);

impl Operation<u64> for Note {
    fn exec(self, sum: &mut u64) {
        *sum = sum.wrapping_add(self.0[0]);
    }
}

type NoteLog = Logged<u64, Note>;

/// The same, in any order.
struct Unordered([u64; 3]);

impl Operation<u64> for Unordered {
    const ORDERED: bool = false;

    fn exec(self, sum: &mut u64) {
        *sum = sum.wrapping_add(self.0[0]);
    }
}

/// So many more of a kind.
struct More {
    kind: u64,
    number: u64,
}

impl Operation<[u64; 64]> for More {
    const ABSORBS: bool = true;
    const ORDERED: bool = false;

    fn exec(self, sums: &mut [u64; 64]) {
        let sum = &mut sums[self.kind as usize % 64];
        *sum = sum.wrapping_add(self.number);
    }

    fn absorb(&self) -> Absorb<'_> {
        Absorb::Combine(self.kind)
    }

    fn combine(&mut self, later: Self) -> Combined<Self> {
        if self.kind != later.kind {
            return Combined::Apart(later);
        }
        self.number = self.number.wrapping_add(later.number);
        Combined::One
    }
}

/// A change of a set of ids, executed in order.
enum Edit {
    Open(u64),
    Close(u64),
}

impl Operation<BTreeSet<u64>> for Edit {
    fn exec(self, open: &mut BTreeSet<u64>) {
        match self {
            Self::Open(id) => open.insert(id),
            Self::Close(id) => open.remove(&id),
        };
    }
}

/// The same; the last change of an id replaces those before it.
struct AbsorbingEdit(Edit);

impl AbsorbingEdit {
    fn id(&self) -> u64 {
        let (Edit::Open(id) | Edit::Close(id)) = self.0;
        id
    }
}

impl Operation<BTreeSet<u64>> for AbsorbingEdit {
    const ABSORBS: bool = true;

    fn exec(self, open: &mut BTreeSet<u64>) {
        self.0.exec(open);
    }

    fn absorb(&self) -> Absorb<'_> {
        // Some hash.
        Absorb::Replace(self.id().wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.id() == earlier.id()
    }
}

/// A loop of one kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    /// `cpu::current`.
    Current,
    /// `Counter::add`.
    CounterAdd,
    /// `Counter::sum` of a counter that nobody adds to any more: it is one word.
    CounterSum,
    /// `Counter::add` and `Counter::sum` in turn, of a counter that is hot and stays so.
    CounterAddAndSum,
    /// `Reducer::update` of a sum.
    ReducerUpdate,
    /// A clone of a `CoreArc` that is cold, and its drop.
    CoreArcClone,
    /// The same, of one that is hot.
    CoreArcCloneHot,
    /// `Logged::queue` of an operation that costs nothing and is executed at once.
    Queue,
    /// The same, logged, merges at the limit included.
    QueueLogged,
    /// The same, of operations whose order does not matter.
    QueueUnordered,
    /// `Logged::queue` of one that an earlier one of 64 takes in.
    QueueCombined,
    /// `LoggedFn::update`, likewise.
    Update,
    /// `Logged::queue` on a set of 64 ids that come back, nothing absorbed.
    QueueEdit,
    /// The same, logged and absorbed by replacement.
    QueueAbsorbed,
    /// `Deferred::insert` and `Deferred::remove` of an entry that is in the log: each cancels the one before.
    EntryCancelled,
    /// `Deferred::insert` and `Deferred::remove` of entries that are not in the log, with their share of the merges.
    EntryQueued,
    /// `Logged::synchronize` with nothing pending.
    SynchronizeClean,
    /// `Logged::read` with nothing pending.
    ReadClean,
    /// The same, in a phase of reading.
    ReadBiased,
    /// One `queue` and one `synchronize`.
    QueueAndSynchronize,
    /// The same, logged: a merge of one operation.
    QueueAndMerge,
    /// An empty section of [`percolog::reclaim`].
    Section,
    /// `Domain::retire` of a new object of 64 bytes, with its allocation and its destruction.
    Retire,
    /// `Slab::insert` of an object of 64 bytes, and its drop on the same thread.
    SlabInsert,
    /// `Slab::insert` and `Slab::free` of the same, with its destruction.
    SlabFree,
    /// `NodeLock::lock`, and the guard's drop.
    NodeLock,
    /// `Namespace::get` among 4096 ids, in a section that is open already.
    NameGet,
    /// `Namespace::insert` and `Namespace::remove` of a word, with its destruction.
    NameInsert,
}

/// How what is always logged is made.
const LOGGED: LoggedBuilder = LoggedBuilder::new().mode(Mode::Deferring);

static HITS: Counter = Counter::new();

static TOTAL: Reducer<Sum<u64>> = Reducer::new();

static DOMAIN: Domain = Domain::new();

static OBJECTS: Slab<'_, [u64; 8]> = Slab::new(&DOMAIN);

impl Loop {
    pub(crate) const ALL: [Self; 28] = [
        Self::Current,
        Self::CounterAdd,
        Self::CounterSum,
        Self::CounterAddAndSum,
        Self::ReducerUpdate,
        Self::CoreArcClone,
        Self::CoreArcCloneHot,
        Self::Queue,
        Self::QueueLogged,
        Self::QueueUnordered,
        Self::QueueCombined,
        Self::Update,
        Self::QueueEdit,
        Self::QueueAbsorbed,
        Self::EntryCancelled,
        Self::EntryQueued,
        Self::SynchronizeClean,
        Self::ReadClean,
        Self::ReadBiased,
        Self::QueueAndSynchronize,
        Self::QueueAndMerge,
        Self::Section,
        Self::Retire,
        Self::SlabInsert,
        Self::SlabFree,
        Self::NodeLock,
        Self::NameGet,
        Self::NameInsert,
    ];

    /// Its name, and the instructions that an operation may take: those that callgrind counts with rustc 1.95 on x86-64.
    ///
    /// A change that makes an operation longer for a reason raises its budget, and says why in the commit.
    pub(crate) fn budget(self) -> (&'static str, f64) {
        match self {
            Self::Current => ("current", 8.0),
            Self::CounterAdd => ("counter_add", 51.0),
            Self::CounterSum => ("counter_sum", 17.0),
            Self::CounterAddAndSum => ("counter_add_and_sum", 197.0),
            Self::ReducerUpdate => ("reducer_update", 32.0),
            Self::CoreArcClone => ("core_arc_clone", 38.0),
            Self::CoreArcCloneHot => ("core_arc_clone_hot", 135.0),
            Self::Queue => ("queue", 64.0),
            Self::QueueLogged => ("queue_logged", 129.0),
            Self::QueueUnordered => ("queue_unordered", 88.0),
            Self::QueueCombined => ("queue_combined", 122.0),
            Self::Update => ("update", 104.0),
            Self::QueueEdit => ("queue_edit", 251.0),
            Self::QueueAbsorbed => ("queue_absorbed", 133.0),
            Self::EntryCancelled => ("entry_cancelled", 26.0),
            Self::EntryQueued => ("entry_queued", 234.0),
            Self::SynchronizeClean => ("synchronize_clean", 47.0),
            Self::ReadClean => ("read_clean", 53.0),
            Self::ReadBiased => ("read_biased", 142.0),
            Self::QueueAndSynchronize => ("queue_and_synchronize", 112.0),
            Self::QueueAndMerge => ("queue_and_merge", 1091.0),
            Self::Section => ("section", 43.0),
            Self::Retire => ("retire", 347.0),
            Self::SlabInsert => ("slab_insert", 99.0),
            Self::SlabFree => ("slab_free", 244.0),
            Self::NodeLock => ("node_lock", 49.0),
            Self::NameGet => ("name_get", 36.0),
            Self::NameInsert => ("name_insert", 163.0),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.budget().0
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counted| counted.name() == name)
    }

    /// Runs it this many times.
    pub(crate) fn run(self, operations: u64) {
        match self {
            Self::Current => {
                for _ in 0..operations {
                    black_box(percolog::cpu::current());
                }
            }
            Self::CounterAdd => {
                for _ in 0..operations {
                    HITS.add(black_box(1));
                }
                black_box(HITS.sum());
            }
            Self::CounterSum => {
                HITS.increment();
                for _ in 0..operations {
                    black_box(HITS.sum());
                }
            }
            Self::CounterAddAndSum => {
                (0..100).for_each(|_| HITS.increment());
                for _ in 0..operations {
                    HITS.increment();
                    black_box(HITS.sum());
                }
            }
            Self::ReducerUpdate => {
                for _ in 0..operations {
                    TOTAL.update(|sum| sum.add(black_box(1)));
                }
                black_box(TOTAL.read());
            }
            Self::CoreArcClone => {
                let reference = CoreArc::new(7);
                for _ in 0..operations {
                    drop(black_box(reference.clone()));
                }
            }
            Self::CoreArcCloneHot => {
                let reference = CoreArc::into_hot(CoreArc::new(7));
                for _ in 0..operations {
                    drop(black_box(reference.clone()));
                }
            }
            Self::Queue => {
                let log = NoteLog::new(0);
                for turn in 0..operations {
                    log.queue(black_box(Note([turn, 1, 2])));
                }
                black_box(log.into_inner());
            }
            Self::QueueLogged => {
                let log: NoteLog = LOGGED.build(0);
                for turn in 0..operations {
                    log.queue(black_box(Note([turn, 1, 2])));
                }
                black_box(log.into_inner());
            }
            Self::QueueUnordered => {
                let log: Logged<u64, Unordered> = LOGGED.build(0);
                for turn in 0..operations {
                    log.queue(black_box(Unordered([turn, 1, 2])));
                }
                black_box(log.into_inner());
            }
            Self::QueueCombined => {
                let log: Logged<[u64; 64], More> = LOGGED.build([0; 64]);
                for turn in 0..operations {
                    log.queue(black_box(More {
                        kind: turn % 64,
                        number: turn,
                    }));
                }
                black_box(log.into_inner());
            }
            Self::Update => {
                let log: LoggedFn<u64> = LoggedFn::new(0);
                for turn in 0..operations {
                    let amount = black_box(turn);
                    log.update(move |sum| *sum = sum.wrapping_add(amount));
                }
                black_box(log.into_inner());
            }
            Self::QueueEdit => {
                let set = Logged::new(BTreeSet::new());
                for turn in 0..operations {
                    set.queue(if turn & 64 == 0 {
                        Edit::Open(black_box(turn % 64))
                    } else {
                        Edit::Close(black_box(turn % 64))
                    });
                }
                black_box(set.into_inner());
            }
            Self::QueueAbsorbed => {
                let set: Logged<BTreeSet<u64>, AbsorbingEdit> = LOGGED.build(BTreeSet::new());
                for turn in 0..operations {
                    set.queue(if turn & 64 == 0 {
                        AbsorbingEdit(Edit::Open(black_box(turn % 64)))
                    } else {
                        AbsorbingEdit(Edit::Close(black_box(turn % 64)))
                    });
                }
                black_box(set.into_inner());
            }
            Self::EntryCancelled => {
                let container = Deferred::new(Bag::new());
                let entry = Entry::new(0u64);
                container.insert(&entry).expect("it is in no container");
                for _ in 0..operations / 2 {
                    container.remove(black_box(&entry)).expect("it is there");
                    container.insert(black_box(&entry)).expect("it is not");
                }
                assert_eq!(container.synchronize().len(), 1);
            }
            Self::EntryQueued => {
                let container = DeferredBuilder::new()
                    .policy(Policy::Grow)
                    .build(Bag::new());
                let entries: Vec<_> = (0..BATCH).map(Entry::new).collect();
                for batch in 0..operations / BATCH {
                    let is_there = batch % 2 == 1;
                    for entry in &entries {
                        let outcome = if is_there {
                            container.remove(entry)
                        } else {
                            container.insert(entry)
                        };
                        outcome.expect("all of them are there, or none");
                    }
                    let expected = if is_there { 0 } else { entries.len() };
                    assert_eq!(container.synchronize().len(), expected);
                }
            }
            Self::SynchronizeClean => {
                let log = NoteLog::new(0);
                log.queue(Note([1, 2, 3]));
                for _ in 0..operations {
                    black_box(*log.synchronize());
                }
            }
            Self::ReadClean => {
                let log = NoteLog::new(0);
                for _ in 0..operations {
                    black_box(*log.read());
                }
            }
            Self::ReadBiased => {
                let log = NoteLog::new(0);
                let guard = log.read();
                thread::scope(|scope| {
                    // It meets the other reader.
                    scope.spawn(|| (0..100).for_each(|_| drop(log.read())));
                });
                drop(guard);
                for _ in 0..operations {
                    black_box(*log.read());
                }
                assert!(log.stats().biased_to_readers);
            }
            Self::QueueAndSynchronize => {
                let log = NoteLog::new(0);
                for turn in 0..operations {
                    log.queue(black_box(Note([turn, 1, 2])));
                    black_box(*log.synchronize());
                }
            }
            Self::QueueAndMerge => {
                let log: NoteLog = LOGGED.build(0);
                for turn in 0..operations {
                    log.queue(black_box(Note([turn, 1, 2])));
                    black_box(*log.synchronize());
                }
            }
            Self::Section => {
                for _ in 0..operations {
                    drop(black_box(DOMAIN.enter()));
                }
            }
            Self::Retire => {
                let mut link = Link::new(Owned::new([0_u64; 8]));
                for turn in 0..operations {
                    if let Some(old) = link.swap(Some(Owned::new(black_box([turn; 8])))) {
                        // SAFETY: it was in no other link.
                        unsafe { DOMAIN.retire(old) };
                    }
                }
                drop(link.take());
            }
            Self::SlabInsert => {
                for turn in 0..operations {
                    drop(black_box(OBJECTS.insert(black_box([turn; 8]))));
                }
            }
            Self::SlabFree => {
                for turn in 0..operations {
                    let object = OBJECTS
                        .insert(black_box([turn; 8]))
                        .expect("there is memory");
                    // SAFETY: no link led to it.
                    unsafe { OBJECTS.free(object.into()) };
                }
            }
            Self::NodeLock => {
                let lock = NodeLock::new();
                for _ in 0..operations {
                    drop(black_box(lock.lock()));
                }
            }
            Self::NameGet => {
                let names = Namespace::new(&DOMAIN);
                let insert = |value| names.insert(value).expect("there are ids");
                let ids: Vec<_> = (0..4096_u64).map(insert).collect();
                let section = DOMAIN.enter();
                for turn in 0..operations {
                    black_box(names.get(&section, ids[(turn * 67 % 4096) as usize]).ok());
                }
            }
            Self::NameInsert => {
                let names = Namespace::new(&DOMAIN);
                for turn in 0..operations {
                    let id = names.insert(black_box(turn)).expect("there are ids");
                    black_box(names.remove(id).is_ok());
                }
            }
        }
    }
}
