//! The open files, for one thread at a time.
//!
//! A kernel links the open files themselves into a list, which a file leaves in constant time. Here a file
//! is a value, so a hash table finds it by its identity, in constant time as well.

use crate::subsystem::{Entry, Key};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The open files of a file system.
#[derive(Clone, Debug, Default)]
pub struct FileTable {
    files: HashMap<u32, Entry, BuildHasherDefault<Scatter>>,
}

impl FileTable {
    /// Opens a file.
    pub fn open(&mut self, file: Entry) {
        self.files.insert(file.identity, file);
    }

    /// Closes it, if it is open.
    pub fn close(&mut self, key: Key) {
        self.files.remove(&key.identity);
    }

    /// Every open file, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.files.values().copied()
    }

    /// Every open file, in order of their keys.
    #[must_use]
    pub fn walk(&self) -> Vec<Entry> {
        sorted(self.iter())
    }
}

/// In order of their keys.
pub(super) fn sorted(files: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let mut files: Vec<Entry> = files.collect();
    files.sort_unstable();
    files
}

/// Identities are small numbers that the program itself gives out, so a multiplication (by 2⁶⁴ over the
/// golden ratio) scatters them well enough, and nobody can choose them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scatter(u64);

impl Hasher for Scatter {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
