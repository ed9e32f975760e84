//! The table behind a lock that every open and every close takes.

use super::FileTable;
use crate::subsystem::{Entry, Key, SharedObject};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A [`FileTable`] behind a mutex.
#[derive(Debug, Default)]
pub struct Locked {
    files: Mutex<FileTable>,
}

impl Locked {
    fn lock(&self) -> MutexGuard<'_, FileTable> {
        // No method of the table panics half-way, so a table left behind by a panicking thread is sound.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedObject for Locked {
    type Arrival = Entry;
    type Departure = Key;
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Entry, Key) {
        (file, file.key())
    }

    fn enter(&self, file: Entry) {
        self.lock().open(file);
    }

    fn leave(&self, key: Key) {
        self.lock().close(key);
    }

    fn read(&self, _: u64) -> Vec<Entry> {
        self.view()
    }

    fn view(&self) -> Vec<Entry> {
        self.lock().walk()
    }

    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }
}
