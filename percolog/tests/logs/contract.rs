//! Names and types that other programs compile against. A change that needs this file changed is a
//! breaking one.
#![cfg(not(percolog_loom))]

use percolog::counter::Counter;
use percolog::cpu::{self, CoreId};
use percolog::oplog::{Full, Logged, LoggedFn, Operation, ReadGuard, Synchronized};
use percolog::reclaim::{Domain, Section};
use percolog::refcount::{CoreArc, CoreWeak};
use std::cell::Cell;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

struct Push(u32);

impl Operation<Vec<u32>> for Push {
    fn exec(self, state: &mut Vec<u32>) {
        state.push(self.0);
    }
}

static HITS: Counter = Counter::new();
static LOG: Logged<Vec<u32>, Push> = Logged::new(Vec::new());
static CLOSURES: LoggedFn<Vec<u32>> = LoggedFn::new(Vec::new());
static DOMAIN: Domain = Domain::new();

#[test]
fn slots() {
    const THIRD: CoreId = CoreId::new(3);
    let _current: CoreId = cpu::current();
    let _count: usize = cpu::count();
    std::thread::spawn(|| {
        cpu::bind(THIRD);
        assert_eq!(cpu::current().index(), 3usize);
    })
    .join()
    .expect("no panic");
}

#[test]
fn counters() {
    HITS.add(5i64);
    HITS.increment();
    HITS.decrement();
    let sum: i64 = HITS.sum();
    let estimate: i64 = HITS.estimate();
    assert_eq!((sum, estimate), (5, 5));
    fn common<T: Default + From<i64> + Debug + Send + Sync>() {}
    common::<Counter>();
}

#[test]
fn logs() {
    LOG.queue(Push(1));
    let tried: Result<(), Full<Push>> = LOG.try_queue(Push(2));
    assert!(tried.is_ok());
    LOG.extend([Push(3), Push(4)]);
    {
        let mut guard: Synchronized<'_, Vec<u32>> = LOG.synchronize();
        guard.push(5);
    }
    let guard: ReadGuard<'_, Vec<u32>> = LOG.read();
    assert_eq!(*guard, [1, 2, 3, 4, 5]);
    drop(guard);
    assert_eq!(LOG.with(|all| all.len()), 5);

    CLOSURES.update(|all| all.push(1));
    CLOSURES.update_boxed(|all| all.push(2));
    assert_eq!(*CLOSURES.synchronize(), [1, 2]);

    fn guards<G: Deref<Target = Vec<u32>> + DerefMut>(_: &G) {}
    guards(&CLOSURES.synchronize());
    fn common<T: Default + From<Vec<u32>> + Debug + Send + Sync>() {}
    common::<Logged<Vec<u32>, Push>>();
    common::<LoggedFn<Vec<u32>>>();
}

#[test]
fn references() {
    let mut strong: CoreArc<String> = CoreArc::new("shared".into());
    let change: Option<&mut String> = CoreArc::get_mut(&mut strong);
    change.expect("there is one reference").push('!');
    let weak: CoreWeak<String> = CoreArc::downgrade(&strong);
    let upgraded: Option<CoreArc<String>> = weak.clone().upgrade();
    let count: usize = CoreArc::count(&strong);
    assert_eq!((upgraded.as_deref(), count), (Some(&*strong), 2));
    drop(upgraded);
    let shared = strong.clone();
    let refused: Result<String, CoreArc<String>> = CoreArc::try_unwrap(shared);
    drop(refused.expect_err("there are two references"));
    assert_eq!(CoreArc::try_unwrap(strong), Ok("shared!".into()));
    assert!(weak.upgrade().is_none());
    fn common<T: Clone + Debug + Send + Sync>() {}
    common::<CoreArc<String>>();
    common::<CoreWeak<String>>();
}

#[test]
fn reclamation() {
    let section: Section<'_> = DOMAIN.enter();
    // Sections may be nested.
    drop(DOMAIN.enter());
    drop(section);
    fn common<T: Default + Debug + Send + Sync>() {}
    common::<Domain>();
}

/// A state that may be sent and not shared is enough.
#[test]
fn a_log_is_shared_between_threads_if_its_state_may_be_sent() {
    struct Add(u32);
    impl Operation<Cell<u32>> for Add {
        fn exec(self, state: &mut Cell<u32>) {
            state.set(state.get() + self.0);
        }
    }
    fn shared<T: Send + Sync>(_: &T) {}
    let log: Logged<Cell<u32>, Add> = Logged::new(Cell::new(0));
    shared(&log);
    log.queue(Add(2));
    assert_eq!(log.synchronize().get(), 2);
}

/// What the state and the operations borrow need not live for ever.
#[test]
fn states_and_operations_may_borrow() {
    struct Note<'a>(&'a str);
    impl<'a> Operation<Vec<&'a str>> for Note<'a> {
        fn exec(self, notes: &mut Vec<&'a str>) {
            notes.push(self.0);
        }
    }
    let text = String::from("borrowed words");
    let notes: Logged<Vec<&str>, Note<'_>> = Logged::new(Vec::new());
    std::thread::scope(|scope| {
        for word in text.split(' ') {
            let notes = &notes;
            scope.spawn(move || notes.queue(Note(word)));
        }
    });
    let mut all = notes.into_inner();
    all.sort_unstable();
    assert_eq!(all, ["borrowed", "words"]);
}
