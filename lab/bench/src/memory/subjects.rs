//! The objects whose memory is looked at: ours, and what programs have in their place.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use contatori::counters::signed::Signed;
use crossbeam_channel::{Receiver, Sender};
use crossbeam_skiplist::SkipMap;
use dashmap::{DashMap, DashSet};
use percolog::collections::{EventQueue, Map};
use percolog::counter::{Counter, SloppyCounter};
use percolog::oplog::{Lent, Logged, Operation};
use percolog::reclaim::Domain;
use percolog::reduce::{CounterMap, HdrHistogram, Reducer, Sum};
use percolog::refcount::CoreArc;

use super::{Found, MemoryError, Subject, measure};
use crate::peers::{AbsorbingEdit, Edit, LongAdder};
use percolog_validation::hash::BuildIdHasher;

/// Ids of a thread that come and go.
const IDS: u64 = 64;

/// A thread's id of a turn. What it opens in one round it closes in the next.
fn id(thread: u64, turn: u64) -> u64 {
    thread * IDS + turn % IDS
}

macro_rules! kinds {
    ($($name:literal => $kind:ident($subject:ty),)*) => {
        /// What can be measured.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum MemoryKind {
            $(#[doc = concat!("`", stringify!($subject), "`.")] $kind,)*
        }

        impl MemoryKind {
            /// All of them, by name.
            pub const ALL: &[(&str, Self)] = &[$(($name, Self::$kind),)*];

            /// Makes so many objects, and lets so many threads use all of them.
            ///
            /// # Errors
            /// A thread could not be started, or the system does not say how much memory is there.
            pub fn measure(self, threads: usize, objects: usize) -> Result<Found, MemoryError> {
                match self {
                    $(Self::$kind => measure::<$subject>(threads, objects),)*
                }
            }
        }
    };
}

kinds! {
    "counter" => Counter(Counter),
    "sloppy-counter" => Sloppy(SloppyCounter),
    "reducer" => Reducer(Reducer<Sum<i64>>),
    "atomic" => Atomic(AtomicI64),
    "contatori" => Contatori(Signed),
    "long-adder" => LongAdder(LongAdder),
    "core-arc" => CoreArc(CoreArc<u64>),
    "arc" => Arc(Arc<u64>),
    "logged-set" => Logged(Logged<BTreeSet<u64>, Edit>),
    "absorbing-set" => Absorbing(Logged<BTreeSet<u64>, AbsorbingEdit>),
    "lent" => Lent(Pin<Box<Lent<i64, Change>>>),
    "mutex-set" => MutexSet(Mutex<BTreeSet<u64>>),
    "dash-set" => DashSet(DashSet<u64, BuildIdHasher>),
    "map" => Map(Map<'static, u64, u64, BuildIdHasher>),
    "dash-map" => DashMap(DashMap<u64, u64, BuildIdHasher>),
    "papaya" => Papaya(papaya::HashMap<u64, u64, BuildIdHasher>),
    "scc" => Scc(scc::HashMap<u64, u64, BuildIdHasher>),
    "skip-map" => SkipMap(SkipMap<u64, u64>),
    "mutex-map" => MutexMap(Mutex<HashMap<u64, u64, BuildIdHasher>>),
    "counter-map" => CounterMap(CounterMap<u64>),
    "histogram" => HdrHistogram(HdrHistogram),
    "mutex-histogram" => MutexHistogram(Mutex<hdrhistogram::Histogram<u64>>),
    "event-queue" => EventQueue(EventQueue<u64>),
    "channel" => Channel((Sender<u64>, Receiver<u64>)),
}

/// A counter's threads add and subtract by turns.
macro_rules! counters {
    ($($subject:ty: $idle:expr, |$counter:ident| $add:expr, $subtract:expr;)*) => {$(
        impl Subject for $subject {
            fn idle() -> Self {
                $idle
            }

            fn touch(&self, _thread: u64, turn: u64) {
                let $counter = self;
                if turn.is_multiple_of(2) {
                    $add;
                } else {
                    $subtract;
                }
            }
        }
    )*};
}

counters! {
    Counter: Self::new(), |counter| counter.increment(), counter.decrement();
    SloppyCounter: Self::new(32), |counter| counter.acquire(1), counter.release(1);
    Reducer<Sum<i64>>: Self::new(), |sum| sum.update(|sum| sum.add(1)), sum.update(|sum| sum.add(-1));
    // Relaxed, as programs count.
    AtomicI64: Self::new(0), |word| word.fetch_add(1, Ordering::Relaxed), word.fetch_sub(1, Ordering::Relaxed);
    Signed: Self::new(), |counter| counter.add(1), counter.sub(1);
    LongAdder: Self::new(), |adder| adder.add(1), adder.add(-1);
}

/// A change of an object whose logs come from a cache.
#[derive(Debug)]
pub struct Change(i64);

impl Operation<i64> for Change {
    fn exec(self, sum: &mut i64) {
        *sum += self.0;
    }
}

percolog::log_cache!(i64, Change);

impl Subject for Pin<Box<Lent<i64, Change>>> {
    fn idle() -> Self {
        Lent::boxed(0)
    }

    fn touch(&self, _thread: u64, turn: u64) {
        self.as_ref().queue(Change(turn as i64));
    }
}

/// References are cloned, and dropped at once.
macro_rules! references {
    ($($subject:ty)*) => {$(
        impl Subject for $subject {
            fn idle() -> Self {
                Self::new(1)
            }

            fn touch(&self, _thread: u64, _turn: u64) {
                std::hint::black_box(self.clone());
            }
        }
    )*};
}

references!(Arc<u64> CoreArc<u64>);

/// Ids are added in one round, and removed in the next.
macro_rules! collections {
    ($($subject:ty: $idle:expr, |$all:ident, $id:ident| $add:expr, $remove:expr;)*) => {$(
        impl Subject for $subject {
            fn idle() -> Self {
                $idle
            }

            fn touch(&self, thread: u64, turn: u64) {
                let ($all, $id) = (self, id(thread, turn));
                if (turn / IDS).is_multiple_of(2) {
                    $add;
                } else {
                    $remove;
                }
            }
        }
    )*};
}

static DOMAIN: Domain = Domain::new();

collections! {
    Logged<BTreeSet<u64>, Edit>: Self::new(BTreeSet::new()),
        |set, id| set.queue(Edit::Open(id)), set.queue(Edit::Close(id));
    Logged<BTreeSet<u64>, AbsorbingEdit>: Self::new(BTreeSet::new()),
        |set, id| set.queue(AbsorbingEdit::Open(id)), set.queue(AbsorbingEdit::Close(id));
    Mutex<BTreeSet<u64>>: Self::default(),
        |set, id| set.lock().unwrap_or_else(PoisonError::into_inner).insert(id),
        set.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    DashSet<u64, BuildIdHasher>: Self::default(), |set, id| set.insert(id), set.remove(&id);
    Map<'static, u64, u64, BuildIdHasher>: Self::with_hasher(&DOMAIN, BuildIdHasher::default()),
        |map, id| map.put(id, id).expect("there is memory"), map.delete(&id);
    DashMap<u64, u64, BuildIdHasher>: Self::default(), |map, id| map.insert(id, id), map.remove(&id);
    papaya::HashMap<u64, u64, BuildIdHasher>: Self::default(),
        |map, id| { map.pin().insert(id, id); }, { map.pin().remove(&id); };
    scc::HashMap<u64, u64, BuildIdHasher>: Self::default(),
        |map, id| map.upsert_sync(id, id), map.remove_sync(&id);
    SkipMap<u64, u64>: Self::new(), |map, id| map.insert(id, id), map.remove(&id);
    Mutex<HashMap<u64, u64, BuildIdHasher>>: Self::default(),
        |map, id| map.lock().unwrap_or_else(PoisonError::into_inner).insert(id, id),
        map.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
}

impl Subject for CounterMap<u64> {
    fn idle() -> Self {
        Self::new(1000)
    }

    fn touch(&self, _thread: u64, turn: u64) {
        self.increment(&(turn % 8));
    }
}

/// Some thousands of nanoseconds.
fn nanoseconds(turn: u64) -> u64 {
    3_000 + 40 * (turn % IDS)
}

impl Subject for HdrHistogram {
    fn idle() -> Self {
        Self::new()
    }

    fn touch(&self, _thread: u64, turn: u64) {
        self.record(nanoseconds(turn));
    }
}

impl Subject for Mutex<hdrhistogram::Histogram<u64>> {
    fn idle() -> Self {
        // Up to a minute, to one percent, as ours.
        let counts = hdrhistogram::Histogram::new_with_bounds(1, 60_000_000_000, 2);
        Self::new(counts.expect("these bounds are in order"))
    }

    fn touch(&self, _thread: u64, turn: u64) {
        let mut counts = self.lock().unwrap_or_else(PoisonError::into_inner);
        counts.saturating_record(nanoseconds(turn));
    }
}

/// Events are consumed once in a while, by whoever has produced many.
impl Subject for EventQueue<u64> {
    fn idle() -> Self {
        Self::unbounded()
    }

    fn touch(&self, _thread: u64, turn: u64) {
        self.push(turn);
        if turn % IDS == IDS - 1
            && let Some(mut consumer) = self.consumer()
        {
            consumer.drain(|_| ());
        }
    }
}

impl Subject for (Sender<u64>, Receiver<u64>) {
    fn idle() -> Self {
        crossbeam_channel::unbounded()
    }

    fn touch(&self, _thread: u64, turn: u64) {
        // The receiver is there.
        let _ = self.0.send(turn);
        if turn % IDS == IDS - 1 {
            self.1.try_iter().for_each(drop);
        }
    }
}
