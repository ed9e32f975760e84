//! What is shared: sequential states, and how each is updated and read.

use std::collections::BTreeMap;
use std::fmt::Debug;

use percolog::oplog::{Absorb, Combined, Operation};
use percolog_validation::hash::mix;

/// A sequential state that threads share.
pub trait State: Default + Send + Sync + 'static {
    /// An update.
    type Update: Operation<Self> + Copy + Default + Debug + PartialEq + Send + Sync + 'static;

    /// The update of a thread that draws this random number, having made so many updates before. Updates of different threads commute.
    fn update(thread: Thread, drawn: u64, before: u64) -> Self::Update;

    /// Reads what belongs to this random number. Of one thread's reads none is less than an earlier one.
    fn read(&self, drawn: u64) -> u64;

    /// Brings together what several threads have made of a state of their own.
    fn unite(&mut self, other: Self);

    /// Whether two are the same.
    fn is(&self, other: &Self) -> bool;
}

/// Which thread, of how many.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// From 0 on.
    pub index: u64,
    /// All of them.
    pub threads: u64,
}

/// A sum, of a cache line's size with its lock: each update adds to it, and none makes another one unnecessary.
#[derive(Debug, Default)]
pub struct Sum(u64);

/// What is added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Add(u64);

impl Operation<Sum> for Add {
    #[inline(always)]
    fn exec(self, sum: &mut Sum) {
        sum.0 = sum.0.wrapping_add(self.0);
    }
}

impl State for Sum {
    type Update = Add;

    #[inline(always)]
    fn update(_thread: Thread, drawn: u64, _before: u64) -> Add {
        Add(drawn >> 60)
    }

    #[inline(always)]
    fn read(&self, _drawn: u64) -> u64 {
        self.0
    }

    fn unite(&mut self, other: Self) {
        self.0 += other.0;
    }

    fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// The highest of all numbers: a later update makes each lower one unnecessary.
#[derive(Debug, Default)]
pub struct Highest(u64);

/// A number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reach(u64);

impl Operation<Highest> for Reach {
    const ABSORBS: bool = true;

    #[inline(always)]
    fn exec(self, highest: &mut Highest) {
        highest.0 = highest.0.max(self.0);
    }

    #[inline(always)]
    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(0)
    }

    #[inline(always)]
    fn replaces(&self, earlier: &Self) -> bool {
        earlier.0 <= self.0
    }
}

impl State for Highest {
    type Update = Reach;

    #[inline(always)]
    fn update(thread: Thread, _drawn: u64, before: u64) -> Reach {
        Reach(before * thread.threads + thread.index)
    }

    #[inline(always)]
    fn read(&self, _drawn: u64) -> u64 {
        self.0
    }

    fn unite(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }

    fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// Labels of [`Counts`].
const LABELS: u64 = 64;

/// Events by label, and all of them: updates of one label add up to one.
#[derive(Debug, Default)]
pub struct Counts {
    all: u64,
    by_label: BTreeMap<u64, u64>,
}

/// So many more events of a label.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Events {
    label: u64,
    events: u64,
}

impl Operation<Counts> for Events {
    const ABSORBS: bool = true;
    const ORDERED: bool = false;

    #[inline]
    fn exec(self, counts: &mut Counts) {
        counts.all += self.events;
        *counts.by_label.entry(self.label).or_default() += self.events;
    }

    #[inline]
    fn absorb(&self) -> Absorb<'_> {
        Absorb::Combine(mix(self.label))
    }

    #[inline]
    fn combine(&mut self, later: Self) -> Combined<Self> {
        if self.label != later.label {
            return Combined::Apart(later);
        }
        self.events += later.events;
        Combined::One
    }
}

impl State for Counts {
    type Update = Events;

    #[inline]
    fn update(_thread: Thread, drawn: u64, _before: u64) -> Events {
        Events {
            label: below(LABELS, drawn),
            events: 1,
        }
    }

    /// Looks a label up; no label has more events than all of them have.
    #[inline]
    fn read(&self, drawn: u64) -> u64 {
        let one = self.by_label.get(&below(LABELS, drawn));
        self.all.max(one.copied().unwrap_or(0))
    }

    fn unite(&mut self, other: Self) {
        self.all += other.all;
        for (label, events) in other.by_label {
            *self.by_label.entry(label).or_default() += events;
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.all == other.all && self.by_label == other.by_label
    }
}

/// Keys of a map.
const KEYS: u64 = 1024;

/// A map of 1024 keys, half of them there, each put and deleted by one thread.
#[derive(Debug, Default)]
pub struct Map<const ABSORBS: bool>(BTreeMap<u64, u64>);

/// A key is put, with a value, or deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change<const ABSORBS: bool> {
    key: u64,
    value: Option<u64>,
}

impl<const ABSORBS: bool> Operation<Map<ABSORBS>> for Change<ABSORBS> {
    const ABSORBS: bool = ABSORBS;

    #[inline]
    fn exec(self, map: &mut Map<ABSORBS>) {
        match self.value {
            Some(value) => map.0.insert(self.key, value),
            None => map.0.remove(&self.key),
        };
    }

    #[inline]
    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(mix(self.key))
    }

    #[inline]
    fn replaces(&self, earlier: &Self) -> bool {
        self.key == earlier.key
    }
}

/// A number below `below`, of the high half of a random one.
#[inline(always)]
fn below(below: u64, drawn: u64) -> u64 {
    ((drawn >> 32) * below) >> 32
}

impl<const ABSORBS: bool> State for Map<ABSORBS> {
    type Update = Change<ABSORBS>;

    #[inline]
    fn update(thread: Thread, drawn: u64, _before: u64) -> Change<ABSORBS> {
        let mine = below(KEYS / thread.threads, drawn);
        Change {
            key: mine * thread.threads + thread.index,
            value: (drawn & 1 == 0).then_some(drawn),
        }
    }

    #[inline]
    fn read(&self, drawn: u64) -> u64 {
        self.0.get(&below(KEYS, drawn)).map_or(0, |_| 0)
    }

    fn unite(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
