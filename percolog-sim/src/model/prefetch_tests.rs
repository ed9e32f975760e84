//! What comes with a line because it lies beside it.

use super::directory_tests::{Driven, row};
use super::*;

const LINE: u64 = 640;
const PAIR: u64 = LINE + 1;

fn prefetching() -> Directory {
    let mut machine = row(Protocol::Mesi);
    machine.adjacent_line_prefetch = true;
    Directory::new(machine)
}

type Lost = Vec<(Core, Rights)>;

/// What comes beside a line that core 1 asks for, and who loses what by that.
fn fetch(directory: &mut Directory, line: u64) -> (Option<(u64, Outcome)>, Lost) {
    directory.access(1, line, Access::Read, 8_000, |_, _| {});
    let mut lost = Lost::new();
    let fetched = directory.prefetch(1, line, 8_000, |core, left| lost.push((core, left)));
    (fetched, lost)
}

#[test]
fn the_other_line_of_a_pair_comes_too_and_nobody_waits_for_it() {
    for (line, pair) in [(LINE, PAIR), (PAIR, LINE)] {
        let mut directory = prefetching();
        directory.access(0, pair, Access::Write, 0, |_, _| {});
        let (fetched, lost) = fetch(&mut directory, line);
        let (other, outcome) = fetched.expect("it was core 0's");
        assert_eq!((other, outcome.event), (pair, Event::Read));
        assert_eq!((outcome.finished, outcome.queued), (8_000, 0));
        assert_eq!(lost, [(0, Rights::Read)], "it may write no longer");
        assert!(outcome.takes > 8_000, "it is told of it by a probe");
        assert_eq!(directory.rights(1, pair), Rights::Read);
        let next = directory.access(0, pair, Access::Write, 16_000, |_, _| {});
        assert_eq!(next.event, Event::Upgrade);
    }
}

#[test]
fn what_nobody_has_comes_from_memory() {
    let (fetched, lost) = fetch(&mut prefetching(), LINE);
    assert_eq!(
        fetched.map(|(line, outcome)| (line, outcome.event)),
        Some((PAIR, Event::Cold))
    );
    assert_eq!(lost, []);
}

#[test]
fn nothing_comes_that_is_there_or_free_or_of_another_machine() {
    let mut directory = prefetching();
    directory.access(1, PAIR, Access::Read, 0, |_, _| {});
    assert_eq!(fetch(&mut directory, LINE).0, None, "it is there");

    for free in [LINE, PAIR] {
        let mut directory = prefetching();
        directory.set_free(free);
        directory.access(0, PAIR, Access::Write, 0, |_, _| {});
        assert_eq!(fetch(&mut directory, LINE).0, None, "{free} is free");
    }

    let mut without = Driven::new(row(Protocol::Mesi));
    without.at(0, 0, PAIR, Access::Write);
    assert_eq!(fetch(&mut without.directory, LINE).0, None);
}
