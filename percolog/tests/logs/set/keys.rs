//! Keys that make trouble, and keys that are counted.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use percolog::collections::Set;
use percolog::oplog::{LoggedBuilder, Mode};

/// A key that collides with every other one of its evenness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Colliding(pub(crate) u8);

impl Hash for Colliding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.0 % 2);
    }
}

/// A key that cannot be compared with the one that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Prickly(u8);

const THORN: Prickly = Prickly(99);

impl Ord for Prickly {
    fn cmp(&self, other: &Self) -> Ordering {
        assert!(*self != THORN && *other != THORN, "on purpose");
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Prickly {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[test]
fn a_comparison_that_panics_loses_its_own_change_and_no_other() {
    // The first key of all would be compared with none.
    let set: Set<Prickly> = [Prickly(0)].into_iter().collect();
    // Before it, it, and behind it.
    set.extend([Prickly(1), THORN, Prickly(2), Prickly(3)]);
    set.remove(Prickly(1));
    assert!(catch_unwind(AssertUnwindSafe(|| set.len())).is_err());
    assert!(set.is_poisoned());
    assert!(catch_unwind(AssertUnwindSafe(|| set.contains(&Prickly(2)))).is_err());
    set.insert(Prickly(4));
    set.clear_poison();
    let left: Vec<u8> = set.read().iter().map(|key| key.0).collect();
    assert_eq!(left, [0, 2, 3, 4]);
}

/// A key that knows its owners.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Owned(u8, Arc<()>);

#[test]
fn every_key_is_dropped_once_whether_it_is_executed_or_replaced() {
    let counted = Arc::new(());
    let set: Set<Owned> = Set::build(LoggedBuilder::new().mode(Mode::Deferring), BTreeSet::new());
    let key = |number| Owned(number, Arc::clone(&counted));
    for number in 0..50 {
        set.insert(key(number % 5));
        set.remove(key(number % 5));
        set.insert(key(number % 10));
    }
    // One change of each key is left.
    assert_eq!(Arc::strong_count(&counted), 1 + 10);
    assert_eq!(set.stats().pending, 10);
    drop(set.read());
    assert_eq!(Arc::strong_count(&counted), 1 + set.len());
    assert!(!set.is_empty());
    set.insert(key(3));
    drop(set);
    assert_eq!(Arc::strong_count(&counted), 1);
}
