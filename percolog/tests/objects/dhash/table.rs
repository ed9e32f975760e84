//! What a distributed table promises to one thread at a time, and to threads that take turns.

use percolog::dhash::{DHash, Partitioned, Reentered, VisitError};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

type Table = DHash<u64, u64, u64>;

fn table() -> Table {
    DHash::new(|_, _| 0)
}

/// Runs on a thread of its own, which has another local table while this one lives.
fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(f).join().expect("no panic"))
}

fn sum(table: &Table, key: u64) -> Option<u64> {
    table
        .gather(&key, |_| 0, |sum, local| *sum += *local)
        .expect("no guard is out")
}

#[test]
fn elements_are_made_found_and_removed() {
    let table = table();
    assert!(table.find_and_lock(&1).expect("no guard is out").is_none());
    let mut made = table
        .find_or_allocate_and_lock(&1, |key| key + 10)
        .expect("no guard is out");
    assert_eq!((*made.key(), *made.shared(), *made), (1, 11, 0));
    *made += 5;
    drop(made);
    let found = table
        .find_or_allocate_and_lock(&1, |_| unreachable!("it is there"))
        .expect("no guard is out");
    assert_eq!((*found.shared(), *found), (11, 5));
    assert!(!found.is_emptied());
    drop(found);
    assert_eq!(table.len(), Ok(1));
    assert_eq!(table.empty_data(&1), Ok(true));
    assert_eq!(table.empty_data(&1), Ok(false));
    assert!(table.find_and_lock(&1).expect("no guard is out").is_none());
    assert_eq!(table.is_empty(), Ok(true));
    let again = table
        .find_or_allocate_and_lock(&1, |_| 20)
        .expect("no guard is out");
    assert_eq!((*again.shared(), *again), (20, 0));
}

#[test]
fn each_thread_has_a_part_and_all_are_gathered() {
    let table = table();
    let (to_main, from_threads) = mpsc::channel();
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=3)
            .map(|amount| {
                let (table, to_main) = (&table, to_main.clone());
                let (go_on, wait) = mpsc::channel::<()>();
                scope.spawn(move || {
                    let mut local = table
                        .find_or_allocate_and_lock(&7, |_| 100)
                        .expect("no guard is out");
                    assert_eq!((*local, *local.shared()), (0, 100));
                    *local = amount;
                    drop(local);
                    to_main.send(()).expect("there is a receiver");
                    let _ = wait.recv();
                    table
                        .find_and_lock(&7)
                        .expect("no guard is out")
                        .map(|local| *local)
                });
                go_on
            })
            .collect();
        (0..3).for_each(|_| from_threads.recv().expect("no panic"));
        assert_eq!(sum(&table, 7), Some(6));
        let stats = table.stats().expect("no guard is out");
        assert_eq!((stats.elements, stats.replicas, stats.tables), (1, 3, 3));
        assert_eq!(
            table.scatter(&7, |local| *local *= 2),
            Ok(Some(3)),
            "as many as threads"
        );
        assert_eq!(sum(&table, 7), Some(12));
        drop(threads);
    });
    assert_eq!(sum(&table, 8), None);
    assert_eq!(table.scatter(&8, |_| ()), Ok(None));
}

#[test]
fn a_removal_reaches_every_thread() {
    let table = table();
    let use_it = || {
        let local = table
            .find_or_allocate_and_lock(&1, |_| 1)
            .expect("no guard is out");
        *local.shared()
    };
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answers) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            for () in asked {
                answer.send(use_it()).expect("there is a receiver");
            }
        });
        let ask_there = || {
            ask.send(()).expect("there is a receiver");
            answers.recv().expect("no panic")
        };
        assert_eq!((use_it(), ask_there()), (1, 1));
        assert_eq!(table.empty_data(&1), Ok(true));
        let made = table
            .find_or_allocate_and_lock(&1, |_| 2)
            .map(|local| *local.shared());
        assert_eq!((made, ask_there()), (Ok(2), 2));
        drop(ask);
    });
}

#[test]
fn guards_outlive_removals() {
    let table = DHash::<u64, Arc<u64>, String>::new(|key, _| format!("local {key}"));
    let shared = Arc::new(5);
    let mut guard = table
        .find_or_allocate_and_lock(&1, |_| shared.clone())
        .expect("no guard is out");
    elsewhere(|| assert_eq!(table.empty_data(&1), Ok(true)));
    assert!(guard.is_emptied());
    guard.push('!');
    assert_eq!((guard.as_str(), **guard.shared()), ("local 1!", 5));
    // The key is free, and what comes there is another element.
    let other = table
        .find_or_allocate_and_lock(&1, |_| Arc::new(6))
        .expect("the other one is gone");
    assert_eq!((other.as_str(), **other.shared()), ("local 1", 6));
    // Making room does not take away what a guard is out for.
    for key in 2..200 {
        drop(table.find_or_allocate_and_lock(&key, |_| Arc::new(0)));
        assert_eq!(table.empty_data(&key), Ok(true));
    }
    assert_eq!((guard.as_str(), **guard.shared()), ("local 1!", 5));
    // It is not the one that is there now.
    assert_eq!(guard.empty(), Ok(false));
    assert!(!other.is_emptied());
    assert_eq!(other.empty(), Ok(true));
    assert_eq!(table.is_empty(), Ok(true));
    table.trim().expect("no guard is out");
    assert_eq!(Arc::strong_count(&shared), 1, "it has been dropped");
}

#[test]
fn several_guards_may_be_out_in_any_order_but_not_two_of_one() {
    let table = table();
    let find = |key| table.find_or_allocate_and_lock(&key, |key| *key);
    let first = find(1).expect("no guard is out");
    let second = find(2).expect("it is another one");
    assert_eq!(find(1).map(|_| ()), Err(again()));
    assert_eq!(table.find_and_lock(&2).map(|_| ()), Err(again()));
    drop(first);
    assert!(find(1).is_ok());
    let third = find(3).expect("it is another one");
    // Others are not kept out by what is refused, nor by guards.
    elsewhere(|| drop(find(1).expect("each thread has its own")));
    assert_eq!(
        table.gather(&1, |_| (), |_, _| ()),
        Err(VisitError::Reentered)
    );
    assert_eq!(table.trim(), Err(VisitError::Reentered));
    assert_eq!(table.stats(), Err(VisitError::Reentered));
    drop(second);
    assert_eq!(
        table.scatter(&1, |_| ()),
        Err(VisitError::Reentered),
        "one is out still"
    );
    drop(third);
    assert_eq!(table.scatter(&3, |_| ()), Ok(Some(1)));
}

/// The error, which nobody else can make.
fn again() -> Reentered {
    let table = table();
    let _guard = table.find_or_allocate_and_lock(&0, |_| 0);
    match table.find_and_lock(&0) {
        Err(error) => error,
        Ok(_) => unreachable!("it is locked"),
    }
}

#[test]
fn what_a_table_calls_may_hit_and_must_not_miss() {
    let table = table();
    drop(table.find_or_allocate_and_lock(&1, |_| 1));
    let made = table.find_or_allocate_and_lock(&2, |_| {
        let hit = table.find_and_lock(&1).expect("it is a hit");
        assert_eq!(hit.map(|local| *local.shared()), Some(1));
        assert!(table.find_and_lock(&3).is_err());
        assert!(table.find_or_allocate_and_lock(&2, |_| 0).is_err());
        assert!(table.empty_data(&1).is_err());
        assert!(table.evict_local().is_err());
        assert!(table.len().is_err());
        assert_eq!(
            table.gather(&1, |_| (), |_, _| ()),
            Err(VisitError::Reentered)
        );
        2
    });
    assert_eq!(made.map(|local| *local.shared()), Ok(2));
    let gathered = table.gather(
        &1,
        |_| (),
        |(), _| {
            assert!(table.find_and_lock(&1).is_err());
            assert!(table.empty_data(&1).is_err());
            assert_eq!(table.scatter(&2, |_| ()), Err(VisitError::Reentered));
        },
    );
    assert_eq!(gathered, Ok(Some(())));
    assert_eq!(table.len(), Ok(2));
}

#[test]
fn a_panic_changes_nothing() {
    let table = DHash::<u64, u64, u64>::new(|key, _| {
        assert_ne!(*key, 13, "on purpose");
        0
    });
    let panics = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    panics(&|| {
        let _ = table.find_or_allocate_and_lock(&1, |_| panic!("on purpose"));
    });
    panics(&|| {
        let _ = table.find_or_allocate_and_lock(&13, |_| 0);
    });
    assert_eq!(table.len(), Ok(0));
    drop(table.find_or_allocate_and_lock(&1, |_| 1));
    panics(&|| {
        let _ = table.gather(&1, |_| (), |(), _| panic!("on purpose"));
    });
    panics(&|| {
        let mut guard = table.find_and_lock(&1).expect("no guard is out");
        **guard.as_mut().expect("it is there") = 7;
        panic!("on purpose");
    });
    assert_eq!(sum(&table, 1), Some(7));
}

/// A key whose comparison panics, or looks itself up, if it is told to.
#[derive(Debug, Clone, Copy)]
struct Key(u64);

thread_local! {
    static COMPARED: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let told = COMPARED.with_borrow_mut(Option::take);
        if let Some(told) = told {
            told();
        }
        self.0 == other.0
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn comparisons_may_panic_and_look_up() {
    static TABLE: std::sync::LazyLock<DHash<Key, (), u64>> =
        std::sync::LazyLock::new(|| DHash::new(|_, ()| 0));
    drop(TABLE.find_or_allocate_and_lock(&Key(1), |_| ()));
    COMPARED.set(Some(Box::new(|| panic!("on purpose"))));
    assert!(catch_unwind(|| TABLE.find_and_lock(&Key(1)).map(drop)).is_err());
    COMPARED.set(Some(Box::new(|| {
        let hit = TABLE.find_and_lock(&Key(1)).expect("it is a hit");
        assert!(hit.is_some());
        // It would change the table that is being read.
        assert!(TABLE.find_or_allocate_and_lock(&Key(2), |_| ()).is_err());
        assert!(TABLE.evict_local().is_err());
    })));
    assert!(TABLE.find_and_lock(&Key(1)).expect("no guard").is_some());
    // All is as before.
    assert!(TABLE.find_or_allocate_and_lock(&Key(2), |_| ()).is_ok());
    assert_eq!(TABLE.scatter(&Key(1), |_| ()), Ok(Some(1)));
}

/// Two threads that went from one part to another in opposite orders would wait for each other.
#[test]
fn what_one_part_calls_is_told_so_by_the_others() {
    let table = Partitioned::<u64, u64>::new(2, |key| *key);
    let made = table.find_or_allocate_and_lock(&0, |_| {
        for key in 0..4 {
            assert!(table.find_or_allocate_and_lock(&key, |_| 5).is_err());
            assert!(table.find_and_lock(&key).is_err());
            assert!(table.empty_data(&key).is_err());
        }
        assert!(table.len().is_err());
        1
    });
    assert_eq!(made.map(|made| *made), Ok(1));
    assert_eq!(table.len(), Ok(1));
}

/// A guard that a comparison has got counts until it is dropped, and one that it has dropped does not.
#[test]
fn comparisons_may_keep_a_guard() {
    type Table = DHash<Key, (), u64>;
    static TABLE: std::sync::LazyLock<Table> = std::sync::LazyLock::new(|| DHash::new(|_, ()| 0));
    thread_local! {
        static KEPT: RefCell<Option<percolog::dhash::Element<'static, Key, (), u64>>> =
            const { RefCell::new(None) };
    }
    for key in 1..3 {
        drop(TABLE.find_or_allocate_and_lock(&Key(key), |_| ()));
    }
    COMPARED.set(Some(Box::new(|| {
        KEPT.set(TABLE.find_and_lock(&Key(2)).expect("it is a hit"));
    })));
    drop(TABLE.find_and_lock(&Key(1)).expect("no guard of it is out"));
    let mut kept = KEPT.take().expect("the comparison has kept it");
    let gathering = AtomicUsize::new(0);
    thread::scope(|scope| {
        let gathered = scope.spawn(|| {
            gathering.store(1, Ordering::SeqCst);
            TABLE.gather(&Key(2), |_| 0, |sum, local| *sum += *local)
        });
        while gathering.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        for _ in 0..1000 {
            *kept += 1;
            thread::yield_now();
        }
        drop(kept);
        // Whoever gathers waits for the guard.
        assert_eq!(gathered.join().expect("no panic"), Ok(Some(1000)));
    });
    // And for nobody else: none is counted that is gone.
    COMPARED.set(Some(Box::new(|| {
        drop(TABLE.find_and_lock(&Key(2)).expect("it is a hit"));
    })));
    drop(TABLE.find_and_lock(&Key(1)).expect("no guard of it is out"));
    let sum = elsewhere(|| TABLE.gather(&Key(2), |_| 0, |sum, local| *sum += *local));
    assert_eq!(sum, Ok(Some(1000)));
}

/// A new part is its finder's before anything of the user's is called that could take it away.
#[test]
fn what_folds_may_evict() {
    struct Part(Arc<AtomicUsize>);
    impl Drop for Part {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    type Table = DHash<u64, (), Part>;
    static TABLE: std::sync::LazyLock<Table> = std::sync::LazyLock::new(|| {
        DHash::new(|_, ()| Part(Arc::default())).folding(|_, (), part| {
            drop(part);
            let _ = TABLE.evict_local();
        })
    });
    for key in 0..1000 {
        let guard = TABLE
            .find_or_allocate_and_lock(&key, |_| ())
            .expect("no guard is out");
        let drops = guard.0.clone();
        assert_eq!(drops.load(Ordering::Relaxed), 0, "dropped under a guard");
        drop(guard);
        // What is dead makes the table's next growth discard it.
        if key >= 3 {
            assert_eq!(TABLE.empty_data(&(key - 3)), Ok(true));
        }
    }
}

#[test]
fn what_is_discarded_is_folded() {
    let table = DHash::<u64, Arc<AtomicU64>, u64>::new(|_, _| 0).folding(|key, total, local| {
        total.fetch_add(key * local, Ordering::Relaxed);
    });
    let totals: Vec<_> = (0..4).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let total = |key: usize| totals[key].load(Ordering::Relaxed);
    let add = |key: u64, amount| {
        let total = || totals[key as usize].clone();
        *table
            .find_or_allocate_and_lock(&key, |_| total())
            .expect("no guard is out") += amount;
    };
    for key in 0..4 {
        add(key, 10);
    }
    let guard = table.find_and_lock(&3).expect("no guard is out");
    assert_eq!(table.evict_local(), Ok(3));
    drop(guard);
    assert_eq!((total(1), total(2), total(3)), (10, 20, 0));
    let stats = table.stats().expect("no guard is out");
    assert_eq!((stats.elements, stats.replicas), (4, 1));
    // A part that is made anew begins anew.
    add(1, 1);
    assert_eq!(table.gather(&1, |_| 0, |sum, it| *sum += *it), Ok(Some(1)));
    assert_eq!(table.empty_data(&1), Ok(true));
    assert_eq!(total(1), 10, "nobody has freed it yet");
    assert_eq!(table.trim(), Ok(1));
    assert_eq!(total(1), 11);
    drop(table);
    assert_eq!((total(1), total(2), total(3)), (11, 20, 30));
}

#[test]
fn dead_parts_are_bounded_by_what_was_alive() {
    const ALIVE: u64 = 10;
    static LIVING: AtomicUsize = AtomicUsize::new(0);
    #[derive(Debug)]
    struct Counted;
    impl Counted {
        fn new() -> Self {
            LIVING.fetch_add(1, Ordering::Relaxed);
            Self
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            LIVING.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let table = DHash::<u64, Counted, Counted>::new(|_, _| Counted::new());
    let mut most = 0;
    for key in 0..10_000 {
        drop(table.find_or_allocate_and_lock(&key, |_| Counted::new()));
        if key >= ALIVE {
            assert_eq!(table.empty_data(&(key - ALIVE)), Ok(true));
        }
        most = most.max(LIVING.load(Ordering::Relaxed));
    }
    // Both parts of each. A table for 21 has 28 places, and one more is on its way.
    assert!(most <= 2 * 29, "{most} parts of {ALIVE} elements");
    table.trim().expect("no guard is out");
    assert_eq!(LIVING.load(Ordering::Relaxed), 2 * ALIVE as usize);
    drop(table);
    assert_eq!(LIVING.load(Ordering::Relaxed), 0);
}

#[test]
fn all_elements_are_shown_without_a_lock() {
    let table = table();
    for key in 0..100 {
        drop(table.find_or_allocate_and_lock(&key, |key| key * 2));
    }
    let mut seen = Vec::new();
    let shown = table.for_each(|key, shared| {
        assert_eq!(*shared, key * 2);
        assert_eq!(table.empty_data(key), Ok(true));
        seen.push(*key);
        ControlFlow::Continue(())
    });
    assert_eq!(shown, Ok(()));
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    assert_eq!(table.is_empty(), Ok(true));
    drop(table.find_or_allocate_and_lock(&1, |_| 0));
    drop(table.find_or_allocate_and_lock(&2, |_| 0));
    let mut shown = 0;
    let result = table.for_each(|_, _| {
        shown += 1;
        ControlFlow::Break(())
    });
    assert_eq!((result, shown), (Ok(()), 1));
}

/// A guard in a thread-local value is dropped when the thread's lease may have been given back: nobody else may have its place by then.
#[test]
fn guards_may_be_dropped_late() {
    static TABLE: std::sync::LazyLock<Table> = std::sync::LazyLock::new(table);
    type Kept = RefCell<Option<percolog::dhash::Element<'static, u64, u64, u64>>>;
    thread_local! {
        // One that is used before the table, and one that is used after it: their destructors run in some order.
        static BEFORE: Kept = const { RefCell::new(None) };
        static AFTER: Kept = const { RefCell::new(None) };
    }
    for round in 0..20u64 {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                thread::spawn(move || {
                    BEFORE.set(None);
                    let find = |key| {
                        TABLE
                            .find_or_allocate_and_lock(&key, |_| 0)
                            .expect("no guard is out")
                    };
                    let (mut first, mut second) = (find(thread), find(4));
                    *first += 1;
                    *second += 1;
                    BEFORE.set(Some(first));
                    AFTER.set(Some(second));
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        // Every guard has been dropped, or this would wait for it.
        assert_eq!(sum(&TABLE, 4), Some(4 * (round + 1)));
    }
}
