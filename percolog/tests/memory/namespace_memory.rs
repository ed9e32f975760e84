//! What a namespace says that it takes is what it asks the allocator for, and an allocator that has nothing is told from a limit.
//!
//! Counted are the bytes of the test's own thread, which alone uses the namespaces here.
#![cfg(not(percolog_loom))]

use crate::{BYTES, HAS_NOTHING};
use percolog::cpu::{self, CoreId};
use percolog::namespace::{InsertReason, Namespace};
use percolog::reclaim::Domain;

fn said_and_taken<T: Send + Sync>(make: impl Fn(u32) -> T) {
    // Each slot that is used takes some memory.
    cpu::bind(CoreId::new(0));
    let domain = Domain::new();
    // What the domain takes for this thread is not the namespace's.
    domain.synchronize();
    drop(domain.enter());
    let before = BYTES.get();
    let names = Namespace::new(&domain);
    assert_eq!((names.memory_usage(), BYTES.get()), (0, before));
    let mut ids = Vec::with_capacity(300_000);
    let beside = BYTES.get() - before;
    let taken = || BYTES.get() - before - beside;
    for step in [1, 62, 1, 1, 1000, 200_000] {
        for number in 0..step {
            ids.push(names.insert(make(number)).expect("there are ids"));
        }
        assert_eq!(names.memory_usage() as isize, taken());
    }
    let full = names.memory_usage();
    for id in ids.drain(..) {
        assert!(names.remove(id).is_ok());
    }
    for number in 0..200_000 {
        ids.push(names.insert(make(number)).expect("there are ids"));
    }
    assert_eq!(names.memory_usage(), full, "ids are used again");
    assert_eq!(names.memory_usage() as isize, taken());
    drop(ids);
    drop(names);
    assert_eq!(BYTES.get(), before);
}

#[test]
fn what_is_said_is_taken() {
    said_and_taken(|number| number);
    said_and_taken(|number| [u64::from(number); 9]);
}

#[test]
fn no_memory_is_an_error_and_nothing_is_lost() {
    // Making another slot is what cannot fail.
    cpu::bind(CoreId::new(0));
    let domain = Domain::new();
    // What the domain takes at first use is asked for here.
    domain.synchronize();
    drop(domain.enter());
    let names = Namespace::new(&domain);
    let mut ids = vec![names.insert(0).expect("there is memory")];
    ids.reserve(10_000);
    HAS_NOTHING.set(true);
    let refused = loop {
        match names.insert(ids.len()) {
            Ok(id) => ids.push(id),
            Err(refused) => break refused,
        }
    };
    let extent = names.insert_extent(1000, |_| 0);
    // An id that was removed needs no memory.
    let removed = names.remove(ids[3]).map(|value| *value);
    let again = names.insert(refused.value);
    HAS_NOTHING.set(false);
    assert_eq!(refused.value, ids.len());
    assert_eq!(refused.reason, InsertReason::NoMemory);
    assert_eq!(extent, Err(InsertReason::NoMemory));
    assert_eq!((removed, again.is_ok()), (Ok(3), true));
    assert!(names.insert(0).is_ok());
    assert!(names.insert_extent(1000, |_| 0).is_ok());
    assert_eq!(names.len(), ids.len() + 1001);
}
