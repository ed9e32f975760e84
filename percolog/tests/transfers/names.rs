//! Lookups by name on half of the cores, while the other half gives out names and takes them back.
//!
//! The marks stand around lookups. All transfers and ownership upgrades between them count, whatever line they are of.

use std::hint::black_box;
use std::sync::{PoisonError, RwLock};

use percolog::namespace::{Id, Namespace};
use percolog::reclaim::{Domain, DomainOptions};

use super::barrier::Barrier;
use super::workloads::on_every_core;
use super::{CORES, SHARED_LINE, measure_with};
use percolog_sim::assert::Assertion;

/// Names that are looked up, and never taken back.
const LASTING: u64 = 1024;

/// Names that a core looks up at a time, and half as many as it gives out at a time.
const BATCH: usize = 64;

/// How often each core does so before anything counts: each has looked up everything then, and has removed as many ids as a look at
/// all threads makes free, twice; and while it counts.
const BATCHES: Batches = Batches {
    to_warm_up: 80,
    counted: 32,
};

/// The same for rivals that everybody fights over, which takes long to simulate.
const FEW: Batches = Batches {
    to_warm_up: 2,
    counted: 8,
};

#[derive(Clone, Copy)]
struct Batches {
    to_warm_up: usize,
    counted: usize,
}

/// A core marks one of so many batches of lookups, another one than its neighbours do: marks take long to simulate.
const BATCHES_PER_MARKED: usize = 4;

/// A table of values by name.
trait Names: Sync {
    type Name: Copy + Send + Sync;
    /// What is done in a section, if the table has such.
    fn inside<R>(&self, body: impl FnOnce(&dyn Fn(&[Self::Name]) -> u64) -> R) -> R;
    fn insert(&self, value: u64) -> Self::Name;
    fn remove(&self, name: Self::Name);
    /// What was removed can be used again.
    fn settle(&self);
}

struct Ours<'d> {
    domain: &'d Domain,
    names: Namespace<'d, u64>,
}

impl<'d> Ours<'d> {
    fn new(domain: &'d Domain) -> Self {
        let names = Namespace::new(domain);
        Self { domain, names }
    }
}

impl Names for Ours<'_> {
    type Name = Id<u64>;

    fn inside<R>(&self, body: impl FnOnce(&dyn Fn(&[Id<u64>]) -> u64) -> R) -> R {
        let section = self.domain.enter();
        body(&|ids| {
            let lookup = self.names.within(&section);
            ids.iter()
                .map(|id| lookup.get(*id).expect("it is there"))
                .sum()
        })
    }

    fn insert(&self, value: u64) -> Id<u64> {
        self.names.insert(value).expect("there are ids")
    }

    fn remove(&self, id: Id<u64>) {
        self.names.remove(id).expect("it is there");
    }

    fn settle(&self) {
        self.names.collect();
    }
}

/// What one writes without thinking of lines: values by index, and those that are free, behind a lock that readers share.
#[derive(Default)]
struct Locked(RwLock<(Vec<Option<u64>>, Vec<usize>)>);

impl Names for Locked {
    type Name = usize;

    fn inside<R>(&self, body: impl FnOnce(&dyn Fn(&[usize]) -> u64) -> R) -> R {
        body(&|names| {
            let value = |name: &usize| {
                let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
                table.0[*name].expect("it is there")
            };
            names.iter().map(value).sum()
        })
    }

    fn insert(&self, value: u64) -> usize {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (values, free) = &mut *table;
        let name = free.pop().unwrap_or(values.len());
        if name == values.len() {
            values.push(None);
        }
        values[name] = Some(value);
        name
    }

    fn remove(&self, name: usize) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        table.0[name] = None;
        table.1.push(name);
    }

    fn settle(&self) {}
}

fn look_up_and_change<N: Names>(cores: usize, names: &N, batches: Batches) {
    let Batches {
        to_warm_up,
        counted,
    } = batches;
    let lasting: Vec<_> = (0..LASTING).map(|value| names.insert(value)).collect();
    // There are as many ids as all together can need: a table that grows has lines that change.
    let needed = cores / 2 * (to_warm_up + counted) * BATCH / 2;
    let spare: Vec<_> = (0..needed as u64)
        .map(|value| names.insert(value))
        .collect();
    for name in spare {
        names.remove(name);
    }
    names.settle();
    on_every_core(cores, |core, together: &Barrier| {
        let mut mine = Vec::with_capacity(BATCH / 2);
        // A slot that is used for the first time changes the table.
        if core % 2 == 0 {
            names.remove(names.insert(0));
        }
        together.wait();
        for batch in 0..to_warm_up + counted {
            if batch == to_warm_up {
                together.wait();
            }
            if core % 2 == 0 {
                mine.extend((0..BATCH as u64 / 2).map(|value| names.insert(value)));
                for name in mine.drain(..) {
                    names.remove(name);
                }
                continue;
            }
            let marked =
                batch >= to_warm_up && (batch + core / 2).is_multiple_of(BATCHES_PER_MARKED);
            let at = (batch + core) * BATCH % lasting.len();
            names.inside(|sum| {
                if marked {
                    percolog_roi::begin();
                }
                black_box(sum(&lasting[at..at + BATCH]));
                if marked {
                    percolog_roi::end(BATCH as u64);
                }
            });
        }
    });
}

/// A lookup moves nothing, whatever others insert and remove. (What the section moves that it is made in is another test's.)
#[test]
fn names_looked_up_while_others_change() {
    for &cores in CORES.iter() {
        let Some(measured) = measure_with(&Assertion::on(cores), || {
            // Of sections alone, the kernel's barrier is not among what is simulated.
            let domain = Domain::with(DomainOptions::new().fenced());
            look_up_and_change(cores, &Ours::new(&domain), BATCHES);
        }) else {
            return;
        };
        if let Err(exceeded) = measured.check(0.0) {
            panic!("{exceeded}");
        }
    }
}

#[test]
fn locked_names_looked_up_while_others_change() {
    let Some(measured) = measure_with(&Assertion::on(super::SMALL), || {
        look_up_and_change(super::SMALL, &Locked::default(), FEW);
    }) else {
        return;
    };
    assert!(
        measured.check(SHARED_LINE).is_err(),
        "{:.3} per lookup",
        measured.per_operation()
    );
}
