//! Which keys are looked up: the same ones for everybody, and each time.

/// Numbers that look random and are the same each time (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*,
/// OOPSLA 2014). No crate's generator: those may change with a version, and so would the figures.
#[derive(Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Between 0 and 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Keys of which the *n*-th one is looked up as often as 1 / *n* to the power of the skew.
#[derive(Debug)]
pub struct Zipf {
    /// By key: how often it, or one before it, is looked up.
    up_to: Vec<f64>,
}

impl Zipf {
    /// So many keys; 0.99 is YCSB's skew.
    #[must_use]
    pub fn new(keys: usize, skew: f64) -> Self {
        let mut total = 0.0;
        let up_to = (1..=keys)
            .map(|rank| {
                total += (rank as f64).powf(-skew);
                total
            })
            .collect();
        Self { up_to }
    }

    /// Lookups, the same for the same seed.
    #[must_use]
    pub fn lookups(&self, seed: u64, lookups: usize) -> Vec<u64> {
        let mut random = SplitMix::new(seed);
        let total = self.up_to.last().copied().unwrap_or(0.0);
        let lookup = |_| {
            let at = random.fraction() * total;
            self.up_to.partition_point(|sum| *sum <= at) as u64
        };
        (0..lookups).map(lookup).collect()
    }
}

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
