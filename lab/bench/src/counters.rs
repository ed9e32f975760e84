//! The counter duel: every thread adds one, over and over; somebody reads the exact sum now and then, and at the end.

use std::marker::PhantomData;
use std::num::NonZeroU64;

pub use crate::interfaces::{Bytes, CounterPeer, Reading};
use crate::peers::{Atomic, Contatori, JavaLongAdder, PercologCounter, ReducerCounter, Sloppy};
use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};

/// The counters that stand beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// A `static AtomicU64`: what most programs have today.
    Atomic,
    /// [`percolog::counter::Counter`].
    Percolog,
    /// `contatori::counters::unsigned::Unsigned`.
    Contatori,
    /// Java's `LongAdder`, as [`LongAdder`](crate::peers::LongAdder).
    LongAdder,
    /// [`percolog::counter::SloppyCounter`] that is only acquired.
    Sloppy,
    /// [`percolog::reduce::Reducer`] with a sum.
    Reducer,
}

impl CounterKind {
    /// All of them, what the user has today first.
    pub const ALL: [Self; 6] = [
        Self::Atomic,
        Self::Percolog,
        Self::Contatori,
        Self::LongAdder,
        Self::Sloppy,
        Self::Reducer,
    ];

    /// How tables call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Atomic => Atomic::NAME,
            Self::Percolog => PercologCounter::NAME,
            Self::Contatori => Contatori::NAME,
            Self::LongAdder => JavaLongAdder::NAME,
            Self::Sloppy => Sloppy::NAME,
            Self::Reducer => ReducerCounter::NAME,
        }
    }

    /// What a read shows while others add.
    #[must_use]
    pub fn reading(self) -> Reading {
        match self {
            Self::Atomic => Atomic::READING,
            Self::Percolog => PercologCounter::READING,
            Self::Contatori => Contatori::READING,
            Self::LongAdder => JavaLongAdder::READING,
            Self::Sloppy => Sloppy::READING,
            Self::Reducer => ReducerCounter::READING,
        }
    }

    /// What one takes of memory, where `threads` threads add as fast as they can; of [`Self::LongAdder`], which takes what
    /// contention has made it take, after the cells that were run so far.
    #[must_use]
    pub fn bytes(self, threads: usize) -> Bytes {
        match self {
            Self::Atomic => Atomic::bytes(threads),
            Self::Percolog => PercologCounter::bytes(threads),
            Self::Contatori => Contatori::bytes(threads),
            Self::LongAdder => JavaLongAdder::bytes(threads),
            Self::Sloppy => Sloppy::bytes(threads),
            Self::Reducer => ReducerCounter::bytes(threads),
        }
    }

    /// Runs one cell; `adds_per_read` makes each thread read the sum after that many of its adds.
    ///
    /// The counters are statics, so two cells of one kind must not run at the same time.
    ///
    /// # Errors
    /// The sum was wrong, or a thread could not be started.
    pub fn run(
        self,
        settings: Settings,
        adds_per_read: Option<NonZeroU64>,
    ) -> Result<Cell, RunError> {
        match self {
            Self::Atomic => run::<Atomic>(settings, adds_per_read),
            Self::Percolog => run::<PercologCounter>(settings, adds_per_read),
            Self::Contatori => run::<Contatori>(settings, adds_per_read),
            Self::LongAdder => run::<JavaLongAdder>(settings, adds_per_read),
            Self::Sloppy => run::<Sloppy>(settings, adds_per_read),
            Self::Reducer => run::<ReducerCounter>(settings, adds_per_read),
        }
    }
}

fn run<P: CounterPeer>(
    settings: Settings,
    adds_per_read: Option<NonZeroU64>,
) -> Result<Cell, RunError> {
    let duel = CounterDuel::<P> {
        before: P::total(),
        adds_per_read,
        peer: PhantomData,
    };
    runner::run(P::NAME, &duel, settings)
}

/// Adds between two looks at the stop flag.
const BLOCK: u64 = 1024;

struct CounterDuel<P> {
    /// The static's value when the cell began.
    before: u64,
    adds_per_read: Option<NonZeroU64>,
    peer: PhantomData<fn() -> P>,
}

/// One thread of the duel.
struct Adder {
    added: u64,
    until_read: u64,
    /// Reads that showed less than this thread itself had added, or less than its previous read.
    impossible_reads: u64,
    last_read: u64,
}

impl<P: CounterPeer> CounterDuel<P> {
    /// So many adds, with the reads in between.
    #[inline(always)]
    fn adds(&self, adder: &mut Adder, adds: u64) -> u64 {
        let mut left = adds;
        while left > 0 {
            let run = left.min(adder.until_read);
            for _ in 0..run {
                P::add();
            }
            left -= run;
            adder.added += run;
            adder.until_read -= run;
            if adder.until_read == 0 {
                let total = P::total();
                if total < self.before + adder.added || total < adder.last_read {
                    adder.impossible_reads += 1;
                }
                adder.last_read = total;
                adder.until_read = self.adds_per_read.map_or(u64::MAX, NonZeroU64::get);
            }
        }
        adds
    }
}

impl<P: CounterPeer> Workload for CounterDuel<P> {
    type Worker = Adder;
    type Left = Adder;

    fn worker(&self, _thread: usize) -> Adder {
        Adder {
            added: 0,
            until_read: self.adds_per_read.map_or(u64::MAX, NonZeroU64::get),
            impossible_reads: 0,
            last_read: self.before,
        }
    }

    fn block(&self, adder: &mut Adder) -> u64 {
        self.adds(adder, BLOCK)
    }

    fn step(&self, adder: &mut Adder) -> u64 {
        self.adds(adder, STEP)
    }

    fn leave(&self, adder: Adder) -> Adder {
        adder
    }

    fn settle(&self) {
        std::hint::black_box(P::total());
    }

    fn check(&self, adders: &[Adder]) -> Result<(), String> {
        let impossible: u64 = adders.iter().map(|adder| adder.impossible_reads).sum();
        if impossible > 0 {
            return Err(format!(
                "{impossible} reads missed adds that had finished before"
            ));
        }
        let expected = self.before + adders.iter().map(|adder| adder.added).sum::<u64>();
        let found = P::total();
        if found == expected {
            Ok(())
        } else {
            Err(format!(
                "the sum is {found}, but {expected} adds were counted"
            ))
        }
    }
}
