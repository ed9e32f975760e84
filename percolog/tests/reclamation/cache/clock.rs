//! What is evicted, and when: exactly what CLOCK evicts, if one thread uses the cache.

use crate::cache::{ByHand, room_for};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::reclaim::Domain;
use std::collections::HashMap;
use std::time::Duration;

/// CLOCK, as it is in the books.
struct Clock {
    room: usize,
    circle: Vec<(u32, bool)>,
    hand: usize,
    places: HashMap<u32, usize>,
}

impl Clock {
    /// Whether the key was there. It is now.
    fn access(&mut self, key: u32) -> bool {
        if let Some(place) = self.places.get(&key) {
            self.circle[*place].1 = true;
            return true;
        }
        if self.circle.len() < self.room {
            self.places.insert(key, self.circle.len());
            self.circle.push((key, false));
            return false;
        }
        while std::mem::take(&mut self.circle[self.hand].1) {
            self.hand = (self.hand + 1) % self.room;
        }
        self.places.remove(&self.circle[self.hand].0);
        self.circle[self.hand].0 = key;
        self.places.insert(key, self.hand);
        self.hand = (self.hand + 1) % self.room;
        false
    }
}

#[test]
fn one_thread_evicts_what_clock_evicts() {
    let (domain, seed) = (Domain::new(), seed());
    for room in [1, 2, 7, 50, 300] {
        let mut chance = fastrand::Rng::with_seed(seed);
        let cache = room_for(room)
            .lists(1)
            .build(&domain)
            .expect("there is memory");
        let mut clock = Clock {
            room,
            circle: Vec::new(),
            hand: 0,
            places: HashMap::new(),
        };
        // Few keys are used often, so that some are marked when the hand comes by.
        for _ in 0..share(8000) {
            let key = (chance.f64().powi(3) * 600.0) as u32;
            let there = cache
                .observe(&key, |value| assert_eq!(*value, key))
                .is_some();
            if !there {
                cache.set(key, key).expect("there is room");
            }
            assert_eq!(there, clock.access(key));
        }
        let stats = cache.stats();
        assert_eq!(stats.sets - stats.evictions, stats.items as u64);
        assert_eq!(stats.misses, stats.sets);
        assert_eq!(stats.items, room.min(clock.circle.len()));
    }
}

/// An item that is set again counts as used, and so does one that is touched.
#[test]
fn what_is_set_again_or_touched_stays() {
    let domain = Domain::new();
    let cache = room_for::<u32, u32>(3)
        .lists(1)
        .build(&domain)
        .expect("there is memory");
    for key in 0..3 {
        cache.set(key, key).expect("there is room");
    }
    cache.set(0, 10).expect("there is room");
    assert!(cache.touch(&1, None));
    cache.set(3, 3).expect("there is room");
    assert!(cache.contains(&0) && cache.contains(&1) && !cache.contains(&2));
}

/// What is replaced by something larger makes no room for it, even if it is the next to go: it is there, so the condition is met.
#[test]
fn what_is_replaced_is_not_evicted() {
    let domain = Domain::new();
    let full = || {
        let cache = room_for::<u32, usize>(4)
            .lists(1)
            .weigher(|_, extra| *extra)
            .build(&domain)
            .expect("there is memory");
        let mut versions = (0..4).map(|key| cache.set(key, 0).expect("there is room"));
        let first = versions.next().expect("there are some");
        assert_eq!(versions.count(), 3);
        (cache, first)
    };
    let least = full().0.share() / 4;
    // One of the others goes, two, or all of them.
    for (extra, left) in [(1, 3), (least + 1, 2), (3 * least, 1)] {
        let (cache, _) = full();
        assert!(cache.replace(0, extra).is_ok());
        assert_eq!(cache.len(), left);
        let (cache, version) = full();
        assert!(cache.compare_and_set(0, version, extra).is_ok());
        assert_eq!(cache.len(), left);
        let (cache, _) = full();
        assert!(cache.update(&0, |_| extra).is_ok_and(|done| done.is_some()));
        assert_eq!(cache.observe(&0, |value| *value), Some(extra));
        assert_eq!(cache.len(), left);
    }
}

/// What has expired goes first, used or not.
#[test]
fn what_has_expired_is_not_spared() {
    let (domain, time) = (Domain::new(), ByHand::default());
    let cache = room_for::<u32, u32>(3)
        .lists(1)
        .time(&time)
        .build(&domain)
        .expect("there is memory");
    let ten = Duration::from_millis(10);
    cache.set_for(0, 0, ten).expect("there is room");
    cache.set(1, 1).expect("there is room");
    cache.set(2, 2).expect("there is room");
    assert!(cache.observe(&0, |_| ()).is_some());
    time.pass(9);
    assert!(cache.contains(&0));
    time.pass(1);
    assert!(!cache.contains(&0));
    assert_eq!(cache.observe(&0, |value| *value), None);
    assert_eq!(cache.len(), 3, "nobody has met it");
    cache.set(3, 3).expect("there is room");
    assert!(cache.contains(&1) && cache.contains(&2) && cache.contains(&3));
    let stats = cache.stats();
    assert_eq!((stats.evictions, stats.expirations), (0, 1));
}

#[test]
fn a_walk_takes_out_what_has_expired() {
    let (domain, time) = (Domain::new(), ByHand::default());
    let cache = room_for::<u32, u32>(1000)
        .lists(4)
        .time(&time)
        .build(&domain)
        .expect("there is memory");
    for key in 0..200 {
        let ttl = Duration::from_millis(u64::from(key) + 1);
        cache.set_for(key, key, ttl).expect("there is room");
    }
    time.pass(100);
    let mut expired = 0;
    for _ in 0..200 {
        let now = cache.expire(5);
        assert!(now <= 20);
        expired += now;
    }
    assert_eq!(expired, 100);
    assert_eq!(cache.len(), 100);
    assert_eq!(cache.stats().expirations, 100);
    // What was touched in the meantime stays.
    assert!(cache.touch(&150, None));
    assert!(!cache.touch(&50, None));
    time.pass(1000);
    assert_eq!(cache.expire(usize::MAX), 99);
    assert!(cache.contains(&150));
}
