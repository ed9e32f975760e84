//! percolog's cache: CLOCK over several lists, whose marks are set from what threads have noted.

use std::fmt;
use std::sync::{Condvar, Mutex};
use std::thread;

use percolog::collections;
use percolog::reclaim::Domain;

use super::Cache;

static DOMAIN: Domain = Domain::new();

/// `percolog::collections::Cache`, with keys alone.
pub struct SecondChance(collections::Cache<'static, u64, ()>);

impl SecondChance {
    /// An empty cache with room for so many keys, in as many lists as it chooses itself.
    ///
    /// # Panics
    /// If there is no memory.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let bytes = capacity * collections::Cache::<u64, ()>::ITEM_BYTES;
        let cache = collections::Cache::builder(bytes).build(&DOMAIN);
        Self(cache.expect("there is memory"))
    }

    fn look_up(&self, key: u64) -> bool {
        let found = self.0.observe(&key, |()| ()).is_some();
        if !found {
            self.0.set(key, ()).expect("there is memory");
        }
        found
    }

    /// How many of these lookups it answers, if they are made by so many threads, of which one after the other makes some hundred.
    ///
    /// # Panics
    /// If a thread does.
    #[must_use]
    pub fn hits_in_turns(&self, trace: &[u64], threads: usize) -> usize {
        /// What one thread looks up before it is the next one's turn.
        const TURN: usize = 300;
        let turn = Mutex::new((0, 0));
        let changed = Condvar::new();
        thread::scope(|scope| {
            for thread in 0..threads {
                let (turn, changed) = (&turn, &changed);
                scope.spawn(move || {
                    let all = trace.chunks(TURN).enumerate();
                    for (number, part) in all.filter(|(number, _)| number % threads == thread) {
                        let now = turn.lock().expect("nobody panics");
                        let mut now = changed
                            .wait_while(now, |(now, _)| *now != number)
                            .expect("nobody panics");
                        now.0 += 1;
                        now.1 += part.iter().filter(|key| self.look_up(**key)).count();
                        changed.notify_all();
                    }
                });
            }
        });
        turn.into_inner().expect("nobody panics").1
    }
}

impl Cache for SecondChance {
    fn access(&mut self, key: u64) -> bool {
        self.look_up(key)
    }
}

impl fmt::Debug for SecondChance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
