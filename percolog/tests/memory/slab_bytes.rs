//! What a slab says that it takes is what it asks the allocator for; and what it does when that has nothing.
//! What everybody allocates is counted.
#![cfg(not(percolog_loom))]

use crate::common::alone::alone;
use crate::{ALL_BYTES, NOTHING_LARGE};
use percolog::reclaim::Domain;
use percolog::slab::Slab;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread;

static DOMAIN: Domain = Domain::new();

const MANY: usize = 10_000;

fn use_it<T: Send + Sync + Copy + 'static>(slab: &Slab<'static, T>, value: T) {
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let insert = || {
                    slab.insert(value)
                        .unwrap_or_else(|_| panic!("there is memory"))
                };
                let mut all: Vec<_> = (0..MANY).map(|_| insert()).collect();
                both.wait();
                all.truncate(MANY / 2);
            });
        }
    });
}

fn what_is_said<T: Send + Sync + Copy + 'static>(value: T) {
    // Threads leave a little behind: what the standard library keeps, the entry in the list for `fork`.
    const SLACK: isize = 1024;
    let before = ALL_BYTES.load(Ordering::Relaxed);
    let slab = Slab::new(&DOMAIN);
    let keep: Vec<_> = (0..MANY)
        .map(|_| {
            slab.insert(value)
                .unwrap_or_else(|_| panic!("there is memory"))
        })
        .collect();
    use_it(&slab, value);
    let of_vector = (keep.capacity() * size_of_val(&keep[0])) as isize;
    let taken = ALL_BYTES.load(Ordering::Relaxed) - before - of_vector;
    let said = slab.memory_usage() as isize;
    assert!(
        (taken - said).abs() <= SLACK,
        "{taken} bytes, and it says {said}"
    );
    // Objects, and what is between them and the ends of chunks.
    let least = MANY * size_of::<T>().max(8);
    assert!(slab.stats().chunk_bytes >= least);
    drop(keep);
    slab.collect();
    assert_eq!(slab.stats().chunks, 0);
    let taken = ALL_BYTES.load(Ordering::Relaxed) - before;
    assert!(
        (taken - slab.memory_usage() as isize).abs() <= SLACK,
        "{taken} are left"
    );
    drop(slab);
    let taken = ALL_BYTES.load(Ordering::Relaxed) - before;
    assert!(taken.abs() <= SLACK, "{taken} bytes stay when it is gone");
}

fn objects_that_outlive_their_slab_take_it_along() {
    let before = ALL_BYTES.load(Ordering::Relaxed);
    let slab = Slab::new(&DOMAIN);
    let all: [_; 3] = [7, 8, 9].map(|value| slab.insert(value).expect("there is memory"));
    drop(slab);
    assert!(ALL_BYTES.load(Ordering::Relaxed) - before >= Slab::<i32>::CHUNK_BYTES as isize);
    drop(all);
    let left = ALL_BYTES.load(Ordering::Relaxed) - before;
    assert!(left.abs() <= 256, "{left} bytes are left");
}

#[test]
fn what_is_taken_is_what_is_said_and_nothing_is_lost_when_there_is_none() {
    alone!();
    // What threads and the domain allocate once.
    use_it(&Slab::new(&DOMAIN), 0_u8);
    DOMAIN.collect();
    objects_that_outlive_their_slab_take_it_along();
    what_is_said(1_u8);
    what_is_said([1_u8; 100]);
    what_is_said([1_u64; 1000]);

    let slab = Slab::new(&DOMAIN);
    let mut all = Vec::with_capacity(MANY);
    let first = slab.insert([0_u64; 10]).expect("there is memory");
    NOTHING_LARGE.store(true, Ordering::Relaxed);
    let refused = loop {
        match slab.insert([all.len() as u64; 10]) {
            Ok(owned) => all.push(owned),
            Err(exhausted) => break exhausted,
        }
    };
    assert_eq!(refused.value, [all.len() as u64; 10]);
    assert_eq!(refused.limit, None);
    assert!(slab.insert(refused.value).is_err());
    // What is freed makes room.
    drop(first);
    all.push(slab.insert(refused.value).expect("one has been freed"));
    assert!(slab.insert([0; 10]).is_err());
    NOTHING_LARGE.store(false, Ordering::Relaxed);
    all.push(
        slab.insert([all.len() as u64; 10])
            .expect("there is memory again"),
    );
    for (at, object) in all.iter().enumerate() {
        assert_eq!(**object, [at as u64; 10]);
    }
}
