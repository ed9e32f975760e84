//! Requests to a cache, as the paper on parallel sections makes them, to the fastest of other people's caches; the paper's own caches are
//! guests of `published`.

use percolog_validation::caches::{Cache, Hashed, Key, Value, drive};
use percolog_validation::clock::Stopwatch;
use percolog_validation::hash::BuildIdHasher;
use quick_cache::UnitWeighter;
use quick_cache::sync::DefaultLifecycle;

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "quick-cache",
    about: "requests to `quick_cache`, of which `sets` in a hundred set, with so many `keys`",
    run,
}];

/// `quick_cache`, whose shards have a readers-writer lock each: each item counts as one, and keys are hashed as everywhere here.
struct Quick(quick_cache::sync::Cache<Hashed, Value, UnitWeighter, BuildIdHasher>);

impl Quick {
    /// With room for twice as many, since hashes do not spread them evenly over the shards.
    fn new(keys: u64) -> Self {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let items = keys.saturating_mul(2);
        Self(quick_cache::sync::Cache::with(
            items,
            items as u64,
            UnitWeighter,
            BuildIdHasher::default(),
            DefaultLifecycle::default(),
        ))
    }
}

impl Cache for Quick {
    fn get(&self, _thread: usize, key: &Key) -> Option<Value> {
        self.0.get(&Hashed(*key))
    }

    fn set(&self, _thread: usize, key: Key, value: Value) -> bool {
        self.0.insert(Hashed(key), value);
        true
    }
}

fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let keys = given.number("keys", 1..=(1 << 31) - 1)?;
    let sets = given.number("sets", 0..=100)?;
    let time = Stopwatch::start();
    let work = drive(given.shift(), &Quick::new(keys), keys, sets).map_err(ProgramError::failed)?;
    Ok(Values::of_work(&work, time.nanoseconds_of_a_cycle()))
}
