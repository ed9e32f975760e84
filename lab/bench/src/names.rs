//! Names for values: looked up on one thread and on several, given out and taken back where they were given out, and elsewhere.

use std::fmt;
use std::hint::black_box;
use std::thread;

use percolog::namespace::{Id, Namespace};
use percolog::reclaim::Domain;
use sharded_slab::Slab;

use crate::exchange::{self, Place, Source};
use crate::runner::{self, Cell, RunError, Settings, Workload};

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

/// An index, and its generation.
pub type IndexAndGeneration = (u32, u32);

/// Values by name in an array that never changes, each with its generation: what a lookup cannot be below.
#[derive(Debug)]
pub struct ArrayNames(Vec<(u32, u64)>);

/// What all names of the array have.
const GENERATION: u32 = 3;

impl Lookups for ArrayNames {
    const NAME: &'static str = "an array with generations";
    type Name = IndexAndGeneration;

    fn of(values: u64) -> (Self, Vec<IndexAndGeneration>) {
        let table = (0..values).map(|value| (GENERATION, value)).collect();
        let names = (0..values as u32).map(|index| (index, GENERATION));
        (Self(table), names.collect())
    }

    #[inline]
    fn sum(&self, names: &[IndexAndGeneration]) -> u64 {
        let value = |(index, generation): &IndexAndGeneration| match self.0.get(*index as usize) {
            Some((now, value)) if now == generation => *value,
            _ => panic!("it is there"),
        };
        names.iter().map(value).sum()
    }
}

/// A table in which values are looked up.
pub trait Lookups: Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// What values are found by.
    type Name: Copy + Send + Sync;

    /// With so many values, and their names.
    fn of(values: u64) -> (Self, Vec<Self::Name>);

    /// The sum of the values that these names name.
    fn sum(&self, names: &[Self::Name]) -> u64;
}

impl<N: Names> Lookups for N {
    const NAME: &'static str = N::NAME;
    type Name = N::Name;

    fn of(values: u64) -> (Self, Vec<Self::Name>) {
        let table = N::new();
        let names = (0..values).map(|value| table.insert(value)).collect();
        (table, names)
    }

    #[inline]
    fn sum(&self, names: &[Self::Name]) -> u64 {
        N::sum(self, names)
    }
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

/// Runs one cell of lookups of so many values, each thread in an order of its own. Entering and leaving is included.
///
/// # Errors
/// A thread could not be started, or a name was not found.
pub fn lookups<L: Lookups>(settings: Settings, values: u64) -> Result<Cell, RunError> {
    let (table, mut names) = L::of(values);
    shuffle(&mut names);
    let expected = (0..values).sum();
    let duel = Looking {
        table,
        names,
        expected,
    };
    runner::run(L::NAME, &duel, settings)
}

struct Looking<L: Lookups> {
    table: L,
    names: Vec<L::Name>,
    expected: u64,
}

impl<L: Lookups> Workload for Looking<L> {
    /// Where the thread is.
    type Worker = usize;
    type Left = ();

    fn worker(&self, thread: usize) -> usize {
        // Not all at the same place.
        thread * (self.names.len() / BATCH / 7) * BATCH
    }

    fn block(&self, at: &mut usize) -> u64 {
        let rest = self.names.get(*at % self.names.len()..).unwrap_or_default();
        let batch = &rest[..rest.len().min(BATCH)];
        black_box(self.table.sum(batch));
        *at = at.wrapping_add(batch.len());
        batch.len() as u64
    }

    fn leave(&self, _at: usize) {}

    fn settle(&self) {}

    fn check(&self, _left: &[()]) -> Result<(), String> {
        let found = self.table.sum(&self.names);
        if found == self.expected {
            Ok(())
        } else {
            Err(format!(
                "the values' sum is {found} instead of {}",
                self.expected
            ))
        }
    }
}

/// Names are what is exchanged.
struct Named<N>(N);

impl<N: Names> Source for Named<N> {
    const NAME: &'static str = N::NAME;
    type Thing = N::Name;

    fn new() -> Self {
        Self(N::new())
    }

    #[inline]
    fn take(&self, number: u64) -> N::Name {
        self.0.insert(number)
    }

    #[inline]
    fn give_back(&self, name: N::Name) -> Option<u64> {
        self.0.remove(name);
        None
    }
}

/// Runs one cell of names that are given out and taken back, some dozens at a time, by the thread itself or by another one. An operation
/// is both.
///
/// # Errors
/// A thread could not be started, or a name was not found.
pub fn given_out<N: Names>(settings: Settings, place: Place) -> Result<Cell, RunError> {
    exchange::run::<Named<N>>(settings, place)
}

/// The same by threads of which so many have come before and gone again, one after the other: each gave out some dozens of names
/// and took them back.
///
/// # Errors
/// As [`given_out`].
pub fn after_threads<N: Names>(settings: Settings, threads: u64) -> Result<Cell, RunError> {
    let named = Named(N::new());
    for _ in 0..threads {
        let come_and_go = || {
            let names: Vec<N::Name> = (0..BATCH as u64).map(|value| named.take(value)).collect();
            for name in names {
                named.give_back(name);
            }
        };
        let thread = thread::scope(|scope| scope.spawn(come_and_go).join());
        thread.map_err(|_| RunError::Panicked { structure: N::NAME })?;
    }
    exchange::run_with(named, settings, Place::Here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_finds_what_it_has_named() {
        for threads in [1, 3] {
            let settings = Settings::until(threads, 2000);
            for lookups in [
                lookups::<OurNames>,
                lookups::<SlabNames>,
                lookups::<ArrayNames>,
            ] {
                for values in [10, 1000] {
                    assert!(
                        lookups(settings, values)
                            .expect("they are there")
                            .operations
                            > 0
                    );
                }
            }
            for after in [after_threads::<OurNames>, after_threads::<SlabNames>] {
                assert!(after(settings, 50).expect("they are there").operations > 0);
            }
            for given_out in [given_out::<OurNames>, given_out::<SlabNames>] {
                for place in [Place::Here, Place::Elsewhere] {
                    let cell = given_out(settings, place).expect("they are there");
                    assert!(cell.operations > 0);
                }
            }
        }
    }
}
