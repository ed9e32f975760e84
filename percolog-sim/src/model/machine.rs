//! The described machine: everything the model needs to know, as numbers.

use super::{Core, MAX_CORES, Processor, TICKS_PER_CYCLE, Ticks, ticks};

/// Which states a line may have in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Modified, exclusive, shared, invalid: reading a modified line writes it back to memory.
    Mesi,
    /// Also *owned*: a modified line that is read stays dirty in its owner's cache, which supplies
    /// the readers.
    Moesi,
}

/// How requests find the caches that hold a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coherence {
    /// The line's home chip knows who holds it.
    Directory,
    /// Every request goes over one bus that all cores watch.
    Bus,
}

/// What a core does while a plain store waits for its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stores {
    /// It waits.
    Blocking,
    /// It goes on, with up to this many stores waiting at a time.
    Buffered(u32),
}

/// For which share of a request's latency the line's home stays busy, in 1/256 ([`Occupancy::FULL`]
/// is all of it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Requests to read.
    pub read: u16,
    /// Requests for the line with the right to write it.
    pub write: u16,
    /// Requests for the right to write a line that the requester already has.
    pub upgrade: u16,
}

impl Occupancy {
    /// The home serves the next request only when the last one is complete.
    pub const FULL: u16 = 256;
}

/// What instructions cost beside their misses, in [`Ticks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Each instruction that is none of the following, on average: its share of the core's width.
    pub plain: Ticks,
    /// How many instructions a core executes at a time; 0: `plain` says it.
    pub width: u32,
    /// What else a core's instructions wait for.
    pub units: Units,
    /// A locked read-modify-write of a line that the core owns.
    pub locked: Ticks,
    /// A full memory fence.
    pub fence: Ticks,
    /// `rdtsc`.
    pub rdtsc: Ticks,
    /// `rdtscp`.
    pub rdtscp: Ticks,
    /// `pause`.
    pub pause: Ticks,
    /// `cpuid`, which also waits for all before it.
    pub cpuid: Ticks,
    /// Entering and leaving the kernel, with a short call between.
    pub syscall: Ticks,
    /// Giving a core to another thread.
    pub switch: Ticks,
    /// An interrupt that another core sends: what the interrupted one loses, and how long the sender waits for all of them.
    pub interrupt: Ticks,
    /// How many times as long instructions take while all hardware threads of their core execute, in 1/256
    /// ([`Costs::ALONE`]: as long as alone).
    pub smt_slowdown: u32,
}

impl Costs {
    /// A hardware thread that nothing slows down.
    pub const ALONE: u32 = 256;
}

/// For how long an instruction keeps the unit busy that executes it, in [`Ticks`]; 0: it is never waited for. A stretch of
/// instructions takes as long as the busiest unit, or as the core's width lets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// A load, alone or as a part of an instruction.
    pub load: Ticks,
    /// A store, likewise.
    pub store: Ticks,
    /// A jump, call or return.
    pub branch: Ticks,
    /// A multiplication of integers.
    pub multiply: Ticks,
    /// A division of integers.
    pub divide: Ticks,
    /// Floating-point arithmetic, comparisons and conversions.
    pub float: Ticks,
    /// A division of floating-point numbers, or a square root.
    pub float_divide: Ticks,
}

/// A machine as the model sees it. Latencies are in cycles, times in [`Ticks`].
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// What it is called.
    pub name: String,
    /// How many cores it has, at most [`MAX_CORES`].
    pub cores: usize,
    /// How many chips. The last one may have fewer cores than the others.
    pub chips: usize,
    /// How many cores each chip has: core `c` is on chip `c / cores_per_chip`.
    pub cores_per_chip: usize,
    /// How many hardware threads each core has, which share its caches.
    pub threads_per_core: usize,
    /// `hops[a][b]`: how far chip `b` is from chip `a`; 0 on the diagonal.
    pub hops: Vec<Vec<u8>>,
    /// Cycles in a microsecond.
    pub megahertz: u32,
    /// Bytes in a cache line: a power of two.
    pub line_size: u64,
    /// Bytes in a page: a power of two, at least `line_size`.
    pub page_size: u64,
    /// The states of a line.
    pub protocol: Protocol,
    /// How requests find holders.
    pub coherence: Coherence,
    /// Whether a request for a line is served on the requester's chip, without asking the line's
    /// home, when the caches it concerns are all on that chip (a shared last-level cache that knows
    /// its cores' copies).
    pub chip_directory: bool,
    /// Whether a core that fetches a line also fetches the other one of its pair, aligned to two lines, to read it. It does not
    /// wait for that one.
    pub adjacent_line_prefetch: bool,
    /// Cycles for a line from another cache, by hops (index 0: same chip).
    pub transfer: Vec<u32>,
    /// Cycles for a line from memory, by hops to its home chip.
    pub memory: Vec<u32>,
    /// Cycles for which a line occupies the memory of its home chip: the line's size by the memory's bandwidth.
    pub memory_occupancy: u32,
    /// How many bytes the caches of a chip hold together; 0: whatever comes.
    pub last_level_cache: u64,
    /// How long a line's home stays busy with a request.
    pub occupancy: Occupancy,
    /// Cycles that each sharer after the first adds to a request that invalidates them.
    pub invalidate_per_sharer: u32,
    /// Cycles from the start of a request's service until its probe has reached the caches that lose the line, by hops
    /// (index 0: same chip): until then their cores go on with it.
    pub probe: Vec<u32>,
    /// Cycles for which a request occupies the one bus (0 where there is none).
    pub bus: u32,
    /// What instructions cost.
    pub costs: Costs,
    /// For how long a thread keeps its core when others wait for it.
    pub time_slice: Ticks,
    /// What stores do that miss.
    pub stores: Stores,
}

impl Machine {
    /// One chip of `cores` cores with round numbers: 100 cycles for a line from another core or
    /// from memory, a cycle an instruction. For tests, and for questions about counts rather than
    /// times.
    pub fn flat(name: &str, cores: usize) -> Machine {
        Machine {
            name: name.to_owned(),
            cores,
            chips: 1,
            cores_per_chip: cores,
            threads_per_core: 1,
            hops: vec![vec![0]],
            megahertz: 1000,
            line_size: 64,
            page_size: 4096,
            protocol: Protocol::Mesi,
            coherence: Coherence::Directory,
            chip_directory: false,
            adjacent_line_prefetch: false,
            transfer: vec![100],
            memory: vec![100],
            memory_occupancy: 0,
            last_level_cache: 0,
            occupancy: Occupancy {
                read: Occupancy::FULL,
                write: Occupancy::FULL,
                upgrade: Occupancy::FULL,
            },
            invalidate_per_sharer: 0,
            probe: vec![50],
            bus: 0,
            costs: Costs {
                plain: ticks(1),
                width: 0,
                units: Units::default(),
                locked: ticks(20),
                fence: ticks(30),
                rdtsc: ticks(20),
                rdtscp: ticks(30),
                pause: ticks(10),
                cpuid: ticks(100),
                syscall: ticks(100),
                switch: ticks(1000),
                interrupt: 0,
                smt_slowdown: Costs::ALONE,
            },
            time_slice: ticks(1_000_000),
            stores: Stores::Blocking,
        }
    }

    /// How many hardware threads it has: what Linux calls processors.
    pub fn processors(&self) -> usize {
        self.cores * self.threads_per_core
    }

    /// The core that a processor belongs to: see [`core_of`](super::core_of).
    pub fn core_of(&self, processor: Processor) -> Core {
        super::core_of(processor, self.cores)
    }

    /// The chip that `core` is on.
    pub fn chip_of(&self, core: Core) -> usize {
        usize::from(core) / self.cores_per_chip
    }

    /// The hops between two chips.
    pub fn distance(&self, from: usize, to: usize) -> usize {
        usize::from(self.hops[from][to])
    }

    /// The largest distance between any two chips.
    pub fn diameter(&self) -> u8 {
        self.hops.iter().flatten().copied().max().unwrap_or(0)
    }

    /// The same kind of machine with `cores` cores: chips keep their number of cores (the last may
    /// have fewer), and there are as many chips as that takes. With fewer chips, those that remain
    /// are as far from each other as they were. Added chips are as far from all others as any two
    /// chips of the described machine are; nothing becomes slower than its slowest path.
    ///
    /// # Errors
    /// If `cores` is 0, there are more than [`MAX_CORES`] hardware threads, or chips or cores of this machine are empty.
    pub fn with_cores(mut self, cores: usize) -> Result<Machine, String> {
        for (field, number) in [
            ("threads_per_core", self.threads_per_core),
            ("cores_per_chip", self.cores_per_chip),
        ] {
            if number == 0 {
                return Err(format!("{field} 0: must be at least 1"));
            }
        }
        let most = MAX_CORES / self.threads_per_core;
        if cores == 0 || cores > most {
            return Err(match self.threads_per_core {
                1 => format!("{cores} cores: a machine has 1 to {most}"),
                threads => format!("{cores} cores of {threads} threads: a machine has 1 to {most}"),
            });
        }
        let far = self.diameter();
        let chips = cores.div_ceil(self.cores_per_chip);
        self.hops = (0..chips)
            .map(|from| {
                (0..chips)
                    .map(|to| match self.hops.get(from).and_then(|row| row.get(to)) {
                        Some(&hops) => hops,
                        None if from == to => 0,
                        None => far,
                    })
                    .collect()
            })
            .collect();
        self.cores = cores;
        self.chips = chips;
        Ok(self)
    }

    /// Checks what the model relies on: sizes are powers of two, and every distance has a latency.
    /// A directory does no further checks, so whoever makes a machine by hand calls this first.
    ///
    /// # Errors
    /// Says which field is wrong, its value, and what it must be.
    pub fn check(&self) -> Result<(), String> {
        let Machine {
            cores,
            chips,
            cores_per_chip,
            ..
        } = *self;
        if self.name.is_empty() || self.name.contains(char::is_control) {
            return Err(format!(
                "name {:?}: must be printable and not empty",
                self.name
            ));
        }
        if cores == 0 || cores > MAX_CORES {
            return Err(format!("cores {cores}: must be 1 to {MAX_CORES}"));
        }
        let (width, plain) = (self.costs.width, self.costs.plain);
        if u64::from(width) > TICKS_PER_CYCLE || plain == 0 {
            // Else a loop that waits for another thread would never let time pass.
            return Err(format!(
                "costs: {width} instructions at a time, or {plain} ticks each: time must pass"
            ));
        }
        let threads = self.threads_per_core;
        if !(1..=MAX_CORES / cores).contains(&threads) {
            return Err(format!(
                "threads_per_core {threads}: must be at least 1, and of {cores} cores at most {MAX_CORES} in all"
            ));
        }
        let slowdown = self.costs.smt_slowdown as usize;
        if !(Costs::ALONE as usize..=Costs::ALONE as usize * threads).contains(&slowdown) {
            return Err(format!(
                "smt_slowdown {slowdown}/256: must be at least 256/256, and not more than {threads} threads take one after the other"
            ));
        }
        if cores_per_chip == 0 {
            return Err("cores_per_chip 0: must be at least 1".to_owned());
        }
        if chips != cores.div_ceil(cores_per_chip) {
            return Err(format!(
                "chips {chips}: {cores} cores at {cores_per_chip} a chip are on {} chips",
                cores.div_ceil(cores_per_chip)
            ));
        }
        if self.hops.len() != chips || self.hops.iter().any(|row| row.len() != chips) {
            return Err(format!(
                "hops: must have {chips} rows of {chips} numbers, one for each chip"
            ));
        }
        for (chip, row) in self.hops.iter().enumerate() {
            if row[chip] != 0 {
                return Err(format!(
                    "hops: chip {chip} is {} hops from itself; must be 0",
                    row[chip]
                ));
            }
            if let Some(other) = (0..chips).find(|&other| row[other] != self.hops[other][chip]) {
                return Err(format!(
                    "hops: chip {chip} to {other} and {other} to {chip} differ"
                ));
            }
        }
        let distances = usize::from(self.diameter()) + 1;
        for (field, latencies) in [
            ("transfer", &self.transfer),
            ("memory", &self.memory),
            ("probe", &self.probe),
        ] {
            if latencies.len() < distances {
                return Err(format!(
                    "{field} has {} latencies: must have {distances}, for 0 to {} hops",
                    latencies.len(),
                    distances - 1
                ));
            }
            if let Some(pair) = latencies.windows(2).find(|pair| pair[0] > pair[1]) {
                return Err(format!(
                    "{field}: {} cycles are followed by {}; latencies must not fall as hops grow",
                    pair[0], pair[1]
                ));
            }
        }
        let mut both = self.probe.iter().zip(&self.transfer);
        if let Some((probe, transfer)) = both.find(|(probe, transfer)| probe > transfer) {
            return Err(format!(
                "probe {probe}: must not be more than the transfer, {transfer} cycles"
            ));
        }
        if !self.line_size.is_power_of_two() || !(16..=1024).contains(&self.line_size) {
            return Err(format!(
                "line_size {}: must be a power of two from 16 to 1024",
                self.line_size
            ));
        }
        const LARGEST_PAGE: u64 = 1 << 30;
        if !self.page_size.is_power_of_two()
            || !(self.line_size..=LARGEST_PAGE).contains(&self.page_size)
        {
            return Err(format!(
                "page_size {}: must be a power of two, at least line_size ({}) and at most {LARGEST_PAGE}",
                self.page_size, self.line_size
            ));
        }
        let Occupancy {
            read,
            write,
            upgrade,
        } = self.occupancy;
        for (field, share) in [
            ("occupancy.read", read),
            ("occupancy.write", write),
            ("occupancy.upgrade", upgrade),
        ] {
            if share > Occupancy::FULL {
                return Err(format!(
                    "{field} {share}/256: must not be more than 256/256"
                ));
            }
        }
        if self.megahertz == 0 {
            return Err("megahertz 0: must be at least 1".to_owned());
        }
        if self.time_slice == 0 {
            return Err("time_slice 0: must be more than nothing".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Machine {
        let mut machine = Machine::flat("ladder", 6);
        machine.chips = 3;
        machine.cores_per_chip = 2;
        machine.hops = vec![vec![0, 1, 2], vec![1, 0, 1], vec![2, 1, 0]];
        machine.transfer = vec![100, 200, 300];
        machine.memory = vec![150, 250, 350];
        machine.probe = vec![50, 100, 150];
        machine
    }

    #[test]
    fn fewer_cores_keep_their_places() {
        let machine = ladder().with_cores(3).unwrap();
        assert_eq!(
            (machine.cores, machine.chips, machine.cores_per_chip),
            (3, 2, 2)
        );
        assert_eq!(machine.hops, [[0, 1], [1, 0]]);
        assert_eq!(machine.chip_of(2), 1);
        assert_eq!(machine.check(), Ok(()));
    }

    #[test]
    fn added_chips_are_as_far_as_any() {
        let machine = ladder().with_cores(9).unwrap();
        assert_eq!((machine.cores, machine.chips), (9, 5));
        assert_eq!(machine.hops[1], [1, 0, 1, 2, 2]);
        assert_eq!(machine.hops[4], [2, 2, 2, 2, 0]);
        assert_eq!(machine.check(), Ok(()));
        let most = ladder().with_cores(MAX_CORES).unwrap();
        assert_eq!(most.check(), Ok(()));
    }

    #[test]
    fn the_second_threads_of_all_cores_come_after_the_first() {
        let mut machine = ladder();
        machine.threads_per_core = 2;
        machine.costs.smt_slowdown = 400;
        assert_eq!(machine.check(), Ok(()));
        assert_eq!(machine.processors(), 12);
        assert_eq!(
            [0, 5, 6, 11].map(|processor| machine.core_of(processor)),
            [0, 5, 0, 5]
        );
        let few = machine.clone().with_cores(3).unwrap();
        assert_eq!((few.processors(), few.core_of(4)), (6, 1));
        let error = machine.with_cores(MAX_CORES).unwrap_err();
        assert!(
            error.contains("1024 cores of 2 threads: a machine has 1 to 512"),
            "{error}"
        );
    }

    #[test]
    fn impossible_numbers_of_cores_are_refused() {
        assert!(ladder().with_cores(0).unwrap_err().contains("0 cores"));
        assert!(
            ladder()
                .with_cores(MAX_CORES + 1)
                .unwrap_err()
                .contains("1 to 1024")
        );
        let empty: [fn(&mut Machine); 2] = [|m| m.threads_per_core = 0, |m| m.cores_per_chip = 0];
        for spoil in empty {
            let mut machine = ladder();
            spoil(&mut machine);
            let error = machine.with_cores(3).unwrap_err();
            assert!(error.contains("0: must be at least 1"), "{error}");
        }
    }

    #[test]
    fn each_check_names_its_field() {
        type Spoil = fn(&mut Machine);
        let wrong: [(&str, Spoil); 20] = [
            ("name", |m| m.name = "a\nb".to_owned()),
            ("cores 0", |m| m.cores = 0),
            ("cores_per_chip", |m| m.cores_per_chip = 0),
            ("threads_per_core 0", |m| m.threads_per_core = 0),
            ("threads_per_core 200", |m| m.threads_per_core = 200),
            // Six times as many are none, if the product overflows.
            ("of 6 cores at most", |m| {
                m.threads_per_core = usize::MAX / 2 + 1
            }),
            ("smt_slowdown 257", |m| m.costs.smt_slowdown = 257),
            ("chips 2", |m| m.chips = 2),
            ("hops", |m| m.hops.truncate(2)),
            ("hops: chip 1 is 1", |m| m.hops[1][1] = 1),
            ("differ", |m| m.hops[0][1] = 2),
            ("transfer has 2", |m| m.transfer.truncate(2)),
            ("memory: 350", |m| m.memory = vec![150, 350, 250]),
            ("line_size 48", |m| m.line_size = 48),
            ("page_size 32", |m| m.page_size = 32),
            ("occupancy.write", |m| m.occupancy.write = 257),
            ("probe has 2", |m| m.probe.truncate(2)),
            ("probe 301", |m| m.probe[2] = 301),
            ("megahertz", |m| m.megahertz = 0),
            ("time_slice", |m| m.time_slice = 0),
        ];
        assert_eq!(ladder().check(), Ok(()));
        for (part, spoil) in wrong {
            let mut machine = ladder();
            spoil(&mut machine);
            let error = machine.check().unwrap_err();
            assert!(
                error.contains(part) && !error.contains('\n'),
                "{part}: {error}"
            );
        }
    }
}
