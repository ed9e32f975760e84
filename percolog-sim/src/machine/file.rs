//! What stands in a machine's file, and what is wrong with it.

use super::Description;
use crate::model::{
    Coherence, Costs, MAX_CORES, Machine, Occupancy, Protocol, Stores, TICKS_PER_CYCLE, Ticks,
    Units,
};
use serde::Deserialize;
use std::collections::{BTreeSet, VecDeque};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    name: String,
    description: String,
    source: Vec<String>,
    megahertz: u32,
    #[serde(default = "default_line_size")]
    line_size: u64,
    #[serde(default = "default_page_size")]
    page_size: u64,
    protocol: ProtocolName,
    #[serde(default)]
    coherence: CoherenceName,
    #[serde(default)]
    chip_directory: bool,
    #[serde(default)]
    adjacent_line_prefetch: bool,
    #[serde(default = "default_stores")]
    stores: String,
    topology: Topology,
    latency: Latency,
    occupancy: Shares,
    costs: Cycles,
    #[serde(default)]
    units: UnitCycles,
    #[serde(default)]
    scheduling: Scheduling,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProtocolName {
    Mesi,
    Moesi,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CoherenceName {
    #[default]
    Directory,
    Bus,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topology {
    chips: usize,
    cores_per_chip: usize,
    links: Option<Vec<[usize; 2]>>,
    chips_per_package: Option<usize>,
    #[serde(default = "one")]
    threads_per_core: usize,
    #[serde(default)]
    last_level_cache_kib: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Latency {
    transfer: Vec<u32>,
    memory: Vec<u32>,
    #[serde(default)]
    memory_occupancy: u32,
    #[serde(default)]
    invalidate_per_sharer: u32,
    probe: Option<Vec<u32>>,
    #[serde(default)]
    bus: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shares {
    read: f64,
    write: f64,
    upgrade: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cycles {
    plain: Option<f64>,
    width: Option<u32>,
    locked: f64,
    fence: f64,
    rdtsc: f64,
    rdtscp: f64,
    pause: f64,
    cpuid: f64,
    syscall: f64,
    switch: f64,
    #[serde(default)]
    interrupt: f64,
    smt_slowdown: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct UnitCycles {
    load: f64,
    store: f64,
    branch: f64,
    multiply: f64,
    divide: f64,
    float: f64,
    float_divide: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scheduling {
    time_slice_us: u32,
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling {
            time_slice_us: 1000,
        }
    }
}

fn one() -> usize {
    1
}

fn default_line_size() -> u64 {
    64
}

fn default_page_size() -> u64 {
    4096
}

fn default_stores() -> String {
    "blocking".to_owned()
}

impl File {
    pub(super) fn describe(self) -> Result<Description, String> {
        let name_is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !(1..=LONGEST_NAME).contains(&self.name.len()) || !self.name.chars().all(name_is_plain) {
            return Err(format!(
                "name {:?}: must be letters, digits, -, _ and ., at most {LONGEST_NAME}",
                self.name
            ));
        }
        let slice = self.scheduling.time_slice_us;
        for (field, number, most) in [
            ("megahertz", self.megahertz, MOST_MEGAHERTZ),
            ("scheduling.time_slice_us", slice, MOST_MICROSECONDS),
        ] {
            if !(1..=most).contains(&number) {
                return Err(format!(
                    "{field} {number}: must be at least 1 and at most {most}"
                ));
            }
        }
        if self.source.is_empty() {
            return Err("source: must say where the numbers come from".to_owned());
        }
        let Topology {
            chips,
            cores_per_chip,
            ..
        } = self.topology;
        let cores = chips
            .checked_mul(cores_per_chip)
            .filter(|cores| (1..=MAX_CORES).contains(cores));
        let cores = cores.ok_or_else(|| {
            format!(
"topology: {chips} chips of {cores_per_chip} cores; a machine has 1 to {MAX_CORES} cores"
)
        })?;
        let threads = self.topology.threads_per_core;
        if !(1..=MAX_CORES / cores).contains(&threads) {
            return Err(format!(
                "topology.threads_per_core {threads}: must be at least 1, and of {cores} cores at most {MAX_CORES} in all"
            ));
        }
        let cycles = |field: &str, cycles: f64| ticks_of(&format!("costs.{field}"), cycles);
        let locked = cycles("locked", self.costs.locked)?;
        let plain = match (self.costs.plain, self.costs.width) {
            (Some(each), None) => cycles("plain", each)?,
            (None, Some(width)) if (1..=TICKS_PER_CYCLE).contains(&u64::from(width)) => {
                TICKS_PER_CYCLE.div_ceil(u64::from(width))
            }
            (None, Some(width)) => {
                return Err(format!(
                    "costs.width {width}: must be 1 to {TICKS_PER_CYCLE} instructions at a time"
                ));
            }
            (plain, _) => {
                let found = if plain.is_some() { "both" } else { "neither" };
                return Err(format!(
                    "costs: {found} of plain and width; one of them says how fast instructions are executed"
                ));
            }
        };
        if plain == 0 {
            // Else a loop that waits for another thread would never let time pass.
            return Err("costs.plain 0: must be at least 1/16 of a cycle".to_owned());
        }
        // One and a half locked instructions: whoever repeats one at once finds the line still there.
        let kept = u32::try_from(locked * 3 / 2 / TICKS_PER_CYCLE).unwrap_or(u32::MAX);
        let kept = |transfer: &u32| kept.min(*transfer);
        let probe = self.latency.probe;
        let probe = probe.unwrap_or_else(|| self.latency.transfer.iter().map(kept).collect());
        let machine = Machine {
            cores,
            chips,
            cores_per_chip,
            threads_per_core: threads,
            hops: self.topology.hops()?,
            megahertz: self.megahertz,
            line_size: self.line_size,
            page_size: self.page_size,
            protocol: match self.protocol {
                ProtocolName::Mesi => Protocol::Mesi,
                ProtocolName::Moesi => Protocol::Moesi,
            },
            coherence: match self.coherence {
                CoherenceName::Directory => Coherence::Directory,
                CoherenceName::Bus => Coherence::Bus,
            },
            chip_directory: self.chip_directory,
            adjacent_line_prefetch: self.adjacent_line_prefetch,
            transfer: self.latency.transfer,
            memory: self.latency.memory,
            memory_occupancy: self.latency.memory_occupancy,
            last_level_cache: self.topology.last_level_cache(self.line_size)?,
            occupancy: Occupancy {
                read: share("read", self.occupancy.read)?,
                write: share("write", self.occupancy.write)?,
                upgrade: share("upgrade", self.occupancy.upgrade)?,
            },
            invalidate_per_sharer: self.latency.invalidate_per_sharer,
            probe,
            bus: self.latency.bus,
            costs: Costs {
                plain,
                width: self.costs.width.unwrap_or(0),
                units: self.units.describe()?,
                locked,
                fence: cycles("fence", self.costs.fence)?,
                rdtsc: cycles("rdtsc", self.costs.rdtsc)?,
                rdtscp: cycles("rdtscp", self.costs.rdtscp)?,
                pause: cycles("pause", self.costs.pause)?,
                cpuid: cycles("cpuid", self.costs.cpuid)?,
                syscall: cycles("syscall", self.costs.syscall)?,
                switch: cycles("switch", self.costs.switch)?,
                interrupt: cycles("interrupt", self.costs.interrupt)?,
                smt_slowdown: smt_slowdown(threads, self.costs.smt_slowdown)?,
            },
            time_slice: u64::from(self.scheduling.time_slice_us)
                * u64::from(self.megahertz)
                * TICKS_PER_CYCLE,
            stores: stores(&self.stores)?,
            name: self.name,
        };
        if machine.coherence == Coherence::Directory && machine.bus != 0 {
            let bus = machine.bus;
            return Err(format!(
                "latency.bus {bus}: there is a bus only with coherence = \"bus\"; leave it out"
            ));
        }
        for (field, latencies) in [("transfer", &machine.transfer), ("memory", &machine.memory)] {
            if let Some(&wrong) = latencies
                .iter()
                .find(|&&cycles| !(1..=MOST_CYCLES).contains(&cycles))
            {
                return Err(format!(
                    "latency.{field} {wrong}: must be 1 to {MOST_CYCLES} cycles"
                ));
            }
        }
        for (field, cycles) in [
            ("bus", machine.bus),
            ("memory_occupancy", machine.memory_occupancy),
            ("invalidate_per_sharer", machine.invalidate_per_sharer),
        ] {
            if cycles > MOST_CYCLES {
                return Err(format!(
                    "latency.{field} {cycles}: must be at most {MOST_CYCLES} cycles"
                ));
            }
        }
        machine.check()?;
        Ok(Description {
            machine,
            description: self.description,
            source: self.source,
        })
    }
}

/// Names of machines stand in tables.
const LONGEST_NAME: usize = 64;
/// A hundred gigahertz, and a quarter of an hour: what times are computed from stays far from overflow.
const MOST_MEGAHERTZ: u32 = 100_000;
const MOST_MICROSECONDS: u32 = 1_000_000_000;
/// A gibibyte: what is known of each line that is in it is bounded.
const MOST_KIB: u64 = 1 << 20;
/// One set.
const LEAST_LINES: u64 = 16;
/// More than any machine takes for anything; keeps times far from overflow.
const MOST_CYCLES: u32 = 10_000_000;

fn ticks_of(field: &str, cycles: f64) -> Result<Ticks, String> {
    let ticks = cycles * TICKS_PER_CYCLE as f64;
    if !(0.0..=f64::from(MOST_CYCLES)).contains(&cycles) {
        return Err(format!(
            "{field} {cycles}: must be 0 to {MOST_CYCLES} cycles"
        ));
    }
    if ticks.fract() != 0.0 {
        let below = ticks.floor() / TICKS_PER_CYCLE as f64;
        let above = ticks.ceil() / TICKS_PER_CYCLE as f64;
        return Err(format!(
            "{field} {cycles}: must be a multiple of 1/16; {below} or {above} is"
        ));
    }
    Ok(ticks as Ticks)
}

impl UnitCycles {
    fn describe(&self) -> Result<Units, String> {
        let cycles = |field: &str, cycles: f64| ticks_of(&format!("units.{field}"), cycles);
        Ok(Units {
            load: cycles("load", self.load)?,
            store: cycles("store", self.store)?,
            branch: cycles("branch", self.branch)?,
            multiply: cycles("multiply", self.multiply)?,
            divide: cycles("divide", self.divide)?,
            float: cycles("float", self.float)?,
            float_divide: cycles("float_divide", self.float_divide)?,
        })
    }
}

fn share(field: &str, share: f64) -> Result<u16, String> {
    if (0.0..=1.0).contains(&share) {
        Ok((share * f64::from(Occupancy::FULL)).round() as u16)
    } else {
        Err(format!(
            "occupancy.{field} {share}: must be from 0 (home free at once) to 1 (until all is done)"
        ))
    }
}

/// In 1/256.
fn smt_slowdown(threads: usize, slowdown: Option<f64>) -> Result<u32, String> {
    match (threads, slowdown) {
        (1, None) => Ok(Costs::ALONE),
        (1, Some(_)) => Err(
            "costs.smt_slowdown: there is one thread a core; leave it out, or give topology.threads_per_core"
                .to_owned(),
        ),
        (_, None) => Err(format!(
            "costs.smt_slowdown: must say how many times as long instructions take while all {threads} threads of a core execute"
        )),
        (_, Some(slowdown)) if (1.0..=threads as f64).contains(&slowdown) => {
            Ok((slowdown * f64::from(Costs::ALONE)).round() as u32)
        }
        (_, Some(slowdown)) => Err(format!(
            "costs.smt_slowdown {slowdown}: must be 1 to {threads}, which is one thread after the other"
        )),
    }
}

fn stores(text: &str) -> Result<Stores, String> {
    if text == "blocking" {
        return Ok(Stores::Blocking);
    }
    let entries = text
        .strip_prefix("buffered(")
        .and_then(|rest| rest.strip_suffix(')'));
    match entries.and_then(|entries| entries.trim().parse().ok()) {
        Some(entries @ 1..=1024) => Ok(Stores::Buffered(entries)),
        _ => Err(format!(
            "stores {text:?}: must be \"blocking\" or \"buffered(N)\" with N from 1 to 1024"
        )),
    }
}

impl Topology {
    /// The bytes that the caches of a chip hold.
    fn last_level_cache(&self, line_size: u64) -> Result<u64, String> {
        let kib = self.last_level_cache_kib;
        if kib > MOST_KIB {
            return Err(format!(
                "topology.last_level_cache_kib {kib}: must be at most {MOST_KIB}"
            ));
        }
        let bytes = kib << 10;
        if kib != 0 && bytes < line_size.saturating_mul(LEAST_LINES) {
            return Err(format!(
                "topology.last_level_cache_kib {kib}: must hold at least {LEAST_LINES} lines, or be 0: no limit"
            ));
        }
        Ok(bytes)
    }

    /// The distances between the chips.
    fn hops(&self) -> Result<Vec<Vec<u8>>, String> {
        let chips = self.chips;
        match (&self.links, self.chips_per_package) {
            (None, None) if chips == 1 => Ok(vec![vec![0]]),
            (None, None) => Err(format!(
                "topology: {chips} chips need links = [[0, 1], …] or chips_per_package"
            )),
            (Some(_), Some(_)) => {
                Err("topology: has links and chips_per_package; leave one out".to_owned())
            }
            (None, Some(per_package)) => {
                if per_package == 0 || !chips.is_multiple_of(per_package) {
                    return Err(format!(
                        "topology.chips_per_package {per_package}: must divide {chips}, the chips"
                    ));
                }
                let hops = |from: usize, to: usize| match (
                    from == to,
                    from / per_package == to / per_package,
                ) {
                    (true, _) => 0,
                    (false, true) => 1,
                    (false, false) => 2,
                };
                Ok((0..chips)
                    .map(|from| (0..chips).map(|to| hops(from, to)).collect())
                    .collect())
            }
            (Some(links), None) => {
                if let Some([a, b]) = links
                    .iter()
                    .find(|[a, b]| *a >= chips || *b >= chips || a == b)
                {
                    return Err(format!(
                        "topology.links [{a}, {b}]: must name two different chips from 0 to {}",
                        chips - 1
                    ));
                }
                // Each link once: there is no limit to how often a file repeats one.
                let mut neighbours = vec![BTreeSet::new(); chips];
                for &[a, b] in links {
                    neighbours[a].insert(b);
                    neighbours[b].insert(a);
                }
                (0..chips)
                    .map(|from| shortest_paths(&neighbours, from))
                    .collect()
            }
        }
    }
}

/// The number of links from `from` to each chip, breadth first.
fn shortest_paths(neighbours: &[BTreeSet<usize>], from: usize) -> Result<Vec<u8>, String> {
    let mut hops = vec![None; neighbours.len()];
    hops[from] = Some(0usize);
    let mut queue = VecDeque::from([(from, 0)]);
    while let Some((chip, distance)) = queue.pop_front() {
        for &next in &neighbours[chip] {
            if hops[next].is_none() {
                hops[next] = Some(distance + 1);
                queue.push_back((next, distance + 1));
            }
        }
    }
    let hops = hops.into_iter().enumerate().map(|(to, hops)| {
        let hops = hops.ok_or_else(|| {
            format!("topology.links: no way from chip {from} to chip {to}; add a link")
        })?;
        u8::try_from(hops).map_err(|_| {
            format!("topology.links: chips {from} and {to} are {hops} links apart; 255 at most")
        })
    });
    hops.collect()
}
