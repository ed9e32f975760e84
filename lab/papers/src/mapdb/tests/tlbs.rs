//! Processors that remember what was unmapped.

use super::super::{
    BackEnd, Lack, MapError, MapUnmap, MappingDatabase, Mappings, SoftwareTables, Tlbs,
};
use percolog::reclaim::{Domain, DomainOptions};
use std::thread;

/// One frame, two processors: the first has seen the page.
#[test]
fn a_frame_is_another_owners_only_when_no_processor_remembers_it() {
    static TLBS: Tlbs = Tlbs::new(2);
    let domain = Domain::with(DomainOptions::new().grace(&TLBS));
    let database = MappingDatabase::new(&domain, SoftwareTables::new(&TLBS, 1), 16);
    let tables = database.back_end();
    let spaces = [(); 2].map(|()| database.create().expect("there is room"));
    let write = |processor, space, page, value| {
        let written =
            database.with_space(space, |table| tables.write(processor, table, page, value));
        written.expect("the space is there")
    };
    let old = database.grant(spaces[0], 1).expect("there is a frame");
    assert!(write(0, spaces[0], old.first_page(), 1));
    assert_eq!(database.release(old).expect("it is there"), 1);
    assert!(
        write(0, spaces[0], old.first_page(), 2),
        "the processor remembers, or this test shows nothing"
    );
    // What there is of frames waits until both have flushed, in whatever order.
    for processor in [1, 1, 0] {
        let refused = database.grant(spaces[1], 1);
        let exhausted = matches!(
            refused,
            Err(MapError::Exhausted {
                what: Lack::Frames,
                ..
            })
        );
        assert!(exhausted, "{refused:?}");
        tables.flush(processor);
    }
    let new = database.grant(spaces[1], 1).expect("both have flushed");
    assert!(
        !write(0, spaces[0], old.first_page(), 3),
        "it has forgotten"
    );
    let value = database.with_space(spaces[1], |table| tables.read(1, table, new.first_page()));
    assert_eq!(value.expect("the space is there"), Some(0), "full of zeros");
    database.check().expect("it fits together");
}

/// One address: what a processor remembers of it would be found there by the next page.
#[test]
fn an_address_is_used_again_only_when_no_processor_remembers_it() {
    static TLBS: Tlbs = Tlbs::new(1);
    let domain = Domain::with(DomainOptions::new().grace(&TLBS));
    let database = MappingDatabase::new(&domain, SoftwareTables::new(&TLBS, 8), 1);
    let tables = database.back_end();
    let [space, other] = [(); 2].map(|()| database.create().expect("there is room"));
    let read = |page| {
        let read = database.with_space(space, |table| tables.read(0, table, page));
        read.expect("the space is there")
    };
    let old = database.grant(space, 1).expect("there is an address");
    assert_eq!(read(old.first_page()), Some(0));
    let source = database.grant(other, 1).expect("there is an address");
    let source_page = source.first_page();
    database
        .with_space(other, |table| tables.write(0, table, source_page, 7))
        .expect("the space is there");
    assert_eq!(database.release(old).expect("it is there"), 1);
    assert_eq!(read(0), Some(0), "the processor remembers");
    let refused = database.alias(source, space);
    assert!(
        matches!(
            refused,
            Err(MapError::Exhausted {
                what: Lack::Addresses,
                ..
            })
        ),
        "{refused:?}"
    );
    tables.flush(0);
    database.alias(source, space).expect("it has forgotten");
    assert_eq!(read(0), Some(7));
}

/// However often the others have flushed before, each needs to do so once.
#[test]
fn who_flushes_seldom_holds_up_nobody_for_longer() {
    static TLBS: Tlbs = Tlbs::new(2);
    let domain = Domain::with(DomainOptions::new().grace(&TLBS));
    let database = MappingDatabase::new(&domain, SoftwareTables::new(&TLBS, 1), 16);
    let tables = database.back_end();
    let space = database.create().expect("there is room");
    for _ in 0..100 {
        tables.flush(0);
    }
    let page = database.grant(space, 1).expect("there is a frame");
    assert_eq!(database.release(page).expect("it is there"), 1);
    assert!(
        database.grant(space, 1).is_err(),
        "nobody has flushed since"
    );
    tables.flush(1);
    assert!(
        database.grant(space, 1).is_err(),
        "one has not flushed since"
    );
    tables.flush(0);
    database.grant(space, 1).expect("both have");
}

/// Each thread writes to its pages through one processor's TLB and reads them through the other's: what it reads is always what it has
/// written, since neither remembers whose the frame was, or what was at the address.
#[test]
fn nobody_writes_to_anothers_pages() {
    static TLBS: Tlbs = Tlbs::new(2);
    let domain = Domain::with(DomainOptions::new().grace(&TLBS));
    let database = MappingDatabase::new(&domain, SoftwareTables::new(&TLBS, 24), 24);
    let tables = database.back_end();
    let spaces = [(); 2].map(|()| database.create().expect("there is room"));
    let rounds = if cfg!(debug_assertions) { 600 } else { 6000 };
    thread::scope(|scope| {
        for thread in 0..3_usize {
            let database = &database;
            scope.spawn(move || {
                let space = spaces[thread % 2];
                let mut mapped = 0;
                for round in 0..rounds {
                    if round % 8 == thread {
                        tables.flush(0);
                        tables.flush(1);
                    }
                    let Ok(pages) = database.grant(space, 1 + (round % 3) as u32) else {
                        continue;
                    };
                    mapped += 1;
                    let numbers = || pages.first_page()..pages.first_page() + pages.len();
                    let value = (round * 4 + thread + 1) as u64;
                    let looked = database.with_space(space, |table| {
                        for page in numbers() {
                            let at_first = tables.read(1, table, page);
                            assert_eq!(at_first, Some(0), "full of zeros");
                            assert!(tables.write(0, table, page, value + u64::from(page)));
                        }
                        thread::yield_now();
                        for page in numbers() {
                            let found = tables.read(1, table, page);
                            assert_eq!(found, Some(value + u64::from(page)));
                        }
                    });
                    looked.expect("the space is there");
                    database.release(pages).expect("it is there");
                }
                assert!(mapped > 0, "there was never room");
            });
        }
    });
    database.check().expect("it fits together");
}

#[test]
fn tables_keep_their_translations_apart() {
    static TLBS: Tlbs = Tlbs::new(1);
    let tables = SoftwareTables::new(&TLBS, 4);
    let [one, other] = [(); 2].map(|()| tables.create(1024).expect("there is room"));
    tables.map(&one, 1000, 0, 2).expect("there is room");
    tables.map(&other, 1000, 3, 1).expect("there is room");
    assert!(tables.write(0, &one, 1000, 5));
    assert_eq!(tables.read(0, &other, 1000), Some(0));
    assert!(
        tables.map(&one, 1023, 0, 2).is_err(),
        "the second page is beyond the end"
    );
    assert_eq!(tables.frame_at(&one, 1023), None);
    assert_eq!(tables.written(), 1);
}
