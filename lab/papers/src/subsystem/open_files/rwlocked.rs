//! The table behind a lock that walks share; every open and every close still takes it for itself.

use super::FileTable;
use crate::subsystem::{Entry, Key, SharedObject};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

/// A [`FileTable`] behind a readers-writer lock.
#[derive(Debug, Default)]
pub struct RwLocked {
    files: RwLock<FileTable>,
}

impl RwLocked {
    fn write(&self) -> RwLockWriteGuard<'_, FileTable> {
        // No method of the table panics half-way, so a table left behind by a panicking thread is sound.
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedObject for RwLocked {
    type Arrival = Entry;
    type Departure = Key;
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Entry, Key) {
        (file, file.key())
    }

    fn enter(&self, file: Entry) {
        self.write().open(file);
    }

    fn leave(&self, key: Key) {
        self.write().close(key);
    }

    fn read(&self, _: u64) -> Vec<Entry> {
        self.view()
    }

    fn view(&self) -> Vec<Entry> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.walk()
    }

    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }
}
