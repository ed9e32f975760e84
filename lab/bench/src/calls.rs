//! Calls of objects behind an interface: as a trait object, and by reference, where each slot has its representative.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use percolog::clustered::{self, Distributed, ObjectRef, Placement, Shared, SwapPolicy};

/// What is called.
pub trait Tick: Sync {
    /// A call.
    fn tick(&self) -> u64;
}

/// Loads a word of its own: calls of one object do not wait for one another.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Own(AtomicU64);

impl Tick for Own {
    #[inline(never)]
    fn tick(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts with one atomic, whoever calls.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Common(AtomicU64);

impl Tick for Common {
    #[inline(never)]
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

const CALLS: usize = 2_000_000;

fn nanoseconds(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e9 / CALLS as f64
}

/// Nanoseconds for each of so many calls that a pass makes, when it has been made once.
fn timed(calls: usize, pass: impl Fn()) -> f64 {
    pass();
    let started = Instant::now();
    for _ in 0..CALLS / calls {
        pass();
    }
    nanoseconds(started.elapsed())
}

/// Objects with a representative for each slot, destroyed in the end.
struct Objects(Vec<ObjectRef<dyn Tick>>);

impl Objects {
    /// So many objects; `before` of others are made first, so that these have greater indices.
    fn new(count: usize, before: usize) -> Self {
        let make = || {
            clustered::create(Distributed::new(
                Placement::EachSlot,
                |_| Own::default(),
                |it| it as &dyn Tick,
            ))
        };
        let filler = Self((0..before).map(|_| make()).collect());
        let objects = Self((0..count).map(|_| make()).collect());
        drop(filler);
        objects
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for object in &self.0 {
            object.destroy().expect("it is there");
        }
        clustered::collect();
    }
}

/// Calls in a pass, whatever they are of.
const PASS: usize = 64;

/// Nanoseconds for a call of each of so many trait objects in turn.
#[must_use]
pub fn direct(count: usize) -> f64 {
    let objects: Vec<Box<dyn Tick>> = (0..count)
        .map(|_| Box::new(Own::default()) as Box<dyn Tick>)
        .collect();
    let in_turn: Vec<&dyn Tick> = objects.iter().map(|it| &**it).cycle().take(PASS).collect();
    let in_turn = black_box(&in_turn[..]);
    timed(PASS, || {
        for object in in_turn {
            black_box(object.tick());
        }
    })
}

/// Nanoseconds for `get` and a call of each of so many objects in turn, in one section.
///
/// # Panics
/// If an object is not there.
#[must_use]
pub fn gotten(count: usize, before: usize) -> f64 {
    let objects = Objects::new(count, before);
    let in_turn: Vec<_> = objects.0.iter().copied().cycle().take(PASS).collect();
    let references = black_box(&in_turn[..]);
    let section = clustered::enter();
    timed(PASS, || {
        for object in references {
            black_box(object.get(&section).expect("it is there").tick());
        }
    })
}

/// Nanoseconds for a `call`, section included.
///
/// # Panics
/// If an object is not there.
#[must_use]
pub fn called(count: usize) -> f64 {
    let objects = Objects::new(count, 0);
    let references = black_box(&objects.0[..]);
    timed(count, || {
        for object in references {
            black_box(object.call(|it| it.tick()).expect("it is there"));
        }
    })
}

/// Nanoseconds for a call on each of so many threads, of one object: shared, or distributed.
///
/// # Panics
/// If a thread could not be started.
#[must_use]
pub fn by_threads(threads: usize, is_shared: bool) -> f64 {
    let object: ObjectRef<dyn Tick> = if is_shared {
        clustered::create(Shared::new(Common::default(), |it| it as &dyn Tick))
    } else {
        clustered::create(Distributed::new(
            Placement::EachSlot,
            |_| Common::default(),
            |it| it as &dyn Tick,
        ))
    };
    let start = Barrier::new(threads);
    let sum: f64 = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let started = Instant::now();
                    for _ in 0..CALLS {
                        black_box(object.call(|it| it.tick()).expect("it is there"));
                    }
                    nanoseconds(started.elapsed())
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    object.destroy().expect("it is there");
    sum / threads as f64
}

/// Nanoseconds for a swap of an object that one thread has called in between.
///
/// # Panics
/// If the object is not there.
#[must_use]
pub fn swapped(policy: SwapPolicy) -> f64 {
    const SWAPS: u32 = 2_000;
    let object: ObjectRef<dyn Tick> =
        clustered::create(Shared::new(Common::default(), |it| it as &dyn Tick));
    let started = Instant::now();
    for _ in 0..SWAPS {
        object
            .swap(policy, |_| {
                Shared::new(Common::default(), |it| it as &dyn Tick)
            })
            .expect("it is there");
        black_box(object.call(|it| it.tick()).expect("it is there"));
    }
    let elapsed = started.elapsed();
    object.destroy().expect("it is there");
    elapsed.as_secs_f64() * 1e9 / f64::from(SWAPS)
}
