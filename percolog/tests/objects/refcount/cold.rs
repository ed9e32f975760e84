//! Values that are counted as those of an `Arc` are until they are contended, and those that became hot.

use super::{Watched, until};
use crate::common::eventually::eventually;
use crate::common::share::share;
use percolog::cpu::{self, CoreId};
use percolog::refcount::{self, CoreArc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn the_last_drop_destroys_what_is_cold() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let first = CoreArc::new(Watched::new(1, &dropped));
    let (second, weak) = (first.clone(), CoreArc::downgrade(&first));
    drop(first);
    second.check();
    drop(weak.upgrade().expect("there is one"));
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    drop(second);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    assert!(weak.upgrade().is_none());
}

/// Cold references of what is hot by now, hot ones of it, and what is cold again: the last of all of them is what counts.
#[test]
fn cold_and_hot_references_of_one_value() {
    for last_is_hot in [false, true] {
        let dropped: Arc<AtomicUsize> = Arc::default();
        let cold = CoreArc::new(Watched::new(1, &dropped));
        let hot = CoreArc::into_hot(cold.clone());
        let (other, weak) = (cold.clone(), CoreArc::downgrade(&hot));
        assert!(CoreArc::ptr_eq(&cold, &hot) && weak.ptr_eq(&CoreArc::downgrade(&cold)));
        assert_eq!((CoreArc::count(&cold), CoreArc::weak_count(&hot)), (3, 1));
        let again = weak.upgrade().expect("there are some");
        drop(other);
        let (first, last) = if last_is_hot {
            (cold, hot)
        } else {
            (hot, cold)
        };
        drop((first, again));
        refcount::reclaim();
        last.check();
        assert_eq!(CoreArc::count(&last), 1);
        drop(last);
        until(&dropped, 1);
        assert!(weak.upgrade().is_none());
    }
}

/// What is hot is unwrapped and changed as exactly as what is cold, and is cold after it.
#[test]
fn the_only_reference_of_a_hot_value() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let mut only = CoreArc::into_hot(CoreArc::new(Watched::new(1, &dropped)));
    let (other, weak) = (only.clone(), CoreArc::downgrade(&only));
    assert!(CoreArc::get_mut(&mut only).is_none());
    drop(other);
    assert!(CoreArc::get_mut(&mut only).is_none(), "there is a weak one");
    drop(weak);
    CoreArc::get_mut(&mut only)
        .expect("there is no other")
        .number = 2;
    let again = CoreArc::into_hot(only);
    let second = again.clone();
    let again = CoreArc::try_unwrap(again)
        .map(|_| ())
        .expect_err("there is another one");
    drop(second);
    let value = CoreArc::try_unwrap(again).ok().expect("there is no other");
    assert_eq!((value.number, dropped.load(Ordering::Relaxed)), (2, 0));
}

/// Clones that come from two cores in turn, quickly one after the other, make it hot: else the last drop would destroy it.
#[test]
#[cfg_attr(miri, ignore = "its clock is slower than that")]
fn contention_makes_it_hot() {
    let is_hot = || {
        let dropped: Arc<AtomicUsize> = Arc::default();
        let value = CoreArc::new(Watched::new(1, &dropped));
        for turn in 0..100 {
            cpu::bind(CoreId::new(turn % 2));
            (0..64).for_each(|_| drop(value.clone()));
        }
        drop(value);
        let is_hot = dropped.load(Ordering::Relaxed) == 0;
        until(&dropped, 1);
        is_hot
    };
    // Unless the thread is interrupted in each of them, or another test makes a round just then.
    let noticed = (0..10_000).any(|_| is_hot());
    cpu::unbind();
    assert!(noticed);
}

/// One thread never does, however often it clones.
#[test]
fn one_thread_leaves_it_cold() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let value = CoreArc::new(Watched::new(1, &dropped));
    (0..share(200_000)).for_each(|_| drop(value.clone()));
    drop(value);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

/// Values that a round leaves alone, since there are cold references; those are the last ones, and nobody reclaims.
#[test]
fn the_last_ones_are_cold() {
    /// As many are dropped by then that one of the drops looks.
    const UNTIL_FOUND: usize = 64;
    let dropped: Arc<AtomicUsize> = Arc::default();
    let values: Vec<_> = (0..1000)
        .map(|number| CoreArc::new(Watched::new(number, &dropped)))
        .collect();
    for value in &values {
        drop(CoreArc::into_hot(value.clone()));
    }
    refcount::reclaim();
    values.iter().for_each(|value| value.check());
    let made = values.len();
    drop(values);
    // The round of another test may have taken some, and destroys them.
    assert!(eventually(
        || dropped.load(Ordering::Acquire) + UNTIL_FOUND >= made
    ));
    until(&dropped, made);
}
