//! What a namespace says that it takes is what it asks the allocator for, and an allocator that has nothing is told from a limit.
//!
//! Counted are the bytes of the test's own thread, which alone uses the namespaces here.
#![cfg(not(percolog_loom))]

use percolog::cpu::{self, CoreId};
use percolog::namespace::{Namespace, Reason};
use percolog::reclaim::Domain;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static HAS_NOTHING: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: what is not refused is passed on to the system's allocator; the counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HAS_NOTHING.get() {
            return std::ptr::null_mut();
        }
        LIVE.set(LIVE.get() + layout.size() as isize);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as isize);
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn said_and_taken<T: Send + Sync>(make: impl Fn(u32) -> T) {
    // Each slot that is used takes some memory.
    cpu::bind(CoreId::new(0));
    let domain = Domain::new();
    // What the domain takes for this thread is not the namespace's.
    domain.synchronize();
    drop(domain.enter());
    let before = LIVE.get();
    let names = Namespace::new(&domain);
    assert_eq!((names.memory_usage(), LIVE.get()), (0, before));
    let mut ids = Vec::with_capacity(300_000);
    let beside = LIVE.get() - before;
    let taken = || LIVE.get() - before - beside;
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
    assert_eq!(LIVE.get(), before);
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
    assert_eq!(refused.reason, Reason::NoMemory);
    assert_eq!(extent, Err(Reason::NoMemory));
    assert_eq!((removed, again.is_ok()), (Ok(3), true));
    assert!(names.insert(0).is_ok());
    assert!(names.insert_extent(1000, |_| 0).is_ok());
    assert_eq!(names.len(), ids.len() + 1001);
}
