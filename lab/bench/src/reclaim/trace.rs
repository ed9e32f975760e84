//! Which operation comes next, decided before the measurement: no random number is drawn in a measured loop.

use percolog_validation::hash::mix;

/// Operations of one trace, of all threads together.
pub const OPERATIONS: usize = 10_000_000;

/// Operations of a block: one word of the trace.
pub const BLOCK: u64 = 64;

/// A trace of reads and updates, uniformly distributed.
#[derive(Debug)]
pub struct Trace {
    /// One bit an operation: a set one is an update. Bits, and not bytes, so that reading the trace costs next to nothing.
    words: Vec<u64>,
    threads: usize,
}

impl Trace {
    /// A trace of [`OPERATIONS`] with `percent_updates` % of updates, for this many threads.
    #[must_use]
    pub fn new(percent_updates: u32, threads: usize) -> Self {
        Self::of(OPERATIONS, percent_updates, threads)
    }

    /// A trace of about `operations`, for tests: at least one block for each thread.
    #[must_use]
    pub fn of(operations: usize, percent_updates: u32, threads: usize) -> Self {
        let threads = threads.max(1);
        let share = u64::from(percent_updates.min(100)) << 32;
        let words = operations.div_ceil(BLOCK as usize).max(threads);
        let word = |at: usize| {
            let first = at as u64 * BLOCK;
            (0..BLOCK).fold(0, |word, bit| {
                // The high half of a hash is a uniform number below 2³².
                let is_update = (mix(first + bit) >> 32) * 100 < share;
                word | u64::from(is_update) << bit
            })
        };
        Self {
            words: (0..words).map(word).collect(),
            threads,
        }
    }

    /// The part of one thread.
    #[must_use]
    pub fn part(&self, thread: usize) -> Part<'_> {
        let length = self.words.len() / self.threads;
        let first = length * (thread % self.threads);
        Part {
            words: &self.words[first..first + length],
            next: 0,
        }
    }
}

/// One thread's part of a trace, which starts again when it ends.
#[derive(Clone, Debug)]
pub struct Part<'t> {
    words: &'t [u64],
    next: usize,
}

impl Part<'_> {
    /// The next [`BLOCK`] operations, the first one in the lowest bit; a set bit is an update.
    #[inline]
    pub fn next_block(&mut self) -> u64 {
        let word = self.words.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        if self.next >= self.words.len() {
            self.next = 0;
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_the_updates_that_were_asked_for() {
        for percent in [0, 10, 50, 90, 100] {
            let trace = Trace::of(100_000, percent, 3);
            let mut updates = 0;
            let mut operations = 0;
            for thread in 0..3 {
                let mut part = trace.part(thread);
                for _ in 0..part.words.len() {
                    updates += part.next_block().count_ones();
                    operations += BLOCK as u32;
                }
            }
            let found = f64::from(updates) * 100.0 / f64::from(operations);
            assert!(
                (found - f64::from(percent)).abs() < 1.0,
                "{found} % instead of {percent} %"
            );
        }
    }

    #[test]
    fn each_thread_has_a_part_of_its_own_and_goes_round_in_it() {
        let trace = Trace::of(640, 50, 2);
        let (mut first, mut second) = (trace.part(0), trace.part(1));
        let round: Vec<_> = (0..5).map(|_| first.next_block()).collect();
        let again: Vec<_> = (0..5).map(|_| first.next_block()).collect();
        let other: Vec<_> = (0..5).map(|_| second.next_block()).collect();
        assert_eq!(round, again);
        assert_ne!(round, other);
        // More threads than words still get one each.
        assert_eq!(Trace::of(1, 50, 4).part(3).words.len(), 1);
    }
}
