//! Random calls against a map of `std`.

use crate::common::alive::{Alive, Value};
use crate::ordered::{Collided, Crowded, Hashed, List, Structure};
use percolog::collections::map::{AddReason, ChangeError};
use percolog::collections::{Map, OrderedList};
use percolog::reclaim::Domain;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

#[derive(Debug, Clone)]
enum Call {
    Add(u64),
    Put(u64),
    PutWith(u64),
    GetOrAdd(u64),
    Delete(u64),
    DeleteIf(u64, bool),
    Update(u64),
    Look(u64),
    Iterate,
    Clear,
    Collect,
}

fn call() -> impl Strategy<Value = Call> {
    let key = || 0u64..80;
    prop_oneof![
        16 => key().prop_map(Call::Add),
        2 => key().prop_map(Call::Put),
        2 => key().prop_map(Call::PutWith),
        4 => key().prop_map(Call::GetOrAdd),
        8 => key().prop_map(Call::Delete),
        4 => (key(), any::<bool>()).prop_map(|(key, yes)| Call::DeleteIf(key, yes)),
        4 => key().prop_map(Call::Update),
        6 => key().prop_map(Call::Look),
        2 => Just(Call::Iterate),
        1 => Just(Call::Collect),
        1 => Just(Call::Clear),
    ]
}

fn does_what_a_map_does<S: Structure<Value>>(calls: &[Call]) -> Result<(), TestCaseError> {
    let (domain, alive) = (Domain::new(), Alive::default());
    let subject = S::make(&domain);
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    for (number, call) in (1000..).zip(calls) {
        match *call {
            Call::Add(key) => match subject.add(key, alive.value(number)) {
                Ok(()) => prop_assert_eq!(model.insert(key, number), None),
                Err(error) => {
                    prop_assert_eq!(error.reason, AddReason::Exists);
                    prop_assert_eq!((error.key, error.value.number()), (key, number));
                    prop_assert!(model.contains_key(&key));
                }
            },
            Call::Put(key) => {
                let replaced = subject.put(key, alive.value(number)).ok();
                prop_assert_eq!(replaced, Some(model.insert(key, number).is_some()));
            }
            Call::PutWith(key) => {
                let last = subject.put_with(key, alive.value(number), Value::number);
                prop_assert_eq!(last.ok(), Some(model.insert(key, number)));
            }
            Call::GetOrAdd(key) => {
                let expected = *model.entry(key).or_insert(number);
                let section = domain.enter();
                let found = subject.get_or_add(&section, key, || alive.value(number));
                prop_assert_eq!(found.ok().map(Value::number), Some(expected));
            }
            Call::Delete(key) => {
                let last = subject.delete_with(key, Value::number);
                prop_assert_eq!(last, model.remove(&key));
            }
            Call::DeleteIf(key, yes) => {
                let mut seen = None;
                let deleted = subject.delete_if(key, |value| {
                    seen = Some(value.number());
                    yes
                });
                prop_assert_eq!(seen, model.get(&key).copied());
                prop_assert_eq!(deleted, yes && model.remove(&key).is_some());
            }
            Call::Update(key) => {
                let updated = subject.update(key, |old| {
                    assert_eq!(Some(old.number()), model.get(&key).copied());
                    alive.value(number)
                });
                match model.get_mut(&key) {
                    Some(value) => {
                        prop_assert_eq!(updated, Ok(()));
                        *value = number;
                    }
                    None => prop_assert_eq!(updated, Err(ChangeError::Absent)),
                }
            }
            Call::Look(key) => {
                let expected = model.get(&key).copied();
                prop_assert_eq!(subject.observe(key, Value::number), expected);
                prop_assert_eq!(subject.modify(key, Value::number).ok(), expected);
                let section = domain.enter();
                prop_assert_eq!(subject.get(&section, key).map(Value::number), expected);
            }
            Call::Iterate => {
                let section = domain.enter();
                let mut all: Vec<_> = subject
                    .iter(&section)
                    .map(|(key, value)| (*key, value.number()))
                    .collect();
                if !S::SORTED {
                    all.sort_unstable();
                }
                prop_assert!(all.into_iter().eq(model.clone()));
            }
            Call::Clear => {
                subject.clear();
                model.clear();
            }
            Call::Collect => subject.collect(),
        }
        prop_assert_eq!(subject.len(), model.len());
        prop_assert_eq!(subject.is_empty(), model.is_empty());
    }
    subject.collect();
    prop_assert!(alive.count() >= model.len());
    drop(subject);
    drop(domain);
    prop_assert_eq!(alive.count(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_does_what_a_map_does(calls in prop::collection::vec(call(), 1..200)) {
        does_what_a_map_does::<List<Value>>(&calls)?;
        does_what_a_map_does::<Hashed<Value>>(&calls)?;
        does_what_a_map_does::<Crowded<Value>>(&calls)?;
        does_what_a_map_does::<Collided<Value>>(&calls)?;
    }

    #[test]
    fn a_range_shows_what_lies_in_it(
        keys in prop::collection::btree_map(0u32..50, any::<u32>(), 0..40),
        start in 0u32..50,
        length in 0u32..50,
        kinds in (0..3, 0..3),
    ) {
        let list: OrderedList<'_, u32, u32> = keys.clone().into_iter().rev().collect();
        let bound = |kind, key| match kind {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        let range = (bound(kinds.0, start), bound(kinds.1, start + length));
        // What `std` panics for is an empty range here.
        let is_empty = length == 0 && kinds == (1, 1);
        let section = list.domain().enter();
        let shown: Vec<_> = list.range(&section, range).map(|(key, value)| (*key, *value)).collect();
        if is_empty {
            prop_assert!(shown.is_empty());
        } else {
            prop_assert!(shown.into_iter().eq(keys.range(range).map(|(key, value)| (*key, *value))));
        }
    }
}

#[test]
fn a_map_of_very_many_entries_has_a_bucket_for_each() {
    let entries = if cfg!(debug_assertions) {
        30_000
    } else {
        300_000
    };
    let domain = Domain::new();
    let map: Map<'_, u64, u64> = Map::new(&domain);
    let mut model = HashMap::new();
    for key in (0..entries).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        map.add(key, !key).expect("there is memory");
        model.insert(key, !key);
    }
    assert_eq!(map.len(), model.len());
    // It grows when a chain is long, so perhaps not to the last power of two.
    assert!(map.buckets() >= model.len() / 4, "{}", map.buckets());
    assert!(map.buckets() <= 2 * model.len());
    let section = domain.enter();
    for (key, value) in &model {
        assert_eq!(map.get(&section, key), Some(value));
        assert_eq!(map.get(&section, &(key ^ 1)), model.get(&(key ^ 1)));
    }
    let shown: HashMap<u64, u64> = map
        .iter(&section)
        .map(|(key, value)| (*key, *value))
        .collect();
    assert_eq!(shown, model);
}

/// As if another thread had done so, between the lookup and the addition.
fn what_is_added_meanwhile_is_found<S: Structure<u64>>() {
    let domain = Domain::new();
    let subject = S::make(&domain);
    let section = domain.enter();
    let found = subject.get_or_add(&section, 1, || {
        subject.add(1, 10).expect("there is none, and memory");
        20
    });
    assert_eq!(found.ok(), Some(&10));
    assert_eq!(subject.len(), 1);
    let again = subject.get_or_add(&section, 1, || panic!("there is one"));
    assert_eq!(again.ok(), Some(&10));
}

#[test]
fn what_is_added_meanwhile_is_found_in_a_list_and_in_a_map() {
    what_is_added_meanwhile_is_found::<List<u64>>();
    what_is_added_meanwhile_is_found::<Hashed<u64>>();
}

#[test]
fn what_programs_expect_of_a_collection() {
    let mut list: OrderedList<'_, &str, u32> = [("b", 2), ("a", 0), ("a", 1)].into_iter().collect();
    assert_eq!(format!("{list:?}"), r#"{"a": 1, "b": 2}"#);
    list.extend([("c", 3)]);
    assert_eq!(list.len(), 3);
    let map: Map<'_, String, u32> = [("x".to_owned(), 1), ("x".to_owned(), 2)]
        .into_iter()
        .collect();
    assert_eq!(
        map.observe("x", |value| *value),
        Some(2),
        "found by a borrowed form of the key"
    );
    assert_eq!(format!("{map:?}"), r#"{"x": 2}"#);
    assert!(Map::<u32, u32>::default().is_empty() && OrderedList::<u32, u32>::default().is_empty());
    let owned = map.domain().enter_owned();
    assert_eq!(map.get(&owned, "x"), Some(&2));
}
