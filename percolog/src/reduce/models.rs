//! Every interleaving of updates, reads and takes, within loom's bounds.
//!
//! What no model here can see: the kernel's barrier (models have a fence on both sides), re-entrance (the record of what a
//! thread holds is not kept under the model checker), and real thread exit.

use super::places::Places;
use crate::cpu::lease::LeasePool;
use crate::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

type Shares = Places<u32>;

/// Where an update goes.
#[derive(Clone, Copy)]
enum Place {
    Leased(usize),
    Common,
}

impl Shares {
    fn add(&self, place: Place, amount: u32) {
        match place {
            // SAFETY: in each model a lease is used by one thread, or handed on through a pool.
            Place::Leased(lease) => unsafe { self.update_leased(lease, |share| *share += amount) },
            Place::Common => self.update_common(0, |share| *share += amount),
        }
    }

    fn sum(&self) -> u32 {
        self.visit(None, |_| 0, |sum, _, share| *sum += *share)
            .expect("a fence is not refused")
    }

    fn take(&self) -> u32 {
        self.visit(None, |_| 0, |sum, _, share| *sum += core::mem::take(share))
            .expect("a fence is not refused")
    }
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// One thread adds 1 and says so; another one that has heard of it adds 2. A read that sees the 2 sees the 1, wherever the
/// two places lie, and also where one or both are made while the read is going on.
fn no_effect_without_its_cause(cause: Place, effect: Place, made: &'static [Place]) {
    loom::model(move || {
        let places = Arc::new(Shares::new());
        for place in made {
            places.add(*place, 0);
        }
        let caused = Arc::new(AtomicU32::new(0));
        let causing = thread::spawn({
            let (places, caused) = (places.clone(), caused.clone());
            move || {
                places.add(cause, 1);
                caused.store(1, Ordering::Release);
            }
        });
        let reader = thread::spawn({
            let places = places.clone();
            move || places.sum()
        });
        if caused.load(Ordering::Acquire) == 1 {
            places.add(effect, 2);
        }
        let seen = join(reader);
        join(causing);
        assert!([0, 1, 3].contains(&seen), "{seen}");
    });
}

#[test]
fn a_read_is_a_cut_through_leased_places() {
    for (cause, effect) in [(0, 1), (1, 0)] {
        let (cause, effect) = (Place::Leased(cause), Place::Leased(effect));
        no_effect_without_its_cause(cause, effect, &[Place::Leased(0), Place::Leased(1)]);
    }
}

#[test]
fn a_read_is_a_cut_through_leased_and_common_places() {
    for (cause, effect) in [
        (Place::Leased(0), Place::Common),
        (Place::Common, Place::Leased(0)),
    ] {
        no_effect_without_its_cause(cause, effect, &[Place::Leased(0), Place::Common]);
    }
}

/// The cause's place comes into being while a read has begun, and the effect's is there.
#[test]
fn no_place_is_made_behind_a_reads_back() {
    no_effect_without_its_cause(Place::Leased(0), Place::Leased(1), &[Place::Leased(1)]);
    no_effect_without_its_cause(Place::Leased(1), Place::Leased(0), &[Place::Leased(0)]);
    no_effect_without_its_cause(Place::Common, Place::Leased(1), &[Place::Leased(1)]);
}

/// Each update is in one take, or left; those that finished before are in it.
#[test]
fn each_update_is_taken_once() {
    loom::model(|| {
        let places = Arc::new(Shares::new());
        let finished = Arc::new(AtomicU32::new(0));
        let adder = thread::spawn({
            let (places, finished) = (places.clone(), finished.clone());
            move || {
                places.add(Place::Leased(0), 1);
                finished.store(1, Ordering::Release);
                places.add(Place::Leased(0), 2);
            }
        });
        let seen = finished.load(Ordering::Acquire);
        let taken = places.take();
        assert!(
            taken & seen == seen,
            "{seen} had finished, {taken} was taken"
        );
        let again = places.take();
        join(adder);
        assert_eq!(taken + again + places.take(), 3);
    });
}

/// Two that take at once share out what is there.
#[test]
fn takes_share_out_what_is_there() {
    loom::model(|| {
        let places = Arc::new(Shares::new());
        places.add(Place::Leased(0), 1);
        places.add(Place::Common, 2);
        let other = thread::spawn({
            let places = places.clone();
            move || places.take()
        });
        let mine = places.take();
        let others = join(other);
        assert!(
            [(3, 0), (0, 3)].contains(&(mine, others)),
            "{mine} {others}"
        );
    });
}

/// Threads that come and go hand a share on through the lease pool; who finds no lease uses the common one.
#[test]
fn a_lease_that_changes_hands_loses_nothing() {
    loom::model(|| {
        let places = Arc::new(Shares::new());
        let pool = Arc::new(LeasePool::new());
        // One lease is held throughout, so that the others meet at the last one.
        pool.acquire().expect("the pool is fresh");
        let threads: Vec<_> = [1, 2]
            .into_iter()
            .map(|amount| {
                let (places, pool) = (places.clone(), pool.clone());
                thread::spawn(move || match pool.acquire() {
                    Some(lease) => {
                        places.add(Place::Leased(lease), amount);
                        pool.release(lease);
                    }
                    None => places.add(Place::Common, amount),
                })
            })
            .collect();
        threads.into_iter().for_each(join);
        assert_eq!(places.sum(), 3);
    });
}
