//! Counts that become ordinary.

use loom::sync::Arc;

use super::{MODE, World, a_reference_of_an_old_generation, both, with_a_reference_on_row_1};

/// Whoever clones, with a lease or without, while the count becomes ordinary: nothing is lost, rows have nothing after it,
/// and the last drop is the one that it dies by.
#[test]
fn a_clone_while_it_becomes_ordinary() {
    for lease in [Some(1), None] {
        loom::model(move || {
            let world = World::new(1);
            let clone = move |world: &World| world.add_by(lease, 0, 1);
            both(&world, clone, |world| world.switch_to_atomic(0));
            assert_eq!((world.in_rows(0), world.sum(0)), ([0; 3], 2));
            assert!(!world.add(1, 0, -1) && !world.has_died(0));
            assert!(world.add(0, 0, -1) && world.has_died(0));
        });
    }
}

/// A thread that drops what was made on another row, while somebody makes the count ordinary and drops the last but that:
/// it dies at the end of both, with no round, and what each did before its drop is seen by whoever it dies by.
#[test]
fn a_drop_while_it_becomes_ordinary() {
    loom::model(|| {
        let world = World::new(1);
        world.add(0, 0, 1);
        let written = Arc::new(crate::sync::UnsafeCell::new(0));
        let (by_one, by_other) = (written.clone(), written.clone());
        let look = |written: &crate::sync::UnsafeCell<i32>| {
            // SAFETY: the other thread's reference is gone.
            written.with(|written| assert_eq!(unsafe { *written }, 1));
        };
        let died = both(
            &world,
            move |world| {
                // SAFETY: read only when the object is dead.
                by_one.with_mut(|written| unsafe { *written = 1 });
                let died = world.add(1, 0, -1);
                if died {
                    look(&by_one);
                }
                died
            },
            move |world| {
                world.switch_to_atomic(0);
                let died = world.add(0, 0, -1);
                if died {
                    look(&by_other);
                }
                died
            },
        );
        assert!(died.0 != died.1 && world.has_died(0));
    });
}

/// A candidate becomes ordinary while a round looks at it, and dies; the next round does not find it in the list.
#[test]
fn a_candidate_becomes_ordinary() {
    loom::model(|| {
        let world = with_a_reference_on_row_1();
        let die = |world: &World| {
            world.switch_to_atomic(0);
            assert!(world.add(1, 0, -1));
        };
        both(&world, die, |world| _ = world.round());
        assert!(world.has_died(0));
        // `die` would complain.
        world.round();
    });
}

/// So do other candidates not get lost by it.
#[test]
fn candidates_beside_one_that_becomes_ordinary() {
    loom::model(|| {
        let world = World::new(2);
        // A candidate each: the second one is dead.
        world.add(1, 0, 1);
        world.add(0, 0, -1);
        world.add(0, 1, -1);
        world.empty(0);
        both(
            &world,
            |world| world.switch_to_atomic(0),
            |world| _ = world.round(),
        );
        world.round();
        assert!(world.has_died(1) && !world.has_died(0));
        assert!(world.add(0, 0, -1));
    });
}

/// Of an ordinary count, an upgrade and the last drop: one of them comes second and finds it out. No upgrade afterwards.
#[test]
fn an_upgrade_and_the_last_drop_of_an_ordinary_one() {
    loom::model(|| {
        let world = World::new(1);
        world.switch_to_atomic(0);
        let (upgraded, died) = both(
            &world,
            |world| world.upgrade(1, 0),
            |world| world.add(0, 0, -1),
        );
        assert_ne!(upgraded.is_some(), died);
        assert!(died || world.give_up(1, 0, false));
        assert!(world.has_died(0) && world.upgrade(1, 0).is_none());
    });
}

/// An upgrade while it becomes ordinary and the last one is dropped: either comes first.
#[test]
fn an_upgrade_while_it_becomes_ordinary() {
    loom::model(|| {
        let world = World::new(1);
        let end = |world: &World| {
            world.switch_to_atomic(0);
            world.add(0, 0, -1)
        };
        let (upgraded, died) = both(&world, |world| world.upgrade(1, 0), end);
        assert_ne!(upgraded.is_some(), died);
        assert!(died || upgraded.is_some_and(|is_hot| world.give_up(1, 0, is_hot)));
        assert!(world.upgrade(1, 0).is_none());
    });
}

/// Who unwraps an ordinary one has the only reference, and nobody gets another one.
#[test]
fn an_upgrade_and_an_exclusive_use_of_an_ordinary_one() {
    loom::model(|| {
        let world = World::new(1);
        world.switch_to_atomic(0);
        let alone = |world: &World| world.take(0, true);
        let (upgraded, alone) = both(&world, |world| world.upgrade(1, 0), alone);
        assert_eq!(upgraded.is_none(), alone);
    });
}

/// Two threads make it ordinary, and each drops its own.
#[test]
fn two_make_it_ordinary() {
    loom::model(|| {
        let world = World::new(1);
        world.add(1, 0, 1);
        let end = |lease| {
            move |world: &World| {
                world.switch_to_atomic(0);
                world.add(lease, 0, -1)
            }
        };
        let died = both(&world, end(0), end(1));
        assert!(died.0 != died.1 && world.has_died(0));
    });
}

/// A reference of an old generation is counted, also if the count is ordinary and no row is looked at.
#[test]
fn a_reference_of_an_old_generation_of_an_ordinary_one() {
    loom::model(|| {
        let world = World::new(1);
        world.switch_to_atomic(0);
        a_reference_of_an_old_generation(world);
    });
}
