//! Folding into one value from every thread: numbers into a sum and its extremes, counts by label, values into a histogram.

use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};

/// A value that threads fold numbers into.
pub trait Fold: Sync + Sized {
    /// How tables call it.
    const NAME: &'static str;

    /// What a thread keeps to get at the value.
    type Handle;

    /// With nothing folded in.
    fn new() -> Self;

    /// For one thread, and made on it.
    fn handle(&self) -> Self::Handle;

    /// Folds in a number.
    fn fold(&self, handle: &mut Self::Handle, number: u64);

    /// How many were folded in, exactly. No handle is left.
    fn folded(&self) -> u64;
}

/// Runs one cell on a fresh value.
///
/// # Errors
/// The final count was wrong, or a thread could not be started.
pub fn run<F: Fold>(settings: Settings) -> Result<Cell, RunError> {
    runner::run(F::NAME, &Duel(F::new()), settings)
}

/// Numbers folded in between two looks at the stop flag.
const BLOCK: u64 = 1024;

/// Labels and values repeat after so many numbers: few enough to be hot.
pub(crate) const HOT: u64 = 8;

struct Duel<F>(F);

impl<F: Fold> Duel<F> {
    #[inline(always)]
    fn numbers(&self, (handle, folded): &mut (F::Handle, u64), numbers: u64) -> u64 {
        for number in 0..numbers {
            self.0.fold(handle, number);
        }
        *folded += numbers;
        numbers
    }
}

impl<F: Fold> Workload for Duel<F> {
    type Worker = (F::Handle, u64);
    type Left = u64;

    fn worker(&self, _thread: usize) -> (F::Handle, u64) {
        (self.0.handle(), 0)
    }

    fn block(&self, worker: &mut (F::Handle, u64)) -> u64 {
        self.numbers(worker, BLOCK)
    }

    fn step(&self, worker: &mut (F::Handle, u64)) -> u64 {
        self.numbers(worker, STEP)
    }

    fn leave(&self, (handle, folded): (F::Handle, u64)) -> u64 {
        drop(handle);
        folded
    }

    fn settle(&self) {
        std::hint::black_box(self.0.folded());
    }

    fn check(&self, left: &[u64]) -> Result<(), String> {
        let (expected, found) = (left.iter().sum::<u64>(), self.0.folded());
        if found == expected {
            Ok(())
        } else {
            Err(format!("{found} were counted of {expected}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{
        DashLabels, MutexFold, MutexHistogram, PercologHistogram, PercologLabels,
        RecorderHistogram, ReducerFold, ReducerOfThree, ShardedLabels,
    };

    #[test]
    fn every_peer_counts_what_is_folded_in() {
        let settings = Settings::until(3, 2000);
        for run in [
            run::<ReducerFold>,
            run::<ReducerOfThree>,
            run::<MutexFold>,
            run::<PercologLabels>,
            run::<DashLabels>,
            run::<ShardedLabels>,
            run::<PercologHistogram>,
            run::<MutexHistogram>,
            run::<RecorderHistogram>,
        ] {
            let cell = run(settings).expect("every number is counted");
            assert!(cell.operations >= 3 * BLOCK);
        }
    }
}
