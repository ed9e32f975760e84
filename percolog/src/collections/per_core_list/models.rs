//! Every interleaving of pushes, pops and thefts, within loom's bounds.
//!
//! What no model here can see: the allocator, and a thread that is moved between asking for its slot and using it, which uses the
//! slot that it was told, under that slot's lock.

use super::PerCoreList;
use crate::engine::models::{Scripted, bind, explore, join};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

type List = PerCoreList<u8, Scripted>;

fn list() -> Arc<List> {
    bind(0, 0);
    Arc::new(List::new_in(Scripted::default()))
}

fn on<R: 'static>(
    slot: u32,
    list: &Arc<List>,
    f: impl FnOnce(&List) -> R + 'static,
) -> thread::JoinHandle<R> {
    let list = list.clone();
    thread::spawn(move || {
        bind(slot, 0);
        f(&list)
    })
}

/// A list of one item, that is never empty: somebody pushes another one on another core, and only then pops the first.
fn never_empty(slots: [u32; 2], look: fn(&List)) {
    explore(move || {
        let list = list();
        bind(slots[1], 0);
        list.push(1);
        let mover = on(slots[0], &list, move |list| {
            list.push(2);
            bind(slots[1], 0);
            assert!(list.pop_own().is_some());
        });
        let looker = on(3, &list, look);
        join(mover);
        join(looker);
    });
}

#[test]
fn an_empty_answer_is_true() {
    for slots in [[0, 1], [1, 0]] {
        never_empty(slots, |list| assert!(!list.is_empty()));
        never_empty(slots, |list| assert_ne!(list.len(), 0));
    }
}

#[test]
fn a_thief_finds_what_is_always_there() {
    for slots in [[0, 1], [1, 0]] {
        explore(move || {
            let list = list();
            bind(slots[1], 0);
            list.push(1);
            let mover = on(slots[0], &list, move |list| {
                list.push(2);
                bind(slots[1], 0);
                list.pop_own()
            });
            let thief = on(3, &list, |list| list.pop());
            // The mover finds nothing where the thief was before, who finds something in any case.
            let moved = join(mover);
            let stolen = join(thief);
            assert!(stolen.is_some());
            let mut popped: Vec<u8> = moved.into_iter().chain(stolen).collect();
            popped.extend(list.take_all());
            popped.sort_unstable();
            assert_eq!(popped, [1, 2]);
        });
    }
}

#[test]
fn nothing_is_lost_and_nothing_handed_out_twice() {
    explore(|| {
        let list = list();
        let first = on(0, &list, |list| {
            list.push(1);
            list.pop_newest()
        });
        let second = on(1, &list, |list| {
            list.push(2);
            list.pop()
        });
        let mut all: Vec<u8> = [join(first), join(second)].into_iter().flatten().collect();
        assert_eq!(all.len(), 2);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert!(list.is_empty());
    });
}

/// The second without the first was never there. One core's list has been touched before, the other one's first item comes meanwhile.
#[test]
fn all_are_taken_at_one_moment() {
    for slots in [[0, 1], [1, 0]] {
        explore(move || {
            let list = list();
            bind(1, 0);
            list.push(0);
            assert_eq!(list.pop_own(), Some(0));
            let pusher = on(slots[0], &list, move |list| {
                list.push(1);
                bind(slots[1], 0);
                list.push(2);
            });
            let taker = on(2, &list, |list| list.take_all());
            join(pusher);
            let mut all = join(taker);
            assert!(!all.contains(&2) || all.contains(&1), "{all:?}");
            all.extend(list.take_all());
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
            assert_eq!(list.estimate_len(), 0);
        });
    }
}
