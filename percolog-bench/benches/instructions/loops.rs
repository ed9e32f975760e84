//! The loops whose instructions are counted.

use std::collections::BTreeSet;
use std::hint::black_box;

use percolog::counter::Counter;
use percolog::oplog::{Logged, LoggedFn};
use percolog_bench::append::{Note, NoteLog};
use percolog_bench::peers::{AbsorbingEdit, Edit};

/// A loop of one kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    /// `cpu::current`.
    Current,
    /// `Counter::add`.
    CounterAdd,
    /// `Counter::sum` of a counter that one thread adds to.
    CounterSum,
    /// `Logged::queue` of an operation that costs nothing, merges at the limit included.
    Queue,
    /// `LoggedFn::update`, likewise.
    Update,
    /// `Logged::queue` on a set of 64 ids that come back, nothing absorbed.
    QueueEdit,
    /// The same, absorbed by replacement.
    QueueAbsorbed,
    /// `Logged::synchronize` with nothing pending.
    SynchronizeClean,
    /// One `queue` and one `synchronize`.
    QueueAndSynchronize,
}

static HITS: Counter = Counter::new();

impl Loop {
    pub(crate) const ALL: [Self; 9] = [
        Self::Current,
        Self::CounterAdd,
        Self::CounterSum,
        Self::Queue,
        Self::Update,
        Self::QueueEdit,
        Self::QueueAbsorbed,
        Self::SynchronizeClean,
        Self::QueueAndSynchronize,
    ];

    /// Its name in `instructions.toml`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::CounterAdd => "counter_add",
            Self::CounterSum => "counter_sum",
            Self::Queue => "queue",
            Self::Update => "update",
            Self::QueueEdit => "queue_edit",
            Self::QueueAbsorbed => "queue_absorbed",
            Self::SynchronizeClean => "synchronize_clean",
            Self::QueueAndSynchronize => "queue_and_synchronize",
        }
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
            Self::Queue => {
                let log = NoteLog::new(0);
                for turn in 0..operations {
                    log.queue(black_box(Note([turn, 1, 2])));
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
                let set = Logged::new(BTreeSet::new());
                for turn in 0..operations {
                    set.queue(if turn & 64 == 0 {
                        AbsorbingEdit::Open(black_box(turn % 64))
                    } else {
                        AbsorbingEdit::Close(black_box(turn % 64))
                    });
                }
                black_box(set.into_inner());
            }
            Self::SynchronizeClean => {
                let log = NoteLog::new(0);
                log.queue(Note([1, 2, 3]));
                for _ in 0..operations {
                    black_box(*log.synchronize());
                }
            }
            Self::QueueAndSynchronize => {
                let log = NoteLog::new(0);
                for turn in 0..operations {
                    log.queue(black_box(Note([turn, 1, 2])));
                    black_box(*log.synchronize());
                }
            }
        }
    }
}
