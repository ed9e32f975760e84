//! Random programs on one thread that moves from slot to slot, beside a plain table.

use crate::common::machine::{Machine, stand_on};
use crate::common::share::share;
use percolog::collections::Registry;
use percolog::oplog::token_pair;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const SLOTS: [u32; 5] = [0, 1, 2, 1024, 1025];

#[derive(Debug, Clone)]
enum Step {
    Register(usize),
    RegisterApart(usize),
    /// The handle at this place among those that there are.
    Unregister(usize, prop::sample::Index),
    List,
    Change,
    Len,
}

fn step() -> impl Strategy<Value = Step> {
    let slot = 0..SLOTS.len();
    prop_oneof![
        5 => slot.clone().prop_map(Step::Register),
        1 => slot.clone().prop_map(Step::RegisterApart),
        5 => (slot, any::<prop::sample::Index>()).prop_map(|(slot, at)| Step::Unregister(slot, at)),
        1 => Just(Step::List),
        1 => Just(Step::Change),
        1 => Just(Step::Len),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: share(200) as u32, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn the_registry_agrees_with_a_plain_table(steps in prop::collection::vec(step(), 0..400)) {
        let registry = Rc::new(Registry::new_in(Machine::exact(&SLOTS)));
        let counted = Arc::new(());
        let mut plain = BTreeMap::new();
        // Handles, and halves of identities without one.
        let mut handles = Vec::new();
        let mut halves = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Register(slot) => {
                    stand_on(SLOTS[slot]);
                    let handle = Registry::register_in(registry.clone(), (number, counted.clone()));
                    prop_assert_eq!(plain.insert(handle.id(), number), None);
                    handles.push(handle);
                }
                Step::RegisterApart(slot) => {
                    stand_on(SLOTS[slot]);
                    let (birth, death) = token_pair();
                    prop_assert_eq!(plain.insert(birth.id(), number), None);
                    registry.register_as(birth, (number, counted.clone()));
                    halves.push(death);
                }
                Step::Unregister(slot, at) => {
                    stand_on(SLOTS[slot]);
                    let all = handles.len() + halves.len();
                    if all == 0 {
                        continue;
                    }
                    let at = at.index(all);
                    if at < handles.len() {
                        let handle = handles.swap_remove(at);
                        prop_assert!(plain.remove(&handle.id()).is_some());
                    } else {
                        let death = halves.swap_remove(at - handles.len());
                        prop_assert!(plain.remove(&death.id()).is_some());
                        registry.unregister(death);
                    }
                }
                Step::List => {
                    let list = registry.list();
                    let listed: BTreeMap<u64, usize> = list.iter().map(|(id, (value, _))| (id, *value)).collect();
                    prop_assert_eq!(&listed, &plain);
                    prop_assert_eq!(list.len(), plain.len());
                    for (id, value) in &plain {
                        prop_assert_eq!(list.get(*id).map(|(value, _)| *value), Some(*value));
                    }
                    prop_assert!(list.get(u64::MAX).is_none());
                }
                Step::Change => {
                    registry.list().iter_mut().for_each(|(_, (value, _))| *value += 1);
                    plain.values_mut().for_each(|value| *value += 1);
                }
                Step::Len => {
                    prop_assert_eq!(registry.len(), plain.len());
                    prop_assert_eq!(registry.is_empty(), plain.is_empty());
                    // No value is left of what has gone.
                    prop_assert_eq!(Arc::strong_count(&counted), 1 + plain.len());
                }
            }
        }
        drop(handles);
        halves.into_iter().for_each(|death| registry.unregister(death));
        prop_assert!(registry.is_empty());
        prop_assert_eq!(Arc::strong_count(&counted), 1);
        prop_assert_eq!(registry.stats().clock_violations, 0);
    }
}
