//! Which keys are looked up: the same ones for everybody, and each time.

use percolog_validation::zipf::Zipf;

/// Lookups of so many keys, of which the *n*-th one is looked up as often as 1 / *n* to the power of `skew`.
#[must_use]
pub fn zipf(seed: u64, keys: usize, skew: f64, lookups: usize) -> Vec<u64> {
    Zipf::new(keys, skew).lookups(seed, lookups)
}

/// The same lookups, and each time after `every` of them a scan: `length` keys one after the other that nobody looks up again.
#[must_use]
pub fn scans_between(trace: &[u64], every: usize, length: u64) -> Vec<u64> {
    let mut fresh = trace.iter().copied().max().unwrap_or(0);
    let mut mixed = Vec::new();
    for part in trace.chunks(every) {
        mixed.extend_from_slice(part);
        mixed.extend(fresh + 1..=fresh + length);
        fresh += length;
    }
    mixed
}

/// The same lookups of keys whose popularity drifts: after every `every` of them each rank belongs to the next key.
#[must_use]
pub fn drifting(trace: &[u64], every: usize) -> Vec<u64> {
    let drifted = trace.iter().enumerate();
    drifted
        .map(|(number, key)| key + (number / every) as u64)
        .collect()
}
