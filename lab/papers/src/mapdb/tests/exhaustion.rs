//! Too little of everything.

use super::super::{Check, Lack, MapError, MapUnmap, MappingDatabase, Mappings, SoftwareTables};
use super::gated::Gated;
use super::{NO_TLBS, PAGES};
use percolog::reclaim::Domain;

fn lacks<T: std::fmt::Debug>(result: &Result<T, MapError>, expected: Lack) {
    let lacking = matches!(result, Err(MapError::Exhausted { what, .. }) if *what == expected);
    assert!(lacking, "{result:?}");
}

#[test]
fn frames_run_out_and_come_back() {
    let domain = Domain::new();
    let tables = SoftwareTables::new(&NO_TLBS, 100);
    let database = MappingDatabase::new(&domain, tables, PAGES);
    let space = database.create().expect("there is room");
    for round in 0..3 {
        let most = database.grant(space, 70).expect("there are 100");
        lacks(&database.grant(space, 31), Lack::Frames);
        let before = database.check().expect("it fits together");
        assert_eq!((before.frames, before.pages), (70, 70));
        // Though they do not lie beside each other.
        let rest = database.grant(space, 30).expect("there are 30 more");
        lacks(&database.grant(space, 1), Lack::Frames);
        let mut frames: Vec<u32> = (0..70)
            .map(|offset| database.frame(most, offset))
            .chain((0..30).map(|offset| database.frame(rest, offset)))
            .map(|frame| frame.expect("it is mapped"))
            .collect();
        frames.sort_unstable();
        assert_eq!(frames, Vec::from_iter(0..100), "in round {round}");
        // One by one, out of order.
        for offset in (0..70).rev() {
            let page = most.part(offset..offset + 1).expect("a page");
            assert_eq!(database.release(page).expect("it is there"), 1);
        }
        assert_eq!(database.release(rest).expect("it is there"), 30);
    }
}

#[test]
fn addresses_run_out_and_come_back() {
    let domain = Domain::new();
    let tables = SoftwareTables::new(&NO_TLBS, PAGES);
    let database = MappingDatabase::new(&domain, tables, 64);
    let [space, other] = [(); 2].map(|()| database.create().expect("there is room"));
    lacks(&database.grant(space, 65), Lack::Addresses);
    let source = database.grant(other, 40).expect("there are 64");
    for _ in 0..3 {
        let pages = database.grant(space, 64).expect("there are 64");
        lacks(&database.grant(space, 1), Lack::Addresses);
        lacks(&database.reserve(space, 1), Lack::Addresses);
        lacks(&database.alias(source, space), Lack::Addresses);
        let check = database.check().expect("it fits together");
        assert_eq!((check.pages, check.frames), (104, 104));
        assert_eq!(database.release(pages).expect("it is there"), 64);
    }
}

#[test]
fn spaces_run_out_and_come_back() {
    let domain = Domain::new();
    let database = super::database(&domain).max_spaces(2);
    for _ in 0..3 {
        let spaces = [(); 2].map(|()| database.create().expect("there are two"));
        lacks(&database.create(), Lack::Spaces);
        for space in spaces {
            let page = database.grant(space, 3).expect("there is room");
            database.alias(page, space).expect("there is room");
            assert_eq!(database.terminate(space).expect("it is there"), 6);
        }
        assert_eq!(database.check(), Ok(Check::default()));
        // A space goes for good when nobody can see it any more.
        database.collect();
    }
}

#[test]
fn what_the_back_end_refuses_has_changed_nothing() {
    let domain = Domain::new();
    let database = MappingDatabase::new(&domain, Gated::new(), PAGES);
    let gate = database.back_end();
    let [one, other] = [(); 2].map(|()| database.create().expect("there is room"));
    // Pages whose frames do not lie beside each other: each is a call of its own.
    let pieces: Vec<_> = (0..8)
        .map(|_| database.grant(one, 1).expect("there is room"))
        .collect();
    let scattered = database.reserve(other, 8).expect("there is room");
    for (offset, piece) in (0..).zip(pieces.iter().rev()) {
        let page = scattered.part(offset..offset + 1).expect("a page");
        database.alias_into(*piece, page).expect("it is reserved");
    }
    let before = database.check().expect("it fits together");
    for allowed in 0..8 {
        gate.refuse_after(allowed);
        let refused = database.alias(scattered, one);
        assert!(matches!(refused, Err(MapError::Refused(_))), "{refused:?}");
        let reserved = database.reserve(one, 8).expect("there is room");
        gate.refuse_after(allowed);
        let refused = database.alias_into(scattered, reserved);
        assert!(matches!(refused, Err(MapError::Refused(_))), "{refused:?}");
        assert!(database.release(reserved).is_err(), "given up");
        gate.refuse_after(0);
        let refused = database.grant(one, 5);
        assert!(matches!(refused, Err(MapError::Refused(_))), "{refused:?}");
        assert_eq!(database.check().expect("it fits together"), before);
    }
    gate.refuse_after(-1);
    // Of one page nothing is left to be mapped.
    assert_eq!(database.release(pieces[3]).expect("it is there"), 2);
    let gone = database.alias(scattered, one);
    assert!(
        matches!(gone, Err(MapError::NotMapped { offset: 4 })),
        "{gone:?}"
    );
    assert_eq!(
        database.check().expect("it fits together").pages,
        before.pages - 2
    );
    for piece in pieces {
        let _ = database.release(piece);
    }
    let after = database.check().expect("it fits together");
    assert_eq!((after.pages, after.frames, after.reserved), (0, 0, 0));
    let twice = gate
        .unmapped_twice
        .load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(twice, 0, "something was unmapped that showed nothing");
}

#[test]
fn no_pages_are_no_mapping() {
    let domain = Domain::new();
    let database = super::database(&domain);
    let space = database.create().expect("there is room");
    let page = database.grant(space, 1).expect("there is room");
    let reserved = database.reserve(space, 2).expect("there is room");
    for refused in [
        database.grant(space, 0).map(drop),
        database.reserve(space, 0).map(drop),
        database.alias_into(page, reserved),
    ] {
        assert!(
            matches!(refused, Err(MapError::Length { .. })),
            "{refused:?}"
        );
    }
    assert!(matches!(
        database.alias(reserved, space),
        Err(MapError::NotMapped { offset: 0 })
    ));
    assert!(matches!(
        database.revoke(reserved),
        Err(MapError::NotMapped { .. })
    ));
    assert_eq!(database.release(reserved).expect("it is there"), 0);
}
