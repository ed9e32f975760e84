//! The directory, driven by events.

use super::*;
use std::collections::BTreeMap;

/// Three chips of two cores in a row, every latency different. The home is busy for all of a
/// request.
pub(super) fn row(protocol: Protocol) -> Machine {
    let mut machine = Machine::flat("row", 6);
    machine.chips = 3;
    machine.cores_per_chip = 2;
    machine.hops = vec![vec![0, 1, 2], vec![1, 0, 1], vec![2, 1, 0]];
    machine.transfer = vec![100, 200, 400];
    machine.memory = vec![150, 260, 470];
    machine.invalidate_per_sharer = 7;
    machine.probe = vec![50, 100, 200];
    machine.protocol = protocol;
    machine.check().unwrap();
    machine
}

/// Line 0 of a page whose home is the chip of the core that comes first.
const LINE: u64 = 640;

/// A directory with what its cores were told: their rights must never differ from what the
/// directory says.
pub(super) struct Driven {
    pub(super) directory: Directory,
    /// By core and line.
    pub(super) told: BTreeMap<(Core, u64), Rights>,
    /// What has left caches that were full, by core and line.
    pub(super) left: Vec<(Core, u64)>,
}

impl Driven {
    pub(super) fn new(machine: Machine) -> Self {
        Driven {
            directory: Directory::new(machine),
            told: BTreeMap::new(),
            left: Vec::new(),
        }
    }

    fn told(&self, core: Core, line: u64) -> Rights {
        self.told
            .get(&(core, line))
            .copied()
            .unwrap_or(Rights::None)
    }

    /// An access, in ticks; checks what is always true of an outcome.
    pub(super) fn at(&mut self, now: Ticks, core: Core, line: u64, access: Access) -> Outcome {
        let held = self.told(core, line);
        let Driven {
            directory,
            told,
            left: left_caches,
        } = self;
        let wanted = if access == Access::Read {
            Rights::Read
        } else {
            Rights::Write
        };
        let still = directory.rights_at(core, line, now);
        assert!(still >= held);
        let mut gone = 0;
        let outcome = directory.access(core, line, access, now, |other, left| {
            assert_ne!(other, core, "a core is told of others only");
            let before = told.insert((other, line), left).unwrap_or(Rights::None);
            assert!(
                left < before,
                "core {other} had {before:?} and was left {left:?}"
            );
            gone += u32::from(left == Rights::None);
        });
        assert_eq!(gone, outcome.invalidated);
        // A locked instruction waits for the buffered stores first.
        let waits =
            matches!(directory.machine().stores, Stores::Buffered(_)) && access == Access::Write;
        assert!(waits || (outcome.event == Event::Hit) == (still >= wanted));
        assert!(outcome.granted >= wanted.min(held));
        assert!(outcome.event == Event::Hit || outcome.granted >= wanted);
        assert!(outcome.finished >= now && outcome.takes >= now);
        told.insert((core, line), outcome.granted);
        while let Some(left) = directory.next_left() {
            match left {
                Left::Evicted(core, other) => {
                    assert_ne!(other, line, "what has come does not leave at once");
                    let before = told.insert((core, other), Rights::None);
                    assert!(before.is_some_and(|before| before > Rights::None));
                    left_caches.push((core, other));
                }
                Left::Watched(core, other) => {
                    assert!(told[&(core, other)] > Rights::None);
                }
            }
        }
        self.agree(line);
        outcome
    }

    /// An access to [`LINE`] in cycles: its event, and from `now` to its end, in cycles.
    fn do_at(&mut self, now: u64, core: Core, access: Access) -> (Event, u64) {
        let outcome = self.at(ticks(now), core, LINE, access);
        assert_eq!(outcome.finished % TICKS_PER_CYCLE, 0);
        (outcome.event, outcome.finished / TICKS_PER_CYCLE - now)
    }

    /// The cores' rights are what the directory says, and a writer is alone.
    pub(super) fn agree(&self, line: u64) {
        let cores = self.directory.machine().cores as Core;
        let mut writers = 0;
        let mut readers = 0;
        for core in 0..cores {
            let rights = self.directory.rights(core, line);
            assert_eq!(rights, self.told(core, line), "core {core}");
            writers += usize::from(rights == Rights::Write);
            readers += usize::from(rights == Rights::Read);
        }
        assert!(
            writers <= 1 && (writers == 0 || readers == 0),
            "{writers} writers, {readers} readers"
        );
    }

    fn rights(&self) -> Vec<Rights> {
        (0..self.directory.machine().cores as Core)
            .map(|core| self.directory.rights(core, LINE))
            .collect()
    }
}

use Access::{Read, Store, Write};
use Rights::{None as N, Read as R, Write as W};

/// Far enough apart that nothing queues.
const LATER: u64 = 10_000;

#[test]
fn first_touch_is_cold_and_exclusive() {
    for protocol in [Protocol::Mesi, Protocol::Moesi] {
        let mut driven = Driven::new(row(protocol));
        assert_eq!(driven.do_at(0, 2, Read), (Event::Cold, 150));
        assert_eq!(
            driven.rights(),
            [N, N, W, N, N, N],
            "exclusive: the first writer asks nobody"
        );
        assert_eq!(driven.do_at(LATER, 2, Write), (Event::Hit, 0));
        assert_eq!(driven.do_at(LATER, 2, Read), (Event::Hit, 0));
    }
}

#[test]
fn exclusive_becomes_shared_when_read() {
    for protocol in [Protocol::Mesi, Protocol::Moesi] {
        let mut driven = Driven::new(row(protocol));
        driven.do_at(0, 0, Read);
        assert_eq!(driven.do_at(LATER, 1, Read), (Event::Read, 100));
        assert_eq!(driven.rights(), [R, R, N, N, N, N]);
        // Clean: from a cache two chips away, which is nearer than memory there.
        assert_eq!(driven.do_at(2 * LATER, 4, Read), (Event::Read, 400));
        assert_eq!(driven.rights(), [R, R, N, N, R, N]);
    }
}

#[test]
fn exclusive_is_taken_by_a_writer() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    driven.do_at(0, 0, Read);
    assert_eq!(driven.do_at(LATER, 3, Write), (Event::Write, 200));
    assert_eq!(driven.rights(), [N, N, N, W, N, N]);
}

#[test]
fn mesi_writes_back_what_is_read() {
    let mut machine = row(Protocol::Mesi);
    machine.memory = vec![50, 60, 70];
    let mut driven = Driven::new(machine);
    driven.do_at(0, 0, Write);
    assert_eq!(
        driven.do_at(LATER, 2, Read),
        (Event::Read, 200),
        "the owner supplies it"
    );
    assert_eq!(driven.rights(), [R, N, R, N, N, N]);
    assert_eq!(
        driven.do_at(2 * LATER, 1, Read),
        (Event::Read, 50),
        "from then on memory may"
    );
}

#[test]
fn moesi_keeps_an_owner() {
    let mut machine = row(Protocol::Moesi);
    machine.memory = vec![50, 60, 70];
    let mut driven = Driven::new(machine);
    driven.do_at(0, 0, Write);
    assert_eq!(driven.do_at(LATER, 2, Read), (Event::Read, 200));
    assert_eq!(
        driven.rights(),
        [R, N, R, N, N, N],
        "the owner may not write without asking"
    );
    assert_eq!(
        driven.do_at(2 * LATER, 4, Read),
        (Event::Read, 400),
        "supplied by the owner, not by the nearer copy or memory"
    );
    assert_eq!(
        driven.do_at(3 * LATER, 0, Write).0,
        Event::Upgrade,
        "the owner asks too"
    );
    assert_eq!(driven.rights(), [W, N, N, N, N, N]);
}

#[test]
fn owned_is_taken_by_a_sharer_and_by_a_stranger() {
    let mut driven = Driven::new(row(Protocol::Moesi));
    driven.do_at(0, 0, Write);
    driven.do_at(LATER, 2, Read);
    assert_eq!(driven.do_at(2 * LATER, 2, Write), (Event::Upgrade, 200));
    assert_eq!(driven.rights(), [N, N, W, N, N, N]);
    driven.do_at(3 * LATER, 0, Read);
    // From the owner on chip 1, and chip 0 must drop it: the farther counts, and one more sharer.
    assert_eq!(driven.do_at(4 * LATER, 3, Write), (Event::Write, 207));
    assert_eq!(driven.rights(), [N, N, N, W, N, N]);
}

#[test]
fn modified_passes_from_writer_to_writer() {
    for protocol in [Protocol::Mesi, Protocol::Moesi] {
        let mut driven = Driven::new(row(protocol));
        driven.do_at(0, 0, Write);
        assert_eq!(driven.do_at(LATER, 1, Write), (Event::Write, 100));
        assert_eq!(driven.do_at(2 * LATER, 5, Write), (Event::Write, 400));
        assert_eq!(driven.rights(), [N, N, N, N, N, W]);
    }
}

#[test]
fn upgrades_fan_out() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    for core in 0..6 {
        driven.do_at(LATER * u64::from(core), core, Read);
    }
    let outcome = driven.at(ticks(10 * LATER), 0, LINE, Write);
    assert_eq!((outcome.event, outcome.invalidated), (Event::Upgrade, 5));
    // The furthest sharer is two hops away; four sharers beyond the first.
    assert_eq!(outcome.finished, ticks(10 * LATER + 400 + 4 * 7));
    assert_eq!(driven.rights(), [W, N, N, N, N, N]);
}

#[test]
fn the_home_may_be_the_farthest_of_the_three() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    driven.do_at(0, 0, Write); // The home is chip 0.
    driven.do_at(LATER, 4, Write);
    assert_eq!(
        driven.do_at(2 * LATER, 5, Write),
        (Event::Write, 400),
        "on one chip, but the home is asked"
    );

    let mut machine = row(Protocol::Mesi);
    machine.chip_directory = true;
    let mut driven = Driven::new(machine);
    driven.do_at(0, 0, Write);
    driven.do_at(LATER, 4, Write);
    assert_eq!(
        driven.do_at(2 * LATER, 5, Write),
        (Event::Write, 100),
        "the chip knows that the line is on it"
    );
    assert_eq!(driven.do_at(3 * LATER, 4, Read), (Event::Read, 100));
    assert_eq!(driven.do_at(4 * LATER, 5, Write), (Event::Upgrade, 100));
    driven.do_at(5 * LATER, 2, Read);
    assert_eq!(
        driven.do_at(6 * LATER, 4, Read),
        (Event::Read, 100),
        "read from the neighbour"
    );
    assert_eq!(
        driven.do_at(7 * LATER, 5, Write),
        (Event::Upgrade, 407),
        "chip 1 has a copy: the home is asked"
    );
}

#[test]
fn pages_live_where_they_are_touched_first() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    let page = 4096 / 64;
    let latency = |outcome: Outcome, now| outcome.finished / TICKS_PER_CYCLE - now;
    let first = driven.at(0, 4, 3 * page, Read);
    assert_eq!(latency(first, 0), 150, "on the core's own chip");
    let same_page = driven.at(0, 0, 4 * page - 1, Read);
    assert_eq!(latency(same_page, 0), 470, "two hops away");
    let next_page = driven.at(0, 0, 4 * page, Read);
    assert_eq!(latency(next_page, 0), 150);
    let before = driven.at(0, 2, 3 * page - 1, Read);
    assert_eq!(latency(before, 0), 150);
}

#[test]
fn requests_for_one_line_queue() {
    let mut machine = row(Protocol::Mesi);
    machine.probe = vec![0; 3];
    let mut driven = Driven::new(machine);
    driven.do_at(0, 0, Write);
    let now = ticks(1000);
    let first = driven.at(now, 1, LINE, Write);
    assert_eq!((first.finished, first.queued), (ticks(1100), 0));
    let second = driven.at(now, 0, LINE, Write);
    assert_eq!((second.finished, second.queued), (ticks(1200), ticks(100)));
    let third = driven.at(now + ticks(150), 2, LINE, Read);
    assert_eq!((third.finished, third.queued), (ticks(1400), ticks(50)));
    // Another line of the same page waits for nobody.
    driven.at(now, 0, LINE + 1, Write);
    assert_eq!(driven.at(now + ticks(200), 1, LINE + 1, Write).queued, 0);
}

/// What each core may do with [`LINE`] at `now`, in cycles.
fn rights_at(driven: &Driven, now: u64) -> Vec<Rights> {
    (0..driven.directory.machine().cores as Core)
        .map(|core| driven.directory.rights_at(core, LINE, ticks(now)))
        .collect()
}

#[test]
fn who_has_a_line_goes_on_with_it_until_the_probe_arrives() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    driven.do_at(0, 0, Write);
    let outcome = driven.at(ticks(LATER), 1, LINE, Write);
    assert_eq!(
        (outcome.takes, outcome.finished),
        (ticks(LATER + 50), ticks(LATER + 100))
    );
    assert_eq!(driven.rights(), [N, W, N, N, N, N], "as good as lost");
    assert_eq!(rights_at(&driven, LATER + 49), [W, W, N, N, N, N]);
    assert_eq!(driven.do_at(LATER + 20, 0, Read), (Event::Hit, 0));
    assert_eq!(driven.do_at(LATER + 49, 0, Write), (Event::Hit, 0));
    assert_eq!(driven.rights(), [N, W, N, N, N, N], "and it stays lost");
    // From the probe's arrival on it has to ask again, and waits its turn.
    assert_eq!(rights_at(&driven, LATER + 50), [N, W, N, N, N, N]);
    assert_eq!(driven.do_at(LATER + 50, 0, Read), (Event::Read, 150));
}

#[test]
fn a_reader_leaves_the_writer_its_copy() {
    let mut driven = Driven::new(row(Protocol::Moesi));
    driven.do_at(0, 0, Write);
    let outcome = driven.at(ticks(LATER), 2, LINE, Read);
    assert_eq!(outcome.takes, ticks(LATER + 100));
    assert_eq!(rights_at(&driven, LATER + 99), [W, N, R, N, N, N]);
    assert_eq!(rights_at(&driven, LATER + 100), [R, N, R, N, N, N]);
}

#[test]
fn who_waits_longest_takes_the_line_and_no_other_keeps_it_for_longer() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    driven.do_at(0, 0, Write);
    driven.do_at(LATER, 1, Write);
    // Two more while the first is served: each takes the line from the one before it.
    let second = driven.at(ticks(LATER + 10), 2, LINE, Write);
    let third = driven.at(ticks(LATER + 20), 3, LINE, Write);
    assert_eq!(second.takes, ticks(LATER + 100 + 100));
    assert_eq!(second.finished, ticks(LATER + 100 + 200));
    assert_eq!(third.takes, ticks(LATER + 300 + 100), "chip 0 is its home");
    assert_eq!(rights_at(&driven, LATER + 199), [N, W, W, W, N, N]);
    assert_eq!(rights_at(&driven, LATER + 200), [N, N, W, W, N, N]);
    assert_eq!(rights_at(&driven, LATER + 400), [N, N, N, W, N, N]);
}

#[test]
fn a_line_is_not_taken_before_it_has_come() {
    let mut machine = row(Protocol::Mesi);
    machine.occupancy.write = 0;
    machine.probe = vec![0; 3];
    let mut driven = Driven::new(machine);
    driven.do_at(0, 0, Write);
    assert_eq!(
        driven.at(ticks(LATER), 1, LINE, Write).takes,
        ticks(LATER),
        "at once, where probes take no time"
    );
    let outcome = driven.at(ticks(LATER + 10), 2, LINE, Write);
    assert_eq!(outcome.takes, ticks(LATER + 100));
}

#[test]
fn a_copy_takes_nothing_but_comes_behind_the_last_write() {
    let mut machine = row(Protocol::Mesi);
    machine.invalidate_per_sharer = 0;
    let mut driven = Driven::new(machine);
    driven.do_at(0, 0, Write);
    driven.do_at(LATER, 1, Read);
    let outcome = driven.at(ticks(2 * LATER), 2, LINE, Read);
    assert_eq!(outcome.takes, ticks(2 * LATER), "it is shared already");
    let written = driven.at(ticks(3 * LATER), 0, LINE, Write);
    assert_eq!(written.takes, ticks(3 * LATER + 100));
    // What it reads is the writer's, which has it when it reads.
    let outcome = driven.at(ticks(3 * LATER + 110), 1, LINE, Read);
    assert!(outcome.takes >= written.finished);
    // As long as that one's probe is on its way to the writer, which may write, it is not read by a third.
    assert_eq!(rights_at(&driven, 3 * LATER + 200)[0], W);
    let third = driven.at(ticks(3 * LATER + 120), 2, LINE, Read);
    assert_eq!(third.takes, outcome.takes);
}

#[test]
fn flushed_and_discarded_lines_are_nobodys_at_once() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    for (step, flush) in [(1, true), (2, false)] {
        let now = step * LATER;
        driven.do_at(now, 0, Write);
        driven.do_at(now + 1000, 1, Write);
        assert_eq!(rights_at(&driven, now + 1010)[0], W);
        let Driven {
            directory, told, ..
        } = &mut driven;
        if flush {
            directory.flush(LINE, |core, left| {
                told.insert((core, LINE), left);
            });
        } else {
            directory.discard(LINE..LINE + 1, |line, core| {
                told.insert((core, line), Rights::None);
            });
        }
        assert_eq!(rights_at(&driven, now + 1010), [N; 6]);
    }
}

#[test]
fn occupancy_is_a_share_of_the_latency() {
    let mut machine = row(Protocol::Mesi);
    machine.occupancy = Occupancy {
        read: 64,
        write: 128,
        upgrade: 192,
    };
    let queued_after = |access: Access, prepare: &[(Core, Access)]| {
        let mut driven = Driven::new(machine.clone());
        for (step, &(core, access)) in prepare.iter().enumerate() {
            driven.do_at(LATER * step as u64, core, access);
        }
        let now = ticks(20 * LATER);
        driven.at(now, 1, LINE, access);
        driven.at(now, 4, LINE, Read).queued
    };
    assert_eq!(queued_after(Read, &[(0, Write)]), ticks(25));
    assert_eq!(queued_after(Write, &[(0, Write)]), ticks(50));
    assert_eq!(queued_after(Write, &[(0, Write), (1, Read)]), ticks(75));
}

#[test]
fn a_line_is_not_passed_on_before_it_arrives() {
    let mut machine = row(Protocol::Mesi);
    machine.occupancy = Occupancy {
        read: 0,
        write: 0,
        upgrade: 0,
    };
    let mut driven = Driven::new(machine);
    driven.do_at(0, 0, Write);
    assert_eq!(driven.do_at(1000, 5, Write).1, 400);
    let next = driven.at(ticks(1000), 4, LINE, Read);
    assert_eq!(
        (next.queued, next.finished),
        (0, ticks(1400)),
        "the home is free, the owner is still waiting"
    );
}

#[test]
fn cold_misses_keep_nobody_waiting() {
    let mut machine = row(Protocol::Mesi);
    machine.coherence = Coherence::Bus;
    machine.bus = 300;
    let mut driven = Driven::new(machine);
    for line in 0..100 {
        assert_eq!(driven.at(0, 0, line, Write).queued, 0);
    }
    let other = driven.at(ticks(1), 1, 0, Read);
    assert_eq!((other.event, other.queued), (Event::Read, 0));
    // They do wait for those who come before them.
    let cold = driven.at(ticks(1), 2, 1000, Read);
    assert_eq!((cold.event, cold.queued), (Event::Cold, ticks(300)));
}

#[test]
fn one_bus_serves_one_request() {
    let mut machine = row(Protocol::Mesi);
    machine.coherence = Coherence::Bus;
    machine.bus = 40;
    machine.probe = vec![0; 3];
    let mut driven = Driven::new(machine);
    for line in 0..3 {
        driven.at(0, 0, line, Write);
        driven.at(ticks(LATER), 0, line, Write);
    }
    let now = ticks(2 * LATER);
    for line in 0..3 {
        let outcome = driven.at(now, 1, line, Write);
        assert_eq!(outcome.queued, ticks(40) * line, "different lines, one bus");
        assert_eq!(outcome.finished, now + outcome.queued + ticks(100));
    }
    // The line of the first request is busy for longer than the bus is.
    assert_eq!(driven.at(now, 2, 2, Write).queued, ticks(40 + 40 + 100));
}

#[test]
fn a_bus_has_no_homes() {
    let mut machine = row(Protocol::Mesi);
    machine.coherence = Coherence::Bus;
    let mut driven = Driven::new(machine);
    driven.do_at(0, 0, Write);
    driven.do_at(LATER, 4, Write);
    assert_eq!(driven.do_at(2 * LATER, 5, Write), (Event::Write, 100));
}

#[test]
fn flushed_lines_come_from_memory_again() {
    let mut driven = Driven::new(row(Protocol::Moesi));
    driven.do_at(0, 0, Write);
    driven.do_at(LATER, 2, Read);
    let Driven {
        directory, told, ..
    } = &mut driven;
    directory.flush(LINE, |core, left| {
        told.insert((core, LINE), left);
    });
    assert_eq!(driven.rights(), [N; 6]);
    assert_eq!(driven.do_at(2 * LATER, 4, Read), (Event::Memory, 470));
    assert_eq!(driven.rights(), [N, N, N, N, W, N], "exclusive again");
    driven
        .directory
        .flush(LINE + 1, |_, _| panic!("nobody holds it"));
    assert_eq!(driven.directory.rights(4, LINE + 1), N);
}

#[test]
fn discarded_lines_are_cold_again_and_may_move() {
    let page = 4096 / 64;
    let mut driven = Driven::new(row(Protocol::Mesi));
    driven.at(0, 0, page, Write);
    driven.at(0, 1, page, Read);
    driven.at(0, 0, 2 * page, Write);
    let Driven {
        directory, told, ..
    } = &mut driven;
    directory.discard(page..2 * page, |line, core| {
        told.insert((core, line), N);
    });
    driven.agree(page);
    driven.agree(2 * page);
    assert_eq!(driven.directory.lines(), 1);
    let outcome = driven.at(ticks(LATER), 4, page, Read);
    assert_eq!(
        (outcome.event, outcome.finished),
        (Event::Cold, ticks(LATER + 150)),
        "with a home of its own"
    );
}

#[test]
fn writes_are_remembered() {
    let mut driven = Driven::new(row(Protocol::Mesi));
    assert_eq!(driven.directory.last_write(LINE), 0);
    driven.do_at(0, 0, Read);
    assert_eq!(driven.directory.last_write(LINE), 0);
    driven.do_at(500, 0, Write);
    assert_eq!(driven.directory.last_write(LINE), ticks(500));
    driven.do_at(1000, 1, Write);
    assert_eq!(driven.directory.last_write(LINE), ticks(1100));
    driven.do_at(2000, 1, Write);
    assert_eq!(driven.directory.last_write(LINE), ticks(2000));
    driven.do_at(3000, 0, Read);
    // The writer may have written it until it heard of that.
    assert_eq!(driven.directory.last_write(LINE), ticks(3050));
    driven.do_at(4000, 2, Read);
    assert_eq!(driven.directory.last_write(LINE), ticks(3050));
}

#[test]
fn buffered_stores_do_not_hold_up_their_core() {
    let mut machine = row(Protocol::Mesi);
    machine.stores = Stores::Buffered(2);
    let mut driven = Driven::new(machine);
    for line in 0..4 {
        driven.at(0, 0, line, Write);
    }
    let now = ticks(LATER);
    for line in 0..2 {
        let outcome = driven.at(now, 1, line, Store);
        assert_eq!((outcome.event, outcome.finished), (Event::Write, now));
    }
    // Full: waits for the oldest, which takes 100 cycles.
    assert_eq!(driven.at(now, 1, 2, Store).finished, now + ticks(100));
    assert_eq!(
        driven.at(now, 1, 2, Store).event,
        Event::Hit,
        "and its line is the core's from then on"
    );
    // A locked instruction waits for all of them, though its own line is the core's.
    assert_eq!(
        driven.at(now + ticks(100), 1, 0, Write).finished,
        now + ticks(200)
    );
    assert_eq!(
        driven.directory.fence(1, now),
        now,
        "the buffer is empty now"
    );
    // Others wait until the store is done.
    driven.at(ticks(2 * LATER), 0, 0, Store);
    assert_eq!(
        driven.at(ticks(2 * LATER), 2, 0, Read).finished,
        ticks(2 * LATER + 300)
    );
    assert_eq!(
        driven.directory.fence(0, ticks(2 * LATER)),
        ticks(2 * LATER + 100)
    );
}

#[test]
fn stores_block_by_default() {
    for stores in [Stores::Blocking, Stores::Buffered(0)] {
        let mut machine = row(Protocol::Mesi);
        machine.stores = stores;
        let mut driven = Driven::new(machine);
        driven.do_at(0, 0, Store);
        assert_eq!(driven.do_at(LATER, 1, Store), (Event::Write, 100));
        assert_eq!(driven.directory.fence(1, 5), 5);
    }
}

#[test]
fn two_writers_alternate() {
    // Two cores of one chip store to one line and then compute for 66 cycles. Service takes 124, so
    // the line is never idle and a store takes 2 x 124 - 66.
    let mut machine = Machine::flat("pair", 2);
    machine.transfer = vec![124];
    let mut driven = Driven::new(machine);
    let mut clocks = [0, 0];
    let mut latency = 0;
    for _ in 0..100 {
        let core = usize::from(clocks[1] < clocks[0]);
        let outcome = driven.at(clocks[core], core as Core, LINE, Write);
        latency = outcome.finished - clocks[core];
        clocks[core] = outcome.finished + ticks(66);
    }
    assert_eq!(latency, ticks(182));
}

#[test]
fn a_private_line_takes_16_bytes_of_a_table() {
    let mut directory = Directory::new(row(Protocol::Mesi));
    let lines = 100_000;
    for line in 0..lines {
        directory.access(0, line, Write, 0, |_, _| {});
    }
    assert_eq!(directory.lines() as u64, lines);
    // A hash table is at least 7/16 full.
    let most = lines * 17 * 16 / 7 + (lines / 64) * 17 * 16 / 7 + 1024;
    assert!(
        directory.bytes() as u64 <= most,
        "{} bytes for {lines} lines",
        directory.bytes()
    );
}

#[test]
fn a_free_line_takes_no_time_and_changes_hands_all_the_same() {
    let mut paid = Driven::new(row(Protocol::Mesi));
    let mut free = Driven::new(row(Protocol::Mesi));
    free.directory.set_free(LINE);
    let mut now = 0;
    for (core, access) in [
        (0, Access::Read),
        (3, Access::Write),
        (5, Access::Read),
        (0, Access::Read),
        (5, Access::Write),
        (2, Access::Write),
    ] {
        now += ticks(LATER);
        let one = paid.at(now, core, LINE, access);
        let other = free.at(now, core, LINE, access);
        assert_eq!(
            (one.event, one.granted, one.invalidated),
            (other.event, other.granted, other.invalidated)
        );
        assert!(one.finished > now, "{one:?}");
        assert_eq!((other.finished, other.takes, other.queued), (now, now, 0));
    }
    assert_eq!(paid.told, free.told);
    // Its neighbour is as dear as ever.
    let neighbour = free.at(0, 0, LINE + 1, Access::Read);
    assert!(neighbour.finished > 0);
}

#[test]
fn a_free_line_does_not_wait_for_the_bus_nor_take_it() {
    let mut machine = Machine::flat("bus", 3);
    machine.coherence = Coherence::Bus;
    machine.bus = 20;
    let mut driven = Driven::new(machine);
    driven.directory.set_free(LINE);
    for line in [LINE, LINE + 1] {
        driven.at(0, 0, line, Access::Write);
    }
    let alone = driven.at(ticks(5000), 1, LINE + 1, Access::Write);
    let taken = driven.at(ticks(5000), 1, LINE, Access::Write);
    assert_eq!((taken.finished, taken.queued), (ticks(5000), 0));
    let behind = driven.at(ticks(5000), 2, LINE, Access::Write);
    assert_eq!(behind.finished, ticks(5000));
    assert!(alone.finished > ticks(5000));
}
