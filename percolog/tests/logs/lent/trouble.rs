//! Guards, panics and operations that are in the way.

use crate::common::machine::stand_on;
use crate::lent::kinds::{Grave, Note, Notes, kind};
use percolog::oplog::{Cached, Lent, LogCache, Operation};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread;

kind!(held_here, Native, deferring().places(1));
kind!(held_there, Native, deferring().places(1));
kind!(everywhere, Moved, deferring().places(1));
kind!(panicking, Native, deferring().places(1));
kind!(dropped, Native, deferring().places(4));
kind!(
    discarded,
    Native,
    LogCacheBuilder::new().places(4).objects(
        LoggedBuilder::new()
            .mode(percolog::oplog::Mode::Deferring)
            .on_drop(OnDrop::Discard)
    )
);
kind!(leaked, Native, deferring().places(1));

#[test]
fn a_thread_pushes_what_it_holds_aside() {
    use held_here::{Object, Op, cache};
    let [one, other, third] = [(); 3].map(|()| Object::boxed(Notes::default()));
    let guard = one.synchronize();
    one.as_ref().queue(Op(Note(1)));
    other.as_ref().queue(Op(Note(2)));
    // It has come back to its place when it is updated again: one log, in order.
    one.as_ref().queue(Op(Note(3)));
    third.as_ref().queue(Op(Note(4)));
    assert!(guard.all.is_empty());
    assert_ne!(cache().stats().set_aside, 0);
    drop(guard);
    assert_eq!(one.synchronize().all, [1, 3]);
    assert_eq!(other.synchronize().all, [2]);
    assert_eq!(third.synchronize().all, [4]);
    let stats = cache().stats();
    assert_eq!((stats.aside, stats.lent, stats.pending), (0, 0, 0));
}

#[test]
fn an_update_does_not_wait_for_another_objects_reader() {
    use held_there::{Object, Op};
    let one = Object::boxed(Notes::default());
    let others: Vec<_> = (0..20).map(|_| Object::boxed(Notes::default())).collect();
    let (tell, told) = mpsc::channel();
    let (finish, finished) = mpsc::channel();
    thread::scope(|scope| {
        let one = &one;
        scope.spawn(move || {
            let guard = one.read();
            tell.send(()).expect("somebody waits");
            finished.recv().expect("somebody tells");
            assert!(guard.all.is_empty());
        });
        told.recv().expect("somebody tells");
        one.as_ref().queue(Op(Note(1)));
        // Before the reader goes: it only does when all of these have returned.
        for other in &others {
            other.as_ref().queue(Op(Note(2)));
        }
        finish.send(()).expect("somebody waits");
    });
    assert_eq!(one.synchronize().all, [1]);
    for other in &others {
        assert_eq!(other.synchronize().all, [2]);
    }
}

/// Whoever is in the way is merged as a whole: what it has on the other slots happened before.
#[test]
fn who_is_pushed_out_is_merged_on_all_slots_and_in_order() {
    use everywhere::{Object, Op};
    let [one, other] = [(); 2].map(|()| Object::boxed(Notes::default()));
    for (slot, note) in [(1, 1), (0, 2), (2, 3), (0, 4)] {
        stand_on(slot);
        one.as_ref().queue(Op(Note(note)));
    }
    stand_on(0);
    other.as_ref().queue(Op(Note(9)));
    assert_eq!(one.pending(), 0);
    let stats = everywhere::cache().stats();
    assert_eq!((stats.evictions, stats.lent, stats.pending), (1, 1, 1));
    assert_eq!(one.synchronize().all, [1, 2, 3, 4]);
    assert_eq!(other.synchronize().all, [9]);
}

#[test]
fn a_panic_stays_with_the_object_that_was_pushed_out() {
    use panicking::{Object, Op};
    let [one, other] = [(); 2].map(|()| Object::boxed(Notes::default()));
    for note in [1, 255, 2] {
        one.as_ref().queue(Op(Note(note)));
    }
    other.as_ref().queue(Op(Note(9)));
    assert!(one.is_poisoned() && !other.is_poisoned());
    assert_eq!(other.synchronize().all, [9]);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(one.synchronize()))).is_err());
    // Poisoned, it can be updated, and be pushed aside, all the same.
    one.as_ref().queue(Op(Note(3)));
    other.as_ref().queue(Op(Note(9)));
    one.clear_poison();
    assert_eq!(one.synchronize().all, [1, 2, 3]);
    // A second panic behind a first one: everything that is left stays, in order.
    for note in [4, 255, 255, 5] {
        one.as_ref().queue(Op(Note(note)));
    }
    other.as_ref().queue(Op(Note(9)));
    one.as_ref().queue(Op(Note(6)));
    one.clear_poison();
    let mut one = one;
    assert!(catch_unwind(AssertUnwindSafe(|| one.as_mut().state_mut().all.len())).is_err());
    one.clear_poison();
    assert_eq!(one.as_mut().state_mut().all, [1, 2, 3, 4, 5, 6]);
    // And nothing is left of one that goes away poisoned.
    one.as_ref().queue(Op(Note(255)));
    one.as_ref().queue(Op(Note(7)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(one.synchronize()))).is_err());
    drop(one);
    drop(other);
    let stats = panicking::cache().stats();
    assert_eq!((stats.pending, stats.lent), (0, 0));
}

fn with_grave() -> (Notes, Grave) {
    let grave = Grave::default();
    let notes = Notes {
        all: Vec::new(),
        grave: Some(grave.clone()),
    };
    (notes, grave)
}

#[test]
fn what_is_pending_when_an_object_goes_away() {
    let (notes, grave) = with_grave();
    let object = dropped::Object::boxed(notes);
    object.as_ref().queue(dropped::Op(Note(1)));
    drop(object);
    assert_eq!(grave.lock().expect("nothing panics").take(), Some(vec![1]));
    assert_eq!(dropped::cache().stats().lent, 0);

    let (notes, grave) = with_grave();
    let object = discarded::Object::boxed(notes);
    object.as_ref().queue(discarded::Op(Note(1)));
    drop(object);
    assert_eq!(grave.lock().expect("nothing panics").take(), Some(vec![]));
    let stats = discarded::cache().stats();
    assert_eq!((stats.lent, stats.pending), (0, 0));
}

#[test]
fn an_object_whose_guard_was_forgotten_can_go_away() {
    let (notes, grave) = with_grave();
    let object = leaked::Object::boxed(notes);
    mem::forget(object.synchronize());
    object.as_ref().queue(leaked::Op(Note(1)));
    let other = leaked::Object::boxed(Notes::default());
    other.as_ref().queue(leaked::Op(Note(2)));
    thread::spawn(move || drop(object))
        .join()
        .expect("no panic");
    assert_eq!(grave.lock().expect("nothing panics").take(), Some(vec![1]));
    assert_eq!(other.synchronize().all, [2]);
}

/// An operation that queues to the next object of a chain, which has the same place.
struct Pass(usize);

type Link = Lent<Vec<usize>, Pass>;

static CHAIN: OnceLock<Vec<Pin<Box<Link>>>> = OnceLock::new();

impl Operation<Vec<usize>> for Pass {
    fn exec(self, state: &mut Vec<usize>) {
        state.push(self.0);
        if let Some(next) = CHAIN.get().and_then(|chain| chain.get(self.0 + 1)) {
            next.as_ref().queue(Self(self.0 + 1));
            // And to itself: after this merge.
            let chain = CHAIN.get().expect("there is one");
            if state.len() == 1 {
                chain[self.0].as_ref().queue(Self(self.0));
            }
        }
    }
}

percolog::log_cache!(Vec<usize>, Pass, crate::lent::kinds::deferring().places(1));

#[test]
fn operations_that_are_executed_may_push_others_out() {
    let chain = CHAIN.get_or_init(|| (0..200).map(|_| Lent::boxed(Vec::new())).collect());
    for (at, object) in chain.iter().enumerate() {
        object.as_ref().queue(Pass(at));
    }
    // What is executed queues again; in the end nothing does.
    while <Pass as Cached<Vec<usize>>>::cache().stats().pending != 0 {
        chain.iter().for_each(|object| drop(object.synchronize()));
    }
    for (at, object) in chain.iter().enumerate() {
        let state = object.synchronize();
        assert!(state.len() >= 2 || at + 1 == chain.len(), "object {at}");
        assert!(state.iter().all(|number| *number == at));
    }
}

/// Operations whose destructor uses another object of the same cache.
struct Nosy(Option<Arc<Watched>>);

type Watched = Pin<Box<Lent<u8, Nosy>>>;

impl Operation<u8> for Nosy {
    fn exec(self, state: &mut u8) {
        *state += 1;
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        if let Some(other) = self.0.take() {
            (*other).as_ref().queue(Self(None));
        }
    }
}

// SAFETY: a static.
unsafe impl Cached<u8> for Nosy {
    fn cache() -> &'static LogCache<u8, Self> {
        static CACHE: LogCache<u8, Nosy> = percolog::oplog::LogCacheBuilder::new()
            .places(1)
            .objects(
                percolog::oplog::LoggedBuilder::new()
                    .mode(percolog::oplog::Mode::Deferring)
                    .on_drop(percolog::oplog::OnDrop::Discard),
            )
            .build();
        &CACHE
    }
}

#[test]
fn what_is_dropped_may_come_back() {
    let other = Arc::new(Lent::<u8, Nosy>::boxed(0));
    let object = Lent::<u8, Nosy>::boxed(0);
    object.as_ref().queue(Nosy(Some(other.clone())));
    // Dropped without being executed, with no lock held.
    drop(object);
    assert_eq!(*other.synchronize(), 1);
    let object = Lent::<u8, Nosy>::boxed(0);
    object.as_ref().queue(Nosy(Some(other.clone())));
    assert_eq!(*object.synchronize(), 1);
    assert_eq!(*other.synchronize(), 2);
}

kind!(left_twice, Native, deferring().places(1));

/// What a panic leaves of the first of two parts stays the first.
#[test]
fn what_is_left_twice_stays_in_order() {
    use left_twice::{Object, Op};
    let mut one = Object::boxed(Notes::default());
    for note in [1, 255, 2, 255, 3, 255, 10] {
        one.as_ref().queue(Op(Note(note)));
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(one.synchronize()))).is_err());
    one.as_ref().queue(Op(Note(4)));
    one.clear_poison();
    // Two parts: what was left, and what was queued since.
    assert!(catch_unwind(AssertUnwindSafe(|| one.as_mut().state_mut().all.len())).is_err());
    one.as_ref().queue(Op(Note(5)));
    one.clear_poison();
    // 3, 255 and 10; 4; and 5 in its log.
    assert_eq!(one.pending(), 5);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(one.synchronize()))).is_err());
    one.clear_poison();
    assert_eq!(one.pending(), 3);
    // Some of the first part is executed, and what is left of it is the first still.
    let drained = one.drain(0);
    assert_eq!((drained.executed, drained.finished), (0, false));
    assert_eq!(one.synchronize().all, [1, 2, 3, 10, 4, 5]);
    assert_eq!(one.pending(), 0);
    for note in [6, 7, 255, 8] {
        one.as_ref().queue(Op(Note(note)));
    }
    assert!(!one.drain(1).finished);
    one.as_ref().queue(Op(Note(9)));
    let drained = one.drain(9);
    assert_eq!((drained.executed, drained.finished), (0, false));
    assert!(one.is_poisoned());
    assert_eq!(one.drain(9).executed, 0);
    one.clear_poison();
    assert!(one.drain(9).finished);
    assert_eq!(one.synchronize().all, [1, 2, 3, 10, 4, 5, 6, 7, 8, 9]);
}

kind!(timed, Native, deferring().places(4));

#[test]
fn a_timer_drains_what_is_pinned() {
    use timed::{Object, Op};
    let one = Arc::new(Object::boxed(Notes::default()));
    let every = std::time::Duration::from_millis(1);
    let timer = percolog::oplog::DrainThread::every(every).expect("there are threads");
    timer.add(&one);
    (*one).as_ref().queue(Op(Note(1)));
    // However long that takes.
    while one.pending() != 0 {
        thread::yield_now();
    }
    drop(timer);
    assert_eq!(one.synchronize().all, [1]);
    let stats = timed::cache().stats();
    assert_eq!((stats.merges, stats.executed), (1, 1));
}

#[cfg(percolog_origin)]
kind!(blamed, Native, deferring().places(1));

#[test]
#[cfg(percolog_origin)]
fn the_place_where_it_was_queued_is_named() {
    use blamed::{Object, Op};
    let one = Object::boxed(Notes::default());
    one.as_ref().queue(Op(Note(1)));
    let line = line!() + 1;
    one.as_ref().queue(Op(Note(255)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(one.synchronize()))).is_err());
    let panic = catch_unwind(AssertUnwindSafe(|| drop(one.synchronize())));
    let panic = panic.expect_err("it is poisoned");
    let text = panic.downcast_ref::<String>().expect("a formatted text");
    let place = format!("{}:{line}", file!());
    assert!(text.contains(&place), "{text} does not name {place}");
}
