//! Random programs on one thread, moved between slots, against a plain set: the same answers, the same end.

use crate::common::machine::{Machine, stand_on};
use crate::common::share::share;
use crate::set::keys::Colliding;
use percolog::collections::Set;
use percolog::collections::SetState;
use percolog::oplog::{FullReason, LoggedBuilder, Mode, Policy};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashSet};

/// Two share a dirty mark.
const SLOTS: [u32; 4] = [0, 1, 64, 1024];

#[derive(Clone, Debug)]
enum Step {
    Insert(u8),
    Remove(u8),
    TryInsert(u8),
    TryRemove(u8),
    Extend(Vec<u8>),
    InsertNow(u8),
    RemoveNow(u8),
    Contains(u8),
    Len,
    Read,
    ChangeThroughAGuard(u8),
    Drain(usize),
    GetMut,
    MoveTo(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..8_u8;
    prop_oneof![
        6 => key().prop_map(Step::Insert),
        6 => key().prop_map(Step::Remove),
        2 => key().prop_map(Step::TryInsert),
        2 => key().prop_map(Step::TryRemove),
        1 => prop::collection::vec(key(), 0..30).prop_map(Step::Extend),
        1 => key().prop_map(Step::InsertNow),
        1 => key().prop_map(Step::RemoveNow),
        1 => key().prop_map(Step::Contains),
        1 => Just(Step::Len),
        1 => Just(Step::Read),
        1 => key().prop_map(Step::ChangeThroughAGuard),
        1 => (0..5_usize).prop_map(Step::Drain),
        1 => Just(Step::GetMut),
        6 => (0..SLOTS.len()).prop_map(Step::MoveTo),
    ]
}

/// Limits so small that many changes merge or are refused.
fn builder() -> impl Strategy<Value = LoggedBuilder> {
    (
        1..=6_usize,
        0..3_usize,
        prop::sample::select(vec![Policy::Merge, Policy::Grow]),
        any::<bool>(),
    )
        .prop_map(|(limit, more, policy, absorb)| {
            LoggedBuilder::new()
                .limit(limit)
                .hard_limit(limit + more)
                .policy(policy)
                .absorb_while_merging(absorb)
                .mode([Mode::Deferring, Mode::Restless][more % 2])
        })
}

type Model = BTreeSet<Colliding>;

fn behaves<S>(builder: LoggedBuilder, program: &[Step])
where
    S: SetState<Colliding> + Default + Clone + Sync + IntoIterator<Item = Colliding>,
{
    let mut set: Set<Colliding, S, Machine> =
        Set::build_in(builder, S::default(), Machine::exact(&SLOTS));
    let mut model = Model::new();
    stand_on(SLOTS[0]);
    for step in program {
        match step {
            Step::Insert(key) => {
                set.insert(Colliding(*key));
                model.insert(Colliding(*key));
            }
            Step::Remove(key) => {
                set.remove(Colliding(*key));
                model.remove(&Colliding(*key));
            }
            Step::TryInsert(key) => match set.try_insert(Colliding(*key)) {
                Ok(()) => _ = model.insert(Colliding(*key)),
                Err(full) => {
                    assert_eq!(
                        (full.operation, full.reason),
                        (Colliding(*key), FullReason::Limit)
                    );
                }
            },
            Step::TryRemove(key) => match set.try_remove(Colliding(*key)) {
                Ok(()) => _ = model.remove(&Colliding(*key)),
                Err(full) => {
                    assert_eq!(
                        (full.operation, full.reason),
                        (Colliding(*key), FullReason::Limit)
                    );
                }
            },
            Step::Extend(keys) => {
                set.extend(keys.iter().copied().map(Colliding));
                model.extend(keys.iter().copied().map(Colliding));
            }
            Step::InsertNow(key) => {
                assert_eq!(
                    set.insert_now(Colliding(*key)),
                    model.insert(Colliding(*key))
                );
            }
            Step::RemoveNow(key) => {
                assert_eq!(
                    set.remove_now(&Colliding(*key)),
                    model.remove(&Colliding(*key))
                );
            }
            Step::Contains(key) => {
                assert_eq!(
                    set.contains(&Colliding(*key)),
                    model.contains(&Colliding(*key))
                );
            }
            Step::Len => {
                assert_eq!(set.len(), model.len());
                assert_eq!(set.is_empty(), model.is_empty());
            }
            Step::Read => {
                assert_eq!(set.read().clone().into_iter().collect::<Model>(), model);
                let guard = set.try_read().expect("nobody else is there");
                assert_eq!(guard.len(), model.len());
            }
            Step::ChangeThroughAGuard(key) => {
                let mut guard = set.try_synchronize().expect("nobody else is there");
                // What is queued meanwhile takes effect afterwards.
                set.remove(Colliding(*key + 1));
                assert_eq!(guard.insert(Colliding(*key)), model.insert(Colliding(*key)));
                drop(guard);
                model.remove(&Colliding(*key + 1));
            }
            Step::Drain(budget) => assert!(set.drain(*budget).executed <= *budget),
            Step::GetMut => {
                assert_eq!(set.get_mut().clone().into_iter().collect::<Model>(), model);
            }
            Step::MoveTo(slot) => stand_on(SLOTS[*slot]),
        }
        assert_eq!(set.stats().clock_violations, 0);
    }
    assert_eq!(set.into_inner().into_iter().collect::<Model>(), model);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: share(200) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_ordered_set_does_what_a_plain_one_does(
        builder in builder(),
        program in prop::collection::vec(step(), 0..80),
    ) {
        behaves::<BTreeSet<Colliding>>(builder, &program);
    }

    #[test]
    fn a_hashed_set_does_what_a_plain_one_does(
        builder in builder(),
        program in prop::collection::vec(step(), 0..80),
    ) {
        behaves::<HashSet<Colliding>>(builder, &program);
    }
}
