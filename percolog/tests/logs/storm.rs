//! Every structure made of logs at once, used by threads that panic in operations, destructors and guards, forget guards, and use them in
//! their last moments: nothing hangs, and of all values none is left in the end.

use crate::common::alive::Alive;
use crate::common::eventually::eventually;
use crate::common::seed::seed;
use crate::common::share::share;
use crate::common::storm::{Part, fail, fails, maybe_fail, storm, with_failing_parts};

use percolog::collections::{EventQueue, Lru, Registration, Registry, Snapshots, TableCache};
use percolog::cpu::{self, CoreId};
use percolog::ldu::{Entry, Fifo, Stamped};
use percolog::oplog::{Drain, Lent, LogCacheBuilder, Logged, LoggedFn, Mode, Operation};
use percolog::reclaim::Domain;
use percolog::reduce::Reducer;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

enum Op {
    Push(Part),
    Panic(Part),
    Clear,
}

impl Operation<Vec<Part>> for Op {
    fn exec(self, all: &mut Vec<Part>) {
        match self {
            Self::Push(value) => all.push(value),
            Self::Panic(_value) => fail(),
            Self::Clear => while all.pop().is_some() {},
        }
    }
}

percolog::log_cache!(
    Vec<Part>,
    Op,
    LogCacheBuilder::new()
        .places(2)
        .logs(3)
        .objects(percolog::oplog::LoggedBuilder::new().mode(Mode::Restless))
);

type Object = Lent<Vec<Part>, Op>;

struct World {
    alive: Alive,
    log: Logged<Vec<Part>, Op>,
    closures: LoggedFn<Vec<Part>>,
    lent: Vec<Pin<Box<Object>>>,
    registry: Arc<Registry<Part>>,
    events: EventQueue<Part>,
    recent: Lru<Part>,
    fifo: Fifo<Part>,
    table: TableCache<u64, Arc<Part>>,
}

impl World {
    fn new(alive: Alive) -> Self {
        Self {
            alive,
            log: Logged::<Vec<Part>, Op>::builder()
                .mode(Mode::Restless)
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

    fn value(&self, chance: &mut fastrand::Rng) -> Part {
        Part::new(&self.alive, chance.u64(..20))
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
    handles: Vec<Registration<Arc<Registry<Part>>>>,
    entries: Vec<Entry<Stamped<Part>>>,
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
                    fail();
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
                            .try_update(move |all: &mut Vec<Part>| all.push(value)),
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
                let own = Logged::<Vec<Part>, Op>::new(Vec::new());
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
                let key = value.number();
                drop(world.table.get(&key));
                drop(world.table.insert(key, value));
                drop(world.table.remove(&chance.u64(..20)));
            }
            _ => {}
        }
    }

    fn go_on(&mut self, steps: usize) {
        for _ in 0..steps {
            fails(|| self.step());
        }
    }
}

impl Drop for Life {
    /// In the thread's last moments.
    fn drop(&mut self) {
        self.go_on(20);
        for handle in mem::take(&mut self.handles) {
            fails(|| drop(handle));
        }
        for entry in mem::take(&mut self.entries) {
            fails(|| drop(entry));
        }
    }
}

thread_local! {
    static LATE: RefCell<Option<Life>> = const { RefCell::new(None) };
}

/// Each part is dropped whatever the others do.
fn end(world: World) {
    fn end<T>(what: T) {
        fails(|| drop(what));
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
    fails(|| mem::forget(log.try_read()));
    fails(|| mem::forget(closures.synchronize()));
    for object in &lent {
        fails(|| mem::forget(object.try_read()));
    }
    end(log);
    end(closures);
    lent.into_iter().for_each(end);
    end(registry);
    end(events);
    end(recent);
    end(fifo);
    end(table);
    assert_eq!(alive.count(), 0, "values that are left");
}

#[test]
fn nothing_hangs_and_nothing_is_left() {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(40) {
        let world = Arc::new(World::new(Alive::default()));
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

#[test]
fn nothing_is_left_of_snapshots() {
    static DOMAIN: Domain = Domain::new();
    let alive = Alive::default();
    let log = Logged::<Vec<Part>, Op>::builder()
        .mode(Mode::Restless)
        .limit(4)
        .build(Vec::new());
    let snapshots = Snapshots::new(&DOMAIN, log, |parts: &Vec<Part>| parts.clone());
    storm(
        |_| DOMAIN.enter(),
        |key, chance| match chance.u8(..16) {
            0..6 => snapshots.source().queue(Op::Push(Part::new(&alive, key))),
            6 => snapshots.source().queue(Op::Panic(Part::new(&alive, key))),
            7 => snapshots.source().queue(Op::Clear),
            8 => snapshots.source().clear_poison(),
            9 | 10 => with_failing_parts(chance, || snapshots.refresh()),
            11 => drop(with_failing_parts(chance, || snapshots.try_refresh())),
            12 => _ = with_failing_parts(chance, || Drain::drain(&snapshots, 10)),
            13 => snapshots.read(|parts| {
                parts.iter().for_each(|part| _ = part.number());
                maybe_fail(chance);
            }),
            14 => {
                let section = DOMAIN.enter();
                let latest = snapshots.latest_within(&section, Duration::ZERO);
                latest.iter().for_each(|part| _ = part.number());
            }
            _ => {
                // Others come, and this one stays what it is.
                let section = DOMAIN.enter();
                let latest = snapshots.latest(&section);
                let before = latest.len();
                snapshots.refresh();
                assert_eq!(latest.len(), before);
            }
        },
    );
    fails(|| drop(snapshots));
    assert!(eventually(|| {
        DOMAIN.collect();
        alive.count() == 0
    }));
}

#[test]
fn nothing_is_left_of_an_lru() {
    let alive = Alive::default();
    for builder in [
        Lru::<Part>::builder().limit(4),
        Lru::<Part>::builder().limit(4).lossless(),
    ] {
        let recent = builder.build();
        storm(
            |_| (),
            |key, chance| {
                let part = Part::new(&alive, key);
                let kind = chance.u8(..16);
                with_failing_parts(chance, || match kind {
                    0..5 => recent.touch(part),
                    5..9 => recent.insert(part),
                    9 => recent.remove(part),
                    10 => drop(recent.evict()),
                    11 => drop(recent.evict_many(3)),
                    12 => drop(recent.evict_beyond(5)),
                    13 => drop(recent.order()),
                    14 => _ = (recent.contains(&part), recent.len(), recent.drain(3)),
                    _ => recent.clear_poison(),
                });
            },
        );
        // What is pending may fail; then it is poisoned.
        fails(|| recent.len());
        recent.clear_poison();
        fails(|| drop(recent));
        assert_eq!(alive.count(), 0);
    }
}

#[test]
fn nothing_is_left_of_a_table_cache() {
    /// A key that looks into its table when it is dropped, which takes the table's locks.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Key(Part, Peek);

    #[derive(Clone)]
    struct Peek(Weak<Table>);

    type Table = TableCache<Key, Part>;

    impl Drop for Peek {
        fn drop(&mut self) {
            if let Some(table) = self.0.upgrade() {
                let _ = table.len();
            }
        }
    }

    impl PartialEq for Peek {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }

    impl Eq for Peek {}

    impl Hash for Peek {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }

    let alive = Alive::default();
    let table: Arc<Table> = Arc::new(TableCache::new().copies_per_core(5));
    storm(
        |_| (),
        |number, chance| {
            let new = |number| Key(Part::new(&alive, number), Peek(Arc::downgrade(&table)));
            let key = new(number);
            match chance.u8(..16) {
                0..8 => {
                    if let Some(found) = with_failing_parts(chance, || table.get(&key)) {
                        assert_eq!(found.number(), number);
                    }
                }
                8..11 => {
                    let value = Part::new(&alive, number);
                    drop(with_failing_parts(chance, || table.insert(key, value)));
                }
                11..13 => drop(with_failing_parts(chance, || table.remove(&key))),
                13 => cpu::bind(CoreId::new(chance.u32(..3))),
                14 => table.for_each(|key, value| {
                    assert_eq!(key.0.number(), value.number());
                    maybe_fail(chance);
                }),
                _ if chance.u8(..8) == 0 => table.clear(),
                _ => assert!(table.copies() < 100),
            }
        },
    );
    fails(|| drop(table));
    assert_eq!(alive.count(), 0);
}

/// The compiler leaks what is returned if a destructor behind the return panics.
#[test]
fn a_destructor_that_panics_leaks_nothing_that_is_returned() {
    static DOMAIN: Domain = Domain::new();
    let alive = Alive::default();
    // Those with 3 fail.
    let part = |number| Part::new(&alive, number);
    cpu::bind(CoreId::new(0));
    let three = part(3);
    let table = TableCache::<Part, Part>::new().copies_per_core(1);
    table.insert(part(3), part(0));
    assert!(fails(|| table.insert(part(3), part(0))));
    assert!(fails(|| table.remove(&three)));
    assert_eq!(alive.count(), 1);
    table.insert(part(3), part(0));
    table.insert(part(4), part(0));
    assert!(table.get(&three).is_some());
    assert!(fails(|| table.get(&part(4))), "the other copy has to go");
    assert!(fails(|| drop(table)));
    assert!(fails(|| drop(three)));
    assert_eq!(alive.count(), 0);

    let reducer = Reducer::<Vec<Part>>::new();
    reducer.update(|parts| parts.push(part(3)));
    assert!(fails(|| reducer.into_inner()));
    assert_eq!(alive.count(), 0);

    let log = Logged::<Vec<Part>, Op>::new(vec![part(0)]);
    let snapshots = Snapshots::new(&DOMAIN, log, |parts: &Vec<Part>| {
        let [part] = &parts[..] else { fail() };
        PartThatFails(part.another())
    });
    assert!(fails(|| snapshots.into_source()));
    assert_eq!(alive.count(), 0);
}

struct PartThatFails(Part);

impl Drop for PartThatFails {
    fn drop(&mut self) {
        self.0.number();
        fail();
    }
}
