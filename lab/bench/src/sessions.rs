//! A table of sessions: each thread opens sessions, touches them, and closes them, and touches others that stay open.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use percolog::collections::Sessions;
use percolog_validation::hash::BuildIdHasher;

use crate::eviction::SplitMix;
use crate::host;
use crate::runner::{self, Cell, RunError, Settings, Workload};

/// Sessions by number, with the time at which each was last touched.
pub trait Table: Sync {
    /// How figures call it.
    const NAME: &'static str;

    /// Without sessions.
    fn new() -> Self;

    /// Opens a session that is not open.
    fn open(&self, key: u64, now: u64);

    /// Touches one that is open.
    fn touch(&self, key: u64, now: u64);

    /// Closes one that is open.
    fn close(&self, key: u64);

    /// All that are open, and when each was last touched, in no order.
    fn list(&self) -> Vec<(u64, u64)>;
}

/// A hash map behind a lock.
#[derive(Debug)]
pub struct LockedSessions(Mutex<HashMap<u64, u64, BuildIdHasher>>);

impl LockedSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u64, BuildIdHasher>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table for LockedSessions {
    const NAME: &'static str = "Mutex<HashMap>";

    fn new() -> Self {
        Self(Mutex::default())
    }

    #[inline]
    fn open(&self, key: u64, now: u64) {
        self.lock().insert(key, now);
    }

    #[inline]
    fn touch(&self, key: u64, now: u64) {
        if let Some(touched) = self.lock().get_mut(&key) {
            *touched = now.max(*touched);
        }
    }

    #[inline]
    fn close(&self, key: u64) {
        self.lock().remove(&key);
    }

    fn list(&self) -> Vec<(u64, u64)> {
        self.lock().iter().map(|(key, at)| (*key, *at)).collect()
    }
}

/// `DashMap`, with as many shards as it would choose on the machine that is simulated.
#[derive(Debug)]
pub struct DashSessions(DashMap<u64, u64, BuildIdHasher>);

impl Table for DashSessions {
    const NAME: &'static str = "DashMap";

    fn new() -> Self {
        Self(DashMap::with_hasher_and_shard_amount(
            BuildIdHasher::default(),
            host::shards(),
        ))
    }

    #[inline]
    fn open(&self, key: u64, now: u64) {
        self.0.insert(key, now);
    }

    #[inline]
    fn touch(&self, key: u64, now: u64) {
        if let Some(mut touched) = self.0.get_mut(&key) {
            *touched = now.max(*touched);
        }
    }

    #[inline]
    fn close(&self, key: u64) {
        self.0.remove(&key);
    }

    fn list(&self) -> Vec<(u64, u64)> {
        let all = self.0.iter();
        all.map(|entry| (*entry.key(), *entry.value())).collect()
    }
}

/// `percolog::collections::Sessions`.
#[derive(Debug)]
pub struct OurSessions(Sessions<u64, (), u64, BuildIdHasher>);

impl Table for OurSessions {
    const NAME: &'static str = "Sessions";

    fn new() -> Self {
        Self(Sessions::with_hasher(BuildIdHasher::default()))
    }

    #[inline]
    fn open(&self, key: u64, now: u64) {
        self.0.open(key, (), now);
    }

    #[inline]
    fn touch(&self, key: u64, now: u64) {
        self.0.touch(key, now);
    }

    #[inline]
    fn close(&self, key: u64) {
        self.0.close(key);
    }

    fn list(&self) -> Vec<(u64, u64)> {
        let all = self.0.list();
        all.iter().map(|(key, (), at)| (*key, at)).collect()
    }
}

/// Sessions that stay open, and that all threads touch.
const OTHERS: u64 = 1000;

/// Sessions between two looks at the stop flag.
const BLOCK: u64 = 64;

/// The same on a simulated machine.
const FEW: u64 = 4;

struct Duel<T>(T);

/// One thread.
struct Client {
    /// The next session of its own.
    next: u64,
    now: u64,
    choice: SplitMix,
    /// When it last touched each of the others.
    touched: Vec<u64>,
}

impl<T: Table> Duel<T> {
    #[inline(always)]
    fn sessions(&self, client: &mut Client, sessions: u64) -> u64 {
        let Self(table) = self;
        for _ in 0..sessions {
            let (own, now) = (client.next, client.now);
            let other = ((client.choice.draw() >> 32) * OTHERS) >> 32;
            table.open(own, now);
            table.touch(own, now + 1);
            table.touch(other, now + 2);
            table.touch(own, now + 3);
            table.close(own);
            client.touched[other as usize] = now + 2;
            client.next += 1;
            client.now += 4;
        }
        sessions
    }
}

impl<T: Table> Workload for Duel<T> {
    type Worker = Client;
    /// When the thread last touched each of the others.
    type Left = Vec<u64>;

    fn worker(&self, index: usize) -> Client {
        let index = index as u64;
        Client {
            next: OTHERS + (index << 32),
            now: 1,
            choice: SplitMix::new(index),
            touched: vec![0; OTHERS as usize],
        }
    }

    fn block(&self, client: &mut Client) -> u64 {
        self.sessions(client, BLOCK)
    }

    fn step(&self, client: &mut Client) -> u64 {
        self.sessions(client, FEW)
    }

    fn leave(&self, client: Client) -> Vec<u64> {
        client.touched
    }

    fn settle(&self) {
        black_box(self.0.list());
    }

    fn check(&self, left: &[Vec<u64>]) -> Result<(), String> {
        let latest = |key: u64| left.iter().map(|touched| touched[key as usize]).max();
        let expected: Vec<(u64, u64)> = (0..OTHERS)
            .map(|key| (key, latest(key).unwrap_or(0)))
            .collect();
        let mut found = self.0.list();
        found.sort_unstable();
        (found == expected).then_some(()).ok_or_else(|| {
            format!(
                "{} sessions are open in the end, or were not last touched when they were",
                found.len()
            )
        })
    }
}

/// Runs one cell on a fresh table. An operation is a session: it is opened, touched twice and closed, and one that stays is touched.
///
/// # Errors
/// Other sessions are open in the end than those that stay, or with another time; or a thread could not be started.
pub fn run<T: Table>(settings: Settings) -> Result<Cell, RunError> {
    let table = T::new();
    (0..OTHERS).for_each(|key| table.open(key, 0));
    runner::run(T::NAME, &Duel(table), settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forgets to close.
    struct Leaky(LockedSessions);

    impl Table for Leaky {
        const NAME: &'static str = "leaky";

        fn new() -> Self {
            Self(LockedSessions::new())
        }

        fn open(&self, key: u64, now: u64) {
            self.0.open(key, now);
        }

        fn touch(&self, key: u64, now: u64) {
            self.0.touch(key, now);
        }

        fn close(&self, _key: u64) {}

        fn list(&self) -> Vec<(u64, u64)> {
            self.0.list()
        }
    }

    #[test]
    fn every_table_keeps_what_stays_open_and_one_that_does_not_is_noticed() {
        let settings = Settings::until(2, 2000);
        for run in [
            run::<LockedSessions>,
            run::<DashSessions>,
            run::<OurSessions>,
        ] {
            let cell = run(settings).expect("the sessions are right");
            assert_eq!(cell.operations % (2 * BLOCK), 0);
            assert!(cell.operations >= 2 * 2000);
        }
        assert!(run::<Leaky>(settings).is_err());
    }
}
