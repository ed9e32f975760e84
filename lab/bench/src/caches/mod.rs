//! Bounded caches: `percolog::collections::Cache` beside `quick_cache` and `moka`, with the same hash.
//!
//! Keys have 16 bytes and values 32, as in §5.2 of Q. Wang, T. Stamler and G. Parmer, *Parallel Sections: Scaling System-Level
//! Data-Structures*, and are chosen as YCSB does by default: Zipf with an exponent of 0.99. An *ample* cache has room for all keys, and has
//! them from the start: what is compared is lookups and replacements. One that is not has room for a tenth of the keys, and a
//! lookup that finds nothing sets its key, as a program would; what is compared is also which keys are kept.

mod least_recent;
mod peers;

pub(crate) use least_recent::LeastRecent;
pub use peers::{LockedCache, Moka, OurCache, QuickCache};

use std::hash::{Hash, Hasher};

use crate::eviction::Zipf;
use crate::runner::{self, Cell, RunError, Settings, Workload};
use percolog_validation::hash::mix;

/// 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u64; 2]);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
        state.write_u64(self.0[1]);
    }
}

impl Key {
    pub(crate) fn of(number: u64) -> Self {
        Self([mix(number), number])
    }
}

/// 32 bytes.
pub type Value = [u64; 4];

pub(crate) fn value(key: Key) -> Value {
    [key.0[0], key.0[1], 0, 0]
}

/// A cache of keys and values.
pub trait Cache: Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// With room for so many.
    fn new(items: usize) -> Self;

    /// The value, copied out.
    fn get(&self, key: Key) -> Option<Value>;

    /// Puts a value in, or replaces one.
    fn set(&self, key: Key, value: Value);

    /// Does what it has put off.
    fn settle(&self) {}
}

/// What one cell runs.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many keys there are.
    pub keys: usize,
    /// How many of a hundred operations are sets.
    pub sets: u64,
    /// There is room for all keys.
    pub ample: bool,
    /// Lookups of each thread before it begins again.
    pub trace: usize,
}

impl Load {
    fn items(self) -> usize {
        // Hashes choose the lists, or shards, of which some get more than others.
        if self.ample {
            self.keys * 2
        } else {
            self.keys / 10
        }
    }
}

/// YCSB's.
const SKEW: f64 = 0.99;

/// Operations between two looks at the clock.
const BLOCK: u64 = 256;

/// The same on a simulated machine, where one operation behind a lock may wait for those of all other cores.
const FEW: u64 = 4;

/// Runs one cell on a cache that is full of what is asked for most. Returns also of a hundred lookups how many found something: those that
/// one thread makes beforehand, so that the share says which keys are kept and does not depend on how fast anybody is.
///
/// # Errors
/// A value was another key's; or a thread could not be started.
pub fn run<C: Cache>(settings: Settings, load: Load) -> Result<(Cell, f64), RunError> {
    let cache = C::new(load.items());
    let zipf = Zipf::new(load.keys, SKEW);
    if load.ample {
        for number in 0..load.keys as u64 {
            cache.set(Key::of(number), value(Key::of(number)));
        }
    } else {
        // Warm: so many lookups that nearly every place was taken several times.
        pass(&cache, &zipf.lookups(1, load.trace / 2));
    }
    cache.settle();
    let looked = zipf.lookups(2, load.trace / 4);
    let found = if load.ample {
        let is_there = |number: &&u64| cache.get(Key::of(**number)).is_some();
        looked.iter().filter(is_there).count()
    } else {
        pass(&cache, &looked)
    };
    let hit_percent = 100.0 * found as f64 / looked.len().max(1) as f64;
    let duel = Duel { cache, load, zipf };
    let cell = runner::run(C::NAME, &duel, settings)?;
    Ok((cell, hit_percent))
}

/// Looks these up, and sets what is not there. How many were.
fn pass(cache: &impl Cache, numbers: &[u64]) -> usize {
    let mut found = 0;
    for number in numbers {
        let key = Key::of(*number);
        if cache.get(key).is_some() {
            found += 1;
        } else {
            cache.set(key, value(key));
        }
    }
    found
}

struct Duel<C> {
    cache: C,
    load: Load,
    zipf: Zipf,
}

/// A thread, and what it has met.
#[derive(Debug)]
struct Client {
    trace: Vec<u64>,
    at: usize,
    wrong: u64,
}

impl<C: Cache> Duel<C> {
    #[inline(always)]
    fn operations(&self, client: &mut Client, operations: u64) -> u64 {
        for _ in 0..operations {
            let key = Key::of(client.trace[client.at % client.trace.len()]);
            client.at += 1;
            // Spread evenly, and not in step with anything in the trace.
            if u64::from((client.at as u32).wrapping_mul(37)) % 100 < self.load.sets {
                self.cache.set(key, value(key));
                continue;
            }
            match self.cache.get(key) {
                Some(found) => client.wrong += u64::from(found != value(key)),
                None if self.load.ample => {}
                None => self.cache.set(key, value(key)),
            }
        }
        operations
    }
}

impl<C: Cache> Workload for Duel<C> {
    type Worker = Client;
    /// Wrong values.
    type Left = u64;

    fn worker(&self, thread: usize) -> Client {
        Client {
            trace: self.zipf.lookups(3 + thread as u64, self.load.trace.max(1)),
            at: 0,
            wrong: 0,
        }
    }

    fn block(&self, client: &mut Client) -> u64 {
        self.operations(client, BLOCK)
    }

    fn step(&self, client: &mut Client) -> u64 {
        self.operations(client, FEW)
    }

    fn leave(&self, client: Client) -> u64 {
        client.wrong
    }

    fn settle(&self) {
        self.cache.settle();
    }

    fn check(&self, left: &[u64]) -> Result<(), String> {
        match left.iter().sum() {
            0_u64 => Ok(()),
            wrong => Err(format!("{wrong} values of other keys")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_what_is_asked_for<C: Cache>() {
        for (ample, at_least, at_most) in [(true, 99.0, 100.0), (false, 40.0, 95.0)] {
            let load = Load {
                keys: 10_000,
                sets: 20,
                ample,
                trace: 1 << 14,
            };
            let settings = Settings::until(2, 2000);
            let (cell, hits) = run::<C>(settings, load).expect("every value is its key's");
            assert!(cell.operations >= BLOCK);
            assert!((at_least..=at_most).contains(&hits), "{}: {hits}", C::NAME);
        }
    }

    #[test]
    fn every_cache_keeps_what_is_asked_for() {
        keeps_what_is_asked_for::<OurCache>();
        keeps_what_is_asked_for::<QuickCache>();
        keeps_what_is_asked_for::<Moka>();
        keeps_what_is_asked_for::<LockedCache>();
    }
}
