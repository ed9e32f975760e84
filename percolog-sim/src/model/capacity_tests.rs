//! The capacity of a chip's caches.

use super::directory_tests::{Driven, row};
use super::*;

use Access::{Read, Write};

/// Three chips of two cores, of which each has caches of one set: sixteen lines.
fn small(protocol: Protocol) -> Driven {
    let mut machine = row(protocol);
    machine.last_level_cache = 16 * machine.line_size;
    Driven::new(machine)
}

/// The event of an access long after all earlier ones.
fn event(driven: &mut Driven, core: Core, line: u64, access: Access) -> Event {
    let now = ticks(driven.told.len() as u64 * 1_000_000);
    driven.at(now, core, line, access).event
}

#[test]
fn as_many_lines_stay_as_there_is_room_for() {
    let mut driven = small(Protocol::Mesi);
    for line in 0..16 {
        assert_eq!(event(&mut driven, 0, line, Read), Event::Cold);
    }
    assert_eq!(driven.left, []);
    for line in 0..16 {
        assert_eq!(event(&mut driven, 0, line, Read), Event::Hit);
    }
    // The seventeenth takes the place of one, which comes from memory again; and so on, for each that comes anew.
    for line in 16..40 {
        assert_eq!(event(&mut driven, 0, line, Read), Event::Cold);
    }
    assert_eq!(driven.left.len(), 24);
    let (_, gone) = driven.left[0];
    assert_eq!(event(&mut driven, 0, gone, Read), Event::Memory);
    let held = (0..40).filter(|&line| driven.directory.rights(0, line) > Rights::None);
    assert_eq!(held.count(), 16);
}

#[test]
fn what_is_used_stays() {
    let mut driven = small(Protocol::Mesi);
    for line in 0..1000 {
        event(&mut driven, 0, line, Read);
        if line > 0 {
            // It is heard of only when the directory asks for it.
            driven.directory.used(0, 0);
        }
    }
    assert!(driven.directory.rights(0, 0) > Rights::None);
    assert!(!driven.left.contains(&(0, 0)));
}

#[test]
fn all_cores_of_the_chip_lose_it_and_no_others() {
    let mut driven = small(Protocol::Moesi);
    event(&mut driven, 0, 0, Write);
    event(&mut driven, 1, 0, Read);
    event(&mut driven, 2, 0, Read);
    for line in 100..116 {
        event(&mut driven, 0, line, Read);
    }
    let mut left: Vec<_> = driven.left.iter().filter(|(_, line)| *line == 0).collect();
    left.sort();
    assert_eq!(left, [&(0, 0), &(1, 0)]);
    // Core 2 has what its owner wrote back, so that another one of its chip gets it there.
    assert_eq!(driven.directory.rights(2, 0), Rights::Read);
    assert_eq!(event(&mut driven, 3, 0, Read), Event::Read);
    // Each chip has room of its own.
    assert_eq!(event(&mut driven, 2, 0, Read), Event::Hit);
}

#[test]
fn a_line_that_one_core_wrote_comes_back_as_it_was() {
    let mut driven = small(Protocol::Mesi);
    let written = driven.at(0, 0, 0, Write).finished;
    for line in 1..17 {
        event(&mut driven, 0, line, Read);
    }
    assert_eq!(driven.left, [(0, 0)]);
    assert_eq!(driven.directory.last_write(0), written);
    assert_eq!(event(&mut driven, 0, 0, Read), Event::Memory);
    assert_eq!(driven.directory.last_write(0), written);
    assert_eq!(driven.directory.rights(0, 0), Rights::Write);
    // And for another core.
    for line in 20..36 {
        event(&mut driven, 0, line, Read);
    }
    assert_eq!(event(&mut driven, 3, 0, Read), Event::Memory);
}

#[test]
fn a_line_that_was_changed_is_written_back_to_its_memory() {
    let waits = |access| {
        let mut machine = row(Protocol::Mesi);
        machine.last_level_cache = 16 * machine.line_size;
        machine.memory_occupancy = 40;
        let mut driven = Driven::new(machine);
        for line in 0..16 {
            let now = ticks(1_000_000 * (line + 1));
            driven.at(now, 0, line, access);
        }
        // The line that makes room is fetched at once; the next one waits behind what is written back, too.
        let now = ticks(100_000_000);
        driven.at(now, 0, 50, Read);
        driven.at(now, 0, 51, Read).queued
    };
    assert_eq!(waits(Read), ticks(40));
    assert_eq!(waits(Write), ticks(80));
}

#[test]
fn lines_that_others_took_leave_their_room() {
    let mut driven = small(Protocol::Mesi);
    for line in 0..16 {
        event(&mut driven, 0, line, Write);
    }
    // Another chip takes them all.
    for line in 0..16 {
        event(&mut driven, 2, line, Write);
    }
    for line in 100..116 {
        event(&mut driven, 0, line, Write);
    }
    assert_eq!(driven.left, []);
}

#[test]
fn without_a_limit_nothing_leaves() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    for line in 0..5000 {
        event(&mut driven, 0, line, Read);
    }
    assert_eq!(driven.left, []);
    assert_eq!(driven.directory.next_left(), None);
}
