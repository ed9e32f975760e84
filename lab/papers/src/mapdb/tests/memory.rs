//! Real memory.

use super::super::{MapError, MapUnmap, Mapping, MappingDatabase, Mappings, MemoryFile, Refused};
use super::differential::{program, with_back_end};
use percolog::reclaim::Domain;
use proptest::prelude::*;
use std::collections::HashMap;

const FRAMES: u32 = 4096;

type Database<'d> = MappingDatabase<'d, MemoryFile>;

fn database(domain: &Domain) -> Database<'_> {
    let file = MemoryFile::new(FRAMES).expect("the system has memory files");
    MappingDatabase::new(domain, file, 256)
}

/// `None` if nothing is mapped there.
fn read(database: &Database<'_>, mapping: Mapping, offset: u32) -> Option<u64> {
    let page = mapping.first_page() + offset;
    let read = database.with_space(mapping.space(), |range| {
        database.back_end().read(range, page)
    });
    match read.expect("the space is there") {
        Ok(value) => Some(value),
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{error}");
            None
        }
    }
}

fn write(database: &Database<'_>, mapping: Mapping, offset: u32, value: u64) -> bool {
    let page = mapping.first_page() + offset;
    let written = database.with_space(mapping.space(), |range| {
        database.back_end().write(range, page, value)
    });
    written.expect("the space is there").is_ok()
}

#[test]
fn aliases_are_shared_memory_until_they_are_revoked() {
    let domain = Domain::new();
    let database = database(&domain);
    let spaces = [(); 3].map(|()| database.create().expect("there is room"));
    let buffer = database.grant(spaces[0], 5).expect("there is room");
    let shared = database.alias(buffer, spaces[1]).expect("there is room");
    let part = shared.part(1..4).expect("a part");
    let further = database.alias(part, spaces[2]).expect("there is room");
    for offset in 0..5 {
        assert_eq!(read(&database, buffer, offset), Some(0), "full of zeros");
        assert!(write(&database, buffer, offset, 10 + u64::from(offset)));
        assert_eq!(
            read(&database, shared, offset),
            Some(10 + u64::from(offset))
        );
    }
    assert!(write(&database, further, 2, 99));
    assert_eq!(read(&database, buffer, 3), Some(99));

    assert_eq!(database.revoke(buffer).expect("it is there"), 8);
    for offset in 0..5 {
        assert_eq!(read(&database, shared, offset), None);
        assert!(!write(&database, shared, offset, 1));
        assert!(offset >= 3 || read(&database, further, offset).is_none());
    }
    assert_eq!(read(&database, buffer, 3), Some(99), "the owner's stays");
    database.check().expect("the kernel agrees");
    assert_eq!(database.release(buffer).expect("it is there"), 5);
    assert_eq!(read(&database, buffer, 3), None);
}

/// All frames, again and again: nobody finds what others have left.
#[test]
fn a_frame_that_was_anothers_is_full_of_zeros() {
    let domain = Domain::new();
    let file = MemoryFile::new(16).expect("the system has memory files");
    let database: Database<'_> = MappingDatabase::new(&domain, file, 64);
    for round in 1..4 {
        let space = database.create().expect("there is room");
        let mut all = Vec::new();
        for pages in [8, 4, 1, 1, 1, 1] {
            let mapping = database.grant(space, pages).expect("there are 16");
            for offset in 0..pages {
                assert_eq!(read(&database, mapping, offset), Some(0), "{round}");
                assert!(write(&database, mapping, offset, round));
            }
            all.push(mapping);
        }
        assert!(matches!(
            database.grant(space, 1),
            Err(MapError::Exhausted { .. })
        ));
        assert_eq!(database.terminate(space).expect("it is there"), 16);
    }
}

#[test]
fn what_the_system_would_refuse_is_refused_before() {
    let domain = Domain::new();
    let file = MemoryFile::new(64).expect("the system has memory files");
    let database: Database<'_> = MappingDatabase::new(&domain, file.most_pages(20), 64);
    let space = database.create().expect("there is room");
    let pages = database.grant(space, 16).expect("20 are allowed");
    let refused = database.alias(pages, space);
    assert!(
        matches!(
            refused,
            Err(MapError::Refused(Refused::TooManyMappings {
                mapped: 16,
                most: 20
            }))
        ),
        "{refused:?}"
    );
    assert_eq!(database.check().expect("the kernel agrees").pages, 16);
    // Every second one: as many mappings as there can be of so many pages.
    for offset in (0..16).step_by(2) {
        let page = pages.part(offset..offset + 1).expect("a page");
        assert_eq!(database.release(page).expect("it is there"), 1);
    }
    database.grant(space, 12).expect("20 are allowed");
    assert_eq!(database.check().expect("the kernel agrees").pages, 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is written through one page of a tree is read through all others, and nowhere else.
    #[test]
    fn memory_does_what_the_model_does(program in program()) {
        let domain = Domain::new();
        let database = database(&domain);
        let course = with_back_end(&database, &program)?;
        let pages = || course.mappings.iter().flat_map(|(pages, mapping)| {
            (0..).zip(pages).map(move |(offset, page)| (*mapping, offset, *page))
        });
        let mut last = HashMap::new();
        for (mapping, offset, page) in pages() {
            if let Some(root) = course.model.root(page) {
                prop_assert!(write(&database, mapping, offset, page as u64 + 1));
                last.insert(root, page as u64 + 1);
            }
        }
        for (mapping, offset, page) in pages() {
            if let Some(root) = course.model.root(page) {
                prop_assert_eq!(read(&database, mapping, offset), last.get(&root).copied());
            }
        }
    }
}
