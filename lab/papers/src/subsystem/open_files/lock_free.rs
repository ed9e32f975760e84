//! The list as a lock-free skip list, sorted by file.

use crate::subsystem::{Entry, Key, SharedObject};
use crossbeam_skiplist::SkipMap;

/// A skip list of open files.
///
/// Opening and closing are linearizable; a walk meets what is there all the time, and what comes or goes
/// meanwhile or not.
#[derive(Debug, Default)]
pub struct LockFree {
    files: SkipMap<Key, Entry>,
}

impl SharedObject for LockFree {
    type Arrival = Entry;
    type Departure = Key;
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Entry, Key) {
        (file, file.key())
    }

    fn enter(&self, file: Entry) {
        self.files.insert(file.key(), file);
    }

    fn leave(&self, key: Key) {
        self.files.remove(&key);
    }

    fn read(&self, _: u64) -> Vec<Entry> {
        self.view()
    }

    fn view(&self) -> Vec<Entry> {
        self.files.iter().map(|file| *file.value()).collect()
    }

    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }
}
