//! Objects that outlive their slab, and destructors that panic.

use super::{Node, insert};
use percolog::lock::NodeLock;
use percolog::reclaim::{Domain, DomainOptions, Link};
use percolog::slab::{InSlab, Slab};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

#[test]
fn objects_outlive_their_slab() {
    static DOMAIN: Domain = Domain::new();
    let slab = Slab::new(&DOMAIN);
    let many = 5 * Slab::<Node>::CHUNK_OBJECTS as u64;
    let mut all: Vec<_> = (0..many).map(|at| insert(&slab, at)).collect();
    let link: Link<Node, InSlab> = Link::new(insert(&slab, 77));
    let section = DOMAIN.enter();
    let found = link.load(&section).expect("linked");
    for node in all.split_off(all.len() / 2) {
        // SAFETY: nobody else has seen it.
        unsafe { slab.free(node.into()) };
    }
    let elsewhere = all.split_off(all.len() / 2);
    thread::scope(|scope| {
        scope.spawn(move || drop(elsewhere));
        drop(slab);
    });
    assert_eq!(found.number(), 77);
    let unlinked = link.swap(None).expect("linked");
    // SAFETY: the only link to it leads nowhere, and was read in sections of DOMAIN.
    unsafe { DOMAIN.retire(unlinked) };
    assert_eq!(found.number(), 77);
    drop(section);
    assert!(
        all.iter()
            .enumerate()
            .all(|(at, node)| node.number() == at as u64)
    );
    drop(all);
    while DOMAIN.stats().unreclaimed != 0 {
        DOMAIN.collect();
    }
}

#[test]
fn a_slab_goes_before_its_domain_and_what_waits_is_destroyed_with_that() {
    let counted = Arc::new(());
    let domain = Domain::with(DomainOptions::new());
    let slab = Slab::new(&domain);
    for _ in 0..1000 {
        let value = slab
            .insert(counted.clone())
            .unwrap_or_else(|_| panic!("there is memory"));
        // SAFETY: nobody else has seen it.
        unsafe { slab.free(value.into()) };
    }
    drop(slab);
    drop(domain);
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
fn a_destructor_that_panics_loses_no_memory() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let domain = Domain::new();
    let slab = Slab::new(&domain);
    let owned = slab
        .insert(Panics)
        .unwrap_or_else(|_| panic!("there is memory"));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(owned))).is_err());
    assert_eq!(slab.stats().objects, 0);
    slab.collect();
    assert_eq!(slab.stats().chunks, 0);
}

/// A node that has a lock and lies in a slab: the whole way.
#[test]
fn a_locked_node_is_freed() {
    static DOMAIN: Domain = Domain::new();
    #[derive(Default)]
    struct Locked(NodeLock);
    let slab = Slab::new(&DOMAIN);
    let link: Link<Locked, InSlab> = Link::null();
    assert!(link.swap(slab.insert(Locked::default()).ok()).is_none());
    let section = DOMAIN.enter();
    let found = link.load(&section).expect("linked").get();
    let guard = found.0.lock().expect("nobody has it");
    let unlinked = guard.release_and_free(link.swap(None).expect("linked"));
    // SAFETY: the only link to it leads nowhere, and was read in sections of DOMAIN.
    unsafe { slab.free(unlinked) };
    assert!(found.0.lock().is_err(), "still there, and freed");
}

#[test]
fn a_slab_that_was_not_used_costs_nothing() {
    static DOMAIN: Domain = Domain::new();
    static SLAB: Slab<'_, Node> = Slab::new(&DOMAIN);
    assert_eq!((SLAB.memory_usage(), SLAB.collect()), (0, 0));
    assert!(size_of::<Slab<'_, Node>>() <= 40);
}
