//! Every interleaving of uses and visits, within loom's bounds.
//!
//! What no model here can see: the kernel's barrier (models have a fence on both sides), re-entrance (threads have no
//! numbers under the model checker), and real thread exit.

use super::{Shard, Shards};
use crate::cpu::lease::{LeasePool, Who};
use crate::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

type Sums = Shards<u32>;

const COMMON: Who = Who::Common(0);

impl Sums {
    fn add(&self, who: Who, amount: u32) {
        let shard = match self.find(who) {
            Some(shard) => shard,
            None => self.make(who, || (0, ())).expect("nobody visits here"),
        };
        // SAFETY: in each model a lease is used by one thread, or handed on through a pool.
        unsafe { self.with(who, shard, |sum| *sum += amount) }.expect("nobody is inside here");
    }

    fn sum(&self) -> u32 {
        self.visit(None, |_| 0, |sum, _, value| *sum += *value)
            .expect("a fence is not refused")
    }

    fn take(&self) -> u32 {
        self.visit(None, |_| 0, |sum, _, value| *sum += core::mem::take(value))
            .expect("a fence is not refused")
    }

    /// As `take`, group by group.
    fn take_in_turns(&self) -> u32 {
        let mut taken = 0;
        let gate = self.gate().expect("nobody visits here");
        self.visit_in_turns(&gate, |_: &Shard<u32, ()>, value| {
            taken += core::mem::take(value)
        })
        .expect("a fence is not refused");
        taken
    }
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// One thread adds 1 and says so; another one that has heard of it adds 2. A read that sees the 2 sees the 1, wherever the
/// two shards lie, and also where one or both are made while the read is going on.
fn no_effect_without_its_cause(cause: Who, effect: Who, made: &'static [Who]) {
    loom::model(move || {
        let sums = Arc::new(Sums::new());
        for place in made {
            sums.add(*place, 0);
        }
        let caused = Arc::new(AtomicU32::new(0));
        let causing = thread::spawn({
            let (sums, caused) = (sums.clone(), caused.clone());
            move || {
                sums.add(cause, 1);
                caused.store(1, Ordering::Release);
            }
        });
        let reader = thread::spawn({
            let sums = sums.clone();
            move || sums.sum()
        });
        if caused.load(Ordering::Acquire) == 1 {
            sums.add(effect, 2);
        }
        let seen = join(reader);
        join(causing);
        assert!([0, 1, 3].contains(&seen), "{seen}");
    });
}

#[test]
fn a_visit_is_a_cut_through_leased_shards() {
    for (cause, effect) in [(0, 1), (1, 0)] {
        let (cause, effect) = (Who::Leased(cause), Who::Leased(effect));
        no_effect_without_its_cause(cause, effect, &[Who::Leased(0), Who::Leased(1)]);
    }
}

#[test]
fn a_visit_is_a_cut_through_leased_and_common_shards() {
    for (cause, effect) in [(Who::Leased(0), COMMON), (COMMON, Who::Leased(0))] {
        no_effect_without_its_cause(cause, effect, &[Who::Leased(0), COMMON]);
    }
}

/// The cause's place comes into being while a read has begun, and the effect's is there.
#[test]
fn no_shard_is_made_behind_a_visitors_back() {
    no_effect_without_its_cause(Who::Leased(0), Who::Leased(1), &[Who::Leased(1)]);
    no_effect_without_its_cause(Who::Leased(1), Who::Leased(0), &[Who::Leased(0)]);
    no_effect_without_its_cause(COMMON, Who::Leased(1), &[Who::Leased(1)]);
}

/// Each update is in one take, or left; those that finished before are in it.
#[test]
fn each_update_is_taken_once() {
    loom::model(|| {
        let sums = Arc::new(Sums::new());
        let finished = Arc::new(AtomicU32::new(0));
        let adder = thread::spawn({
            let (sums, finished) = (sums.clone(), finished.clone());
            move || {
                sums.add(Who::Leased(0), 1);
                finished.store(1, Ordering::Release);
                sums.add(Who::Leased(0), 2);
            }
        });
        let seen = finished.load(Ordering::Acquire);
        let taken = sums.take();
        assert!(
            taken & seen == seen,
            "{seen} had finished, {taken} was taken"
        );
        let again = sums.take();
        join(adder);
        assert_eq!(taken + again + sums.take(), 3);
    });
}

/// The same, when shards are visited in turns.
#[test]
fn each_update_is_taken_once_in_turns() {
    for who in [Who::Leased(0), COMMON] {
        loom::model(move || {
            let sums = Arc::new(Sums::new());
            sums.add(who, 1);
            let adder = thread::spawn({
                let sums = sums.clone();
                move || sums.add(who, 2)
            });
            let taken = sums.take_in_turns();
            join(adder);
            assert_eq!(taken + sums.take_in_turns(), 3);
        });
    }
}

/// What `visit_all` runs at the end is of the moment of what it has seen: with what moves between a shard and a word
/// outside, nothing is seen twice or not at all.
#[test]
fn nobody_is_let_in_before_the_end() {
    for who in [Who::Leased(0), COMMON] {
        loom::model(move || {
            let sums = Arc::new(Sums::new());
            sums.add(who, 1);
            let outside = Arc::new(AtomicU32::new(0));
            let mover = thread::spawn({
                let (sums, outside) = (sums.clone(), outside.clone());
                move || {
                    let shard = sums.find(who).expect("it was made");
                    // SAFETY: only this thread uses the lease.
                    unsafe {
                        sums.with(who, shard, |value| {
                            *value -= 1;
                            outside.fetch_add(1, Ordering::Relaxed);
                        })
                    }
                    .expect("nobody is inside here");
                }
            });
            let inside = core::cell::Cell::new(0);
            let seen = sums
                .visit_all(
                    None,
                    |value| inside.set(inside.get() + *value),
                    || inside.get() + outside.load(Ordering::Relaxed),
                )
                .expect("a fence is not refused");
            assert_eq!(seen, 1);
            join(mover);
        });
    }
}

/// Two that take at once share out what is there.
#[test]
fn takes_share_out_what_is_there() {
    loom::model(|| {
        let sums = Arc::new(Sums::new());
        sums.add(Who::Leased(0), 1);
        sums.add(COMMON, 2);
        let other = thread::spawn({
            let sums = sums.clone();
            move || sums.take()
        });
        let mine = sums.take();
        let others = join(other);
        assert!(
            [(3, 0), (0, 3)].contains(&(mine, others)),
            "{mine} {others}"
        );
    });
}

/// Threads that come and go hand a shard on through the lease pool; who finds no lease uses the common one.
#[test]
fn a_lease_that_changes_hands_loses_nothing() {
    loom::model(|| {
        let sums = Arc::new(Sums::new());
        let pool = Arc::new(LeasePool::new());
        // One lease is held throughout, so that the others meet at the last one.
        pool.acquire().expect("the pool is fresh");
        let threads: Vec<_> = [1, 2]
            .into_iter()
            .map(|amount| {
                let (sums, pool) = (sums.clone(), pool.clone());
                thread::spawn(move || match pool.acquire() {
                    Some(lease) => {
                        sums.add(Who::Leased(lease), amount);
                        pool.release(lease);
                    }
                    None => sums.add(COMMON, amount),
                })
            })
            .collect();
        threads.into_iter().for_each(join);
        assert_eq!(sums.sum(), 3);
    });
}
