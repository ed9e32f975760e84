//! One kind of objects, allocated in a process of its own, and what they have taken of memory.
//!
//! The process asks the kernel how much of its memory is really there, before and after: what the allocator adds
//! is in it, and so is what the cache has.

use std::hint::black_box;
use std::sync::atomic::{AtomicI64, Ordering};

use clap::ValueEnum;
use percolog::cpu::{self, CoreId};
use percolog::oplog::{Cached, Lent, Operation};
use serde::{Deserialize, Serialize};

use super::GuestArguments;
use crate::failure::Failure;
use crate::output::Output;

/// What the objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// One counter in the object
    Shared,
    /// A counter for each core in the object
    PerCore,
    /// One counter in the object, its changes in logs that a cache lends
    LogCache,
}

/// What a process has found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Bytes of an object, without what the allocator adds.
    pub(crate) object_bytes: u64,
    /// Bytes of memory that have become resident while the objects were made and used.
    pub(crate) resident_bytes: u64,
    /// Of those, what the cache says that it has.
    pub(crate) cache_bytes: u64,
    /// Logs that the cache has made.
    pub(crate) logs: u64,
}

/// A directory entry of the size that Linux had: 192 bytes, eight of which are the counter.
struct Entry {
    #[allow(dead_code, reason = "takes its place")]
    name: [u64; 23],
    references: i64,
}

const ENTRY: Entry = Entry {
    // Not zero, so that the pages are touched.
    name: [1; 23],
    references: 0,
};

struct Change(i64);

impl Operation<Entry> for Change {
    fn exec(self, entry: &mut Entry) {
        entry.references += self.0;
    }
}

percolog::log_cache!(Entry, Change);

struct SharedEntry {
    #[allow(dead_code, reason = "takes its place")]
    name: [u64; 23],
    references: AtomicI64,
}

/// Allocates, uses, and says what that took.
pub(crate) fn run(arguments: &GuestArguments, output: &mut Output) -> Result<(), Failure> {
    let count = usize::try_from(arguments.objects)
        .map_err(|_| Failure::Input("so many objects cannot be counted".to_owned()))?;
    let cores = arguments.cores;
    let found = match arguments.kind {
        Kind::Shared => {
            let object = |_| {
                let entry = Box::new(SharedEntry {
                    name: ENTRY.name,
                    references: AtomicI64::new(0),
                });
                entry.references.fetch_add(1, Ordering::Relaxed);
                entry
            };
            measure(count, size_of::<SharedEntry>(), object)?
        }
        Kind::PerCore => {
            // One allocation: the entry as it is, and a counter for each core behind it.
            let words = size_of::<Entry>() / 8 + cores as usize;
            let object = |at: usize| {
                let mut entry = vec![1_i64; words].into_boxed_slice();
                entry[words - 1 - at % cores as usize] += 1;
                entry
            };
            measure(count, words * 8, object)?
        }
        Kind::LogCache => {
            let object = |at: usize| {
                // As if each core in turn had used the next object, so that the tables of all cores are full.
                cpu::bind(CoreId::new(at as u32 % cores));
                let entry = Lent::<Entry, Change>::boxed(ENTRY);
                entry.as_ref().queue(Change(1));
                entry
            };
            measure(count, size_of::<Lent<Entry, Change>>(), object)?
        }
    };
    output.data(&found)
}

/// Makes `count` objects, and keeps them all until the memory has been measured.
fn measure<T>(
    count: usize,
    object_bytes: usize,
    make: impl Fn(usize) -> T,
) -> Result<Found, Failure> {
    // What keeps them is touched before, and not counted.
    let mut all: Vec<Option<T>> = Vec::new();
    all.resize_with(count, || None);
    black_box(&mut all);
    let before = resident()?;
    for (at, place) in all.iter_mut().enumerate() {
        *place = Some(make(at));
    }
    black_box(&mut all);
    let after = resident()?;
    let cache = <Change as Cached<Entry>>::cache().stats();
    Ok(Found {
        object_bytes: object_bytes as u64,
        resident_bytes: after.saturating_sub(before),
        cache_bytes: (cache.queue_bytes + cache.table_bytes) as u64,
        logs: cache.queues as u64,
    })
}

/// Bytes of memory that this process really has.
fn resident() -> Result<u64, Failure> {
    field("/proc/self/status", "VmRSS:")
}

/// Bytes of memory that can still be had.
pub(crate) fn available() -> Result<u64, Failure> {
    field("/proc/meminfo", "MemAvailable:")
}

fn field(path: &str, name: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Work(format!("cannot read {path}: {error}")))?;
    kibibytes(&text, name)
        .map(|count| count * 1024)
        .ok_or_else(|| Failure::Work(format!("{path} does not say {name}")))
}

/// The number in the line that begins with `name`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_size_of_linux_and_lent_ones_eight_bytes_more() {
        assert_eq!(size_of::<Entry>(), 192);
        assert_eq!(size_of::<SharedEntry>(), 192);
        assert_eq!(size_of::<Lent<Entry, Change>>(), 200);
    }

    #[test]
    fn the_kernels_figures_are_read() {
        let text = "VmPeak:\t  100 kB\nVmRSS:\t   4242 kB\n";
        assert_eq!(kibibytes(text, "VmRSS:"), Some(4242));
        assert_eq!(kibibytes(text, "VmData:"), None);
    }
}
