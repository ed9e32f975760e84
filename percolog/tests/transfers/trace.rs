//! Which operation comes next, drawn before anything is counted.

/// Operations of a block.
pub(crate) const BLOCK: u64 = 64;

/// Reads and updates, drawn independently of each other.
pub(crate) struct Trace {
    /// A block each, a set bit for each update.
    words: Vec<u64>,
    threads: usize,
}

impl Trace {
    /// With so many updates in a hundred, the same each time.
    pub(crate) fn of(operations: usize, percent_updates: u32, threads: usize) -> Self {
        let mut chance = fastrand::Rng::with_seed(1);
        let mut block = || {
            (0..BLOCK).fold(0, |word, bit| {
                word | u64::from(chance.u32(..100) < percent_updates) << bit
            })
        };
        let words = (0..operations.div_ceil(BLOCK as usize)).map(|_| block());
        Self {
            words: words.collect(),
            threads,
        }
    }

    /// The blocks of one thread, again and again.
    pub(crate) fn part(&self, thread: usize) -> impl Iterator<Item = u64> {
        let length = self.words.len() / self.threads;
        let mine = &self.words[length * thread..][..length];
        mine.iter().copied().cycle()
    }
}
