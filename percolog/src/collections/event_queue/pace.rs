//! How often a consumer looks that has nothing to do but wait.

#[cfg(feature = "std")]
use crate::sync::Backoff;

/// How long the next look waits for more events, as it was with the last ones.
///
/// A look takes lines from every producer that has pushed: its lock, its mark and the first ones of its events, which costs it as much as
/// pushing some ten events. A consumer that looks as soon as it can is given few with each look, and so makes its producers slow. While looks
/// bring few, but more than one, producers are evidently running, and the next look pauses first, for longer each time: up to some sixty
/// pauses of the processor, a microsecond or two. An event that comes alone is never kept waiting by that more than once.
#[derive(Debug)]
pub(crate) struct Pace {
    steps: u32,
}

/// With so many events, what the look costs their producer is a tenth of what they cost.
const ENOUGH: usize = 64;

/// The last step is the last one before a [`Backoff`] gives the processor away.
const STEPS: u32 = 6;

impl Pace {
    pub(crate) const fn new() -> Self {
        Self { steps: 0 }
    }

    /// A look has brought so many.
    pub(crate) fn learn(&mut self, brought: usize) {
        self.steps = match brought {
            0 | 1 => 0,
            _ if brought < ENOUGH => (self.steps + 1).min(STEPS),
            _ if brought > 2 * ENOUGH => self.steps.saturating_sub(1),
            _ => self.steps,
        };
    }

    /// Pauses before the next look.
    #[cfg(feature = "std")]
    pub(crate) fn wait(&self) {
        let mut backoff = Backoff::new();
        for _ in 0..self.steps {
            if backoff.is_spent() {
                break;
            }
            backoff.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_looks_that_bring_few_events_of_many_are_kept_waiting() {
        let mut pace = Pace::new();
        let mut after = |brought: usize, times: u32| {
            for _ in 0..times {
                pace.learn(brought);
            }
            pace.steps
        };
        assert_eq!(after(1, 10), 0);
        assert_eq!(after(ENOUGH, 10), 0);
        assert_eq!(after(2, 3), 3);
        assert_eq!(after(ENOUGH, 10), 3);
        assert_eq!(after(ENOUGH - 1, 100), STEPS);
        assert_eq!(after(2 * ENOUGH + 1, 2), STEPS - 2);
        assert_eq!(after(1, 1), 0);
        assert_eq!(after(5, 2), 2);
        assert_eq!(after(0, 1), 0);
    }
}
