//! Tests of all mapping databases.

mod differential;
mod exhaustion;
mod gated;
mod histories;
#[cfg(target_os = "linux")]
mod memory;
mod model;
mod orders;
mod threads;
mod tlbs;

use super::{MapUnmap, MappingDatabase, Mappings, SoftwareTables, Tlbs};
use percolog::reclaim::Domain;

/// No processor that remembers anything.
static NO_TLBS: Tlbs = Tlbs::new(0);

const PAGES: u32 = 1 << 12;

/// A database with tables in memory, and enough of everything.
fn database(domain: &Domain) -> MappingDatabase<'_, SoftwareTables> {
    MappingDatabase::new(domain, SoftwareTables::new(&NO_TLBS, PAGES), PAGES)
}

#[test]
fn stale_names_are_errors_and_never_others() {
    let domain = Domain::new();
    let database = database(&domain);
    let space = database.create().expect("there is room");
    let old = database.grant(space, 1).expect("there is room");
    assert_eq!(database.release(old).expect("it is there"), 1);
    // As many as it takes for the address to be used again.
    let mut reused = false;
    for _ in 0..10 * PAGES {
        let new = database.grant(space, 1).expect("there is room");
        assert_ne!(new, old);
        reused |= new.first_page() == old.first_page();
        if reused {
            break;
        }
        assert_eq!(database.release(new).expect("it is there"), 1);
    }
    assert!(reused, "the address was never used again");
    assert_eq!(database.frame(old, 0), None);
    assert!(database.alias(old, space).is_err());
    assert!(database.revoke(old).is_err());
    assert!(database.release(old).is_err());

    assert_eq!(database.terminate(space).expect("it is there"), 1);
    assert!(database.grant(space, 1).is_err());
    assert!(database.terminate(space).is_err());
    let check = database.check().expect("it fits together");
    assert_eq!(check, super::Check::default());
}

#[test]
fn parts_are_mappings() {
    let domain = Domain::new();
    let database = database(&domain);
    let (one, other) = (database.create(), database.create());
    let (one, other) = (one.expect("there is room"), other.expect("there is room"));
    let whole = database.grant(one, 8).expect("there is room");
    let part = whole.part(2..5).expect("a part");
    let shared = database.alias(part, other).expect("there is room");
    assert_eq!(database.frame(shared, 1), database.frame(whole, 3));
    assert_eq!(database.revoke(whole).expect("it is there"), 3);
    assert_eq!(database.release(part).expect("it is there"), 3);
    assert_eq!(database.release(whole).expect("some are there"), 5);
    assert!(database.release(whole).is_err());
    for range in [3..3, 7..9, 0..0] {
        assert_eq!(whole.part(range), None);
    }
    database.check().expect("it fits together");
}
