//! Limits, and memory that goes back.

use super::{Node, Owned, insert};
use crate::common::alone::alone;
use crate::common::share::share;
use percolog::reclaim::{Domain, DomainOptions, GracePeriod};
use percolog::slab::{Slab, SlabBuilder};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const CHUNK: usize = Slab::<Node>::CHUNK_BYTES;
const OBJECTS: usize = Slab::<Node>::CHUNK_OBJECTS;

#[test]
fn the_limit_is_an_error_and_nothing_is_lost() {
    let domain = Domain::new();
    let slab = SlabBuilder::new().limit(3 * CHUNK + 1).build(&domain);
    let mut all: Vec<_> = (0..3 * OBJECTS as u64)
        .map(|at| insert(&slab, at))
        .collect();
    for _ in 0..3 {
        let Err(exhausted) = slab.insert(Node::new(7)) else {
            panic!("there is room for three chunks");
        };
        assert_eq!(exhausted.value.number(), 7);
        assert_eq!(exhausted.limit, Some(3 * CHUNK + 1));
        assert_eq!(slab.stats().chunk_bytes, 3 * CHUNK);
    }
    assert!(
        all.iter()
            .enumerate()
            .all(|(at, node)| node.number() == at as u64)
    );
    // Dropped ones make room at once, and freed ones as well: nobody is in a section.
    drop(all.pop());
    all.push(insert(&slab, 8));
    assert!(slab.insert(Node::new(9)).is_err());
    // SAFETY: nobody else has seen it.
    unsafe { slab.free(all.swap_remove(5).into()) };
    all.push(insert(&slab, 9));
    // What another thread has freed, and not sent home, is found as well.
    let other = all.swap_remove(6);
    thread::scope(|scope| scope.spawn(move || drop(other)).join().expect("no panic"));
    all.push(insert(&slab, 10));
    assert!(slab.insert(Node::new(11)).is_err());
    assert_eq!(slab.stats().objects, 3 * OBJECTS as u64);
}

#[test]
fn a_limit_below_one_chunk_is_no_room_at_all() {
    let domain = Domain::new();
    let slab = SlabBuilder::new().limit(CHUNK - 1).build(&domain);
    assert!(slab.insert(Node::new(1)).is_err());
    assert_eq!(slab.stats().chunks, 0);
}

/// Threads fight over the last chunk: together they get no more than there is.
#[test]
fn the_limit_holds_for_all_threads_together() {
    let domain = Domain::new();
    let slab = SlabBuilder::new().limit(6 * CHUNK).build(&domain);
    let got = thread::scope(|scope| {
        let threads = [(); 3].map(|()| {
            scope.spawn(|| {
                let all: Vec<_> = core::iter::from_fn(|| slab.insert(Node::new(1)).ok())
                    .take(7 * OBJECTS)
                    .collect();
                assert!(slab.stats().chunk_bytes <= 6 * CHUNK);
                all.len()
            })
        });
        threads.map(|thread| thread.join().expect("no panic"))
    });
    assert!(got.iter().max() <= Some(&(6 * OBJECTS)));
    assert_eq!(slab.stats().objects, 0);
}

#[test]
fn a_few_empty_chunks_are_kept() {
    let domain = Domain::new();
    let slab: Slab<'_, Node> = SlabBuilder::new().keep(4).build(&domain);
    let fill = || -> Vec<_> {
        (0..22 * OBJECTS as u64)
            .map(|at| insert(&slab, at))
            .collect()
    };
    drop(fill());
    let kept = slab.stats().chunks;
    // One is used now. Of the others each fifth that became empty went back with two more, and the last one came after that.
    assert_eq!(kept, 1 + 3);
    // Around the end of a chunk nothing is asked of the system.
    let mut some: Vec<_> = (0..OBJECTS as u64).map(|at| insert(&slab, at)).collect();
    for at in 0..100 {
        let more: Vec<_> = (0..2).map(|_| insert(&slab, at)).collect();
        assert_eq!(slab.stats().chunks, kept);
        drop(more);
        some.pop();
        some.push(insert(&slab, at));
    }
    drop(some);
    assert_eq!(slab.collect(), slab_bytes(kept));
    assert_eq!(slab.stats().chunks, 0);
    let none: Slab<'_, Node> = SlabBuilder::new().keep(0).build(&domain);
    drop(
        (0..22 * OBJECTS as u64)
            .map(|at| insert(&none, at))
            .collect::<Vec<_>>(),
    );
    assert_eq!(none.stats().chunks, 1, "the one that is used now");
}

fn slab_bytes(chunks: usize) -> usize {
    chunks * CHUNK
}

/// The paper's library takes in what others have freed only when the owner allocates.
#[test]
fn what_others_free_goes_back_though_the_owner_never_allocates() {
    const CHUNKS: usize = 60;
    let domain = Domain::new();
    let slab = Slab::new(&domain);
    let (handed_over, over) = (Barrier::new(2), Barrier::new(2));
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let sender = sender;
            for at in 0..(CHUNKS * OBJECTS) as u64 {
                sender.send(insert(&slab, at)).expect("it listens");
            }
            handed_over.wait();
            // The owner is there, and does nothing.
            over.wait();
        });
        handed_over.wait();
        let before = slab.stats().chunks;
        receiver.try_iter().for_each(drop);
        let freed = slab.stats();
        // The rest is waiting for company.
        slab.collect();
        let collected = slab.stats();
        over.wait();
        assert_eq!(before, CHUNKS);
        assert!(freed.sweeps > 0 && freed.batches > 0, "{freed:?}");
        assert!(freed.chunks < CHUNKS / 2, "{freed:?}");
        assert_eq!(collected.chunks, 0);
    });
}

#[test]
fn what_comes_home_is_used_before_more_is_asked_for() {
    const AWAY: usize = 30 * 32;
    let domain = Domain::new();
    let slab = Slab::new(&domain);
    let mut all: Vec<_> = (0..2 * OBJECTS as u64)
        .map(|at| insert(&slab, at))
        .collect();
    assert_eq!(slab.stats().chunks, 2);
    let away = all.split_off(all.len() - AWAY);
    thread::scope(|scope| scope.spawn(move || drop(away)).join().expect("no panic"));
    assert_eq!(slab.stats().sweeps, 0, "less than that");
    // The last batch waits for company.
    let again: Vec<_> = (0..AWAY as u64 - 32).map(|at| insert(&slab, at)).collect();
    assert_eq!(slab.stats().chunks, 2);
    assert!(
        again
            .iter()
            .enumerate()
            .all(|(at, node)| node.number() == at as u64)
    );
}

/// Threads come and go, more than any table of theirs has room for; each frees what the one before it
/// has left, and nothing is left behind.
#[test]
fn threads_that_end_leave_nothing_behind() {
    const THREADS: usize = 4200;
    const EACH: usize = 40;
    let domain = Domain::new();
    let slab = Slab::new(&domain);
    let mut left: Vec<Owned> = Vec::new();
    let mut most = 0;
    for number in 0..share(THREADS) as u64 {
        left = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                left.into_iter()
                    .enumerate()
                    .for_each(|(at, node)| match at % 2 {
                        0 => drop(node),
                        // SAFETY: nobody else has seen it.
                        _ => unsafe { slab.free(node.into()) },
                    });
                (0..EACH).map(|_| insert(&slab, number)).collect::<Vec<_>>()
            });
            thread.join().expect("no panic")
        });
        most = most.max(slab.stats().chunks);
        // Threads that retire so few objects look at nobody, and what they leave waits for one that does.
        if number % 20 == 0 {
            domain.collect();
        }
    }
    // Live, retired, and in batches: some thousands, of a hundred and sixty thousand, which would be some five hundred chunks. (Other
    // tests have leases, too, and a thread gets the one that is free.)
    assert!(most <= 50, "{most} chunks");
    drop(left);
    while slab.stats().objects != 0 {
        domain.collect();
    }
    slab.collect();
    assert_eq!(slab.stats().chunks, 0);
}

/// More threads than there are leases.
#[test]
fn more_threads_than_places() {
    alone!();
    const THREADS: usize = 540;
    let domain = Domain::new();
    let slab = Slab::new(&domain);
    let all_are_here = Barrier::new(THREADS);
    let (slab, all_are_here) = (&slab, &all_are_here);
    thread::scope(|scope| {
        for number in 0..THREADS as u64 {
            thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || {
                    let node = insert(slab, number);
                    all_are_here.wait();
                    let more = [(); 20].map(|()| insert(slab, number));
                    assert_eq!(node.number(), number);
                    assert!(more.iter().all(|node| node.number() == number));
                })
                .expect("a thread");
        }
    });
    slab.collect();
    assert_eq!((slab.stats().objects, slab.stats().chunks), (0, 0));
}

#[test]
fn memory_waits_for_the_domains_grace_period() {
    struct Switch(AtomicBool);
    impl GracePeriod for Switch {
        fn elapsed(&self, _: u64) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
    static SWITCH: Switch = Switch(AtomicBool::new(false));
    static DOMAIN: Domain = Domain::with(DomainOptions::new().grace(&SWITCH));
    let slab = SlabBuilder::new().limit(CHUNK).build(&DOMAIN);
    for at in 0..OBJECTS as u64 {
        // SAFETY: nobody else has seen it.
        unsafe { slab.free(insert(&slab, at).into()) };
    }
    assert!(
        slab.insert(Node::new(1)).is_err(),
        "the grace period is not over"
    );
    SWITCH.0.store(true, Ordering::Relaxed);
    assert_eq!(insert(&slab, 1).number(), 1);
}
