//! Which keys are looked up: the same ones for everybody, and each time.

/// Numbers that look random and are the same each time (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*,
/// OOPSLA 2014). No crate's generator: those may change with a version, and so would the figures.
#[derive(Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Between 0 and 1.
    fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
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
