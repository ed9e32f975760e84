//! Which updates pay for a time stamp, which is most of what an update costs.
#![cfg(all(feature = "std", not(percolog_loom)))]

use percolog::cpu::{CoreId, Environment};
use percolog::oplog::{Absorb, Birth, Death, Logged, Operation, unique};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that counts how often it is asked; everything happens on one slot.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl Environment for Counting {
    fn slot(&self) -> CoreId {
        CoreId::new(0)
    }

    fn stamp(&self) -> u64 {
        // Relaxed: one thread.
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

enum Edit {
    Add(Birth, u32),
    Remove(Death, u32),
}

impl Operation<BTreeSet<u32>> for Edit {
    const ABSORBS: bool = true;

    fn exec(self, set: &mut BTreeSet<u32>) {
        match self {
            Edit::Add(_, id) => {
                set.insert(id);
            }
            Edit::Remove(_, id) => {
                set.remove(&id);
            }
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Edit::Add(birth, _) => Absorb::Begin(birth),
            Edit::Remove(death, _) => Absorb::End(death),
        }
    }
}

#[test]
fn what_cancels_takes_no_stamp_and_what_does_not_takes_one() {
    let clock = Counting::default();
    let set = Logged::<BTreeSet<u32>, Edit>::builder().build_in(BTreeSet::new(), clock.clone());
    let taken = || clock.0.load(Ordering::Relaxed);

    let (birth, death) = unique();
    let before = taken();
    set.queue(Edit::Add(birth, 1));
    assert_eq!(taken() - before, 1, "an addition has its place in time");
    set.queue(Edit::Remove(death, 1));
    assert_eq!(taken() - before, 1, "what cancels has none");
    assert!(set.synchronize().is_empty());
    assert_eq!(set.stats().executed, 0);

    // Carried out in between: now the removal has to be, too.
    let (birth, death) = unique();
    set.queue(Edit::Add(birth, 2));
    assert_eq!(set.synchronize().len(), 1);
    let before = taken();
    set.queue(Edit::Remove(death, 2));
    assert_eq!(taken() - before, 1);
    assert!(set.synchronize().is_empty());
}
