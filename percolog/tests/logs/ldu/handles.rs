//! Entries and their keys.

use crate::ldu::{VARIANTS, of};
use percolog::ldu::{Bag, Deferred, Entry, Sorted};

#[test]
fn a_new_key_leaves_no_stale_place() {
    for variant in VARIANTS {
        // Remove, change the key, insert: the published code cancels, and leaves the entry at the old key's place.
        let sorted = of(variant).build(Sorted::new());
        let others: Vec<_> = [10, 20, 30, 40].map(Entry::new).into();
        let moving = Entry::new(15);
        for entry in others.iter().chain([&moving]) {
            sorted.insert(entry).unwrap();
        }
        drop(sorted.synchronize());
        let (moving, item) = moving.rekey(35).unwrap_err();
        sorted.remove(&moving).unwrap();
        let moving = moving.rekey(item).unwrap();
        assert_eq!(*moving, 35);
        sorted.insert(&moving).unwrap();
        let keys: Vec<_> = sorted.synchronize().iter().copied().collect();
        assert_eq!(keys, [10, 20, 30, 35, 40]);
        sorted.remove(&moving).unwrap();
        assert_eq!(sorted.synchronize().len(), 4);
    }
}

#[test]
fn a_new_key_uses_the_old_memory_where_nobody_else_has_it() {
    let bag = Deferred::new(Bag::new());
    let entry = Entry::new(1);
    let address = std::ptr::from_ref(&*entry);
    bag.insert(&entry).unwrap();
    bag.remove(&entry).unwrap();
    // In the log.
    let entry = entry.rekey(2).unwrap();
    assert_ne!(std::ptr::from_ref(&*entry), address);
    drop(bag.synchronize());
    let address = std::ptr::from_ref(&*entry);
    let entry = entry.rekey(3).unwrap();
    assert_eq!((*entry, std::ptr::from_ref(&*entry)), (3, address));
    let other = entry.clone();
    let entry = entry.rekey(4).unwrap();
    assert_eq!((*entry, *other), (4, 3));
    assert!(!entry.is_same(&other));
}

#[test]
fn an_item_comes_back_when_nobody_else_has_it() {
    let bag = Deferred::new(Bag::new());
    let entry = Entry::new(String::from("mine"));
    bag.insert(&entry).unwrap();
    let entry = entry.try_unwrap().unwrap_err();
    drop(bag.synchronize());
    let entry = entry.try_unwrap().unwrap_err();
    bag.remove(&entry).unwrap();
    let entry = entry.try_unwrap().unwrap_err();
    drop(bag.synchronize());
    let other = entry.clone();
    let entry = entry.try_unwrap().unwrap_err();
    drop(other);
    assert_eq!(entry.try_unwrap().unwrap(), "mine");
}

#[test]
fn entries_are_on_lines_of_their_own() {
    let entries: Vec<_> = (0..32u8).map(Entry::new).collect();
    let mut lines: Vec<_> = entries
        .iter()
        .map(|entry| std::ptr::from_ref(&**entry).addr() / 64)
        .collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 32);
}
