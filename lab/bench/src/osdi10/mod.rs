//! The per-core structures of S. Boyd-Wickizer et al., *An Analysis of Linux Scalability to Many Cores*, OSDI 2010, §4, each beside what it replaced:
//! a comparison of a name under a lock for each name, a table of mounts behind one lock, one queue of connections.
//!
//! (Its sloppy counters are the workload of [`in_use`](crate::in_use); its lists of open files are driven by `percolog-figures`.)

pub mod backlog;
pub mod comparisons;
pub mod mounts;

use percolog_validation::clock;

/// What is due at once, and again whenever so many cycles have passed since it was done.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    next: u64,
    each: u64,
}

impl Now {
    /// Due now, and again after `each` cycles.
    #[must_use]
    pub fn and_then(each: u64) -> Self {
        Self { next: 0, each }
    }

    /// Whether it is to be done now.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        let now = clock::cycles();
        let due = now >= self.next;
        if due {
            self.next = now + self.each;
        }
        due
    }
}

/// Shares its lines with nothing else.
#[derive(Debug, Default)]
#[repr(align(256))]
struct Alone<T>(T);
