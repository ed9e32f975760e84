//! Objects with a reference count each, and what they take of memory: figure 8-5 of the OpLog thesis.
//!
//! The process asks the kernel how much of its memory is really there, before and after: what the allocator adds is in it, and so is what the
//! cache of logs has.

use std::hint::black_box;
use std::sync::atomic::{AtomicI64, Ordering};

use percolog::cpu::{self, CoreId};
use percolog::oplog::{Cached, Lent, LogCacheBuilder, LoggedBuilder, Mode, Operation};

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "objects",
    about: "bytes of memory that so many `objects` take with a reference count each, on so many `cores`",
    run,
}];

/// What the objects are.
#[derive(Clone, Copy)]
enum Kind {
    /// One counter in the object.
    Shared,
    /// A counter for each core in the object.
    PerCore,
    /// One counter in the object, its changes in logs that a cache lends.
    LogCache,
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

// As in the thesis: each update is logged, also where nobody is in its way.
percolog::log_cache!(
    Entry,
    Change,
    LogCacheBuilder::new().objects(LoggedBuilder::new().mode(Mode::Deferring))
);

struct SharedEntry {
    #[allow(dead_code, reason = "takes its place")]
    name: [u64; 23],
    references: AtomicI64,
}

/// `object_bytes` are those of an object itself; `resident_bytes` those that each takes of memory, with what the allocator adds and its share of the
/// cache; `cache_bytes` what the cache has, however many objects there are.
fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice(
        "structure",
        &[
            ("shared", Kind::Shared),
            ("per-core", Kind::PerCore),
            ("log-cache", Kind::LogCache),
        ],
    )?;
    let objects = given.number("objects", 1..=1 << 32)?;
    let cores = given.number("cores", 1..=4096)? as u32;
    let available = field("/proc/meminfo", "MemAvailable:")?;
    // The largest kind takes so much for each, the allocator's part and the place that keeps it included.
    let needed = objects * (192 + 8 * u64::from(cores) + 32);
    if needed > available {
        return Err(ProgramError::Failed(format!(
            "{objects} objects need up to {needed} bytes, and there are {available}"
        )));
    }
    let count = usize::try_from(objects).map_err(ProgramError::failed)?;
    match kind {
        Kind::Shared => measure(count, size_of::<SharedEntry>(), |_| {
            let entry = Box::new(SharedEntry {
                name: ENTRY.name,
                references: AtomicI64::new(0),
            });
            entry.references.fetch_add(1, Ordering::Relaxed);
            entry
        }),
        Kind::PerCore => {
            // One allocation: the entry as it is, and a counter for each core behind it.
            let words = size_of::<Entry>() / 8 + cores as usize;
            measure(count, words * 8, |at| {
                let mut entry = vec![1_i64; words].into_boxed_slice();
                entry[words - 1 - at % cores as usize] += 1;
                entry
            })
        }
        Kind::LogCache => measure(count, size_of::<Lent<Entry, Change>>(), |at| {
            // As if each core in turn had used the next object, so that the tables of all cores are full.
            cpu::bind(CoreId::new(at as u32 % cores));
            let entry = Lent::<Entry, Change>::boxed(ENTRY);
            entry.as_ref().queue(Change(1));
            entry
        }),
    }
}

/// Makes `count` objects, and keeps them all until the memory has been measured.
fn measure<T>(
    count: usize,
    object_bytes: usize,
    make: impl Fn(usize) -> T,
) -> Result<Values, ProgramError> {
    // What keeps them is touched before, and not counted.
    let mut all: Vec<Option<T>> = Vec::new();
    all.resize_with(count, || None);
    black_box(&mut all);
    let resident = || field("/proc/self/status", "VmRSS:");
    let before = resident()?;
    for (at, place) in all.iter_mut().enumerate() {
        *place = Some(make(at));
    }
    black_box(&mut all);
    let taken = resident()?.saturating_sub(before);
    let cache = <Change as Cached<Entry>>::cache().stats();
    Ok(Values::default()
        .with("object_bytes", object_bytes as f64)
        .with("resident_bytes", taken as f64 / count as f64)
        .with(
            "cache_bytes",
            (cache.queue_bytes + cache.table_bytes) as f64,
        ))
}

/// Bytes, from a file of the kernel's.
fn field(path: &str, name: &str) -> Result<u64, ProgramError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ProgramError::Failed(format!("cannot read {path}: {error}")))?;
    kibibytes(&text, name)
        .map(|count| count * 1024)
        .ok_or_else(|| ProgramError::Failed(format!("{path} does not say {name}")))
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
