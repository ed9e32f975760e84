//! The per-core structures of S. Boyd-Wickizer et al., *An Analysis of Linux Scalability to Many Cores*, OSDI 2010, §4, each beside what it replaced:
//! a comparison of a name under a lock for each name, a table of mounts behind one lock, one queue of connections.
//!
//! (Its sloppy counters are the workload of [`in_use`](crate::in_use); its lists of open files are driven by `percolog-figures`.)

pub mod backlog;
pub mod comparisons;
pub mod mounts;

/// Shares its lines with nothing else.
#[derive(Debug, Default)]
#[repr(align(256))]
struct Alone<T>(T);
