//! The directory at random accesses: what must be true whatever happens.

use super::directory_tests::{Driven, row};
use super::*;
use std::collections::BTreeMap;

use Access::{Read, Store, Write};

/// Random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Cores with clocks of their own at random accesses, the earliest first or, with `sloppy`, any
/// core; returns all outcomes.
fn random_run(machine: Machine, seed: u64, sloppy: bool) -> Vec<Outcome> {
    let cores = machine.cores;
    // More than there is room for, where that is limited.
    let lines = if machine.last_level_cache > 0 { 20 } else { 5 };
    let mut driven = Driven::new(machine);
    let mut random = Random(seed);
    let mut clocks = vec![0; cores];
    // When each line's newest value came to be, as a reader would observe it.
    let mut newest = BTreeMap::new();
    // From when on each core's access could be made.
    let mut takes = BTreeMap::new();
    let mut outcomes = Vec::new();
    for step in 0..1000 {
        let core = if sloppy {
            random.below(cores as u64) as usize
        } else {
            (0..cores).min_by_key(|&core| clocks[core]).unwrap()
        };
        let line = random.below(lines) * 60;
        let access = [Read, Read, Write, Store][random.below(4) as usize];
        let before = driven.directory.last_write(line);
        let outcome = driven.at(clocks[core], core as Core, line, access);
        let buffered = matches!(driven.directory.machine().stores, Stores::Buffered(_));
        if !buffered {
            assert!(outcome.queued <= outcome.finished - clocks[core]);
            if outcome.event == Event::Cold {
                takes.retain(|(_, known), _| *known != line);
            }
            if outcome.event != Event::Hit {
                takes.insert((core, line), outcome.takes);
                assert!(outcome.takes <= outcome.finished);
            }
            if !sloppy {
                one_writer(&driven, &takes, line, clocks[core]);
            }
            if outcome.event != Event::Hit && outcome.event != Event::Cold {
                let newest = newest.get(&line).copied().unwrap_or(0);
                assert!(
                    outcome.finished >= newest,
                    "a value was seen before it was written"
                );
            }
            if access != Read {
                newest.insert(line, outcome.finished);
            }
        }
        assert!(driven.directory.last_write(line) >= before);
        clocks[core] = outcome.finished + random.below(500);
        outcomes.push(outcome);
        if random.below(200) == 0 {
            let Driven {
                directory, told, ..
            } = &mut driven;
            directory.flush(line, |core, left| {
                told.insert((core, line), left);
            });
        } else if random.below(200) == 0 {
            let Driven {
                directory, told, ..
            } = &mut driven;
            directory.discard(line..line + 70, |line, core| {
                told.insert((core, line), Rights::None);
            });
            newest.retain(|&known, _| !(line..line + 70).contains(&known));
        }
        if step % 20 == 0 {
            (0..lines).for_each(|line| driven.agree(line * 60));
        }
    }
    (0..lines).for_each(|line| driven.agree(line * 60));
    outcomes
}

/// Whoever may write a line at `now` is the only one who may use it. A core whose request is under way uses it when it
/// takes it.
fn one_writer(driven: &Driven, takes: &BTreeMap<(usize, u64), Ticks>, line: u64, now: Ticks) {
    let directory = &driven.directory;
    let may = |core: &usize| {
        let rights = directory.rights_at(*core as Core, line, now);
        let has = takes.get(&(*core, line)).is_some_and(|takes| *takes <= now);
        (rights > Rights::None && has).then_some(rights)
    };
    let may: Vec<Rights> = (0..directory.machine().cores)
        .filter_map(|core| may(&core))
        .collect();
    assert!(
        may.len() <= 1 || may.iter().all(|rights| *rights == Rights::Read),
        "at {now}: {may:?}"
    );
}

fn random_machines() -> Vec<Machine> {
    let mut machines = Vec::new();
    for protocol in [Protocol::Mesi, Protocol::Moesi] {
        for coherence in [Coherence::Directory, Coherence::Bus] {
            for stores in [Stores::Blocking, Stores::Buffered(3)] {
                for cores in [3, 6, 70] {
                    let mut machine = row(protocol).with_cores(cores).unwrap();
                    machine.coherence = coherence;
                    machine.bus = 30;
                    machine.stores = stores;
                    machine.occupancy = Occupancy {
                        read: 100,
                        write: 200,
                        upgrade: 256,
                    };
                    machine.chip_directory = cores == 6;
                    machines.push(machine.clone());
                    // One set: some lines leave all the time.
                    machine.last_level_cache = 16 * machine.line_size;
                    machine.memory_occupancy = 40;
                    machines.push(machine);
                }
            }
        }
    }
    machines
}

#[test]
fn random_accesses_keep_the_invariants() {
    for (seed, machine) in (1..).zip(random_machines()) {
        random_run(machine.clone(), seed, false);
        random_run(machine, seed + 1000, true);
    }
}

#[test]
fn the_same_accesses_have_the_same_outcomes() {
    for machine in random_machines() {
        let first = random_run(machine.clone(), 42, true);
        assert_eq!(first, random_run(machine.clone(), 42, true));
        assert_ne!(first, random_run(machine, 43, true));
    }
}
