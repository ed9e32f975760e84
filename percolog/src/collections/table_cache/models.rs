//! Every interleaving of lookups and updates, within loom's bounds.
//!
//! What no model here can see: the kernel in which those who wait for the central lock sleep (the model's own compares and goes to sleep
//! in one step), panics, and the allocator.

use super::TableCache;
use crate::engine::models::{Scripted, bind, explore, join};
use crate::hash::DefaultHashBuilder;
use crate::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;

type Names = TableCache<u8, usize, DefaultHashBuilder, Scripted>;

/// The one key of the models.
const KEY: u8 = 7;

/// A table in which the key's value is 1, with copies on these slots.
fn names(copies: &[u32]) -> Arc<Names> {
    let names = Names::new_in(DefaultHashBuilder::default(), Scripted::default());
    names.insert(KEY, 1);
    for slot in copies {
        bind(*slot, 0);
        assert_eq!(names.get(&KEY), Some(1));
    }
    Arc::new(names)
}

fn on<R: 'static>(
    slot: u32,
    names: &Arc<Names>,
    f: impl FnOnce(&Names) -> R + 'static,
) -> thread::JoinHandle<R> {
    let names = names.clone();
    thread::spawn(move || {
        bind(slot, 0);
        f(&names)
    })
}

/// With a copy of the old value on the looking core, and without.
#[test]
fn a_lookup_that_begins_after_an_update_sees_it() {
    for copies in [&[1][..], &[]] {
        explore(move || {
            let names = names(copies);
            let updated = Arc::new(AtomicUsize::new(0));
            let update = on(0, &names, {
                let updated = updated.clone();
                move |names| {
                    assert_eq!(names.insert(KEY, 2), Some(1));
                    updated.store(1, Ordering::Release);
                }
            });
            let lookup = on(1, &names, move |names| {
                let is_updated = updated.load(Ordering::Acquire) == 1;
                (is_updated, names.get(&KEY))
            });
            join(update);
            let (is_updated, seen) = join(lookup);
            assert!(seen == Some(2) || seen == Some(1) && !is_updated);
            // And the copy that the lookup made, before or behind the update, is not an old one.
            join(on(1, &names, |names| assert_eq!(names.get(&KEY), Some(2))));
        });
    }
}

#[test]
fn who_hears_of_the_new_value_does_not_see_the_old_one() {
    for copies in [&[2][..], &[1, 2]] {
        explore(move || {
            let names = names(copies);
            let seen = Arc::new(AtomicUsize::new(0));
            let update = on(0, &names, |names| drop(names.insert(KEY, 2)));
            let first = on(1, &names, {
                let seen = seen.clone();
                move |names| seen.store(names.get(&KEY).unwrap_or(0), Ordering::Release)
            });
            let second = on(2, &names, move |names| {
                let heard = seen.load(Ordering::Acquire);
                assert!(names.get(&KEY).unwrap_or(0) >= heard);
            });
            join(update);
            join(first);
            join(second);
        });
    }
}

#[test]
fn what_is_removed_stays_away() {
    explore(|| {
        let names = names(&[]);
        let removal = on(0, &names, |names| assert_eq!(names.remove(&KEY), Some(1)));
        let lookup = on(1, &names, |names| names.get(&KEY));
        join(removal);
        assert!([Some(1), None].contains(&join(lookup)));
        join(on(1, &names, |names| assert_eq!(names.get(&KEY), None)));
    });
}
