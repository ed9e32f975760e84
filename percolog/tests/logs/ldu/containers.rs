//! What one thread can see of containers.

use crate::common::machine::{Machine, stand_on};
use crate::ldu::{VARIANTS, of};
use percolog::ldu::{Bag, Container, Deferred, Entry, Member, Sorted, UpdateError, Variant};
use percolog::oplog::{FullReason, OnDrop, Policy};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn sorted<T: Ord + Copy + Send + Sync>(deferred: &Deferred<Sorted<T>, Machine>) -> Vec<T> {
    deferred.synchronize().iter().copied().collect()
}

#[test]
fn the_slides_sequence_leaves_c() {
    for variant in VARIANTS {
        // On one core, and each update on another one.
        for cores in [1, 2, 7] {
            let machine = Machine::exact(&[0, 1, 2, 3, 4, 5, 6]);
            let list = of(variant).build_in(Sorted::new(), machine);
            let [a, b, c, d, e] = ["A", "B", "C", "D", "E"].map(Entry::new);
            stand_on(0);
            list.insert(&a).unwrap();
            list.insert(&b).unwrap();
            assert_eq!(sorted(&list), ["A", "B"]);
            let before = list.stats().executed;
            let updates = [
                (true, &c),
                (true, &d),
                (true, &e),
                (false, &d),
                (false, &a),
                (true, &d),
                (false, &e),
            ];
            for (at, (insert, entry)) in (0u32..).zip(updates) {
                stand_on(at % cores);
                let outcome = if insert {
                    list.insert(entry)
                } else {
                    list.remove(entry)
                };
                outcome.unwrap();
            }
            assert_eq!(sorted(&list), ["B", "C", "D"]);
            // Seven updates of four entries: each entry was looked at once.
            assert_eq!(list.stats().executed - before, 4);
        }
    }
}

#[test]
fn an_update_says_whether_it_changed_anything() {
    for variant in VARIANTS {
        let (here, there) = (of(variant).build(Bag::new()), of(variant).build(Bag::new()));
        let entry = Entry::new(1);
        assert_eq!(here.remove(&entry), Err(UpdateError::Absent));
        here.insert(&entry).unwrap();
        assert_eq!(here.insert(&entry), Err(UpdateError::Present));
        assert_eq!(there.insert(&entry), Err(UpdateError::Elsewhere));
        assert_eq!(there.remove(&entry), Err(UpdateError::Absent));
        assert!(here.contains(&entry) && !there.contains(&entry) && entry.is_linked());
        assert_eq!(here.synchronize().len(), 1);
        assert_eq!(here.insert(&entry), Err(UpdateError::Present));
        here.remove(&entry).unwrap();
        assert_eq!(here.remove(&entry), Err(UpdateError::Absent));
        assert!(!here.contains(&entry) && !entry.is_linked());
        assert!(here.synchronize().is_empty() && there.synchronize().is_empty());
    }
}

#[test]
fn an_entry_moves_to_another_container_while_its_removal_is_in_the_log() {
    for variant in VARIANTS {
        let [a, b, c] = [(); 3].map(|()| of(variant).build(Bag::new()));
        let entry = Entry::new(1);
        a.insert(&entry).unwrap();
        assert_eq!(a.synchronize().len(), 1);
        a.remove(&entry).unwrap();
        b.insert(&entry).unwrap();
        assert!(b.contains(&entry) && !a.contains(&entry));
        b.remove(&entry).unwrap();
        // Back again: it cancels with the removal.
        a.insert(&entry).unwrap();
        a.remove(&entry).unwrap();
        b.insert(&entry).unwrap();
        b.remove(&entry).unwrap();
        // Two are enough to keep in mind.
        assert_eq!(c.insert(&entry), Err(UpdateError::Leaving));
        assert!(!entry.is_linked());
        assert!(a.synchronize().is_empty());
        c.insert(&entry).unwrap();
        assert!(b.synchronize().is_empty());
        assert_eq!(c.synchronize().iter().collect::<Vec<_>>(), [&1]);
        // The place that it had in the first container is not the one it has in this.
        let others: Vec<_> = (2..6).map(Entry::new).collect();
        for other in &others {
            a.insert(other).unwrap();
        }
        drop(a.synchronize());
        c.remove(&entry).unwrap();
        a.insert(&entry).unwrap();
        assert_eq!(a.synchronize().len(), 5);
        assert!(c.synchronize().is_empty());
        a.remove(&entry).unwrap();
        assert_eq!(a.synchronize().len(), 4);
    }
}

#[test]
fn a_container_at_the_same_address_is_another_one() {
    let entry = Entry::new(1);
    let mut place = Some(Deferred::new(Bag::new()));
    place.as_ref().unwrap().insert(&entry).unwrap();
    let bag = place.take().unwrap().into_inner();
    // The bag lives on, and has the entry.
    assert!(entry.is_linked());
    place = Some(Deferred::new(Bag::new()));
    let again = place.as_ref().unwrap();
    assert!(!again.contains(&entry));
    assert_eq!(again.remove(&entry), Err(UpdateError::Absent));
    assert_eq!(again.insert(&entry), Err(UpdateError::Elsewhere));
    drop(bag);
    assert!(!entry.is_linked());
    again.insert(&entry).unwrap();
    assert_eq!(again.synchronize().len(), 1);
}

#[test]
fn dropping_a_container_unlinks_what_is_in_it_and_what_is_in_its_log() {
    for variant in VARIANTS {
        for on_drop in [OnDrop::Apply, OnDrop::Discard] {
            let deferred = of(variant).on_drop(on_drop).build(Bag::new());
            let [merged, queued, cancelled, leaving] = [1, 2, 3, 4].map(Entry::new);
            deferred.insert(&merged).unwrap();
            deferred.insert(&leaving).unwrap();
            drop(deferred.synchronize());
            deferred.insert(&queued).unwrap();
            deferred.insert(&cancelled).unwrap();
            deferred.remove(&cancelled).unwrap();
            deferred.remove(&leaving).unwrap();
            drop(deferred);
            let other = Deferred::new(Bag::new());
            for entry in [merged, queued, cancelled, leaving] {
                assert!(!entry.is_linked());
                other.insert(&entry).unwrap();
                other.remove(&entry).unwrap();
                drop(other.synchronize());
                assert!(entry.try_unwrap().is_ok());
            }
        }
    }
}

/// Writes down, where its test can see it, what it is told.
struct Witness(Arc<Mutex<Vec<(bool, u32)>>>, Bag<u32>);

impl Container for Witness {
    type Item = u32;

    fn insert(&mut self, member: Member<u32>) {
        self.0.lock().unwrap().push((true, *member));
        self.1.insert(member);
    }

    fn remove(&mut self, entry: &Entry<u32>, position: u64) -> Option<Member<u32>> {
        self.0.lock().unwrap().push((false, **entry));
        self.1.remove(entry, position)
    }
}

/// An empty log does not mean that nothing is left to do: entries are in the container, and a merge that was to look at a
/// few of them only has taken all of them out of the log.
#[test]
fn dropping_a_container_leaves_nothing_to_do_though_its_log_is_empty() {
    for variant in VARIANTS {
        for on_drop in [OnDrop::Apply, OnDrop::Discard] {
            let seen = Arc::default();
            let witness = Witness(Arc::clone(&seen), Bag::new());
            let deferred = of(variant).on_drop(on_drop).build(witness);
            let entries: [_; 6] = std::array::from_fn(|at| Entry::new(at as u32));
            for entry in &entries[..3] {
                deferred.insert(entry).unwrap();
            }
            drop(deferred.synchronize());
            deferred.remove(&entries[0]).unwrap();
            for entry in &entries[3..] {
                deferred.insert(entry).unwrap();
            }
            // All four have left the log, and one of them has been looked at.
            assert_eq!(deferred.drain(1).executed, 1);
            assert_eq!(deferred.stats().pending, 3);
            drop(deferred);
            let mut seen = seen.lock().unwrap().split_off(3);
            match on_drop {
                OnDrop::Apply => {
                    seen.sort_unstable();
                    assert_eq!(seen, [(false, 0), (true, 3), (true, 4), (true, 5)]);
                }
                _ => assert_eq!(seen.len(), 1),
            }
            let other = Deferred::new(Bag::new());
            for entry in entries {
                assert!(!entry.is_linked());
                other.insert(&entry).unwrap();
                other.remove(&entry).unwrap();
                drop(other.synchronize());
                assert!(entry.try_unwrap().is_ok());
            }
        }
    }
}

#[test]
fn handles_may_go_while_the_entry_is_queued() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    #[derive(Debug)]
    struct Counted;
    impl Counted {
        fn new() -> Self {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Self
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    for variant in VARIANTS {
        let deferred = of(variant).build(Bag::new());
        // Inserted, and nobody but the container has it.
        deferred.insert(&Entry::new(Counted::new())).unwrap();
        assert_eq!(ALIVE.load(Ordering::Relaxed), 1);
        // Removed again: the log has it, until somebody looks.
        let entry = Entry::new(Counted::new());
        deferred.insert(&entry).unwrap();
        deferred.remove(&entry).unwrap();
        drop(entry);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 2);
        assert_eq!(deferred.synchronize().len(), 1);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 1);
        // Removed after it was merged.
        let member = deferred.synchronize().members().next().unwrap().entry();
        deferred.remove(&member).unwrap();
        drop(member);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 1);
        assert!(deferred.synchronize().is_empty());
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
        deferred.insert(&Entry::new(Counted::new())).unwrap();
        drop(deferred);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_limit_makes_updates_merge_or_is_told() {
    // A limit is one of a log: this thread has one, wherever it really runs.
    let machine = Machine::exact(&[0]);
    stand_on(0);
    for variant in VARIANTS {
        let entries: Vec<_> = (0..100).map(Entry::new).collect();
        let merging = of(variant).limit(8).build_in(Bag::new(), machine.clone());
        for entry in &entries {
            merging.insert(entry).unwrap();
            assert!(merging.stats().pending <= 8);
        }
        assert!(merging.stats().updater_merges >= 11);
        assert_eq!(merging.synchronize().len(), 100);
        for entry in &entries {
            merging.remove(entry).unwrap();
        }
        let full = of(variant)
            .limit(8)
            .policy(Policy::Full)
            .build_in(Bag::new(), machine.clone());
        for entry in &entries[..8] {
            full.insert(entry).unwrap();
        }
        assert_eq!(
            full.insert(&entries[8]),
            Err(UpdateError::Full(FullReason::Limit))
        );
        assert!(!entries[8].is_linked());
        // What cancels needs no room.
        full.remove(&entries[0]).unwrap();
        full.insert(&entries[0]).unwrap();
        assert_eq!(full.synchronize().len(), 8);
        let growing = of(variant)
            .limit(8)
            .policy(Policy::Grow)
            .build_in(Bag::new(), machine.clone());
        for entry in &entries[9..] {
            growing.insert(entry).unwrap();
        }
        assert_eq!(growing.stats().pending, 91);
        assert_eq!(growing.drain(10).executed, 10);
        assert_eq!(growing.stats().pending, 81);
    }
}

#[test]
fn what_came_and_went_makes_room_in_a_full_log_without_a_merge() {
    let counted = Arc::new(());
    let entry = || Entry::new(Arc::clone(&counted));
    // A limit is one of a log: this thread has one, wherever it really runs.
    let machine = Machine::exact(&[0]);
    stand_on(0);
    let deferred = of(Variant::PerCore).limit(8).build_in(Bag::new(), machine);
    for _ in 0..1000 {
        let entry = entry();
        deferred.insert(&entry).unwrap();
        deferred.remove(&entry).unwrap();
        assert!(deferred.stats().pending <= 8);
        // This handle, and those in the log.
        assert!(Arc::strong_count(&counted) <= 1 + 1 + 8);
    }
    assert_eq!(deferred.stats().merges, 0);
    // Between entries that stay, with handles that stay.
    let entries: Vec<_> = std::iter::repeat_with(entry).take(12).collect();
    drop(deferred.synchronize());
    for entry in &entries[..8] {
        deferred.insert(entry).unwrap();
    }
    for at in [0, 2, 3, 5, 7] {
        deferred.remove(&entries[at]).unwrap();
    }
    let before = deferred.stats().merges;
    for entry in &entries[8..] {
        deferred.insert(entry).unwrap();
    }
    assert_eq!(deferred.stats().pending, 3 + 4);
    // One of those that were taken out of the log.
    deferred.insert(&entries[3]).unwrap();
    assert_eq!(deferred.stats().merges, before);
    let expected = [1, 3, 4, 6, 8, 9, 10, 11];
    {
        let guard = deferred.synchronize();
        assert_eq!(guard.len(), expected.len());
        for at in expected {
            assert!(guard.members().any(|member| member.is(&entries[at])));
        }
    }
    // Where most stay somebody has to merge.
    for entry in &entries {
        let _ = deferred.remove(entry);
    }
    drop(deferred.synchronize());
    let before = deferred.stats().updater_merges;
    entries
        .iter()
        .for_each(|entry| deferred.insert(entry).unwrap());
    assert_eq!(deferred.stats().updater_merges, before + 1);
}

#[test]
fn a_thread_that_has_the_container_can_update_it() {
    for variant in VARIANTS {
        let entries: Vec<_> = (0..9).map(Entry::new).collect();
        let deferred = of(variant)
            .limit(2)
            .hard_limit(8)
            .build_in(Bag::new(), Machine::exact(&[0]));
        stand_on(0);
        let guard = deferred.synchronize();
        for entry in &entries[..8] {
            deferred.insert(entry).unwrap();
        }
        assert!(guard.is_empty());
        // The common list goes on growing: it is nobody's memory.
        match (variant, deferred.insert(&entries[8])) {
            (Variant::Global, outcome) => outcome.unwrap(),
            (_, outcome) => assert_eq!(outcome, Err(UpdateError::Full(FullReason::Held))),
        }
        drop(guard);
        assert!(deferred.synchronize().len() >= 8);
    }
}

/// Loses what it is given beyond three, by itself.
#[derive(Default)]
struct Three(Vec<Member<u32>>);

impl Container for Three {
    type Item = u32;

    fn insert(&mut self, member: Member<u32>) {
        assert!(*member != 13, "this container takes no 13");
        if self.0.len() < 3 {
            self.0.push(member);
        }
    }

    fn remove(&mut self, entry: &Entry<u32>, _position: u64) -> Option<Member<u32>> {
        let at = self.0.iter().position(|member| member.is(entry))?;
        Some(self.0.remove(at))
    }
}

#[test]
fn what_a_container_loses_is_unlinked() {
    let deferred = Deferred::<Three>::default();
    let entries: Vec<_> = (0..5).map(Entry::new).collect();
    for entry in &entries {
        deferred.insert(entry).unwrap();
    }
    assert_eq!(deferred.synchronize().0.len(), 3);
    assert_eq!(entries.iter().filter(|entry| entry.is_linked()).count(), 3);
    deferred.synchronize().0.clear();
    assert!(entries.iter().all(|entry| !entry.is_linked()));
    for entry in &entries {
        deferred.insert(entry).unwrap();
    }
}

#[test]
fn a_panicking_container_is_poisoned_and_loses_nothing_else() {
    for variant in VARIANTS {
        let deferred = of(variant).build(Three::default());
        let entries = [1, 13, 3].map(Entry::new);
        for entry in &entries {
            deferred.insert(entry).unwrap();
        }
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(deferred.synchronize());
        }));
        assert!(panicked.is_err() && deferred.is_poisoned());
        assert!(!entries[1].is_linked());
        deferred.clear_poison();
        assert_eq!(deferred.synchronize().0.len(), 2);
        assert!(entries[0].is_linked() && entries[2].is_linked());
    }
}

#[test]
fn popping_unlinks() {
    let bag = Deferred::new(Bag::new());
    let sorted = Deferred::new(Sorted::new());
    let [one, two, three] = [1, 2, 3].map(Entry::new);
    bag.insert(&one).unwrap();
    assert!(bag.synchronize().pop().unwrap().is_same(&one));
    assert!(!one.is_linked());
    for entry in [&three, &one, &two] {
        sorted.insert(entry).unwrap();
    }
    let mut guard = sorted.synchronize();
    // Removed while somebody has the container: it is not given out any more.
    sorted.remove(&one).unwrap();
    assert!(guard.pop_first().unwrap().is_same(&two));
    assert_eq!(sorted.remove(&two), Err(UpdateError::Absent));
    // Put back in: not before the guard is gone.
    sorted.insert(&two).unwrap();
    assert!(guard.pop_first().unwrap().is_same(&three));
    assert!(guard.pop_first().is_none());
    drop(guard);
    assert!(sorted.synchronize().pop_first().unwrap().is_same(&two));
}

#[test]
fn readers_of_a_clean_container_share_it() {
    for variant in VARIANTS {
        let deferred = Arc::new(of(variant).build(Bag::new()));
        let entry = Entry::new(1);
        deferred.insert(&entry).unwrap();
        let guard = deferred.read();
        assert_eq!(guard.len(), 1);
        let other = Arc::clone(&deferred);
        std::thread::spawn(move || assert_eq!(other.read().len(), 1))
            .join()
            .unwrap();
    }
}
