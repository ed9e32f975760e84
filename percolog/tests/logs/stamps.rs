//! Which updates pay for a time stamp, which is most of what an update costs.
#![cfg(all(feature = "std", not(percolog_loom)))]

use percolog::cpu::CoreId;
use percolog::oplog::{Absorb, AddToken, Logged, Mode, Operation, RemoveToken, token_pair};
use percolog::testing::Environment;
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
    Add(AddToken, u32),
    Remove(RemoveToken, u32),
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
            Edit::Add(birth, _) => Absorb::Add(birth),
            Edit::Remove(death, _) => Absorb::Remove(death),
        }
    }
}

/// A clock that stands still; everything happens on one slot.
struct Still;

impl Environment for Still {
    fn slot(&self) -> CoreId {
        CoreId::new(0)
    }

    fn stamp(&self) -> u64 {
        7
    }
}

/// Writes down what is executed; an earlier operation of the same key is replaced.
enum Write {
    Keyed(u64, u32),
    Begun(AddToken, u32),
    Ended(RemoveToken),
    Plain(u32),
}

impl Operation<Vec<u32>> for Write {
    const ABSORBS: bool = true;

    fn exec(self, written: &mut Vec<u32>) {
        match self {
            Write::Keyed(_, number) | Write::Begun(_, number) | Write::Plain(number) => {
                written.push(number);
            }
            Write::Ended(_) => {}
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Write::Keyed(key, _) => Absorb::Replace(*key),
            Write::Begun(birth, _) => Absorb::Add(birth),
            Write::Ended(death) => Absorb::Remove(death),
            Write::Plain(_) => Absorb::Never,
        }
    }

    fn replaces(&self, earlier: &Self) -> bool {
        matches!((self, earlier), (Write::Keyed(this, _), Write::Keyed(that, _)) if this == that)
    }
}

#[test]
fn operations_with_equal_stamps_stay_in_the_order_in_which_they_were_queued() {
    let log = Logged::<Vec<u32>, Write>::builder()
        .mode(Mode::Deferring)
        .build_in(Vec::new(), Still);
    for number in 0..100 {
        log.queue(Write::Plain(number));
    }
    assert_eq!(*log.synchronize(), (0..100).collect::<Vec<_>>());
    log.synchronize().clear();

    // The one that is replaced and the one that is cancelled leave room before others.
    let (birth, death) = token_pair();
    log.queue(Write::Keyed(1, 1));
    log.queue(Write::Begun(birth, 2));
    log.queue(Write::Plain(3));
    log.queue(Write::Keyed(1, 4));
    log.queue(Write::Ended(death));
    log.queue(Write::Plain(5));
    log.queue(Write::Plain(6));
    assert_eq!(*log.synchronize(), [3, 4, 5, 6]);
}

#[test]
fn what_cancels_takes_no_stamp_and_what_does_not_takes_one() {
    let clock = Counting::default();
    let set = Logged::<BTreeSet<u32>, Edit>::builder()
        .mode(Mode::Deferring)
        .build_in(BTreeSet::new(), clock.clone());
    let taken = || clock.0.load(Ordering::Relaxed);

    let (birth, death) = token_pair();
    let before = taken();
    set.queue(Edit::Add(birth, 1));
    assert_eq!(taken() - before, 1, "an addition has its place in time");
    set.queue(Edit::Remove(death, 1));
    assert_eq!(taken() - before, 1, "what cancels has none");
    assert!(set.synchronize().is_empty());
    assert_eq!(set.stats().executed, 0);

    // Carried out in between: now the removal has to be, too.
    let (birth, death) = token_pair();
    set.queue(Edit::Add(birth, 2));
    assert_eq!(set.synchronize().len(), 1);
    let before = taken();
    set.queue(Edit::Remove(death, 2));
    assert_eq!(taken() - before, 1);
    assert!(set.synchronize().is_empty());
}
