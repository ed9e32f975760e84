//! Every interleaving of counting, rounds and upgrades, within loom's bounds.
//!
//! The rows are small: two leases, one common row, one way each, so that a second count always pushes the first out. A
//! round runs in threads of the model, as often as it says.
//!
//! What no model here can see: that the light barrier is no instruction on the machine (both are fences here), real
//! thread exit, the allocator, and versions that come round.

use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

mod cold;
mod ordinary;

use super::collector::Collector;
use super::count::{Count, ReadMostly, Then};
use super::generation::{Compared, Generation};
use crate::cpu::barrier::BarrierMode;
use crate::sync::atomic::{AtomicUsize, Ordering};

const MODE: BarrierMode = BarrierMode::Fence;

/// For owners that nobody visits and nobody checks against upgrades: their light barriers are no instructions, and what
/// they write is in order for other reasons.
const UNFENCED: BarrierMode = BarrierMode::Membarrier;

/// What a count counts the references of: how often it was destroyed.
#[repr(C)]
struct Object {
    rest: ReadMostly,
    died: AtomicUsize,
}

impl Object {
    fn new() -> Self {
        Self {
            rest: ReadMostly::new(die, 1024),
            died: AtomicUsize::new(0),
        }
    }
}

/// A collector, and objects with one reference each, which is hot.
struct World {
    collector: Collector,
    counts: Vec<Count>,
    objects: Vec<Object>,
}

unsafe fn die(object: *const ReadMostly) -> usize {
    // SAFETY: `World::new` said so, and the world outlives the rounds.
    let object = unsafe { &*object.cast::<Object>() };
    assert_eq!(object.died.fetch_add(1, Ordering::Relaxed), 0);
    1
}

impl World {
    fn new(objects: usize) -> Arc<Self> {
        let objects = (0..objects).map(|_| Object::new());
        let world = Self::cold(objects.collect());
        for count in &world.counts {
            assert!(count.become_hot());
        }
        world
    }

    /// The same, with references that are cold.
    fn cold(objects: Vec<Object>) -> Arc<Self> {
        let counts = objects.iter().map(|object| {
            let mut count = Count::one();
            // SAFETY: the world keeps both, and `die` takes it for the object that begins with it.
            unsafe { count.link(core::ptr::from_ref(object).cast()) };
            count
        });
        Arc::new(Self {
            collector: Collector::new(),
            counts: counts.collect(),
            objects,
        })
    }

    /// Gives up a reference of whichever kind. Returns whether it died by this.
    fn give_up(&self, lease: usize, count: usize, is_hot: bool) -> bool {
        if is_hot {
            return self.add(lease, count, -1);
        }
        let count = &self.counts[count];
        let then = count.drop_cold();
        if then == Then::Die {
            // SAFETY: it was the last one.
            unsafe { Count::die(count.into()) };
        }
        then == Then::Die
    }

    /// Makes a reference out of a cold one. Returns whether it is hot.
    fn clone_cold(&self, lease: usize, count: usize) -> bool {
        self.make_hot(lease, count) || self.counts[count].add_cold()
    }

    /// Makes a hot reference, if others can be.
    fn make_hot(&self, lease: usize, count: usize) -> bool {
        // SAFETY: as in `add`; counts live as long as the world.
        unsafe {
            (self.collector).add_if_hot(
                MODE,
                Some(lease),
                &self.counts[count],
                self.counts[count].rest(),
            )
        }
    }

    /// Returns whether it died by this.
    fn add(&self, lease: usize, count: usize, one: i16) -> bool {
        self.add_by(Some(lease), count, one)
    }

    fn add_by(&self, lease: Option<usize>, count: usize, one: i16) -> bool {
        let count = &self.counts[count];
        // SAFETY: each model gives a lease to one thread at a time, and gives up what it has.
        let then = unsafe { self.collector.add(MODE, lease, count, one) };
        if then == Then::Die {
            // SAFETY: the collector says so.
            unsafe { Count::die(count.into()) };
        }
        then == Then::Die
    }

    /// The same without a fence. See [`UNFENCED`].
    fn add_unfenced(&self, lease: usize, count: usize, one: i16) {
        // SAFETY: as above.
        let then = unsafe {
            self.collector
                .add(UNFENCED, Some(lease), &self.counts[count], one)
        };
        assert_ne!(then, Then::Die, "no such count is ordinary");
    }

    fn add_in_common(&self, count: usize, one: i16) -> bool {
        self.add_by(None, count, one)
    }

    fn switch_to_atomic(&self, count: usize) {
        self.collector
            .switch_to_atomic(MODE, &[&self.counts[count]])
            .expect("a fence is not refused");
    }

    /// Returns whether the reference is hot, if there is one.
    fn upgrade(&self, lease: usize, count: usize) -> Option<bool> {
        if self.make_hot(lease, count) {
            return Some(true);
        }
        self.counts[count].add_unless_zero()
    }

    /// Gives up a reference, which is hot or not, if it is the only one. Returns whether it did.
    fn take(&self, count: usize, is_hot: bool) -> bool {
        let count = &self.counts[count];
        self.collector.cool(MODE, count, is_hot) && count.take()
    }

    /// Returns whether something died by it.
    fn round(&self) -> bool {
        let dead = self.collector.round(MODE).dead;
        for count in &dead {
            // SAFETY: the round found it.
            unsafe { Count::die(*count) };
        }
        !dead.is_empty()
    }

    /// What is left of a round if nothing is added up first: whether it would be found dead now.
    fn is_found_dead(&self, count: usize) -> bool {
        self.collector.is_zero(MODE, &self.counts[count])
    }

    /// Adds up what one row has.
    fn empty(&self, row: usize) {
        self.collector.empty(MODE, row);
    }

    fn has_died(&self, count: usize) -> bool {
        self.objects[count].died.load(Ordering::Relaxed) == 1
    }

    fn sum(&self, count: usize) -> i64 {
        self.collector.sum(MODE, &self.counts[count])
    }

    /// What the rows have for a count.
    fn in_rows(&self, count: usize) -> [i16; 3] {
        core::array::from_fn(|row| self.collector.amount(row, &self.counts[count]))
    }
}

/// Runs both at the same time, each in a thread of its own: the bounded search does not try to interrupt the thread that a
/// model begins with.
fn both<A: 'static, B: 'static>(
    world: &Arc<World>,
    a: impl FnOnce(&World) -> A + 'static,
    b: impl FnOnce(&World) -> B + 'static,
) -> (A, B) {
    let (to_a, to_b) = (world.clone(), world.clone());
    let a = thread::spawn(move || a(&to_a));
    let b = thread::spawn(move || b(&to_b));
    (join(a), join(b))
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// One reference, which row 1 has made, and a count that has added up to zero: a candidate.
fn with_a_reference_on_row_1() -> Arc<World> {
    let world = World::new(2);
    world.add(1, 0, 1);
    world.add(0, 0, -1);
    world.empty(0);
    world
}

/// A reference that hops from row to row between two looks is never taken for none.
#[test]
fn a_reference_that_hops_is_not_missed() {
    loom::model(|| {
        let world = with_a_reference_on_row_1();
        let hop = |world: &World| {
            world.add_unfenced(0, 0, 1);
            world.add_unfenced(1, 0, -1);
        };
        let ((), is_dead) = both(&world, hop, |world| world.is_found_dead(0));
        assert!(!is_dead);
        world.add(0, 0, -1);
        world.round();
        assert!(world.has_died(0));
    });
}

/// Nor one that moves from a row to the count.
#[test]
fn a_reference_that_is_moved_is_not_missed() {
    loom::model(|| {
        let world = with_a_reference_on_row_1();
        // The other one needs the place.
        let push_out = |world: &World| world.add_unfenced(1, 1, 1);
        let ((), is_dead) = both(&world, push_out, |world| world.is_found_dead(0));
        assert!(!is_dead);
        assert!(!world.is_found_dead(0));
    });
}

/// Nor one that hops, of which the count is told before the row that has it is looked at.
#[test]
fn a_reference_that_leaves_the_count_is_not_missed() {
    loom::model(|| {
        let world = World::new(2);
        // Both rows are there.
        world.add(0, 1, 1);
        world.add(1, 1, 1);
        let hop = |world: &World| {
            world.add_unfenced(0, 0, 1);
            world.add_unfenced(1, 0, -1);
            world.add_unfenced(1, 1, 1);
        };
        let ((), is_dead) = both(&world, hop, |world| world.is_found_dead(0));
        assert!(!is_dead);
        assert!(!world.is_found_dead(0));
    });
}

/// What a row still has is not taken for dead, though the sum is zero: the row would bring it to the count later.
#[test]
fn what_a_row_has_is_not_dead() {
    loom::model(|| {
        let world = World::new(1);
        world.add(0, 0, -1);
        assert!(!world.is_found_dead(0));
        world.round();
        assert!(world.has_died(0));
    });
}

/// A candidate that is given up while its sum becomes zero again is found all the same.
#[test]
fn a_candidate_is_not_forgotten() {
    loom::model(|| {
        let world = with_a_reference_on_row_1();
        // One again, and still a candidate.
        world.empty(1);
        let drop_the_last = |world: &World| {
            world.add(1, 0, -1);
            // Pushes it out: the sum is zero.
            world.add(1, 1, 1);
        };
        both(&world, drop_the_last, |world| _ = world.round());
        world.round();
        assert!(world.has_died(0));
    });
}

/// What the owners did before they dropped happened before it is destroyed.
#[test]
fn what_was_done_before_a_drop_is_seen_at_the_end() {
    loom::model(|| {
        let world = World::new(1);
        let written = Arc::new(crate::sync::UnsafeCell::new(0));
        world.add(1, 0, 1);
        world.add(0, 0, -1);
        let write = {
            let written = written.clone();
            move |world: &World| {
                // SAFETY: read only when the object is dead.
                written.with_mut(|written| unsafe { *written = 1 });
                world.add(1, 0, -1);
            }
        };
        both(&world, write, move |world| {
            world.round();
            if world.has_died(0) {
                // SAFETY: the other thread's reference is gone.
                written.with(|written| assert_eq!(unsafe { *written }, 1));
            }
        });
        world.round();
        assert!(world.has_died(0));
    });
}

/// An upgrade that succeeds keeps it alive; one that fails finds it dead, and it is.
#[test]
fn an_upgrade_and_the_last_drop() {
    loom::model(|| {
        let world = World::new(1);
        // Both rows are there.
        world.add(1, 0, 1);
        world.add(1, 0, -1);
        world.add(0, 0, -1);
        let (upgraded, ()) = both(
            &world,
            |world| world.upgrade(1, 0),
            |world| _ = world.round(),
        );
        assert_ne!(upgraded.is_some(), world.has_died(0));
        if let Some(is_hot) = upgraded {
            world.round();
            assert!(!world.has_died(0));
            world.give_up(1, 0, is_hot);
            world.round();
        }
        assert!(world.has_died(0));
        assert!(world.upgrade(1, 0).is_none());
        for row in [0, 1] {
            assert_eq!(world.collector.amount(row, &world.counts[0]), 0);
        }
    });
}

/// A count that is pushed out of its place is neither lost nor counted twice.
#[test]
fn counts_that_push_each_other_out() {
    loom::model(|| {
        let world = World::new(2);
        let push = |world: &World| {
            world.add(1, 0, 1);
            world.add(1, 1, -1);
            world.add(1, 0, -1);
        };
        both(&world, push, |world| _ = world.round());
        assert!(!world.has_died(0));
        world.round();
        assert!(world.has_died(1) && !world.has_died(0));
        assert_eq!(world.sum(0), 1);
    });
}

/// Two rounds at once: each object dies once (`die` asserts it).
#[test]
fn rounds_that_meet() {
    loom::model(|| {
        let world = World::new(1);
        world.add(0, 0, -1);
        both(&world, World::round, World::round);
        assert!(world.has_died(0));
    });
}

/// The number at one moment: a reference that is cloned on one row and dropped on another is there once or twice, and
/// never not at all. One of the rows is made meanwhile, and is used without a lease.
#[test]
fn a_count_is_of_one_moment() {
    loom::model(|| {
        let world = World::new(1);
        let hop = |world: &World| {
            world.add(1, 0, 1);
            world.add_in_common(0, -1);
        };
        let ((), sum) = both(&world, hop, |world| world.sum(0));
        assert!([1, 2].contains(&sum), "{sum}");
        assert_eq!(world.sum(0), 1);
    });
}

/// A lookup that takes a reference if the generation is what it has seen, and whoever makes a new one and then counts:
/// the count has the reference, or the lookup has none.
#[test]
fn a_reference_of_an_old_generation_is_counted() {
    loom::model(|| {
        let world = World::new(1);
        let generation = Arc::new(Generation::new());
        let seen = generation.current().expect("nobody changes it");
        let look_up = {
            let generation = generation.clone();
            move |world: &World| {
                // SAFETY: as in `World::add`; the generation counts nothing.
                unsafe {
                    let look = || generation.is(seen);
                    let count = &world.counts[0];
                    world
                        .collector
                        .add_if(MODE, Some(1), count, look, |is_same| *is_same)
                        .expect("there is a reference")
                }
            }
        };
        let change = move |world: &World| {
            drop(generation.change());
            world.sum(0)
        };
        let (has_one, sum) = both(&world, look_up, change);
        assert_eq!(sum, if has_one { 2 } else { 1 });
        assert_eq!(world.sum(0), sum);
    });
}

/// All words of a comparison are of one moment.
#[test]
fn what_is_compared_is_of_one_moment() {
    loom::model(|| {
        let world = World::new(0);
        let compared = Arc::new(Compared::new([1, 1]));
        let set = {
            let compared = compared.clone();
            move |_: &World| compared.set([2, 2])
        };
        let ((), read) = both(&world, set, move |_| compared.read());
        if let Some((words, _)) = read {
            assert!([[1, 1], [2, 2]].contains(&words), "{words:?}");
        }
    });
}

/// Who unwraps has the only reference, and nobody gets another one; also by a row that is made meanwhile.
#[test]
fn an_upgrade_and_an_exclusive_use() {
    for is_there in [false, true] {
        loom::model(move || {
            let world = World::new(1);
            if is_there {
                world.add(1, 0, 1);
                world.add(1, 0, -1);
            }
            let (upgraded, alone) = both(
                &world,
                |world| world.upgrade(1, 0),
                |world| world.take(0, true),
            );
            assert_eq!(alone, upgraded.is_none());
        });
    }
}

/// One thread looks an object up in the generation that it has seen, the other one changes that, and then counts. The reference is one that the
/// object counts by itself.
fn a_reference_of_an_old_generation(world: Arc<World>) {
    let generation = Arc::new(Generation::new());
    let seen = generation.current().expect("nobody changes it");
    let look_up = {
        let generation = generation.clone();
        move |world: &World| world.counts[0].add_cold_if(|| generation.is(seen))
    };
    let change = move |world: &World| {
        drop(generation.change());
        world.sum(0)
    };
    let (has_one, sum) = both(&world, look_up, change);
    let references = if has_one.is_some() { 2 } else { 1 };
    // One that is about to be taken back may be counted.
    assert!(sum == references || (sum == 2 && has_one.is_none()));
    assert_eq!(world.sum(0), references);
}
