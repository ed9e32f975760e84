//! A child goes on with the cache.

use crate::cache::room_for;
use crate::common::child::{check, in_a_child};
use percolog::reclaim::Domain;

#[test]
fn a_child_goes_on() {
    let domain = Domain::new();
    let cache = room_for::<u32, u32>(64)
        .build(&domain)
        .expect("there is memory");
    for key in 0..100 {
        cache.set(key, key).expect("there is room");
    }
    let section = domain.enter();
    let before = cache.iter(&section).count();
    in_a_child(|| {
        check(cache.iter(&section).count() == before, 1)?;
        for key in 100..300 {
            check(cache.set(key, key).is_ok(), 2)?;
            check(cache.observe(&key, |value| *value) == Some(key), 3)?;
        }
        check(cache.len() <= 64, 4)?;
        check(cache.delete(&299), 5)?;
        check(cache.stats().sets == 300, 6)
    });
    assert_eq!(cache.stats().sets, 100);
}
