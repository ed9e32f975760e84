//! References to one value that every thread clones and drops, or makes out of a weak one.

use std::sync::Arc;

use percolog::refcount::{CoreArc, CoreWeak};

use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};

/// A shared reference.
pub trait Reference: Clone + Send + Sync {
    /// How tables call it.
    const NAME: &'static str;

    /// A reference that does not keep the value alive.
    type Weak: Send + Sync;

    /// The only one to a value.
    fn new(value: u64) -> Self;

    /// A weak one.
    fn downgrade(&self) -> Self::Weak;

    /// A strong one out of a weak one.
    fn upgrade(weak: &Self::Weak) -> Option<Self>;

    /// How many there are.
    fn count(&self) -> usize;

    /// The value.
    fn value(&self) -> u64;
}

impl Reference for Arc<u64> {
    const NAME: &'static str = "Arc";

    type Weak = std::sync::Weak<u64>;

    fn new(value: u64) -> Self {
        Arc::new(value)
    }

    fn downgrade(&self) -> Self::Weak {
        Arc::downgrade(self)
    }

    fn upgrade(weak: &Self::Weak) -> Option<Self> {
        weak.upgrade()
    }

    fn count(&self) -> usize {
        Arc::strong_count(self)
    }

    fn value(&self) -> u64 {
        **self
    }
}

impl Reference for CoreArc<u64> {
    const NAME: &'static str = "CoreArc";

    type Weak = CoreWeak<u64>;

    fn new(value: u64) -> Self {
        CoreArc::new(value)
    }

    fn downgrade(&self) -> Self::Weak {
        CoreArc::downgrade(self)
    }

    fn upgrade(weak: &Self::Weak) -> Option<Self> {
        weak.upgrade()
    }

    fn count(&self) -> usize {
        CoreArc::count(self)
    }

    fn value(&self) -> u64 {
        **self
    }
}

/// Runs one cell of clones, each dropped at once, of one reference.
///
/// # Errors
/// References were left over, or a thread could not be started.
pub fn clones<R: Reference>(settings: Settings) -> Result<Cell, RunError> {
    runner::run(R::NAME, &Duel::<R, false>::new(1), settings)
}

/// Runs one cell of clones, each dropped at once, of many references in turn.
///
/// # Errors
/// References were left over, or a thread could not be started.
pub fn clones_of_many<R: Reference>(values: usize) -> impl Fn(Settings) -> Result<Cell, RunError> {
    move |settings| runner::run(R::NAME, &Duel::<R, false>::new(values), settings)
}

/// Runs one cell of upgrades, each dropped at once, of one weak reference.
///
/// # Errors
/// References were left over, or a thread could not be started.
pub fn upgrades<R: Reference>(settings: Settings) -> Result<Cell, RunError> {
    runner::run(R::NAME, &Duel::<R, true>::new(1), settings)
}

/// Operations between two looks at the stop flag.
const BLOCK: u64 = 1024;

struct Duel<R: Reference, const WEAK: bool> {
    values: Vec<(R, R::Weak)>,
}

impl<R: Reference, const WEAK: bool> Duel<R, WEAK> {
    fn new(values: usize) -> Self {
        let value = |number| {
            let strong = R::new(number);
            let weak = strong.downgrade();
            (strong, weak)
        };
        Self {
            values: (0..values as u64).map(value).collect(),
        }
    }
}

impl<R: Reference, const WEAK: bool> Duel<R, WEAK> {
    /// So many references, each taken and given back.
    #[inline(always)]
    fn clones(&self, at: &mut usize, clones: u64) -> u64 {
        for _ in 0..clones {
            // A step that is prime to any number of values that is no multiple of it.
            *at = (*at + 31) % self.values.len();
            let (strong, weak) = &self.values[*at];
            let one = if WEAK {
                R::upgrade(weak)
            } else {
                Some(strong.clone())
            };
            std::hint::black_box(one.map(|one| one.value()));
        }
        clones
    }
}

impl<R: Reference, const WEAK: bool> Workload for Duel<R, WEAK> {
    type Worker = usize;
    type Left = ();

    fn worker(&self, thread: usize) -> usize {
        thread * self.values.len() / 7
    }

    fn block(&self, at: &mut usize) -> u64 {
        self.clones(at, BLOCK)
    }

    fn step(&self, at: &mut usize) -> u64 {
        self.clones(at, STEP)
    }

    fn leave(&self, _at: usize) {}

    fn settle(&self) {}

    fn check(&self, _left: &[()]) -> Result<(), String> {
        match self.values.iter().find(|(strong, _)| strong.count() != 1) {
            None => Ok(()),
            Some((strong, _)) => Err(format!("{} references are left of one", strong.count())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_is_given_back() {
        let settings = Settings::until(3, 2000);
        for run in [
            clones::<Arc<u64>>,
            clones::<CoreArc<u64>>,
            upgrades::<Arc<u64>>,
            upgrades::<CoreArc<u64>>,
        ] {
            assert!(run(settings).expect("one is left").operations > 0);
        }
        clones_of_many::<CoreArc<u64>>(100)(settings).expect("one is left of each");
    }
}
