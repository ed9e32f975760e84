//! A count for each core, made by hand.

use super::generation::{Generation, Then};
use super::{Lookup, Reference};
use crate::subsystem::slots::Isolated;
use crate::subsystem::{Entry, SharedObject};
use percolog::cpu;
use std::sync::atomic::{AtomicI64, Ordering};

/// A count for each core, on lines of its own, as in the `dentry` of the thesis' Figure 8-5.
///
/// References can be given back on another core than they were taken on, so one core's count can be below zero.
#[derive(Debug)]
pub struct PerCpu {
    generation: Generation,
    counts: Box<[Isolated<AtomicI64>]>,
}

impl Default for PerCpu {
    fn default() -> PerCpu {
        PerCpu {
            generation: Generation::default(),
            counts: (0..cpu::count().max(1))
                .map(|_| Isolated::default())
                .collect(),
        }
    }
}

impl PerCpu {
    /// The calling thread's own count. Two threads can share one, so it is updated atomically.
    fn own(&self) -> &AtomicI64 {
        &self.counts[cpu::current().index() % self.counts.len()].0
    }

    fn add_up(&self, then: Then) -> u64 {
        self.generation.add_up(then, || {
            // SeqCst: the partners are the updates in `enter`; see `Generation`.
            let counts = self
                .counts
                .iter()
                .map(|count| count.0.load(Ordering::SeqCst));
            // Never below zero: what has been given back had been taken before the sum began.
            counts.sum::<i64>().max(0) as u64
        })
    }
}

impl SharedObject for PerCpu {
    type Arrival = Lookup;
    type Departure = Reference;
    type View = u64;

    fn life(_: Entry) -> (Lookup, Reference) {
        (Lookup, Reference)
    }

    fn enter(&self, Lookup: Lookup) {
        self.generation.enter(|| {
            // SeqCst: before the check of the generation; see `Generation`.
            self.own().fetch_add(1, Ordering::SeqCst);
        });
    }

    fn leave(&self, Reference: Reference) {
        // Relaxed: a sum may count it or not.
        self.own().fetch_sub(1, Ordering::Relaxed);
    }

    fn read(&self, _: u64) -> u64 {
        self.add_up(Then::Void)
    }

    fn view(&self) -> u64 {
        self.add_up(Then::Unchanged)
    }

    fn expected(entries: &[Entry]) -> u64 {
        entries.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::names::generation::check_that_lookups_wait;

    #[test]
    fn a_lookup_waits_while_somebody_adds_up() {
        let name = PerCpu::default();
        check_that_lookups_wait(&name.generation, || name.enter(Lookup));
        assert_eq!(name.view(), 1);
    }
}
