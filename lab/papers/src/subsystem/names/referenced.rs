//! The library's references, taken only if the name is still the one that was looked up.

use std::mem;
use std::ptr;

use super::{Lookup, Reference};
use crate::subsystem::{Entry, SharedObject};
use percolog::refcount::{CoreArc, Generation};

/// An entry of the name cache, as section 4.2 of the thesis has it: a lookup adds to a count of its core and then checks the
/// generation; whoever makes the name void gives it a new generation, and then counts.
#[derive(Debug)]
pub struct Referenced {
    entry: CoreArc<Generation>,
}

impl Default for Referenced {
    fn default() -> Self {
        Self {
            entry: CoreArc::into_hot(CoreArc::new(Generation::new())),
        }
    }
}

impl Referenced {
    /// References beside the one of the cache itself.
    fn count(&self) -> u64 {
        CoreArc::count(&self.entry) as u64 - 1
    }
}

impl SharedObject for Referenced {
    type Arrival = Lookup;
    type Departure = Reference;
    type View = u64;

    fn life(_: Entry) -> (Lookup, Reference) {
        (Lookup, Reference)
    }

    fn enter(&self, Lookup: Lookup) {
        loop {
            let found = self
                .entry
                .current()
                .and_then(|seen| CoreArc::clone_if(&self.entry, &self.entry, seen));
            if let Some(reference) = found {
                // Given back by `leave`, which does not know who took it.
                return mem::forget(reference);
            }
            // The name is being made void: whoever does so counts, and then it can be looked up again.
            std::thread::yield_now();
        }
    }

    fn leave(&self, Reference: Reference) {
        // SAFETY: a copy of the handle stands for one of the references that `enter` has forgotten; a name is left once for each
        // time that it was entered.
        drop(unsafe { ptr::read(&self.entry) });
    }

    fn read(&self, _: u64) -> u64 {
        let _void = self.entry.change();
        self.count()
    }

    fn view(&self) -> u64 {
        self.count()
    }

    fn expected(entries: &[Entry]) -> u64 {
        entries.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_waits_while_a_name_is_made_void() {
        let name = Referenced::default();
        name.enter(Lookup);
        std::thread::scope(|scope| {
            let void = name.entry.change();
            let lookup = scope.spawn(|| name.enter(Lookup));
            for _ in 0..1000 {
                std::thread::yield_now();
                assert!(!lookup.is_finished(), "a lookup did not wait");
            }
            assert_eq!(name.count(), 1);
            drop(void);
        });
        assert_eq!(name.view(), 2);
        name.leave(Reference);
        assert_eq!(name.read(0), 1);
        name.leave(Reference);
    }
}
