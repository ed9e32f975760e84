//! Hash maps of the standard library behind what programs have today: one lock for readers and writers, and two copies.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use left_right::{Absorb, ReadHandle, ReadHandleFactory, WriteHandle};

use super::Table;
use percolog_validation::hash::BuildIdHasher;

type Sequential = HashMap<u64, u64, BuildIdHasher>;

/// `RwLock<HashMap>`: what most programs begin with.
#[derive(Debug)]
pub struct LockedTable(RwLock<Sequential>);

impl LockedTable {
    // No operation can leave the map half changed.
    fn change<R>(&self, change: impl FnOnce(&mut Sequential) -> R) -> R {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Table for LockedTable {
    const NAME: &'static str = "RwLock<HashMap>";
    type Handle = ();

    fn new(_threads: usize) -> Self {
        Self(RwLock::default())
    }

    fn handle(&self, _thread: usize) {}

    #[inline]
    fn get(&self, (): &mut (), key: u64) -> Option<u64> {
        let map = self.0.read().unwrap_or_else(PoisonError::into_inner);
        map.get(&key).copied()
    }

    #[inline]
    fn put(&self, handle: &mut (), key: u64, value: u64) {
        self.put_and_tell(handle, key, value);
    }

    #[inline]
    fn delete(&self, handle: &mut (), key: u64) {
        self.delete_and_tell(handle, key);
    }

    #[inline]
    fn put_and_tell(&self, (): &mut (), key: u64, value: u64) -> bool {
        self.change(|map| map.insert(key, value)).is_none()
    }

    #[inline]
    fn delete_and_tell(&self, (): &mut (), key: u64) -> bool {
        self.change(|map| map.remove(&key)).is_some()
    }

    fn len(&self, (): &mut ()) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// A change of both copies.
enum Change {
    Put(u64, u64),
    Delete(u64),
}

#[derive(Clone)]
struct Copied(Sequential);

impl Absorb<Change> for Copied {
    fn absorb_first(&mut self, change: &mut Change, _other: &Self) {
        match *change {
            Change::Put(key, value) => self.0.insert(key, value),
            Change::Delete(key) => self.0.remove(&key),
        };
    }

    fn sync_with(&mut self, first: &Self) {
        self.0.clone_from(&first.0);
    }
}

/// `left-right`: readers read one copy and write only that they do; each change is published at once, as a program wants that
/// replaces a lock by it.
pub struct LeftRightTable {
    writer: Mutex<WriteHandle<Copied, Change>>,
    readers: ReadHandleFactory<Copied>,
}

impl fmt::Debug for LeftRightTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeftRightTable").finish_non_exhaustive()
    }
}

/// What a thread reads the table with.
pub struct Reader(ReadHandle<Copied>);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl LeftRightTable {
    fn writer(&self) -> MutexGuard<'_, WriteHandle<Copied, Change>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    fn read<R: Default>(&self, read: impl FnOnce(&Sequential) -> R) -> R {
        // The writer lives as long as the table, so there always is a copy.
        self.0.enter().map(|copy| read(&copy.0)).unwrap_or_default()
    }
}

impl Table for LeftRightTable {
    const NAME: &'static str = "left-right";
    type Handle = Reader;

    fn new(_threads: usize) -> Self {
        let (writer, reader) = left_right::new_from_empty(Copied(Sequential::default()));
        Self {
            writer: Mutex::new(writer),
            readers: reader.factory(),
        }
    }

    fn handle(&self, _thread: usize) -> Reader {
        Reader(self.readers.handle())
    }

    #[inline]
    fn get(&self, reader: &mut Reader, key: u64) -> Option<u64> {
        reader.read(|map| map.get(&key).copied())
    }

    #[inline]
    fn put(&self, _reader: &mut Reader, key: u64, value: u64) {
        self.writer().append(Change::Put(key, value)).publish();
    }

    #[inline]
    fn delete(&self, _reader: &mut Reader, key: u64) {
        self.writer().append(Change::Delete(key)).publish();
    }

    fn put_and_tell(&self, reader: &mut Reader, key: u64, value: u64) -> bool {
        let mut writer = self.writer();
        let was_missing = reader.read(|map| !map.contains_key(&key));
        writer.append(Change::Put(key, value)).publish();
        was_missing
    }

    fn delete_and_tell(&self, reader: &mut Reader, key: u64) -> bool {
        let mut writer = self.writer();
        let was_there = reader.read(|map| map.contains_key(&key));
        if was_there {
            writer.append(Change::Delete(key)).publish();
        }
        was_there
    }

    fn len(&self, reader: &mut Reader) -> usize {
        reader.read(HashMap::len)
    }
}
