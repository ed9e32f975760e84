//! The peer: `quick_cache`, whose shards have a readers-writer lock each.

use std::process::ExitCode;

use percolog_bench::validation::caches::{Cache, Hashed, Key, Value, drive};
use percolog_bench::validation::crew::Shift;

use crate::quick::{NAME, Quick, quick};
use crate::simulated::print_work;

struct Peer(Quick<Hashed, Value>);

impl Peer {
    /// With room for twice as many, since hashes do not spread them evenly over the shards.
    fn new(keys: u64) -> Self {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        Self(quick(keys.saturating_mul(2)))
    }
}

impl Cache for Peer {
    fn get(&self, _thread: usize, key: &Key) -> Option<Value> {
        self.0.get(&Hashed(*key))
    }

    fn set(&self, _thread: usize, key: Key, value: Value) -> bool {
        self.0.insert(Hashed(key), value);
        true
    }
}

/// What [`run`] is to be given.
pub(crate) fn words(shift: Shift, keys: u64, sets: u64) -> Vec<String> {
    let numbers = [
        shift.threads as u64,
        shift.warm_up,
        shift.cycles,
        keys,
        sets,
    ];
    let numbers = numbers.iter().map(ToString::to_string);
    std::iter::once(NAME.to_owned()).chain(numbers).collect()
}

/// Runs one cell, and prints what it gave.
pub(crate) fn run(numbers: &[String]) -> ExitCode {
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|word| word.parse()).collect();
    let Ok([threads, warm_up, cycles, keys, sets]) = numbers.as_deref() else {
        eprintln!("caches: {NAME} THREADS WARM_UP CYCLES KEYS SETS");
        return ExitCode::from(2);
    };
    let shift = Shift {
        threads: *threads as usize,
        warm_up: *warm_up,
        cycles: *cycles,
    };
    print_work("caches", drive(shift, &Peer::new(*keys), *keys, *sets))
}
