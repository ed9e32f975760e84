//! Everything that can be done with objects, by all threads at once, with panics everywhere; in the end nothing is left.

use crate::common::alive::Alive;
use crate::common::alone::alone;
use crate::common::eventually::eventually;
use crate::common::seed::seed;
use crate::common::share::share;
use crate::common::storm::{Part, fail, fails};
use percolog::clustered::{self, Call, ExchangeError, ObjectRef, Place, Root, Shared, SwapPolicy};
use percolog::cpu::{self, CoreId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

percolog::interposable! {
    trait Work: Sync {
        fn work(&self, number: u64) -> u64 => u64::MAX;
        fn fail(&self);
    }
}

impl Work for Part {
    fn work(&self, number: u64) -> u64 {
        self.number() + number
    }

    fn fail(&self) {
        fail();
    }
}

/// An implementation, of which some representatives cannot be made.
struct Parts(Arc<World>);

impl Root for Parts {
    type Interface = dyn Work;
    type Rep = Part;

    fn create(&self, _: &Place<'_, Part>) -> Part {
        let number = self.0.number();
        if number.is_multiple_of(31) {
            fail();
        }
        self.0.part(number)
    }

    fn interface(rep: &Part) -> &Self::Interface {
        rep
    }
}

/// What there is: made and destroyed by whoever comes.
struct World {
    alive: Alive,
    objects: Mutex<Vec<ObjectRef<dyn Work>>>,
    made: AtomicU64,
}

impl World {
    fn part(&self, number: u64) -> Part {
        Part::new(&self.alive, number)
    }

    fn number(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }

    fn distributed(self: &Arc<Self>) -> Parts {
        Parts(self.clone())
    }

    fn shared(&self) -> Shared<Part, dyn Work> {
        Shared::new(self.part(self.number()), |it| it as &dyn Work)
    }

    fn any(&self, chance: &mut fastrand::Rng) -> Option<ObjectRef<dyn Work>> {
        let objects = self.objects.lock().unwrap();
        (!objects.is_empty()).then(|| objects[chance.usize(..objects.len())])
    }

    /// One step of a thread. Errors are what others have done meanwhile.
    fn step(self: &Arc<Self>, chance: &mut fastrand::Rng) {
        let Some(object) = self.any(chance) else {
            let made = clustered::create(self.distributed());
            return self.objects.lock().unwrap().push(made);
        };
        match chance.u8(..20) {
            0 => {
                let made = clustered::create(self.distributed());
                self.objects.lock().unwrap().push(made);
            }
            1 => {
                self.objects.lock().unwrap().retain(|it| *it != object);
                let _ = object.destroy();
            }
            2 => drop(object.swap(SwapPolicy::Pass, |_| self.shared())),
            3 => drop(object.swap(SwapPolicy::Wait, |_| self.distributed())),
            4 => {
                let failed: Result<(), _> = object.swap(SwapPolicy::Pass, |_| -> Parts {
                    fail();
                });
                assert!(failed.is_err());
            }
            5 => {
                let through = chance.bool();
                let interposer = move |call: &Call| match through {
                    true => Ok(()),
                    false => call.reject("not now"),
                };
                if let Ok(interposer) = object.interpose(Arc::new(interposer))
                    && chance.bool()
                {
                    let _ = object.remove_interposer(interposer);
                }
            }
            6 => drop(object.call(|it| it.fail())),
            7 => {
                let section = clustered::enter();
                if let Ok(it) = object.get(&section) {
                    it.work(1);
                    // It would wait for this section.
                    let swapped = object.swap(SwapPolicy::Wait, |_| self.shared());
                    assert_eq!(swapped, Err(ExchangeError::InSection));
                    it.work(2);
                }
            }
            8 => cpu::bind(CoreId::new(chance.u32(..4))),
            9 => drop(clustered::collect()),
            _ => drop(object.call(|it| it.work(3))),
        }
    }
}

#[test]
fn nothing_is_left_of_a_storm() {
    alone!();
    const THREADS: usize = 5;
    let world = Arc::new(World {
        alive: Alive::default(),
        objects: Mutex::default(),
        made: AtomicU64::new(1),
    });
    let mut chance = fastrand::Rng::with_seed(seed());
    // What the threads leave is dropped while they live on, and do nothing any more.
    let (quiet, end) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (world, mut chance) = (world.clone(), chance.fork());
            let (quiet, end) = (&quiet, &end);
            scope.spawn(move || {
                for _ in 0..share(20) {
                    // Some of it by a thread that ends.
                    let mut short = chance.fork();
                    let step = |chance: &mut _| _ = fails(|| world.step(chance));
                    thread::scope(|scope| {
                        scope.spawn(|| (0..100).for_each(|_| step(&mut short)));
                        (0..400).for_each(|_| step(&mut chance));
                    });
                }
                quiet.wait();
                end.wait();
            });
        }
        quiet.wait();
        for object in world.objects.lock().unwrap().drain(..) {
            object.destroy().unwrap();
        }
        let gone = eventually(|| {
            clustered::collect();
            world.alive.count() == 0
        });
        let stats = clustered::stats();
        // Nobody waits for a test that has failed.
        end.wait();
        assert!(
            gone,
            "{} representatives are left: {stats:?}",
            world.alive.count()
        );
        assert_eq!((stats.objects, stats.waiting, stats.replaced), (0, 0, 0));
    });
}
