//! The queue with stamps, step by step.

use crate::common::machine::{Machine, stand_on};
use percolog::ldu::{Entry, Fifo, Stamped, UpdateError};
use std::sync::{Arc, Mutex};

fn entry<T>(item: T) -> Entry<Stamped<T>> {
    Entry::new(Stamped::new(item))
}

fn popped<T: Copy + Send + Sync>(fifo: &Fifo<T, Machine>) -> Option<T> {
    fifo.pop().map(|entry| **entry)
}

#[test]
fn order_is_kept_across_slots() {
    let fifo = Fifo::new_in(Machine::exact(&[0, 1, 2, 3]));
    let entries: Vec<_> = (0..40u32).map(entry).collect();
    for (at, entry) in entries.iter().enumerate() {
        stand_on((at * 7 % 4) as u32);
        fifo.push(entry).unwrap();
    }
    assert_eq!(fifo.push(&entries[3]), Err(UpdateError::Present));
    for at in 0..40 {
        assert!(fifo.contains(&entries[at as usize]));
        assert_eq!(popped(&fifo), Some(at));
        assert!(!entries[at as usize].is_linked());
    }
    assert_eq!(popped(&fifo), None);
}

#[test]
fn who_leaves_and_comes_back_is_last() {
    for merged in [false, true] {
        let fifo = Fifo::new_in(Machine::exact(&[0, 1]));
        let [a, b, c] = ["a", "b", "c"].map(entry);
        for entry in [&a, &b, &c] {
            fifo.push(entry).unwrap();
        }
        if merged {
            fifo.drain(usize::MAX);
        }
        fifo.remove(&a).unwrap();
        stand_on(1);
        // In place: it is in the log already.
        fifo.push(&a).unwrap();
        stand_on(0);
        let order: Vec<_> = std::iter::from_fn(|| popped(&fifo)).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }
}

#[test]
fn what_is_removed_while_somebody_pops_is_passed_over() {
    let fifo = Fifo::new_in(Machine::exact(&[0]));
    let [a, b] = ["a", "b"].map(entry);
    fifo.push(&a).unwrap();
    fifo.push(&b).unwrap();
    let mut guard = fifo.synchronize();
    fifo.remove(&a).unwrap();
    assert_eq!(guard.pop().map(|entry| **entry), Some("b"));
    assert_eq!(fifo.remove(&b), Err(UpdateError::Absent));
    // A guard finds what came after it was made, when there is nothing before that.
    fifo.push(&a).unwrap();
    fifo.push(&b).unwrap();
    fifo.remove(&a).unwrap();
    fifo.push(&a).unwrap();
    assert_eq!(guard.pop().map(|entry| **entry), Some("b"));
    assert_eq!(guard.pop().map(|entry| **entry), Some("a"));
    assert!(guard.pop().is_none());
}

/// An item that does something when it is freed: in the middle of a merge.
struct Bomb(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Bomb {
    fn harmless() -> Entry<Stamped<Self>> {
        entry(Self(Mutex::new(None)))
    }

    fn new(f: impl FnOnce() + Send + 'static) -> Entry<Stamped<Self>> {
        entry(Self(Mutex::new(Some(Box::new(f)))))
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if let Some(f) = self.0.get_mut().unwrap().take() {
            f();
        }
    }
}

fn shared() -> Arc<Fifo<Bomb, Machine>> {
    Arc::new(Fifo::new_in(Machine::exact(&[0, 1])))
}

/// Has `f` done between the cut that finds what is in the log by then, and the look at what was in slot 0's
/// log before: that log's newest entry is freed when it is looked at.
fn in_the_next_merge(fifo: &Fifo<Bomb, Machine>, f: impl FnOnce() + Send + 'static) {
    stand_on(0);
    let bomb = Bomb::new(f);
    fifo.push(&bomb).unwrap();
    fifo.remove(&bomb).unwrap();
}

#[test]
fn put_off_behind_what_was_pushed_before() {
    let fifo = shared();
    let (x, y) = (Bomb::harmless(), Bomb::harmless());
    stand_on(0);
    fifo.push(&x).unwrap();
    let (first, second, queue) = (y.clone(), x.clone(), Arc::clone(&fifo));
    in_the_next_merge(&fifo, move || {
        // The cut is made. Y goes to a log; X is in the batch, and gets a stamp later than Y's.
        stand_on(1);
        queue.push(&first).unwrap();
        queue.remove(&second).unwrap();
        queue.push(&second).unwrap();
    });
    let mut guard = fifo.synchronize();
    assert!(guard.pop().unwrap().is_same(&y));
    assert!(guard.pop().unwrap().is_same(&x));
    assert!(guard.pop().is_none());
}

#[test]
fn never_empty_is_not_said_to_be() {
    let fifo = shared();
    let (x, y) = (Bomb::harmless(), Bomb::harmless());
    stand_on(0);
    let mut guard = fifo.synchronize();
    fifo.push(&x).unwrap();
    let (first, second, queue) = (y.clone(), x.clone(), Arc::clone(&fifo));
    in_the_next_merge(&fifo, move || {
        // X goes only after Y has come, so the queue is empty at no instant; yet the batch has only X.
        stand_on(1);
        queue.push(&first).unwrap();
        queue.remove(&second).unwrap();
    });
    assert!(guard.pop().unwrap().is_same(&y));
    assert!(guard.pop().is_none());
}

#[test]
fn a_place_by_a_former_push_is_given_up() {
    let fifo = Fifo::new_in(Machine::exact(&[0]));
    let [a, b] = ["a", "b"].map(entry);
    fifo.push(&a).unwrap();
    fifo.push(&b).unwrap();
    let mut guard = fifo.synchronize();
    // "a" has its place by the first push, and is behind "b" by the second.
    fifo.remove(&a).unwrap();
    fifo.push(&a).unwrap();
    assert_eq!(guard.pop().map(|entry| **entry), Some("b"));
    assert_eq!(guard.pop().map(|entry| **entry), Some("a"));
    drop(guard);
    assert!(fifo.pop().is_none());
}

#[test]
fn a_clock_that_is_ahead_is_found_out() {
    let machine = Machine::skewed(&[0, 1], 1, vec![0, 1000]);
    let fifo = Fifo::new_in(machine);
    let [a, b] = ["a", "b"].map(entry);
    stand_on(1);
    fifo.push(&a).unwrap();
    stand_on(0);
    assert_eq!(popped(&fifo), Some("a"));
    // All clocks have been repaired.
    stand_on(1);
    fifo.push(&b).unwrap();
    stand_on(0);
    fifo.push(&a).unwrap();
    assert_eq!(popped(&fifo), Some("b"));
    assert_eq!(popped(&fifo), Some("a"));
}
