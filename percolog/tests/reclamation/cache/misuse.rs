//! Panics, exhaustion, and sections of others.

use crate::cache::{ByHand, collect_until, room_for};
use crate::common::alive::Alive;
use percolog::collections::Cache;
use percolog::collections::cache::{CacheBuildError, PutReason};
use percolog::reclaim::Domain;
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

thread_local! {
    /// After so many comparisons one panics.
    static COMPARISONS: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A key whose comparison panics when a test says so. All have the same hash.
#[derive(Clone)]
struct Touchy(u32);

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        let left = COMPARISONS.get();
        COMPARISONS.set(left.wrapping_sub(1));
        assert_ne!(left, 0, "as the test asked for");
        self.0 == other.0
    }
}

impl Eq for Touchy {}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        0_u8.hash(state);
    }
}

/// Wherever a comparison panics, nothing has happened, no lock stays taken, and nothing is lost.
#[test]
fn comparisons_that_panic() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let cache = room_for(4)
        .lists(1)
        .build(&domain)
        .expect("there is memory");
    for key in 0..4 {
        let set = cache.set(Touchy(key), alive.value(u64::from(key)));
        set.expect("there is room");
    }
    for after in 0..20 {
        let panicking = |f: &dyn Fn()| {
            COMPARISONS.set(after);
            let result = catch_unwind(AssertUnwindSafe(f));
            COMPARISONS.set(usize::MAX);
            result.is_err()
        };
        let a_set = panicking(&|| {
            let set = cache.set(Touchy(1), alive.value(100));
            set.expect("there is room");
        });
        let an_update = panicking(&|| {
            let update = cache.update(&Touchy(1), |_| alive.value(200));
            update.expect("there is room");
        });
        let a_touch = panicking(&|| assert!(cache.touch(&Touchy(0), None)));
        let a_get = panicking(&|| assert!(cache.contains(&Touchy(0))));
        assert!(cache.contains(&Touchy(1)));
        let number = cache.observe(&Touchy(1), |value| value.number());
        if a_set && an_update {
            assert_eq!(number, Some(1), "nothing has happened");
        }
        if after == 0 {
            assert!(a_set && an_update && a_touch && a_get);
        }
        let a_delete = panicking(&|| assert!(cache.delete(&Touchy(2))));
        assert_eq!(cache.contains(&Touchy(2)), a_delete);
        if !a_delete {
            let set = cache.set(Touchy(2), alive.value(2));
            set.expect("there is room");
        }
        assert_eq!(cache.len(), 4);
        collect_until(&domain, &alive, 4);
    }
    // One more key: one of the others makes room, wherever a comparison panics before.
    for after in 0..20 {
        COMPARISONS.set(after);
        let result = catch_unwind(AssertUnwindSafe(|| {
            cache.set(Touchy(100 + after as u32), alive.value(5))
        }));
        COMPARISONS.set(usize::MAX);
        assert_eq!(result.is_ok(), cache.contains(&Touchy(100 + after as u32)));
        assert!(cache.len() <= 4);
        collect_until(&domain, &alive, cache.len());
    }
    drop(cache);
    assert_eq!(alive.count(), 0);
}

/// A value whose destructor panics.
struct Grumpy(Alive, u32);

impl Drop for Grumpy {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        assert_ne!(self.1 % 3, 0, "as the test asked for");
    }
}

impl Grumpy {
    fn new(alive: &Alive, number: u32) -> Self {
        alive.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self(alive.clone(), number)
    }
}

/// The call goes on, and everything else is dropped.
#[test]
fn destructors_that_panic() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let cache = room_for(50)
        .lists(2)
        .build(&domain)
        .expect("there is memory");
    for number in 0..1000 {
        let set = cache.set(number % 100, Grumpy::new(&alive, number));
        assert!(set.is_ok());
        if number % 7 == 0 {
            cache.delete(&((number + 50) % 100));
        }
    }
    collect_until(&domain, &alive, cache.len());
    assert!(domain.stats().panics > 0);
    drop(cache);
    assert_eq!(alive.count(), 0);
}

#[test]
fn closures_that_panic() {
    let domain = Domain::new();
    let cache = room_for(50).build(&domain).expect("there is memory");
    cache.set(1, 1).expect("there is room");
    let looked = catch_unwind(AssertUnwindSafe(|| {
        cache.observe(&1, |_: &i32| panic!("as the test asked for"))
    }));
    let updated = catch_unwind(AssertUnwindSafe(|| {
        cache.update(&1, |_| panic!("as the test asked for"))
    }));
    assert!(looked.is_err() && updated.is_err());
    assert_eq!(cache.observe(&1, |value| *value), Some(1));
    // They may use the cache themselves, and whoever is faster is seen.
    let mut calls = 0;
    let version = cache.update(&1, |value| {
        calls += 1;
        if calls == 1 {
            cache.set(1, 10).expect("there is room");
        }
        value + 1
    });
    assert!(version.is_ok_and(|version| version.is_some()));
    assert_eq!((calls, cache.observe(&1, |value| *value)), (2, Some(11)));
    // Or take it out.
    let none = cache.update(&1, |value| {
        cache.delete(&1);
        *value
    });
    assert!(none.is_ok_and(|version| version.is_none()));
    assert!(cache.is_empty());
}

/// What was taken out, and is still seen, counts; the item that finds no memory is handed back.
#[test]
fn memory_that_runs_out() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let cache = room_for(100)
        .memory(64 << 10)
        .build(&domain)
        .expect("there is memory");
    let section = domain.enter();
    let mut put_in = 0;
    let rejected = loop {
        match cache.set(put_in % 10, alive.value(put_in)) {
            Ok(_) => put_in += 1,
            Err(rejected) => break rejected,
        }
        assert!(put_in < 10_000, "more than there is memory for");
    };
    assert_eq!(
        rejected.reason.to_string(),
        "the nodes take the 65536 bytes that they may take"
    );
    assert!(matches!(
        rejected.reason,
        PutReason::NoMemory {
            limit: Some(65536),
            ..
        }
    ));
    assert_eq!(
        (rejected.key, rejected.value.number()),
        (put_in % 10, put_in)
    );
    assert_eq!(cache.len(), 10);
    assert!(alive.count() > 100, "they are still seen");
    assert!(cache.memory_usage() >= 64 << 10);
    drop(section);
    // With the section they make room.
    let (key, value) = (rejected.key, rejected.value);
    assert!(cache.set(key, value).is_ok());
    assert_eq!(cache.stats().rejected, 1);
    drop(cache);
    collect_until(&domain, &alive, 0);
}

#[test]
fn caches_that_are_too_small() {
    let domain = Domain::new();
    let least = Cache::<u64, u64>::ITEM_BYTES;
    let refused = Cache::<u64, u64>::builder(least - 1).build(&domain);
    assert!(
        matches!(refused, Err(CacheBuildError::TooSmall { least: needed, .. }) if needed == least)
    );
    let refused = Cache::<u64, u64>::builder(least).lists(3).build(&domain);
    let error = refused.expect_err("four lists");
    assert_eq!(
        error.to_string(),
        format!("a cache of these items takes {} bytes at least", 4 * least)
    );
    let cache = Cache::<u64, u64>::builder(least)
        .build(&domain)
        .expect("there is room for one");
    assert_eq!((cache.lists(), cache.limit()), (1, least));
    // More than there are addresses.
    let refused = Cache::<u64, u64>::builder(usize::MAX).build(&domain);
    assert_eq!(refused.err(), Some(CacheBuildError::NoMemory));
}

#[test]
#[should_panic(expected = "a section of another domain than the cache's")]
fn sections_of_other_domains() {
    let (domain, other) = (Domain::new(), Domain::new());
    let cache = room_for::<u8, u8>(10)
        .build(&domain)
        .expect("there is memory");
    let section = other.enter();
    let _ = cache.get(&section, &1);
}

#[test]
#[should_panic(expected = "a section of another domain than the cache's")]
fn walks_in_sections_of_other_domains() {
    let (domain, other) = (Domain::new(), Domain::new());
    let cache = room_for::<u8, u8>(10)
        .build(&domain)
        .expect("there is memory");
    let section = other.enter();
    cache.iter(&section).count();
}

/// Lifetimes that end beyond what can be said do not end, and none is over too early.
#[test]
fn lifetimes_of_all_lengths() {
    let (domain, time) = (Domain::new(), ByHand::default());
    let cache = room_for::<u8, u8>(10)
        .time(&time)
        .build(&domain)
        .expect("there is memory");
    cache.set_for(1, 1, Duration::MAX).expect("there is room");
    cache
        .set_for(2, 2, Duration::from_nanos(1))
        .expect("there is room");
    cache.set_for(3, 3, Duration::ZERO).expect("there is room");
    assert!(cache.contains(&1) && cache.contains(&2) && !cache.contains(&3));
    time.pass(1);
    assert!(cache.contains(&1) && !cache.contains(&2));
    time.pass(u64::MAX / 2);
    assert!(cache.contains(&1));
}
