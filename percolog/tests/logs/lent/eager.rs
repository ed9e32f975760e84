//! Objects whose updates are executed at once: they have nothing of the cache.

use crate::lent::kinds::{Note, Notes, kind};
use percolog::oplog::{Cached, Lent, LogCache, LoggedFn, Operation};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

kind!(idle, Native, LogCacheBuilder::new());
kind!(
    eager,
    Native,
    LogCacheBuilder::new()
        .places(2)
        .objects(LoggedBuilder::new().mode(percolog::oplog::Mode::Eager))
);
kind!(
    panicking,
    Native,
    LogCacheBuilder::new()
        .places(2)
        .objects(LoggedBuilder::new().mode(percolog::oplog::Mode::Eager))
);
kind!(
    fixed,
    Native,
    LogCacheBuilder::new().objects(LoggedBuilder::new().mode(percolog::oplog::Mode::Deferring))
);

#[test]
fn who_meets_nobody_takes_nothing_of_the_cache() {
    use idle::{Object, Op, cache};
    let objects: Vec<_> = (0..1000).map(|_| Object::boxed(Notes::default())).collect();
    for note in 0..3 {
        for object in &objects {
            object.as_ref().queue(Op(Note(note)));
            object.as_ref().extend([Op(Note(note))]);
            assert!(object.as_ref().try_queue(Op(Note(note))).is_ok());
            assert_eq!(object.pending(), 0);
        }
    }
    for object in &objects {
        assert_eq!(object.read().all, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        assert_eq!(object.with(|notes| notes.all.len()), 9);
    }
    let stats = cache().stats();
    assert_eq!((stats.slots, stats.queues, stats.table_bytes), (0, 0, 0));
    assert_eq!((stats.merges, stats.mode_changes), (0, 0));
}

#[test]
fn a_fixed_mode_is_kept() {
    use fixed::{Object, Op};
    let object = Object::boxed(Notes::default());
    object.as_ref().queue(Op(Note(1)));
    assert_eq!(object.pending(), 1);
    assert_eq!(object.with(|notes| notes.all.len()), 1);
    object.as_ref().queue(Op(Note(1)));
    assert_eq!(object.pending(), 1);
}

/// While somebody has the object its updates are queued, and executed by the next one, in order.
#[test]
fn what_was_queued_comes_first() {
    use eager::{Object, Op, cache};
    let object = Object::boxed(Notes::default());
    let guard = object.synchronize();
    thread::scope(|scope| {
        scope.spawn(|| {
            object.as_ref().queue(Op(Note(1)));
            object.as_ref().queue(Op(Note(2)));
        });
    });
    assert!(guard.all.is_empty());
    drop(guard);
    assert_eq!(object.pending(), 2);
    object.as_ref().queue(Op(Note(3)));
    assert_eq!(object.pending(), 0);
    assert_eq!(object.read().all, [1, 2, 3]);
    let stats = cache().stats();
    assert_eq!(
        (stats.lent, stats.executed, stats.updater_merges),
        (0, 2, 1)
    );
}

/// A panic stays with the object, whoever executes the operation.
#[test]
fn a_panic_poisons_and_goes_no_further() {
    use panicking::{Object, Op};
    let object = Object::boxed(Notes::default());
    object.as_ref().queue(Op(Note(1)));
    object.as_ref().queue(Op(Note(255)));
    assert!(object.is_poisoned());
    // Nothing is executed then, but nothing is lost either.
    object.as_ref().queue(Op(Note(2)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(object.synchronize()))).is_err());
    object.clear_poison();
    assert_eq!(object.synchronize().all, [1, 2]);
    // Nor does that of a caller who was given the state.
    let panic = catch_unwind(AssertUnwindSafe(|| object.with(|_| panic!("on purpose"))));
    assert!(panic.is_err() && object.is_poisoned());
    object.clear_poison();
    object.as_ref().queue(Op(Note(3)));
    assert_eq!(object.synchronize().all, [1, 2, 3]);
}

#[test]
#[cfg(percolog_origin)]
fn the_place_where_it_was_queued_is_named() {
    use panicking::{Object, Op};
    let object = Object::boxed(Notes::default());
    let line = line!() + 1;
    object.as_ref().queue(Op(Note(255)));
    let panic = catch_unwind(AssertUnwindSafe(|| drop(object.synchronize())));
    let panic = panic.expect_err("it is poisoned");
    let text = panic.downcast_ref::<String>().expect("a formatted text");
    let place = format!("{}:{line}", file!());
    assert!(text.contains(&place), "{text} does not name {place}");
}

/// Queues what it is told to another object, and looks.
struct Tell(u32);

static OTHER: LoggedFn<u32> = LoggedFn::new(0);

impl Operation<u32> for Tell {
    fn exec(self, sum: &mut u32) {
        *sum += self.0;
        OTHER.update(|other| *other += 1);
        // An operation runs in the middle of its caller's update: what it queues is executed by somebody else.
        assert_eq!(OTHER.stats().pending, 1);
        let cache: &LogCache<u32, Self> = Self::cache();
        assert_eq!(cache.stats().pending, 0);
        if self.0 == 1 {
            THIRD.get().expect("it is there").as_ref().queue(Self(2));
            assert_eq!(cache.stats().pending, 1);
        }
    }
}

static THIRD: std::sync::OnceLock<std::pin::Pin<Box<Lent<u32, Tell>>>> = std::sync::OnceLock::new();

percolog::log_cache!(u32, Tell);

#[test]
fn an_operation_executes_no_other() {
    THIRD.get_or_init(|| Lent::boxed(0));
    let object = Lent::<u32, Tell>::boxed(0);
    object.as_ref().queue(Tell(1));
    assert!(!object.is_poisoned());
    assert_eq!(*object.synchronize(), 1);
    assert_eq!(*OTHER.synchronize(), 1);
    assert_eq!(*THIRD.get().expect("it is there").synchronize(), 2);
}
