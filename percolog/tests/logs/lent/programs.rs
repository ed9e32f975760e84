//! Random programs on one thread against plain vectors: many objects, few places, few logs, small limits.

use crate::common::machine::stand_on;
use crate::common::share::share;
use crate::lent::kinds::{Grave, Moved, Note, Notes, kind};
use percolog::oplog::{Cached, Lent, Operation, Synchronized};
use proptest::prelude::*;
use std::mem;
use std::pin::Pin;

kind!(one_place, Moved, deferring().places(1));
kind!(two_places, Moved, deferring().places(2).logs(1));
kind!(adaptive, Moved, LogCacheBuilder::new().places(2).logs(1));
kind!(
    few_logs,
    Moved,
    LogCacheBuilder::new().places(64).logs(2).objects(
        LoggedBuilder::new()
            .mode(percolog::oplog::Mode::Deferring)
            .limit(3)
            .hard_limit(5)
    )
);
kind!(
    growing,
    Moved,
    LogCacheBuilder::new().places(4).logs(3).objects(
        LoggedBuilder::new()
            .mode(percolog::oplog::Mode::Deferring)
            .policy(Policy::Grow)
    )
);
kind!(
    eager,
    Moved,
    LogCacheBuilder::new().places(2).logs(2).objects(
        LoggedBuilder::new()
            .mode(percolog::oplog::Mode::Eager)
            .limit(3)
            .hard_limit(5)
    )
);
kind!(
    restless,
    Moved,
    LogCacheBuilder::new().places(4).logs(3).objects(
        LoggedBuilder::new()
            .mode(percolog::oplog::Mode::Restless)
            .limit(3)
            .hard_limit(5)
    )
);

const OBJECTS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    Queue(usize, u8),
    TryQueue(usize, u8),
    /// So many of them.
    Extend(usize, u8, usize),
    Drain(usize, usize),
    MoveTo(u32),
    Synchronize(usize),
    Read(usize),
    StateMut(usize),
    /// Keeps a guard, until it is let go.
    Hold(usize),
    LetGo,
    /// Drops the object and makes another one.
    Renew(usize),
    Unwrap(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0..OBJECTS;
    prop_oneof![
        12 => (object.clone(), 0..200_u8).prop_map(|(at, note)| Step::Queue(at, note)),
        2 => (object.clone(), 0..200_u8).prop_map(|(at, note)| Step::TryQueue(at, note)),
        2 => (object.clone(), 0..200_u8, 0..40_usize)
            .prop_map(|(at, note, count)| Step::Extend(at, note, count)),
        2 => (object.clone(), 0..20_usize).prop_map(|(at, budget)| Step::Drain(at, budget)),
        4 => (0..3_u32).prop_map(Step::MoveTo),
        2 => object.clone().prop_map(Step::Synchronize),
        1 => object.clone().prop_map(Step::Read),
        1 => object.clone().prop_map(Step::StateMut),
        2 => object.clone().prop_map(Step::Hold),
        2 => Just(Step::LetGo),
        1 => object.clone().prop_map(Step::Renew),
        1 => object.prop_map(Step::Unwrap),
    ]
}

type Object<O> = Pin<Box<Lent<Notes, O, Moved>>>;

fn object<O: Operation<Notes> + Cached<Notes, Moved>>() -> (Object<O>, Grave, Vec<u8>) {
    let grave = Grave::default();
    let notes = Notes {
        all: Vec::new(),
        grave: Some(grave.clone()),
    };
    (Lent::boxed(notes), grave, Vec::new())
}

/// Carries the program out; `make` makes an operation of a note.
fn carry_out<O: Operation<Notes> + Cached<Notes, Moved>>(
    steps: &[Step],
    make: impl Fn(Note) -> O,
) -> Result<(), TestCaseError> {
    let all: Vec<_> = (0..OBJECTS).map(|_| object::<O>()).collect();
    let (mut objects, mut graves, mut models) = (Vec::new(), Vec::new(), Vec::new());
    for (object, grave, model) in all {
        objects.push(object);
        graves.push(grave);
        models.push(model);
    }
    // Of an object that is not used otherwise while the guard is there.
    let mut held: Option<(usize, Synchronized<'static, Notes>)> = None;
    for step in steps {
        let busy = held.as_ref().map(|(at, _)| *at);
        match *step {
            // At the hard limit an object that is held would make it panic.
            Step::Queue(at, note) if busy != Some(at) => {
                objects[at].as_ref().queue(make(Note(note)));
                models[at].push(note);
            }
            Step::Queue(at, note) | Step::TryQueue(at, note) => {
                let queued = objects[at].as_ref().try_queue(make(Note(note)));
                models[at].extend(queued.is_ok().then_some(note));
            }
            Step::Extend(at, note, count) if busy != Some(at) => {
                let notes = (0..count).map(|_| make(Note(note)));
                objects[at].as_ref().extend(notes);
                models[at].extend(std::iter::repeat_n(note, count));
            }
            Step::Drain(at, budget) => {
                let before = objects[at].pending();
                let drained = objects[at].drain(budget);
                let after = objects[at].pending();
                prop_assert_eq!(before - drained.executed, after);
                prop_assert_eq!(drained.finished, busy != Some(at) && after == 0);
                let most = if busy == Some(at) { 0 } else { budget };
                prop_assert!(drained.executed == before.min(most));
            }
            Step::MoveTo(slot) => stand_on(slot),
            Step::Synchronize(at) if busy == Some(at) => {
                prop_assert!(objects[at].try_synchronize().is_err());
            }
            Step::Synchronize(at) => prop_assert_eq!(&objects[at].synchronize().all, &models[at]),
            Step::Read(at) if busy == Some(at) => prop_assert!(objects[at].try_read().is_err()),
            Step::Read(at) => prop_assert_eq!(&objects[at].read().all, &models[at]),
            Step::Hold(at) => {
                drop(held.take());
                let guard = objects[at].synchronize();
                prop_assert_eq!(&guard.all, &models[at]);
                // SAFETY: what is in the box stays until it is dropped, and the guard is dropped before that.
                let guard = unsafe {
                    mem::transmute::<Synchronized<'_, Notes>, Synchronized<'static, Notes>>(guard)
                };
                held = Some((at, guard));
            }
            Step::LetGo => held = None,
            Step::StateMut(at) if busy != Some(at) => {
                prop_assert_eq!(&objects[at].as_mut().state_mut().all, &models[at]);
            }
            Step::Renew(at) if busy != Some(at) => {
                let (other, grave, model) = object::<O>();
                drop(mem::replace(&mut objects[at], other));
                let grave = mem::replace(&mut graves[at], grave);
                let left = grave.lock().expect("nothing panics").take();
                prop_assert_eq!(left, Some(mem::replace(&mut models[at], model)));
            }
            Step::Unwrap(at) if busy != Some(at) => {
                let (other, grave, model) = object::<O>();
                let notes = mem::replace(&mut objects[at], other).into_inner();
                prop_assert_eq!(&notes.all, &mem::replace(&mut models[at], model));
                graves[at] = grave;
            }
            _ => {}
        }
    }
    drop(held);
    for (object, model) in objects.iter().zip(&models) {
        prop_assert_eq!(&object.read().all, model);
    }
    drop(objects);
    let stats = O::cache().stats();
    prop_assert_eq!((stats.lent, stats.pending, stats.aside), (0, 0, 0));
    Ok(())
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(share(200) as u32)
    }
}

/// A program for each kind.
macro_rules! programs {
    ($($test:ident: $kind:ident,)*) => {
        $(#[test]
        fn $test() {
            proptest!(cases(), |(steps in prop::collection::vec(step(), 1..200))| {
                carry_out(&steps, $kind::Op)?;
            });
        })*
    };
}

programs! {
    one_place_shows_what_vectors_would: one_place,
    one_log_shows_what_vectors_would: two_places,
    few_logs_and_small_limits_show_what_vectors_would: few_logs,
    logs_that_grow_show_what_vectors_would: growing,
    objects_that_adapt_show_what_vectors_would: adaptive,
    eager_objects_show_what_vectors_would: eager,
    objects_that_change_at_random_show_what_vectors_would: restless,
}
