//! Random calls against a map.

use crate::common::alive::{Alive, Value};
use percolog::namespace::{Extent, Id, InsertReason, NamespaceBuilder};
use percolog::reclaim::Domain;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Call {
    Insert,
    InsertExtent(u32),
    /// Which of those that there are.
    Remove(usize),
    /// Which of those that were there.
    RemoveAgain(usize),
    /// Which extent, and which part.
    RemovePart(usize, u32, u32),
    Collect,
    Iterate,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => Just(Call::Insert),
        2 => (1u32..80).prop_map(Call::InsertExtent),
        4 => any::<usize>().prop_map(Call::Remove),
        1 => any::<usize>().prop_map(Call::RemoveAgain),
        2 => (any::<usize>(), 0u32..80, 1u32..80)
            .prop_map(|(which, start, count)| Call::RemovePart(which, start, count)),
        1 => Just(Call::Collect),
        1 => Just(Call::Iterate),
    ]
}

/// Whether an aligned block of this length is free below the limit.
fn is_there_room(model: &BTreeMap<u32, (Id<Value>, u64)>, limit: u32, length: u32) -> bool {
    (0..=limit.saturating_sub(length))
        .step_by(length as usize)
        .any(|base| base + length <= limit && model.range(base..base + length).next().is_none())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_does_what_a_map_does(
        limit in 1u32..400,
        calls in prop::collection::vec(call(), 1..120),
    ) {
        let (domain, alive) = (Domain::new(), Alive::default());
        let names = NamespaceBuilder::new().max_ids(limit).build(&domain);
        let mut model = BTreeMap::new();
        let mut gone: Vec<Id<Value>> = Vec::new();
        let mut extents: Vec<Extent<Value>> = Vec::new();
        let mut next = 0u64;
        for call in calls {
            match call {
                Call::Insert => match names.insert(alive.value(next)) {
                    Ok(id) => {
                        prop_assert!(id.index() < limit);
                        prop_assert_eq!(Id::from_bits(id.to_bits()), Some(id));
                        prop_assert!(!gone.contains(&id), "an id of another value");
                        prop_assert!(model.insert(id.index(), (id, next)).is_none());
                        next += 1;
                    }
                    Err(refused) => {
                        prop_assert_eq!(refused.value.number(), next);
                        prop_assert_eq!(model.len(), limit as usize, "nothing is lost: {:?}", refused);
                        let expected = InsertReason::NoIds { limit, in_use: u64::from(limit), waiting: 0 };
                        prop_assert_eq!(refused.reason, expected);
                    }
                },
                Call::InsertExtent(count) => {
                    let length = count.next_power_of_two();
                    let room = is_there_room(&model, limit, length);
                    let inserted = names.insert_extent(count, |offset| alive.value(next + u64::from(offset)));
                    prop_assert_eq!(inserted.is_ok(), room, "{:?}", inserted);
                    let Ok(extent) = inserted else { continue };
                    prop_assert_eq!(extent.len(), count);
                    prop_assert_eq!(extent.first().index() % length, 0);
                    for (offset, id) in extent.ids().enumerate() {
                        prop_assert_eq!(id.index(), extent.first().index() + offset as u32);
                        prop_assert!(!gone.contains(&id), "an id of another value");
                        prop_assert!(model.insert(id.index(), (id, next)).is_none());
                        next += 1;
                    }
                    extents.push(extent);
                }
                Call::Remove(which) if !model.is_empty() => {
                    let (&index, &(id, number)) = model.iter().nth(which % model.len()).unwrap();
                    let removed = names.remove(id);
                    prop_assert_eq!(removed.map(|value| value.number()).ok(), Some(number));
                    model.remove(&index);
                    gone.push(id);
                }
                Call::RemoveAgain(which) if !gone.is_empty() => {
                    let id = gone[which % gone.len()];
                    prop_assert!(names.remove(id).is_err());
                }
                Call::RemovePart(which, start, count) if !extents.is_empty() => {
                    let extent = extents[which % extents.len()];
                    let part = extent.part(start..start + count);
                    prop_assert_eq!(part.is_some(), start + count <= extent.len());
                    let Some(part) = part else { continue };
                    let there: Vec<_> = part
                        .ids()
                        .filter(|id| model.get(&id.index()).is_some_and(|(other, _)| other == id))
                        .collect();
                    let removed = names.remove_extent(part);
                    prop_assert_eq!(removed.unwrap_or(0) as usize, there.len());
                    for id in there {
                        model.remove(&id.index());
                        gone.push(id);
                    }
                }
                Call::Collect => {
                    names.collect();
                    prop_assert_eq!(alive.count(), model.len(), "each is dropped, and once");
                }
                Call::Iterate => {
                    let section = domain.enter();
                    let found: Vec<_> = names.iter(&section).map(|(id, value)| (id, value.number())).collect();
                    let expected: Vec<_> = model.values().copied().collect();
                    prop_assert_eq!(found, expected);
                }
                _ => {}
            }
            prop_assert_eq!(names.len(), model.len());
            let section = domain.enter();
            let lookup = names.within(&section);
            for (id, number) in model.values() {
                prop_assert_eq!(lookup.get(*id).map(|value| value.number()), Ok(*number));
            }
            for id in &gone {
                prop_assert!(names.get(&section, *id).is_err(), "another's value");
            }
        }
        drop(names);
        prop_assert_eq!(alive.count(), 0);
    }
}
