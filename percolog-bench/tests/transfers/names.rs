//! Lookups by name on half of the cores, while the other half gives out names and takes them back.
//!
//! The marks stand around lookups, or around the section that they are made in as well. All transfers and ownership upgrades between
//! them count, whatever line they are of.

use std::hint::black_box;
use std::sync::{Barrier, PoisonError, RwLock};

use percolog::namespace::{Id, Namespace};
use percolog::reclaim::{Domain, Options};

use super::sections::SECTION;
use super::workloads::on_every_core;
use super::{CORES, SHARED_LINE, measure_with};
use percolog_sim::assert::Assertion;

/// Names that are looked up, and never taken back.
const LASTING: u64 = 1024;

/// Names that a core looks up at a time, and half as many as it gives out at a time.
const BATCH: usize = 64;

/// How often each core does so before anything counts: each has looked up everything then, and has removed as many ids as a look at
/// all threads makes free, twice; and while it counts.
const TO_WARM_UP: usize = 80;
const COUNTED: usize = 32;

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

#[derive(Clone, Copy, PartialEq)]
enum Counted {
    Lookups,
    Sections,
}

fn look_up_and_change<N: Names>(cores: usize, names: &N, counted: Counted) {
    let lasting: Vec<_> = (0..LASTING).map(|value| names.insert(value)).collect();
    // There are as many ids as all together can need: a table that grows has lines that change.
    let needed = cores / 2 * (TO_WARM_UP + COUNTED) * BATCH / 2;
    let spare: Vec<_> = (0..needed as u64)
        .map(|value| names.insert(value))
        .collect();
    for name in spare {
        names.remove(name);
    }
    names.settle();
    on_every_core(cores, |core, together: &Barrier| {
        let mut mine = Vec::with_capacity(BATCH / 2);
        for batch in 0..TO_WARM_UP + COUNTED {
            if batch == TO_WARM_UP {
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
                batch >= TO_WARM_UP && (batch + core / 2).is_multiple_of(BATCHES_PER_MARKED);
            let at = (batch + core) * BATCH % lasting.len();
            let mark = |when: Counted, act: fn() -> bool| {
                if marked && counted == when {
                    act();
                }
            };
            mark(Counted::Sections, percolog_roi::begin);
            names.inside(|sum| {
                mark(Counted::Lookups, percolog_roi::begin);
                black_box(sum(&lasting[at..at + BATCH]));
                mark(Counted::Lookups, || percolog_roi::end(BATCH as u64));
            });
            mark(Counted::Sections, || percolog_roi::end(1));
        }
    });
}

#[track_caller]
fn keeps(counted: Counted, bound: f64) {
    for cores in CORES {
        let Some(measured) = measure_with(&Assertion::on(cores), || {
            // Of sections alone, the kernel's barrier is not among what is simulated.
            let domain = Domain::with(Options::new().fenced());
            look_up_and_change(cores, &Ours::new(&domain), counted);
        }) else {
            return;
        };
        if let Err(exceeded) = measured.check(bound) {
            panic!("{exceeded}");
        }
    }
}

/// A lookup moves nothing, whatever others insert and remove.
#[test]
fn names_looked_up_while_others_change() {
    keeps(Counted::Lookups, 0.0);
}

/// Nor does the section that it is made in, but for the domain's tick.
#[test]
fn sections_with_lookups_while_others_change() {
    keeps(Counted::Sections, SECTION);
}

#[test]
fn locked_names_looked_up_while_others_change() {
    let Some(measured) = measure_with(&Assertion::on(CORES[0]), || {
        look_up_and_change(CORES[0], &Locked::default(), Counted::Lookups);
    }) else {
        return;
    };
    assert!(
        measured.check(SHARED_LINE).is_err(),
        "{:.3} per lookup",
        measured.per_operation()
    );
}
