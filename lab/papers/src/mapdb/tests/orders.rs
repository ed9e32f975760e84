//! Calls that meet, in each order.

use super::super::{Check, MapError, MapUnmap, Mapping, MappingDatabase, Mappings, Space};
use super::PAGES;
use super::gated::{Call, Gated, a_while};
use percolog::reclaim::Domain;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

type Database<'d> = MappingDatabase<'d, Gated>;

fn database(domain: &Domain) -> Database<'_> {
    MappingDatabase::new(domain, Gated::new(), PAGES)
}

/// Three address spaces: a page in the first, and what was aliased from it in the second.
fn family(database: &Database<'_>) -> ([Space; 3], Mapping, Mapping) {
    let spaces = [(); 3].map(|()| database.create().expect("there is room"));
    let parent = database.grant(spaces[0], 1).expect("there is room");
    // So that the child has another number than its parent: gates know pages by their numbers.
    database.reserve(spaces[1], 1).expect("there is room");
    let child = database.alias(parent, spaces[1]).expect("there is room");
    assert_ne!(child.first_page(), parent.first_page());
    (spaces, parent, child)
}

fn pages(database: &Database<'_>) -> usize {
    let check = database.check().expect("it fits together");
    let twice = database.back_end().unmapped_twice.load(Ordering::Relaxed);
    assert_eq!(twice, 0, "something was unmapped that showed nothing");
    check.pages
}

#[test]
fn an_alias_that_came_first_is_taken_by_the_revoke() {
    let domain = Domain::new();
    let database = database(&domain);
    let (spaces, parent, child) = family(&database);
    let gate = database.back_end();
    // The grandchild's page is the first one of its address space.
    gate.hold(Call::Map, 0);
    let returned = AtomicBool::new(false);
    thread::scope(|scope| {
        let aliasing = scope.spawn(|| database.alias(child, spaces[2]));
        gate.wait_for_arrival();
        let revoking = scope.spawn(|| {
            let removed = database.revoke(parent);
            returned.store(true, Ordering::Release);
            removed
        });
        a_while();
        // Asserted when nobody waits at the gate any more, or a failure would hang.
        let early = returned.load(Ordering::Acquire);
        gate.open();
        let removed = revoking.join().expect("no panic").expect("it is there");
        let grandchild = aliasing.join().expect("no panic").expect("it was first");
        assert!(!early, "a descendant was coming");
        assert_eq!(removed, 2);
        assert_eq!(database.frame(grandchild, 0), None);
    });
    assert_eq!(pages(&database), 1);
}

#[test]
fn an_alias_from_what_is_being_revoked_is_refused() {
    let domain = Domain::new();
    let database = database(&domain);
    let (spaces, parent, child) = family(&database);
    let gate = database.back_end();
    gate.hold(Call::Unmap, child.first_page());
    thread::scope(|scope| {
        let revoking = scope.spawn(|| database.revoke(parent));
        gate.wait_for_arrival();
        let aliased = database.alias(child, spaces[2]);
        let revoked = database.revoke(child);
        // The page itself stays, and what comes later is not below what was there.
        let later = database.alias(parent, spaces[2]);
        gate.open();
        assert!(
            matches!(aliased, Err(MapError::Revoked { offset: 0 })),
            "{aliased:?}"
        );
        assert!(
            matches!(revoked, Err(MapError::Revoked { offset: 0 })),
            "{revoked:?}"
        );
        let later = later.expect("it is there");
        assert_eq!(revoking.join().expect("no panic").expect("it is there"), 1);
        assert_eq!(database.frame(later, 0), database.frame(parent, 0));
    });
    assert_eq!(pages(&database), 2);
}

/// What another call takes away is gone too when a revoke returns, or a release.
fn waits_for_others(release: bool) {
    let domain = Domain::new();
    let database = database(&domain);
    let (_, parent, child) = family(&database);
    let gate = database.back_end();
    gate.hold(Call::Unmap, child.first_page());
    let returned = AtomicBool::new(false);
    thread::scope(|scope| {
        let taking = scope.spawn(|| database.release(child));
        gate.wait_for_arrival();
        let other = scope.spawn(|| {
            let removed = if release {
                database.release(parent)
            } else {
                database.revoke(parent)
            };
            returned.store(true, Ordering::Release);
            removed
        });
        a_while();
        let early = returned.load(Ordering::Acquire);
        gate.open();
        assert!(!early, "the child was still there");
        assert_eq!(taking.join().expect("no panic").expect("it is there"), 1);
        let removed = other.join().expect("no panic").expect("it is there");
        assert_eq!(removed, u64::from(release));
    });
    assert_eq!(pages(&database), usize::from(!release));
    database.collect();
    assert_eq!(database.frames.len(), usize::from(!release));
}

#[test]
fn a_revoke_waits_for_what_another_call_takes_away() {
    waits_for_others(false);
}

#[test]
fn a_release_waits_for_what_another_call_takes_away() {
    waits_for_others(true);
}

#[test]
fn a_terminated_space_is_given_nothing() {
    let domain = Domain::new();
    let database = database(&domain);
    let spaces = [(); 2].map(|()| database.create().expect("there is room"));
    let page = database.grant(spaces[0], 1).expect("there is room");
    let gate = database.back_end();
    gate.hold(Call::Map, 0);
    thread::scope(|scope| {
        // On its way into the second space when that is terminated.
        let aliasing = scope.spawn(|| database.alias(page, spaces[1]));
        gate.wait_for_arrival();
        let (say, said) = mpsc::channel::<()>();
        let (database, spaces) = (&database, &spaces);
        let terminating = scope.spawn(move || {
            let removed = database.terminate(spaces[1]);
            drop(say);
            removed
        });
        a_while();
        let early = said.try_recv();
        gate.open();
        assert_eq!(early, Err(mpsc::TryRecvError::Empty));
        let aliased = aliasing.join().expect("no panic").expect("it was first");
        let removed = terminating.join().expect("no panic").expect("it is there");
        assert_eq!((removed, database.frame(aliased, 0)), (1, None));
    });
    assert!(matches!(
        database.alias(page, spaces[1]),
        Err(MapError::NoSuchSpace)
    ));
    let expected = Check {
        spaces: 1,
        frames: 1,
        pages: 1,
        reserved: 0,
    };
    assert_eq!(database.check(), Ok(expected));
}

/// Some of what is released another call takes away already.
#[test]
fn a_release_waits_for_pages_that_another_call_takes_away() {
    let domain = Domain::new();
    let database = database(&domain);
    let space = database.create().expect("there is room");
    let pages = database.grant(space, 3).expect("there is room");
    let middle = pages.part(1..2).expect("a part");
    let gate = database.back_end();
    gate.hold(Call::Unmap, middle.first_page());
    let returned = AtomicBool::new(false);
    thread::scope(|scope| {
        let taking = scope.spawn(|| database.release(middle));
        gate.wait_for_arrival();
        let other = scope.spawn(|| {
            let removed = database.release(pages);
            returned.store(true, Ordering::Release);
            removed
        });
        a_while();
        let early = returned.load(Ordering::Acquire);
        gate.open();
        assert!(!early, "one was still there");
        assert_eq!(taking.join().expect("no panic").expect("it is there"), 1);
        assert_eq!(other.join().expect("no panic").expect("two are there"), 2);
    });
    assert_eq!(self::pages(&database), 0);
}

/// What was reserved is there all the time: before it is filled, meanwhile and afterwards.
#[test]
fn a_release_of_what_is_just_being_filled_comes_after() {
    let domain = Domain::new();
    let database = database(&domain);
    let (spaces, parent, _) = family(&database);
    let reserved = database.reserve(spaces[2], 1).expect("there is room");
    let gate = database.back_end();
    gate.hold(Call::Map, reserved.first_page());
    thread::scope(|scope| {
        let aliasing = scope.spawn(|| database.alias_into(parent, reserved));
        gate.wait_for_arrival();
        let releasing = scope.spawn(|| database.release(reserved));
        a_while();
        let early = releasing.is_finished();
        gate.open();
        assert!(!early, "the page was on its way");
        aliasing.join().expect("no panic").expect("it was first");
        assert_eq!(releasing.join().expect("no panic").expect("it is there"), 1);
    });
    assert_eq!(pages(&database), 2);
}

/// Who has found the space open may be about to make pages in it.
#[test]
fn a_space_is_terminated_when_all_have_left_who_found_it_open() {
    let domain = Domain::new();
    let database = super::database(&domain);
    let space = database.create().expect("there is room");
    let (arrive, arrived) = mpsc::channel::<()>();
    let (open, opened) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let database = &database;
        let inside = scope.spawn(move || {
            database.with_space(space, |_| {
                drop(arrive);
                opened.recv()
            })
        });
        assert!(arrived.recv().is_err(), "nothing is sent");
        let terminating = scope.spawn(move || database.terminate(space));
        while let Ok(reserved) = database.reserve(space, 1) {
            let _ = database.release(reserved);
            thread::yield_now();
        }
        a_while();
        let early = terminating.is_finished();
        drop(open);
        assert!(!early, "somebody was in there");
        let removed = terminating.join().expect("no panic").expect("it is there");
        // Perhaps one that was reserved to see how far it was; none that shows a frame.
        assert_eq!(removed, 0);
        let looked = inside.join().expect("no panic").expect("it was there");
        assert!(looked.is_err(), "nothing is sent");
    });
    assert_eq!(database.check(), Ok(Check::default()));
}

/// Until nothing can be aliased from a page any more.
fn wait_until_condemned(database: &Database<'_>, page: Mapping, to: Space) {
    loop {
        match database.alias(page, to) {
            Err(MapError::Revoked { .. }) => return,
            Err(error) => panic!("{error}"),
            // What lies below the page can have been taken with it.
            Ok(early) => drop(database.release(early)),
        }
        thread::yield_now();
    }
}

/// Two releases, each of which comes to a page of the other one's, below one of its own.
#[test]
fn releases_that_wait_for_each_other_come_to_an_end() {
    let domain = Domain::new();
    let database = database(&domain);
    let [roots, one, other] = [(); 3].map(|()| database.create().expect("there is room"));
    let granted = database.grant(roots, 3).expect("there is room");
    let left = database.reserve(one, 3).expect("there is room");
    let right = database.reserve(other, 2).expect("there is room");
    let part = |mapping: Mapping, at| mapping.part(at..at + 1).expect("there are so many");
    let alias = |from, to| database.alias_into(from, to).expect("all is there");
    alias(part(granted, 0), part(left, 0));
    alias(part(granted, 1), part(right, 1));
    alias(part(left, 0), part(right, 0));
    alias(part(right, 1), part(left, 1));
    let gate = database.back_end();
    // The third page keeps the first call from looking below the others until the second one has come to them.
    let third = part(left, 2);
    gate.hold(Call::Map, third.first_page());
    thread::scope(|scope| {
        let filling = scope.spawn(|| database.alias_into(part(granted, 2), third));
        gate.wait_for_arrival();
        let first = scope.spawn(|| database.release(left));
        wait_until_condemned(&database, part(left, 1), roots);
        let second = scope.spawn(|| database.release(right));
        wait_until_condemned(&database, part(right, 1), roots);
        gate.open();
        filling.join().expect("no panic").expect("it was first");
        assert_eq!(first.join().expect("no panic").expect("it is there"), 3);
        // Perhaps with what was aliased to see how far it was.
        assert!(second.join().expect("no panic").expect("it is there") >= 2);
    });
    assert_eq!(pages(&database), 3);
    assert_eq!(database.release(granted).expect("it is there"), 3);
    assert_eq!(pages(&database), 0);
}
