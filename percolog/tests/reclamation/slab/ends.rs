//! Objects that outlive their slab, and destructors that panic.

use super::{Node, insert};
use percolog::lock::NodeLock;
use percolog::reclaim::{Domain, DomainOptions, Link};
use percolog::slab::{InSlab, Slab};
use std::cell::OnceCell;
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

/// A destructor of a thread-local value uses the slab, before and after the thread has given its place back.
#[test]
fn objects_of_thread_local_values_end_with_their_thread() {
    static DOMAIN: Domain = Domain::new();
    static SLAB: Slab<'_, Node> = Slab::new(&DOMAIN);
    struct Last(Vec<super::Owned>);
    impl Drop for Last {
        fn drop(&mut self) {
            let mut more: Vec<_> = (0..100).map(|at| insert(&SLAB, at)).collect();
            more.drain(..50).for_each(drop);
            assert!((50..).zip(&more).all(|(at, node)| node.number() == at));
            assert!((0..).zip(&self.0).all(|(at, node)| node.number() == at));
            self.0.extend(more);
        }
    }
    thread_local! {
        static ONE: OnceCell<Last> = const { OnceCell::new() };
        static OTHER: OnceCell<Last> = const { OnceCell::new() };
    }
    for _ in 0..3 {
        let thread = thread::spawn(|| {
            ONE.with(|one| {
                let all = || Last((0..100).map(|at| insert(&SLAB, at)).collect());
                // One is registered before the slab is used, the other one later.
                one.get_or_init(|| Last(Vec::new()));
                OTHER.with(|other| other.get_or_init(all).0.len())
            })
        });
        assert_eq!(thread.join().expect("no panic"), 100);
        assert_eq!(SLAB.stats().objects, 0);
    }
    SLAB.collect();
    assert_eq!(SLAB.stats().chunks, 0);
}

/// A destructor uses the slab that its object lies in, and the memory of that is free when it is over.
#[test]
fn a_destructor_uses_its_slab() {
    static DOMAIN: Domain = Domain::new();
    static SLAB: Slab<'_, Nest> = Slab::new(&DOMAIN);
    struct Nest(u32);
    impl Drop for Nest {
        fn drop(&mut self) {
            if self.0 > 0 {
                let inner = SLAB.insert(Nest(self.0 - 1)).expect("there is memory");
                assert_eq!(inner.0, self.0 - 1);
            }
        }
    }
    drop(SLAB.insert(Nest(100)).expect("there is memory"));
    let stats = SLAB.stats();
    assert_eq!((stats.inserted, stats.objects), (101, 0));
}

/// More slabs than a thread remembers, which come and go.
#[test]
fn slabs_are_not_mistaken_for_one_another() {
    let domain = Domain::new();
    let mut slabs: Vec<_> = (0..20).map(|_| Slab::new(&domain)).collect();
    for round in 1..4 {
        let all: Vec<_> = (0..round * 20)
            .map(|at| insert(&slabs[at % 20], at as u64))
            .collect();
        assert!((0..).zip(&all).all(|(at, node)| node.number() == at));
        assert!(
            slabs
                .iter()
                .all(|slab| slab.stats().objects == round as u64)
        );
        drop(all);
        assert!(slabs.iter().all(|slab| slab.stats().objects == 0));
        for slab in slabs.iter_mut().step_by(3) {
            *slab = Slab::new(&domain);
        }
    }
}
