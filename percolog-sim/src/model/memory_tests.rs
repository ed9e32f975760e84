//! The bandwidth of memory.

use super::directory_tests::row;
use super::*;

const OCCUPANCY: Ticks = 40 * TICKS_PER_CYCLE;

/// Three chips of two cores, and memories that give a line every 40 cycles; from chip 0's to its own cores it takes 150.
fn limited() -> Directory {
    let mut machine = row(Protocol::Mesi);
    machine.memory_occupancy = 40;
    Directory::new(machine)
}

/// When a read is finished.
fn read(directory: &mut Directory, core: Core, line: u64, now: Ticks) -> Ticks {
    let outcome = directory.access(core, line, Access::Read, now, |_, _| {});
    assert_eq!(
        outcome.finished - now,
        outcome.queued + latency(outcome.event)
    );
    outcome.finished
}

fn latency(event: Event) -> Ticks {
    match event {
        Event::Cold | Event::Memory => 150 * TICKS_PER_CYCLE,
        other => panic!("{other:?} is not from memory"),
    }
}

#[test]
fn lines_come_one_after_the_other() {
    let mut directory = limited();
    for number in 0..10 {
        // Two cores of one chip, lines of one page, all at once.
        let core = (number % 2) as Core;
        let finished = read(&mut directory, core, number, 0);
        assert_eq!(finished, latency(Event::Cold) + number * OCCUPANCY);
    }
    // Nobody waits who comes later.
    let late = 1_000 * TICKS_PER_CYCLE;
    assert_eq!(
        read(&mut directory, 0, 20, late),
        late + latency(Event::Cold)
    );
}

#[test]
fn lines_that_were_written_back_are_fetched_likewise() {
    let mut directory = limited();
    for line in 0..2 {
        read(&mut directory, 0, line, 0);
        directory.flush(line, |_, _| {});
    }
    let now = 10_000 * TICKS_PER_CYCLE;
    assert_eq!(
        read(&mut directory, 0, 0, now),
        now + latency(Event::Memory)
    );
    let second = read(&mut directory, 1, 1, now);
    assert_eq!(second, now + OCCUPANCY + latency(Event::Memory));
}

#[test]
fn each_chip_has_a_memory_of_its_own_and_what_is_free_needs_none() {
    let mut directory = limited();
    let page = 4096 / 64;
    for chip in 0..3 {
        let core = 2 * chip as Core;
        let finished = read(&mut directory, core, chip * page, 0);
        assert_eq!(finished, latency(Event::Cold), "its first");
    }
    directory.set_free(1);
    let free = directory.access(0, 1, Access::Read, 0, |_, _| {});
    assert_eq!((free.finished, free.queued), (0, 0));
    assert_eq!(
        read(&mut directory, 0, 2, 0),
        latency(Event::Cold) + OCCUPANCY
    );
}

#[test]
fn what_a_cache_has_does_not_come_from_memory() {
    let mut directory = limited();
    directory.access(0, 0, Access::Write, 0, |_, _| {});
    let now = 10_000 * TICKS_PER_CYCLE;
    let outcome = directory.access(1, 0, Access::Read, now, |_, _| {});
    assert_eq!(outcome.event, Event::Read);
    assert_eq!(read(&mut directory, 0, 1, now), now + latency(Event::Cold));
}
