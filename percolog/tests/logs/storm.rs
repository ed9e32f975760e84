//! Every structure made of logs at once, used by threads that panic in operations, destructors and guards, forget guards, and use them in
//! their last moments: nothing hangs, and of all values none is left in the end.

use crate::common::seed::seed;
use crate::common::share::share;

use percolog::collections::{EventQueue, Lru, Registration, Registry, TableCache};
use percolog::cpu::{self, CoreId};
use percolog::ldu::{Entry, Fifo, Stamped};
use percolog::oplog::{Lent, LogCacheBuilder, Logged, LoggedFn, Operation};
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A value that is counted, and whose destructor may panic, after that.
struct Value {
    number: u32,
    angry: bool,
    alive: Arc<AtomicUsize>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        // A second panic while one unwinds would end the process, whose ever it is.
        if self.angry && !thread::panicking() {
            panic_quietly();
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

fn panic_quietly() -> ! {
    resume_unwind(Box::new("as asked"))
}

enum Op {
    Push(Value),
    Panic(Value),
    Clear,
}

impl Operation<Vec<Value>> for Op {
    fn exec(self, all: &mut Vec<Value>) {
        match self {
            Self::Push(value) => all.push(value),
            Self::Panic(_value) => panic_quietly(),
            Self::Clear => while all.pop().is_some() {},
        }
    }
}

percolog::log_cache!(Vec<Value>, Op, LogCacheBuilder::new().places(2).logs(3));

type Object = Lent<Vec<Value>, Op>;

struct World {
    alive: Arc<AtomicUsize>,
    log: Logged<Vec<Value>, Op>,
    closures: LoggedFn<Vec<Value>>,
    lent: Vec<Pin<Box<Object>>>,
    registry: Arc<Registry<Value>>,
    events: EventQueue<Value>,
    recent: Lru<Value>,
    fifo: Fifo<Value>,
    table: TableCache<u32, Arc<Value>>,
}

impl World {
    fn new(alive: Arc<AtomicUsize>) -> Self {
        Self {
            alive,
            log: Logged::<Vec<Value>, Op>::builder()
                .limit(4)
                .build(Vec::new()),
            closures: LoggedFn::default(),
            lent: (0..5).map(|_| Object::boxed(Vec::new())).collect(),
            registry: Arc::default(),
            events: EventQueue::new(8),
            recent: Lru::new(),
            fifo: Fifo::new(),
            table: TableCache::new().copies_per_core(3),
        }
    }

    fn value(&self, chance: &mut fastrand::Rng) -> Value {
        self.alive.fetch_add(1, Ordering::Relaxed);
        Value {
            number: chance.u32(..20),
            angry: chance.u8(..20) == 0,
            alive: self.alive.clone(),
        }
    }

    fn operation(&self, chance: &mut fastrand::Rng) -> Op {
        match chance.u8(..10) {
            0 => Op::Panic(self.value(chance)),
            1 => Op::Clear,
            _ => Op::Push(self.value(chance)),
        }
    }

    fn clear_poison(&self) {
        self.log.clear_poison();
        self.closures.clear_poison();
        self.lent.iter().for_each(|object| object.clear_poison());
        self.registry.clear_poison();
        self.events.clear_poison();
        self.recent.clear_poison();
        self.fifo.clear_poison();
    }
}

/// What a thread keeps until its end.
struct Life {
    world: Arc<World>,
    chance: fastrand::Rng,
    handles: Vec<Registration<Arc<Registry<Value>>>>,
    entries: Vec<Entry<Stamped<Value>>>,
}

impl Life {
    /// One call of something, which may panic.
    fn step(&mut self) {
        let Self {
            world,
            chance,
            handles,
            entries,
        } = self;
        let object = world.lent[chance.usize(..world.lent.len())].as_ref();
        match chance.u8(..32) {
            0 => cpu::bind(CoreId::new(chance.u32(..3))),
            1 => world.clear_poison(),
            2..6 => world.log.queue(world.operation(chance)),
            6 => drop(world.log.try_queue(world.operation(chance))),
            7 => drop(world.log.read()),
            8 => {
                let mut guard = world.log.synchronize();
                guard.pop();
                if chance.bool() {
                    panic_quietly();
                }
            }
            9 => _ = world.log.drain(chance.usize(..10)),
            10 => {
                let value = world.value(chance);
                match chance.u8(..4) {
                    0 => world.closures.update_boxed(move |all| all.push(value)),
                    1 => world.closures.update(move |_| drop(value)),
                    2 => world.closures.with(|all| all.push(value)),
                    _ => drop(
                        world
                            .closures
                            .try_update(move |all: &mut Vec<Value>| all.push(value)),
                    ),
                }
            }
            11..15 => object.queue(world.operation(chance)),
            15 => drop(object.try_queue(world.operation(chance))),
            16 => drop(object.get_ref().synchronize().pop()),
            17 => _ = object.get_ref().drain(chance.usize(..10)),
            18 => {
                let own = Object::boxed(Vec::new());
                own.as_ref().queue(world.operation(chance));
                object.queue(world.operation(chance));
                if chance.bool() {
                    mem::forget(own.read());
                } else {
                    mem::forget(own.try_synchronize());
                }
            }
            19 => {
                let own = Logged::<Vec<Value>, Op>::new(Vec::new());
                own.queue(world.operation(chance));
                mem::forget(own.try_read());
            }
            20 => {
                let value = world.value(chance);
                handles.push(Registry::register_in(world.registry.clone(), value));
            }
            21 if !handles.is_empty() => drop(handles.swap_remove(chance.usize(..handles.len()))),
            22 => assert!(world.registry.list().len() < 1_000_000),
            23 => world.events.push(world.value(chance)),
            24 => {
                if let Some(mut consumer) = world.events.consumer() {
                    consumer.drain(drop);
                }
            }
            25 => world.recent.insert(world.value(chance)),
            26 => world.recent.touch(world.value(chance)),
            27 => drop(world.recent.evict_beyond(chance.usize(..10))),
            28 => {
                let entry = Entry::new(Stamped::new(world.value(chance)));
                if world.fifo.push(&entry).is_ok() {
                    entries.push(entry);
                }
            }
            29 if !entries.is_empty() => {
                let entry = entries.swap_remove(chance.usize(..entries.len()));
                // It may have been popped.
                let _ = world.fifo.remove(&entry);
            }
            30 => drop(world.fifo.pop()),
            31 => {
                let value = Arc::new(world.value(chance));
                let key = value.number;
                drop(world.table.get(&key));
                drop(world.table.insert(key, value));
                drop(world.table.remove(&chance.u32(..20)));
            }
            _ => {}
        }
    }

    fn go_on(&mut self, steps: usize) {
        for _ in 0..steps {
            let _ = catch_unwind(AssertUnwindSafe(|| self.step()));
        }
    }
}

impl Drop for Life {
    /// In the thread's last moments.
    fn drop(&mut self) {
        self.go_on(20);
        for handle in mem::take(&mut self.handles) {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
        }
        for entry in mem::take(&mut self.entries) {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(entry)));
        }
    }
}

thread_local! {
    static LATE: RefCell<Option<Life>> = const { RefCell::new(None) };
}

/// Each part is dropped whatever the others do.
fn end(world: World) {
    fn end<T>(what: T) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(what)));
    }
    let World {
        alive,
        log,
        closures,
        lent,
        registry,
        events,
        recent,
        fifo,
        table,
    } = world;
    // What is pending may panic.
    let quietly = |f: &dyn Fn()| drop(catch_unwind(AssertUnwindSafe(f)));
    quietly(&|| mem::forget(log.try_read()));
    quietly(&|| mem::forget(closures.synchronize()));
    for object in &lent {
        quietly(&|| mem::forget(object.try_read()));
    }
    end(log);
    end(closures);
    lent.into_iter().for_each(end);
    end(registry);
    end(events);
    end(recent);
    end(fifo);
    end(table);
    assert_eq!(alive.load(Ordering::Relaxed), 0, "values that are left");
}

#[test]
fn nothing_hangs_and_nothing_is_left() {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(40) {
        let world = Arc::new(World::new(Arc::default()));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let mut life = Life {
                    world: world.clone(),
                    chance: chance.fork(),
                    handles: Vec::new(),
                    entries: Vec::new(),
                };
                thread::spawn(move || {
                    life.go_on(400);
                    LATE.set(Some(life));
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("panics are caught");
        }
        let world = Arc::into_inner(world).expect("all threads are gone");
        end(world);
    }
}
