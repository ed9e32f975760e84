//! The same updates on a plain structure.

use crate::common::machine::{Machine, stand_on};
use crate::common::share::share;
use percolog::ldu::{Deferred, DeferredBuilder, Entry, Fifo, Sorted, Stamped, Variant};
use percolog::oplog::Policy;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const ENTRIES: usize = 6;
const CONTAINERS: usize = 2;

#[derive(Debug, Clone)]
enum Step {
    Insert(usize, usize),
    Remove(usize, usize),
    Look(usize),
    Drain(usize, usize),
    Pop(usize),
    Stand(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let (at, entry) = (0..CONTAINERS, 0..ENTRIES);
    prop_oneof![
        6 => (at.clone(), entry.clone()).prop_map(|(at, entry)| Step::Insert(at, entry)),
        6 => (at.clone(), entry).prop_map(|(at, entry)| Step::Remove(at, entry)),
        1 => at.clone().prop_map(Step::Look),
        1 => (at.clone(), 0..3usize).prop_map(|(at, budget)| Step::Drain(at, budget)),
        1 => at.prop_map(Step::Pop),
        2 => (0..4u32).prop_map(Step::Stand),
    ]
}

fn configuration() -> ProptestConfig {
    ProptestConfig::with_cases(share(400) as u32)
}

proptest! {
    #![proptest_config(configuration())]

    #[test]
    fn sorted_containers_do_as_sets(
        steps in prop::collection::vec(step(), 0..60),
        global in any::<bool>(),
        limit in 1..6usize,
        grow in any::<bool>(),
    ) {
        let machine = Machine::exact(&[0, 1, 2, 3]);
        let builder = DeferredBuilder::new()
            .variant(if global { Variant::Global } else { Variant::PerCore })
            .limit(limit)
            .policy(if grow { Policy::Grow } else { Policy::Merge });
        let deferred: [Deferred<Sorted<usize>, Machine>; CONTAINERS] =
            std::array::from_fn(|_| builder.build_in(Sorted::new(), machine.clone()));
        let entries: Vec<_> = (0..ENTRIES).map(Entry::new).collect();
        let mut model: [BTreeSet<usize>; CONTAINERS] = Default::default();
        for step in steps {
            match step {
                Step::Insert(at, entry) => {
                    let is_linked = model.iter().any(|set| set.contains(&entry));
                    let outcome = deferred[at].insert(&entries[entry]);
                    // With two containers there are never two others to be removed from.
                    prop_assert_eq!(outcome.is_ok(), !is_linked);
                    if !is_linked {
                        model[at].insert(entry);
                    }
                }
                Step::Remove(at, entry) => {
                    let outcome = deferred[at].remove(&entries[entry]);
                    prop_assert_eq!(outcome.is_ok(), model[at].remove(&entry));
                }
                Step::Look(at) => {
                    let guard = deferred[at].synchronize();
                    prop_assert!(guard.iter().eq(&model[at]));
                }
                Step::Drain(at, budget) => {
                    prop_assert!(deferred[at].drain(budget).executed <= budget);
                }
                Step::Pop(at) => {
                    let popped = deferred[at].synchronize().pop_first();
                    prop_assert_eq!(popped.map(|entry| *entry), model[at].pop_first());
                }
                Step::Stand(slot) => stand_on(slot),
            }
            for (entry, set) in (0..ENTRIES).flat_map(|entry| model.iter().map(move |set| (entry, set))) {
                let at = model.iter().position(|other| std::ptr::eq(other, set)).unwrap();
                prop_assert_eq!(deferred[at].contains(&entries[entry]), set.contains(&entry));
            }
        }
        for (deferred, model) in deferred.into_iter().zip(&model) {
            prop_assert!(deferred.into_inner().iter().eq(model));
        }
        for entry in entries {
            prop_assert!(!entry.is_linked());
            prop_assert!(entry.try_unwrap().is_ok());
        }
    }

    #[test]
    fn a_fifo_does_as_a_queue(
        steps in prop::collection::vec(step(), 0..60),
        limit in 1..6usize,
    ) {
        let fifo = Fifo::with_limit_in(limit, Machine::exact(&[0, 1, 2, 3]));
        let entries: Vec<_> = (0..ENTRIES).map(|at| Entry::new(Stamped::new(at))).collect();
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                Step::Insert(_, entry) => {
                    let outcome = fifo.push(&entries[entry]);
                    prop_assert_eq!(outcome.is_ok(), !model.contains(&entry));
                    if outcome.is_ok() {
                        model.push_back(entry);
                    }
                }
                Step::Remove(_, entry) => {
                    let place = model.iter().position(|other| *other == entry);
                    prop_assert_eq!(fifo.remove(&entries[entry]).is_ok(), place.is_some());
                    place.map(|place| model.remove(place));
                }
                Step::Drain(_, budget) => {
                    fifo.drain(budget);
                }
                Step::Look(_) | Step::Pop(_) => {
                    let popped = fifo.pop().map(|entry| **entry);
                    prop_assert_eq!(popped, model.pop_front());
                }
                Step::Stand(slot) => stand_on(slot),
            }
        }
        let mut guard = fifo.synchronize();
        let left: Vec<_> = std::iter::from_fn(|| guard.pop().map(|entry| **entry)).collect();
        prop_assert_eq!(left, Vec::from(model));
    }
}
