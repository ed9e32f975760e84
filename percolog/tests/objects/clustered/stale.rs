//! References to what is no object any more, or never was.

use crate::clustered::interfaces::{Count, Counters};
use percolog::clustered::{self, ObjectRef, Placement, Shared, StaleRef};

trait Other: Sync {
    fn other(&self) {}
}

impl Other for () {}

#[test]
fn of_a_destroyed_object() {
    let (root, _) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    let section = clustered::enter();
    let before = object.get(&section).unwrap();
    assert!(object.exists());
    object.destroy().unwrap();
    assert!(!object.exists());
    assert_eq!(object.get(&section).err(), Some(StaleRef));
    assert_eq!(object.call(|it| it.sum()), Err(StaleRef));
    assert_eq!(object.destroy(), Err(StaleRef));
    assert_eq!(object.bound_slots(), Err(StaleRef));
    assert_eq!(before.add(1), 1, "a call in flight goes on");
}

#[test]
fn of_an_index_that_was_used_again() {
    let mut seen = std::collections::HashMap::new();
    for round in 0..20_000_u64 {
        let (root, _) = Counters::new(Placement::One);
        let object = clustered::create(root);
        object.call(|it| it.add(round)).unwrap();
        if let Some(old) = seen.insert(object.index(), object) {
            let old: ObjectRef<dyn Count> = old;
            assert_ne!(old, object);
            assert_eq!(old.call(|it| it.sum()), Err(StaleRef));
        }
        assert_eq!(object.call(|it| it.sum()), Ok(round));
        object.destroy().unwrap();
    }
    assert!(seen.len() < 20_000, "no index was used again");
}

#[test]
fn from_bits() {
    let (root, _) = Counters::new(Placement::One);
    let object = clustered::create(root);
    let bits = object.to_bits();
    assert_eq!(ObjectRef::<dyn Count>::from_bits(bits), Ok(object));
    assert_eq!(
        ObjectRef::<dyn Other>::from_bits(bits),
        Err(StaleRef),
        "it has another interface"
    );
    let other = clustered::create(Shared::new((), |it| it as &dyn Other));
    assert_eq!(
        ObjectRef::<dyn Count>::from_bits(other.to_bits()),
        Err(StaleRef)
    );
    other.call(|it| it.other()).unwrap();
    object.destroy().unwrap();
    assert_eq!(ObjectRef::<dyn Count>::from_bits(bits), Err(StaleRef));
    other.destroy().unwrap();
}

#[test]
fn forged_bits_name_nothing_that_is_not_there() {
    let (root, _) = Counters::new(Placement::One);
    let object = clustered::create(root);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for near in 0..200_000_u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        for bits in [state, near, object.to_bits() ^ (near + 1), u64::MAX - near] {
            if let Ok(found) = ObjectRef::<dyn Count>::from_bits(bits) {
                assert_eq!(found.to_bits(), bits);
                let _ = found.call(|it| it.number());
            }
        }
    }
    object.destroy().unwrap();
}
