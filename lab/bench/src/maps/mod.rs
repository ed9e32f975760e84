//! Tables of values by key, and short lists in the order of their keys: looked up most of the time, and changed on every thread.
//!
//! Half of the keys are there at a time. Of a hundred operations so many look a key up; the others put and delete in turns, and may ask
//! what they have found. Everybody hashes with [the same hash](crate::hash).

mod locked;
mod tables;
mod trees;

pub use locked::{LeftRightTable, LockedTable, Reader};
pub use tables::{DashTable, OurList, OurMap, PapayaTable, SccTable, SkipTable};
pub use trees::{
    AbsorbingTree, Change, Latest, LoggedTree, Plain, Question, Registered, Replicated,
    ReplicatedTree, Tree,
};

use std::hint::black_box;

use crate::runner::{self, Cell, RunError, Settings, Workload};
use crate::sets::Answers;
use percolog_validation::hash::mix;

/// Keys that operations on a map are spread over. Half of them are there at a time.
pub const KEYS: u64 = 1 << 17;

/// The same for a list: what it is made for.
pub const FEW_KEYS: u64 = 64;

/// A table that threads share.
pub trait Table: Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// What a thread needs to get at the table.
    type Handle;

    /// An empty table, for so many threads.
    fn new(threads: usize) -> Self;

    /// For a thread, and made on it.
    fn handle(&self, thread: usize) -> Self::Handle;

    /// The value of a key.
    fn get(&self, handle: &mut Self::Handle, key: u64) -> Option<u64>;

    /// Adds an entry, or replaces its value.
    fn put(&self, handle: &mut Self::Handle, key: u64, value: u64);

    /// Deletes an entry, if there is one.
    fn delete(&self, handle: &mut Self::Handle, key: u64);

    /// Adds an entry, or replaces its value, and says whether it was not there before.
    fn put_and_tell(&self, handle: &mut Self::Handle, key: u64, value: u64) -> bool;

    /// Deletes an entry, and says whether it was there.
    fn delete_and_tell(&self, handle: &mut Self::Handle, key: u64) -> bool;

    /// How many entries there are, all that has been done considered.
    fn len(&self, handle: &mut Self::Handle) -> usize;

    /// Whether there are none.
    fn is_empty(&self, handle: &mut Self::Handle) -> bool {
        self.len(handle) == 0
    }
}

/// What is asked of a table.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Keys that operations are spread over.
    pub keys: u64,
    /// Of a hundred operations, how many look a key up.
    pub reads: u64,
    /// Whether those that change have to say what they found. Each thread's keys are its own then, so that it knows.
    pub answers: Answers,
}

impl Load {
    /// So many lookups in a hundred, and nobody asks what changes have found.
    #[must_use]
    pub const fn of(keys: u64, reads: u64) -> Self {
        Self {
            keys,
            reads,
            answers: Answers::Ignored,
        }
    }
}

/// Runs one cell on a fresh table.
///
/// # Errors
/// A table showed what nobody has put there, or gave a wrong answer; or a thread could not be started.
pub fn run<T: Table>(settings: Settings, load: Load) -> Result<Cell, RunError> {
    let table = T::new(settings.threads);
    let mut handle = table.handle(0);
    for key in (0..load.keys).step_by(2) {
        table.put(&mut handle, key, !key);
    }
    drop(handle);
    let duel = Duel {
        table,
        load,
        threads: settings.threads as u64,
    };
    runner::run(T::NAME, &duel, settings)
}

/// Operations between two looks at the stop flag.
const BLOCK: u64 = 256;

/// The same on a simulated machine, where one operation behind a lock may wait for those of all other cores.
const FEW: u64 = 4;

struct Duel<T> {
    table: T,
    load: Load,
    threads: u64,
}

/// One thread of the duel.
struct Client<H> {
    handle: H,
    thread: u64,
    random: u64,
    operations: u64,
    /// Which of the thread's own keys are there; empty where nobody asks.
    there: Vec<bool>,
    wrong: u64,
}

impl<T: Table> Duel<T> {
    #[inline(always)]
    fn operations(&self, client: &mut Client<T::Handle>, operations: u64) -> u64 {
        for _ in 0..operations {
            client.operations += 1;
            // Marsaglia's xorshift: drawing costs next to nothing beside the operation itself.
            client.random ^= client.random << 13;
            client.random ^= client.random >> 7;
            client.random ^= client.random << 17;
            let key = (client.random >> 20) % self.load.keys;
            if client.random % 100 < self.load.reads {
                if let Some(value) = self.table.get(&mut client.handle, key) {
                    client.wrong += u64::from(value != !key);
                }
            } else if self.load.answers == Answers::Ignored {
                if client.operations.is_multiple_of(2) {
                    self.table.put(&mut client.handle, key, !key);
                } else {
                    self.table.delete(&mut client.handle, key);
                }
            } else {
                self.answered(client, key);
            }
        }
        operations
    }

    /// Puts, or deletes, and needs the answer, which is checked: nobody else changes this thread's keys.
    #[inline(always)]
    fn answered(&self, client: &mut Client<T::Handle>, key: u64) {
        let own = key - key % self.threads + client.thread;
        let there = &mut client.there[(key / self.threads) as usize];
        if client.operations.is_multiple_of(2) {
            let was_missing = self.table.put_and_tell(&mut client.handle, own, !own);
            client.wrong += u64::from(was_missing == *there);
            *there = true;
        } else {
            let was_there = self.table.delete_and_tell(&mut client.handle, own);
            client.wrong += u64::from(was_there != *there);
            *there = false;
        }
    }
}

impl<T: Table> Workload for Duel<T> {
    type Worker = Client<T::Handle>;
    /// Wrong values and answers.
    type Left = u64;

    fn worker(&self, thread: usize) -> Self::Worker {
        let own = match self.load.answers {
            Answers::Ignored => 0,
            Answers::Used => self.load.keys / self.threads + 1,
        };
        let was_put = |number: u64| {
            let key = number * self.threads + thread as u64;
            key < self.load.keys && key.is_multiple_of(2)
        };
        Client {
            there: (0..own).map(was_put).collect(),
            handle: self.table.handle(thread),
            thread: thread as u64,
            // Never zero, where xorshift would stay.
            random: mix(thread as u64 + 1) | 1,
            operations: 0,
            wrong: 0,
        }
    }

    fn block(&self, client: &mut Self::Worker) -> u64 {
        self.operations(client, BLOCK)
    }

    fn step(&self, client: &mut Self::Worker) -> u64 {
        self.operations(client, FEW)
    }

    fn leave(&self, client: Self::Worker) -> u64 {
        client.wrong
    }

    fn settle(&self) {
        black_box(self.table.len(&mut self.table.handle(0)));
    }

    fn check(&self, left: &[u64]) -> Result<(), String> {
        let wrong: u64 = left.iter().sum();
        if wrong > 0 {
            return Err(format!(
                "{wrong} values or answers that nobody's changes can have led to"
            ));
        }
        let mut handle = self.table.handle(0);
        let there = (0..self.load.keys + self.threads)
            .filter(|key| self.table.get(&mut handle, *key).is_some())
            .count();
        let counted = self.table.len(&mut handle);
        if there == counted {
            Ok(())
        } else {
            Err(format!("{counted} entries are counted, {there} are there"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does_what_a_table_does<T: Table>() {
        let table = T::new(1);
        let handle = &mut table.handle(0);
        assert!(table.is_empty(handle), "{}", T::NAME);
        assert!(table.put_and_tell(handle, 1, 2));
        assert!(!table.put_and_tell(handle, 1, 3));
        let found = (table.get(handle, 1), table.get(handle, 2));
        assert_eq!((found, table.len(handle)), ((Some(3), None), 1));
        assert!(table.delete_and_tell(handle, 1) && !table.delete_and_tell(handle, 1));
        table.put(handle, 4, 5);
        table.delete(handle, 5);
        assert_eq!((table.get(handle, 4), table.len(handle)), (Some(5), 1));
        table.delete(handle, 4);
        assert!(table.is_empty(handle));
        for threads in [1, 3] {
            for answers in [Answers::Ignored, Answers::Used] {
                let load = Load {
                    keys: FEW_KEYS,
                    reads: 50,
                    answers,
                };
                let settings = Settings::until(threads, 2000);
                let cell = run::<T>(settings, load).expect("it ends in the right state");
                assert!(cell.operations >= BLOCK);
            }
        }
    }

    #[test]
    fn every_table_does_what_a_table_does() {
        does_what_a_table_does::<OurMap>();
        does_what_a_table_does::<DashTable>();
        does_what_a_table_does::<PapayaTable>();
        does_what_a_table_does::<SccTable>();
        does_what_a_table_does::<LockedTable>();
        does_what_a_table_does::<LeftRightTable>();
    }

    #[test]
    fn every_list_and_tree_does_what_a_table_does() {
        does_what_a_table_does::<OurList>();
        does_what_a_table_does::<SkipTable>();
        does_what_a_table_does::<LoggedTree>();
        does_what_a_table_does::<AbsorbingTree>();
        does_what_a_table_does::<ReplicatedTree>();
    }
}
