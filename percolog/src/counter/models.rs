//! Every interleaving of the counter's algorithms, within loom's bounds.
//!
//! The banks are small: two leases, one row for threads without a lease, chunks of one share and up.
//! What no model here can see: real thread exit (destructors of thread-local values), signals, and
//! the allocator. Loom does not produce load buffering, so what would need a value out of the future to
//! go wrong is not tried.

use super::bank::{Added, Bank};
use super::tally::Tally;
use crate::cpu::lease::LeasePool;
use crate::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;

/// A bank, and a counter in it.
struct World {
    bank: Bank,
    tally: Tally,
}

impl World {
    /// With a counter that is hot, but none of whose leased rows has been touched.
    fn new(batch: u64) -> Arc<Self> {
        let world = Self::cold(batch);
        world.bank.heat_up(&world.tally);
        world
    }

    fn cold(batch: u64) -> Arc<Self> {
        Arc::new(Self {
            bank: Bank::new(),
            tally: Tally::new(batch),
        })
    }

    /// An add as `Counter::add` does it, by the holder of the lease.
    fn add_leased(&self, lease: usize, amount: i64) {
        add_leased(&self.bank, &self.tally, lease, amount);
    }

    fn add_common(&self, amount: i64) {
        self.bank.add_common(&self.tally, 0, amount);
    }

    fn sum(&self) -> i64 {
        self.bank.sum(&self.tally)
    }

    fn estimate(&self) -> i64 {
        self.bank.estimate(&self.tally)
    }
}

fn add_leased(bank: &Bank, tally: &Tally, lease: usize, amount: i64) {
    loop {
        match bank.add_leased(tally, lease, amount) {
            Added::Done => return,
            Added::Full => return bank.heat_up(tally),
            Added::Not if bank.add_slowly(tally, lease, amount) => return,
            Added::Not => {}
        }
    }
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// A sum that comes after an add counts it, though everything in the shares is relaxed; a sum that
/// races counts it or not. The first touch of row and place races with the sum as well.
///
/// Loom cannot see: that the add is a plain instruction on the machine.
#[test]
fn a_sum_counts_every_add_that_finished_before_it() {
    loom::model(|| {
        let world = World::new(1);
        let finished = Arc::new(AtomicUsize::new(0));
        let adder = thread::spawn({
            let (world, finished) = (world.clone(), finished.clone());
            move || {
                world.add_leased(0, 1);
                finished.store(1, Ordering::Release);
                world.add_leased(0, 2);
                finished.store(2, Ordering::Release);
            }
        });
        let seen = finished.load(Ordering::Acquire);
        let sum = world.sum();
        match seen {
            0 => assert!([0, 1, 3].contains(&sum)),
            1 => assert!([1, 3].contains(&sum)),
            _ => assert_eq!(sum, 3),
        }
        assert!(
            world.sum() >= sum,
            "a counter that only goes up never goes back"
        );
        join(adder);
        assert_eq!(world.sum(), 3);
        assert_eq!(world.estimate(), 3);
    });
}

/// Threads that come and go hand a row on through the lease pool; whoever finds no lease uses the
/// other bank. Nothing is lost, and a racing sum sees each add whole.
///
/// Loom cannot see: the thread-local value whose destructor gives the lease back, and that no add with
/// plain stores comes after it.
#[test]
fn a_lease_that_changes_hands_loses_nothing() {
    loom::model(|| {
        let world = World::new(1);
        let pool = Arc::new(LeasePool::new());
        // One lease is held throughout, so that the others meet at the last one.
        pool.acquire().expect("the pool is fresh");
        let threads: Vec<_> = [1, 2]
            .into_iter()
            .map(|amount| {
                let (world, pool) = (world.clone(), pool.clone());
                thread::spawn(move || match pool.acquire() {
                    Some(lease) => {
                        world.add_leased(lease, amount);
                        pool.release(lease);
                    }
                    None => world.add_common(amount),
                })
            })
            .collect();
        assert!([0, 1, 2, 3].contains(&world.sum()));
        threads.into_iter().for_each(join);
        assert_eq!(world.sum(), 3);
        assert_eq!(world.estimate(), 3);
    });
}

/// Adds in one row without a lease, where each can find the pending part beyond the batch: no unit is
/// lost or moved twice, and the estimate stays within batch · (2 · rows + adds under way).
///
/// Loom cannot see: more than two such threads.
#[test]
fn adds_without_a_lease_fold_each_unit_once() {
    loom::model(|| {
        let world = World::new(2);
        // Both threads find the row and the place made: their first touch has a model of its own.
        world.add_common(1);
        let threads: Vec<_> = [3, -4]
            .into_iter()
            .map(|amount| {
                let world = world.clone();
                thread::spawn(move || world.add_common(amount))
            })
            .collect();
        // Values that a sum could return lie between -3 and 4; one row, two adds under way.
        let estimate = world.estimate();
        assert!((-3 - 8..=4 + 8).contains(&estimate));
        threads.into_iter().for_each(join);
        // Nothing is under way and nobody has summed: one row's batch may be missing.
        assert!((-2..=2).contains(&world.estimate()));
        assert_eq!(world.sum(), 0);
        assert_eq!(world.estimate(), 0);
    });
}

/// Two threads touch one counter first, in one row: they agree on its place, row and chunk, and the
/// place of whoever came second is not lost.
///
/// Loom cannot see: the allocator. It does see the memory of the loser freed.
#[test]
fn first_touches_that_race_agree() {
    loom::model(|| {
        let world = World::cold(0);
        let other = thread::spawn({
            let world = world.clone();
            move || {
                world.bank.heat_up(&world.tally);
                world.add_common(1);
            }
        });
        world.bank.heat_up(&world.tally);
        world.add_common(2);
        // Found also where the other thread is still busy making the row that this add went to.
        assert!(world.sum() >= 2);
        join(other);
        assert_eq!(world.sum(), 3);
        // However many numbers were taken, only one is in use: the next two counters bring the number
        // of places to three at the most.
        for _ in 0..2 {
            world.bank.heat_up(&Tally::new(0));
        }
        assert_eq!(world.bank.places_ever(), 3);
    });
}

/// A place that changes counters: a thread that adds to the new counter, and learns of the place only
/// by looking at it, finds its share in a row of its own cleared.
///
/// Loom cannot see: that dropping a counter needs it exclusively, which the borrow checker sees.
#[test]
fn a_reused_place_is_clear_for_every_row() {
    loom::model(|| {
        let bank = Arc::new(Bank::new());
        let new = Arc::new(Tally::new(100));
        let mut old = Tally::new(100);
        bank.heat_up(&old);
        for lease in [0, 1] {
            add_leased(&bank, &old, lease, 7);
        }
        // Holds lease 1 from here on.
        let second = thread::spawn({
            let (bank, new) = (bank.clone(), new.clone());
            move || {
                // Only where the other thread has assigned the place already: the row is there.
                bank.add_leased(&new, 1, 1) == Added::Done
            }
        });
        bank.clear(&mut old);
        bank.heat_up(&new);
        add_leased(&bank, &new, 0, 1);
        let added = join(second);
        assert_eq!(bank.sum(&new), 1 + i64::from(added));
        assert_eq!(bank.places_ever(), 1);
    });
}

/// An estimate that nothing corrects counts only what a sum taken after it counts as well, also where
/// one thread's fold carries what another one left pending.
///
/// Loom cannot see: nothing is left out here but the number of threads.
#[test]
fn an_estimate_runs_ahead_of_no_later_sum() {
    let mut model = loom::model::Builder::new();
    // Two threads that overtake each other, and the observer between them: a history that shows what
    // the exchange of `pending` must hand on takes a third preemption.
    model.preemption_bound = model.preemption_bound.map(|bound| bound.max(3));
    model.check(|| {
        let world = World::new(1);
        // The row is there: first touches have a model of their own.
        world.add_common(0);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let world = world.clone();
                thread::spawn(move || world.add_common(1))
            })
            .collect();
        let estimate = world.estimate();
        assert!(world.sum() >= estimate);
        threads.into_iter().for_each(join);
        assert_eq!(world.sum(), 2);
    });
}

/// A sum's walk reads a share's two words at different times, and a fold comes in between: the clamp
/// keeps the correction, and with it the estimate, within the bound.
///
/// Loom cannot see: more than one row at a time within its limits here.
#[test]
fn a_correction_taken_during_folds_stays_within_the_bound() {
    loom::model(|| {
        let world = World::new(1);
        world.add_leased(0, 1);
        let adder = thread::spawn({
            let world = world.clone();
            move || {
                for _ in 0..4 {
                    world.add_leased(0, 1);
                }
            }
        });
        let before = world.sum();
        let estimate = world.estimate();
        let after = world.sum();
        assert!((before - 2..=after + 2).contains(&estimate));
        join(adder);
        assert!((5 - 2..=5 + 2).contains(&world.estimate()));
        assert_eq!(world.sum(), 5);
        assert_eq!(world.estimate(), 5);
    });
}

/// The shares of a counter are taken back while its owner, or a thread without a lease, adds to it: no add is lost,
/// and none is counted twice.
///
/// Loom cannot see: the kernel's barrier, in the place of which there are two fences.
#[test]
fn shares_that_are_taken_back_take_every_add_along() {
    for leased in [true, false] {
        loom::model(move || {
            let world = World::new(100);
            world.bank.heat_up(&world.tally);
            if leased {
                world.add_leased(0, 1);
            } else {
                world.add_common(1);
            }
            // One that finds what is new, and one that finds nothing: the next one takes the shares back.
            assert_eq!((world.sum(), world.sum()), (1, 1));
            let adder = thread::spawn({
                let world = world.clone();
                move || {
                    if leased {
                        world.add_leased(0, 2);
                    } else {
                        world.add_common(2);
                    }
                }
            });
            // Finds nothing new, unless the add was faster.
            let sum = world.sum();
            assert!([1, 3].contains(&sum), "{sum}");
            join(adder);
            assert_eq!(world.sum(), 3);
            assert_eq!(world.estimate(), 3);
        });
    }
}

/// A walk over shares that are taken back meanwhile, and that another counter then uses, is not taken for the sum.
///
/// Loom cannot see: a generation that wraps around.
#[test]
fn a_walk_over_shares_that_were_taken_back_begins_again() {
    loom::model(|| {
        let world = World::new(100);
        let other = Arc::new(Tally::new(100));
        world.bank.heat_up(&world.tally);
        world.add_leased(0, 1);
        world.add_leased(1, 2);
        // The next one takes the shares back.
        assert_eq!((world.sum(), world.sum()), (3, 3));
        let reader = thread::spawn({
            let world = world.clone();
            move || {
                assert_eq!(world.sum(), 3);
            }
        });
        // Cold, unless the other thread was faster to make it so; its place is the other counter's then.
        assert_eq!(world.sum(), 3);
        world.bank.heat_up(&other);
        add_leased(&world.bank, &other, 1, 100);
        assert_eq!(world.bank.sum(&other), 100);
        join(reader);
        assert_eq!(world.sum(), 3);
    });
}

/// A counter becomes hot and cold while two threads add to it, and a third one looks.
///
/// Loom cannot see: more turns than these.
#[test]
fn a_counter_that_turns_hot_and_cold_loses_nothing() {
    loom::model(|| {
        let world = World::cold(100);
        let adder = thread::spawn({
            let world = world.clone();
            move || {
                // By itself not hot; together with the other one it is.
                world.add_leased(0, 1);
                world.add_leased(0, 1);
            }
        });
        world.add_leased(1, 1);
        let first = world.sum();
        assert!((1..=3).contains(&first), "{first}");
        let second = world.sum();
        assert!((first..=3).contains(&second), "{first} {second}");
        join(adder);
        assert_eq!((world.sum(), world.estimate()), (3, 3));
    });
}
