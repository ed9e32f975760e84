//! Names for values: looked up on one thread and on several, given out and taken back where they were given out, and elsewhere.

use std::fmt;
use std::hint::black_box;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use percolog::namespace::{Id, Namespace};
use percolog::reclaim::Domain;
use sharded_slab::Slab;

/// How many names are given out and taken back at a time.
pub const BATCH: usize = 64;

/// A table of values by name.
pub trait Names: Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// What values are found by.
    type Name: Copy + Send + Sync;

    /// An empty table.
    fn new() -> Self;

    /// Gives a value a name.
    fn insert(&self, value: u64) -> Self::Name;

    /// The sum of the values that these names name.
    fn sum(&self, names: &[Self::Name]) -> u64;

    /// Takes a value out.
    fn remove(&self, name: Self::Name);
}

static DOMAIN: Domain = Domain::new();

/// [`Namespace`], with a section for each batch of lookups.
#[derive(Debug)]
pub struct OurNames(Namespace<'static, u64>);

impl Names for OurNames {
    const NAME: &'static str = "Namespace";
    type Name = Id<u64>;

    fn new() -> Self {
        Self(Namespace::new(&DOMAIN))
    }

    #[inline]
    fn insert(&self, value: u64) -> Id<u64> {
        self.0.insert(value).expect("there are ids")
    }

    #[inline]
    fn sum(&self, names: &[Id<u64>]) -> u64 {
        let section = DOMAIN.enter();
        let lookup = self.0.within(&section);
        names
            .iter()
            .map(|name| lookup.get(*name).expect("it is there"))
            .sum()
    }

    #[inline]
    fn remove(&self, name: Id<u64>) {
        self.0.remove(name).expect("it is there");
    }
}

/// The crate that most programs would take.
pub struct SlabNames(Slab<u64>);

impl fmt::Debug for SlabNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlabNames").finish_non_exhaustive()
    }
}

impl Names for SlabNames {
    const NAME: &'static str = "sharded-slab";
    type Name = usize;

    fn new() -> Self {
        Self(Slab::new())
    }

    #[inline]
    fn insert(&self, value: u64) -> usize {
        self.0.insert(value).expect("there is room")
    }

    #[inline]
    fn sum(&self, names: &[usize]) -> u64 {
        names
            .iter()
            .map(|name| *self.0.get(*name).expect("it is there"))
            .sum()
    }

    #[inline]
    fn remove(&self, name: usize) {
        assert!(self.0.remove(name), "it is there");
    }
}

/// An index, and its generation at a time.
type IndexAndGeneration = (u32, u32);

/// Values by name in an array, each with its generation: what a lookup cannot be below.
fn array(values: u64) -> (Vec<(u32, u64)>, Vec<IndexAndGeneration>) {
    let table = (0..values).map(|value| (3, value)).collect();
    (table, (0..values as u32).map(|index| (index, 3)).collect())
}

/// In an order that no prefetcher follows.
fn shuffle<T>(items: &mut [T]) {
    let mut state = 88_172_645_463_325_252_u64;
    for at in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(at, (state % (at as u64 + 1)) as usize);
    }
}

/// How long one lookup takes on each of so many threads that all look up all of so many values, in `rounds`.
fn each_thread(threads: usize, lookups: usize, pass: impl Fn() + Sync) -> f64 {
    let start = Barrier::new(threads);
    let times: Vec<Duration> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    pass();
                    start.wait();
                    let started = Instant::now();
                    pass();
                    started.elapsed()
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    let sum: Duration = times.iter().sum();
    sum.as_secs_f64() * 1e9 / (threads * lookups) as f64
}

/// Nanoseconds for a lookup in an array, with a bounds check and a comparison of generations.
///
/// # Panics
/// If a thread could not be started, or a name is not found.
#[must_use]
pub fn array_lookups(threads: usize, values: u64, rounds: usize) -> f64 {
    let (table, mut names) = array(values);
    shuffle(&mut names);
    let table = black_box(table);
    each_thread(threads, rounds * names.len(), || {
        for _ in 0..rounds {
            for batch in names.chunks(BATCH) {
                let sum: u64 = batch
                    .iter()
                    .map(|(index, generation)| match table.get(*index as usize) {
                        Some((now, value)) if now == generation => value,
                        _ => panic!("it is there"),
                    })
                    .sum();
                black_box(sum);
            }
        }
    })
}

/// Nanoseconds for a lookup by name, entering and leaving included.
///
/// # Panics
/// If a thread could not be started, or a name is not found.
#[must_use]
pub fn lookups<N: Names>(threads: usize, values: u64, rounds: usize) -> f64 {
    let table = N::new();
    let mut names: Vec<_> = (0..values).map(|value| table.insert(value)).collect();
    shuffle(&mut names);
    let table = black_box(table);
    each_thread(threads, rounds * names.len(), || {
        for _ in 0..rounds {
            for batch in names.chunks(BATCH) {
                black_box(table.sum(batch));
            }
        }
    })
}

/// Nanoseconds for giving out a name and taking it back on the same thread, some dozens at a time.
///
/// # Panics
/// If a thread could not be started, or a name is not found.
#[must_use]
pub fn local<N: Names>(threads: usize, rounds: usize) -> f64 {
    let table = N::new();
    each_thread(threads, rounds * BATCH, || {
        let mut names = Vec::with_capacity(BATCH);
        for _ in 0..rounds {
            names.extend((0..BATCH as u64).map(|value| table.insert(value)));
            for name in names.drain(..) {
                table.remove(name);
            }
        }
    })
}

/// Nanoseconds for each name that one thread gives out and another one takes back.
///
/// # Panics
/// If a thread could not be started, or a name is not found.
#[must_use]
pub fn elsewhere<N: Names>(rounds: usize) -> f64 {
    const MANY: usize = 1024;
    let table = N::new();
    let (sender, receiver) = mpsc::sync_channel::<Vec<N::Name>>(4);
    let started = Instant::now();
    thread::scope(|scope| {
        let table = &table;
        scope.spawn(move || {
            for _ in 0..rounds {
                let names = (0..MANY as u64).map(|value| table.insert(value)).collect();
                sender.send(names).expect("it is received");
            }
        });
        scope.spawn(move || {
            for names in receiver {
                for name in names {
                    table.remove(name);
                }
            }
        });
    });
    started.elapsed().as_secs_f64() * 1e9 / (rounds * MANY) as f64
}
