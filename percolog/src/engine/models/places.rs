//! First touches of a slot's place.

use super::{explore, join};
use crate::cpu::{CoreId, PerCore};
use crate::sync::atomic::{AtomicUsize, Ordering};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

/// Something whose making and dropping loom watches: one that is never dropped is found as a leak, and
/// one that is seen before it is made as a race.
struct Thing {
    number: AtomicUsize,
    _made: Arc<()>,
}

/// Two threads touch one place first, or two places of one table: they agree on the places, and what
/// the second one made is dropped. A third thread sees a place only with what is in it.
///
/// Loom cannot see: the allocator, and the addresses it gives.
#[test]
fn first_touches_that_race_agree() {
    for slots in [[0, 0], [1, 0], [0, 2]] {
        explore(move || {
            let places: Arc<PerCore<Thing>> = Arc::new(PerCore::new());
            let things = Arc::new(());
            let touch = move |slot: u32, places: &PerCore<Thing>, things: &Arc<()>| {
                let thing = places.get_or_make(CoreId::new(slot), || Thing {
                    number: AtomicUsize::new(10),
                    _made: things.clone(),
                });
                thing.number.fetch_add(1, Ordering::Relaxed);
            };
            let threads = slots.map(|slot| {
                let (places, things) = (places.clone(), things.clone());
                thread::spawn(move || touch(slot, &places, &things))
            });
            for (_, thing) in places.iter() {
                assert!((10..=12).contains(&thing.number.load(Ordering::Relaxed)));
            }
            threads.into_iter().for_each(join);
            let found: Vec<_> = places
                .iter()
                .map(|(slot, thing)| (slot.index() as u32, thing.number.load(Ordering::Relaxed)))
                .collect();
            let mut expected: Vec<_> = match slots {
                [one, other] if one == other => [(one, 12)].into(),
                two => two.map(|slot| (slot, 11)).into(),
            };
            expected.sort_unstable();
            assert_eq!(found, expected);
            drop(places);
            assert_eq!(Arc::strong_count(&things), 1);
        });
    }
}

/// A walk finds every place whose touching it can know of: the bound of the walk is raised before the
/// place is published.
///
/// Loom cannot see: walks over more than two tables.
#[test]
fn a_walk_finds_every_place_it_can_know_of() {
    explore(|| {
        let places: Arc<PerCore<AtomicUsize>> = Arc::new(PerCore::new());
        let told = Arc::new(AtomicUsize::new(0));
        let toucher = thread::spawn({
            let (places, told) = (places.clone(), told.clone());
            move || {
                for slot in [3, 0] {
                    places.get_or_make(CoreId::new(slot), || AtomicUsize::new(slot as usize));
                    told.fetch_add(1, Ordering::Release);
                }
            }
        });
        // Another thread that meets the place learns of it by nothing else.
        let met = places.touched(CoreId::new(3)).is_some();
        let known = told.load(Ordering::Acquire).max(usize::from(met));
        let mut found = Vec::new();
        for (slot, number) in places.iter() {
            assert_eq!(slot.index(), number.load(Ordering::Relaxed));
            found.push(slot.index());
        }
        match known {
            0 => {}
            1 => assert!(found.contains(&3)),
            _ => assert_eq!(found, [0, 3]),
        }
        join(toucher);
        assert_eq!(places.iter().count(), 2);
    });
}
