//! Many threads, few places.

use crate::common::machine::{be_moved, stand_on};
use crate::common::seed::seed;
use crate::common::share::share;
use crate::lent::kinds::{Note, Notes, kind};
use percolog::oplog::{Lent, Operation};
use std::pin::Pin;
use std::sync::{Mutex, RwLock};
use std::thread;

kind!(mortal, Native, deferring().places(2));

#[test]
fn threads_that_end_lose_nothing() {
    use mortal::{Object, Op};
    let objects: Vec<_> = (0..8).map(|_| Object::boxed(Notes::default())).collect();
    for note in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| {
                for object in &objects {
                    object.as_ref().queue(Op(Note(note)));
                }
            });
        });
    }
    for object in &objects {
        assert!(object.synchronize().all.iter().copied().eq(0..20));
    }
}

#[derive(Debug)]
struct Add(u64);

impl Operation<u64> for Add {
    fn exec(self, sum: &mut u64) {
        *sum += self.0;
    }
}

percolog::log_cache!(
    u64,
    Add,
    percolog::oplog::LogCacheBuilder::new()
        .places(4)
        .logs(3)
        .objects(
            percolog::oplog::LoggedBuilder::new()
                .mode(percolog::oplog::Mode::Restless)
                .limit(4)
                .hard_limit(6)
        )
);

const OBJECTS: usize = 12;
const THREADS: usize = 4;

/// Objects are updated, read, destroyed and made anew by all threads at once; nothing is lost, and nothing is counted twice.
#[test]
fn sums_stay_right_while_objects_come_and_go() {
    type Object = Pin<Box<Lent<u64, Add>>>;
    let seed = seed();
    let objects: Vec<RwLock<Object>> = (0..OBJECTS).map(|_| RwLock::new(Lent::boxed(0))).collect();
    // What was read out of objects that are gone.
    let gone = Mutex::new(0);
    let added: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut chance = fastrand::Rng::with_seed(seed + thread as u64);
                let (objects, gone) = (&objects, &gone);
                scope.spawn(move || {
                    let mut added = 0;
                    for _ in 0..share(20_000) {
                        let object = &objects[chance.usize(..OBJECTS)];
                        match chance.u8(..40) {
                            0 => {
                                let mut object = object.write().expect("no panic");
                                let before = std::mem::replace(&mut *object, Lent::boxed(0));
                                *gone.lock().expect("no panic") += before.into_inner();
                            }
                            1 => {
                                // What is pending is executed, and shows itself nowhere: so it is read first.
                                let mut object = object.write().expect("no panic");
                                *gone.lock().expect("no panic") += *object.synchronize();
                                *object = Lent::boxed(0);
                            }
                            2..5 => drop(object.read().expect("no panic").read()),
                            5 => {
                                // A guard of one, and updates of others.
                                let object = object.read().expect("no panic");
                                let Ok(_guard) = object.try_synchronize() else {
                                    continue;
                                };
                                for other in objects {
                                    let Ok(other) = other.try_read() else {
                                        continue;
                                    };
                                    if other.as_ref().try_queue(Add(1)).is_ok() {
                                        added += 1;
                                    }
                                }
                            }
                            _ => {
                                let object = object.read().expect("no panic");
                                object.as_ref().queue(Add(1));
                                added += 1;
                            }
                        }
                    }
                    added
                })
            })
            .collect();
        let parts = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        parts.sum()
    });
    let left: u64 = objects
        .iter()
        .map(|object| *object.read().expect("no panic").synchronize())
        .sum();
    assert_eq!(left + *gone.lock().expect("no panic"), added);
    drop(objects);
    let stats = <Add as percolog::oplog::Cached<u64>>::cache().stats();
    assert_eq!((stats.lent, stats.aside, stats.pending), (0, 0, 0));
}

kind!(
    wandering,
    Moved,
    LogCacheBuilder::new().places(2).logs(2).objects(
        LoggedBuilder::new()
            .mode(percolog::oplog::Mode::Restless)
            .limit(3)
            .hard_limit(6)
    )
);

/// Each thread's numbers stay in order, whichever slots it was moved to and whatever pushed its logs out.
#[test]
fn a_threads_updates_stay_in_order_across_slots_and_evictions() {
    use wandering::{Object, Op};
    let seed = seed();
    let objects: Vec<_> = (0..5).map(|_| Object::boxed(Notes::default())).collect();
    for round in 0..share(40) as u64 {
        thread::scope(|scope| {
            for thread in 0..3_u8 {
                let objects = &objects;
                scope.spawn(move || {
                    stand_on(u32::from(thread));
                    be_moved(seed + 3 * round + u64::from(thread));
                    for number in 0..20 {
                        for object in objects {
                            object.as_ref().queue(Op(Note(64 * thread + number)));
                        }
                    }
                });
            }
        });
        for object in &objects {
            let mut guard = object.synchronize();
            for thread in 0..3 {
                let mine = guard.all.iter().filter(|note| **note / 64 == thread);
                assert!(mine.map(|note| note % 64).eq(0..20), "{:?}", guard.all);
            }
            guard.all.clear();
        }
    }
}
