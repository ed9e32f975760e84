//! Counts that become hot, and cold again.

use alloc::vec::Vec;
use loom::sync::Arc;

use super::{Object, World, a_reference_of_an_old_generation, both};
use crate::sync::UnsafeCell;

/// One object, with so many cold references.
fn cold(references: usize) -> Arc<World> {
    cold_objects(1, references)
}

fn cold_objects(objects: usize, references: usize) -> Arc<World> {
    let objects = (0..objects).map(|_| Object::new());
    let world = World::cold(objects.collect::<Vec<_>>());
    for count in &world.counts {
        for _ in 1..references {
            assert!(!count.add_cold());
        }
    }
    world
}

/// A thread makes it hot and gives up what it has, beside a drop of the last cold reference, and then a round finds what is left: it
/// dies once, and not before all are gone.
#[test]
fn becoming_hot_and_a_cold_drop() {
    loom::model(|| {
        let world = cold(2);
        let heat = |world: &World| {
            world.counts[0].add_cold();
            let is_hot = world.counts[0].become_hot();
            assert!(is_hot && !world.has_died(0));
            assert!(!world.give_up(0, 0, false));
            assert!(!world.has_died(0));
            world.give_up(0, 0, is_hot)
        };
        let died = both(&world, heat, |world| world.give_up(1, 0, false));
        assert_eq!(died, (false, false));
        world.round();
        assert!(world.has_died(0));
    });
}

/// The last cold drop, and a round that gives up the share: it dies by one of them, who sees what both sides did before.
#[test]
fn the_last_cold_drop_and_the_end_of_the_heat() {
    for drops_are_late in [false, true] {
        loom::model(move || {
            let world = cold(1);
            world.counts[0].add_cold();
            assert!(world.counts[0].become_hot());
            let written = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
            let (by_cold, by_hot) = (written.clone(), written);
            let see = |written: &[UnsafeCell<i32>; 2]| {
                for it in written {
                    // SAFETY: all references are gone.
                    it.with(|it| assert_eq!(unsafe { *it }, 1));
                }
            };
            let write = |it: &UnsafeCell<i32>| {
                // SAFETY: read only when the object is dead.
                it.with_mut(|it| unsafe { *it = 1 });
            };
            if !drops_are_late {
                write(&by_hot[1]);
                world.add(0, 0, -1);
            }
            both(
                &world,
                move |world| {
                    write(&by_cold[0]);
                    if world.give_up(1, 0, false) {
                        see(&by_cold);
                    }
                },
                move |world| {
                    if drops_are_late {
                        write(&by_hot[1]);
                        world.add(0, 0, -1);
                    }
                    if world.round() {
                        see(&by_hot);
                    }
                },
            );
            assert!(world.has_died(0));
        });
    }
}

/// Two cold drops: what the first did is seen by the second, by which it dies.
#[test]
fn the_last_of_two_cold_drops() {
    loom::model(|| {
        let world = cold(2);
        let written = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
        let end = |at: usize| {
            let written = written.clone();
            move |world: &World| {
                // SAFETY: read only when the object is dead.
                written[at].with_mut(|it| unsafe { *it = 1 });
                let died = world.give_up(at, 0, false);
                if died {
                    // SAFETY: the other reference is gone.
                    written[1 - at].with(|it| assert_eq!(unsafe { *it }, 1));
                }
                died
            }
        };
        let died = both(&world, end(0), end(1));
        assert!(died.0 != died.1 && world.has_died(0));
    });
}

/// Two make it hot: there is one share.
#[test]
fn two_make_it_hot() {
    loom::model(|| {
        let world = cold(2);
        let heat = |lease: usize| {
            move |world: &World| {
                world.counts[0].add_cold();
                let is_hot = world.counts[0].become_hot();
                world.give_up(lease, 0, false);
                is_hot
            }
        };
        let hot = both(&world, heat(0), heat(1));
        assert!(hot.0 || hot.1);
        assert_eq!(world.sum(0), 2);
        assert!(!world.give_up(0, 0, hot.0) && !world.give_up(1, 0, hot.1) || hot.0 != hot.1);
        world.round();
        assert!(world.has_died(0));
    });
}

/// A hot reference that is made out of a cold one while a round looks: its share is not given up, so the last cold drop leaves it alive.
#[test]
fn the_share_stays_while_a_hot_one_is_held() {
    loom::model(|| {
        let world = cold(1);
        world.counts[0].add_cold();
        assert!(world.counts[0].become_hot());
        // The row is there; and there is no hot reference.
        world.add(1, 0, -1);
        let clone = |world: &World| {
            let is_hot = world.clone_cold(1, 0);
            assert!(!world.give_up(1, 0, false) && !world.has_died(0));
            is_hot
        };
        let (is_hot, ()) = both(&world, clone, |world| _ = world.round());
        world.round();
        assert!(!world.has_died(0));
        assert_eq!(world.sum(0), 1);
        world.give_up(1, 0, is_hot);
        world.round();
        assert!(world.has_died(0));
    });
}

/// A round ends the heat and the thread that it runs on begins another one, while a hot reference is made by who may have found the
/// first: that one is counted in the later heat, or is a cold one.
#[test]
fn a_reference_of_a_later_heat() {
    loom::model(|| {
        let world = cold(2);
        world.counts[0].add_cold();
        assert!(world.counts[0].become_hot());
        world.add(0, 0, -1);
        let heat_again = |world: &World| {
            world.round();
            world.counts[0].add_cold();
            let is_hot = world.counts[0].become_hot();
            world.give_up(0, 0, false);
            is_hot
        };
        let (one, other) = both(&world, |world| world.clone_cold(1, 0), heat_again);
        // A cold one of the first thread, and what both have made.
        assert_eq!(world.sum(0), 3);
        world.give_up(1, 0, false);
        world.give_up(1, 0, one);
        world.round();
        assert!(!world.has_died(0));
        world.give_up(0, 0, other);
        world.round();
        assert!(world.has_died(0));
    });
}

/// A value that is to stay ordinary, and somebody who makes it hot: either comes first, and the last drop is the end.
#[test]
fn becoming_hot_or_ordinary() {
    loom::model(|| {
        let world = cold(2);
        let heat = |world: &World| {
            world.counts[0].add_cold();
            let is_hot = world.counts[0].become_hot();
            world.give_up(0, 0, false);
            is_hot
        };
        let (is_hot, ()) = both(&world, heat, |world| world.switch_to_atomic(0));
        assert!(!world.give_up(0, 0, is_hot) && world.give_up(1, 0, false));
        assert!(world.has_died(0));
    });
}

/// A weak reference that is made by the other strong one, which is gone then: whoever changes the value in place finds one or the other.
#[test]
fn an_exclusive_use_and_a_new_weak_reference() {
    loom::model(|| {
        // Strong, of which each thread has one; and weak, which has one for both.
        let world = cold_objects(2, 1);
        world.counts[0].add_cold();
        let downgrade = |world: &World| {
            world.counts[1].add_cold();
            world.counts[1].unlock();
            world.give_up(0, 0, false);
        };
        let (alone, ()) = both(
            &world,
            |world| world.counts[1].is_one_while(|| world.counts[0].is_one()),
            downgrade,
        );
        assert!(!alone);
        // Nothing is left of it.
        world.give_up(0, 1, false);
        assert!(world.counts[1].is_one_while(|| world.counts[0].is_one()));
    });
}

/// The same, where the weak reference is gone again, and a strong one made out of it is not.
#[test]
fn an_exclusive_use_and_an_upgrade_of_a_new_weak_reference() {
    loom::model(|| {
        let world = cold_objects(2, 1);
        world.counts[0].add_cold();
        let go_round = |world: &World| {
            world.counts[1].add_cold();
            world.counts[1].unlock();
            world.give_up(0, 0, false);
            assert_eq!(world.upgrade(0, 0), Some(false));
            world.give_up(0, 1, false);
        };
        let (alone, ()) = both(
            &world,
            |world| world.counts[1].is_one_while(|| world.counts[0].is_one()),
            go_round,
        );
        assert!(!alone);
    });
}

/// Who unwraps a cold one has the only reference, and nobody gets another one.
#[test]
fn an_upgrade_and_an_exclusive_use_of_a_cold_one() {
    loom::model(|| {
        let world = cold(1);
        let (upgraded, alone) = both(
            &world,
            |world| world.upgrade(1, 0),
            |world| world.take(0, false),
        );
        assert_eq!(upgraded.is_none(), alone);
    });
}

/// Who unwraps a value that is hot, though no other reference is, while a round looks for that.
#[test]
fn an_exclusive_use_and_the_end_of_the_heat() {
    loom::model(|| {
        let world = cold(1);
        world.counts[0].add_cold();
        assert!(world.counts[0].become_hot());
        world.add(0, 0, -1);
        let (alone, ()) = both(
            &world,
            |world| world.take(0, false),
            |world| _ = world.round(),
        );
        assert!(alone && !world.has_died(0));
        // `die` would complain.
        world.round();
        assert!(!world.has_died(0));
    });
}

/// A reference of an old generation is counted, also if it is cold.
#[test]
fn a_cold_reference_of_an_old_generation() {
    loom::model(|| a_reference_of_an_old_generation(cold(1)));
}
