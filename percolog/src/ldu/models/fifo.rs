//! The queue with stamps.

use crate::engine::models::{Scripted, bind, explore, join};
use crate::ldu::{Entry, Fifo, Stamped};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

type Subject = Fifo<u8, Scripted>;

fn subject() -> Arc<Subject> {
    Arc::new(Fifo::with_limit_in(usize::MAX, Scripted::default()))
}

fn entries() -> [Entry<Stamped<u8>>; 2] {
    [1, 2].map(|item| Entry::new(Stamped::new(item)))
}

fn rest(subject: &Subject) -> Vec<u8> {
    core::iter::from_fn(|| subject.pop().map(|entry| **entry)).collect()
}

/// Two pushes, one after the other, on different slots, while somebody pops.
#[test]
fn what_was_pushed_first_comes_out_first() {
    explore(|| {
        let subject = subject();
        let pushes = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                let [first, second] = entries();
                bind(0, 0);
                subject.push(&first).unwrap();
                bind(1, 0);
                subject.push(&second).unwrap();
            }
        });
        let pops = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(2, 0);
                subject.pop().map(|entry| **entry)
            }
        });
        join(pushes);
        let mut seen: Vec<u8> = join(pops).into_iter().collect();
        seen.extend(rest(&subject));
        assert_eq!(seen, [1, 2]);
    });
}

/// An entry that is in the log is pushed again, behind another one, while somebody pops: whoever comes out
/// first, it is not the one that was pushed last.
#[test]
fn pushed_again_in_place() {
    explore(|| {
        bind(0, 0);
        let subject = subject();
        let [first, second] = entries();
        subject.push(&first).unwrap();
        let pushes = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(1, 0);
                subject.push(&second).unwrap();
                let removed = subject.remove(&first).is_ok();
                subject.push(&first).unwrap();
                removed
            }
        });
        let pops = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(2, 0);
                subject.pop().map(|entry| **entry)
            }
        });
        let removed = join(pushes);
        let popped = join(pops);
        let rest = rest(&subject);
        match (popped, removed) {
            (Some(1), false) | (Some(2), true) => {
                let expected = if removed { [1].as_slice() } else { &[2, 1] };
                assert_eq!(rest, expected);
            }
            other => panic!("popped, and removed: {other:?}; left: {rest:?}"),
        }
    });
}

/// Of a thread that pops an entry and one that removes it, one has it; and who finds the queue empty was
/// right at some instant.
#[test]
fn popped_or_removed() {
    explore(|| {
        bind(0, 0);
        let subject = subject();
        let [entry, _] = entries();
        subject.push(&entry).unwrap();
        let removes = thread::spawn({
            let (subject, entry) = (Arc::clone(&subject), entry.clone());
            move || {
                bind(0, 0);
                subject.remove(&entry).is_ok()
            }
        });
        let pops = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(1, 0);
                subject.pop().is_some()
            }
        });
        assert_ne!(join(removes), join(pops));
        assert!(subject.pop().is_none());
    });
}
