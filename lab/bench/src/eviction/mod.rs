//! What share of lookups a cache answers that evicts by the exact order of [`Lru`](percolog::collections::Lru), and percolog's own
//! [`Cache`](percolog::collections::Cache), beside others.
//!
//! Caches here hold keys only, and one thread uses them: what is compared is which keys are kept, not how fast.

mod clock;
mod recency;
mod s3_fifo;
mod second_chance;
mod sieve;
mod trace;

pub use clock::Clock;
pub(crate) use percolog_validation::zipf::SplitMix;
pub use percolog_validation::zipf::Zipf;
pub use recency::{Eviction, Plain, Recency};
pub use s3_fifo::S3Fifo;
pub use second_chance::SecondChance;
pub use sieve::Sieve;
pub use trace::{drifting, scans_between, zipf};

/// A cache of so many keys.
pub trait Cache {
    /// Looks a key up, and puts it in if it is not there. Whether it was.
    fn access(&mut self, key: u64) -> bool;
}

/// How many of these lookups the cache answers.
pub fn hits(cache: &mut impl Cache, trace: &[u64]) -> usize {
    trace.iter().filter(|key| cache.access(**key)).count()
}
