//! The machines: TOML files, those that come with the crate and one's own.
//!
//! ```toml
//! name = "pair"                       # letters, digits, - _ .
//! description = "Two chips of four cores"
//! source = ["Where the numbers come from"]
//! megahertz = 2000
//! line_size = 64                      # default 64
//! page_size = 4096                    # default 4096
//! protocol = "moesi"                  # or "mesi"
//! coherence = "directory"             # default; or "bus": one bus that all cores watch
//! chip_directory = false              # default; true: a chip alone serves what only its own caches have
//! adjacent_line_prefetch = false      # default; true: who fetches a line fetches the other one of its pair, too
//! stores = "blocking"                 # default; or "buffered(56)": go on after a store that misses
//!
//! [topology]
//! chips = 2
//! cores_per_chip = 4
//! links = [[0, 1]]                    # hops are the shortest path over these …
//! # chips_per_package = 2             # … or 1 within a package, 2 between packages
//!
//! [latency]                           # cycles
//! transfer = [100, 200]               # a line from another cache: same chip, one hop, …
//! memory = [150, 250]                 # a line from memory, by hops to its home chip
//! memory_occupancy = 0                # default 0: no limit; for how long a line occupies the memory of its chip
//! invalidate_per_sharer = 0           # default; added for each copy to invalidate beyond the first
//! probe = [30, 30]                    # default: 1.5 × `locked`; until whoever has a line has lost it
//! bus = 0                             # default; for how long any request occupies the bus
//!
//! [occupancy]                         # share of a request while its line's home serves no other: 0 to 1
//! read = 1.0
//! write = 1.0
//! upgrade = 1.0
//!
//! [costs]                             # cycles, in steps of 1/16
//! plain = 1.0                         # an instruction that is none of these
//! locked = 20                         # a locked read-modify-write of a line that the core owns
//! fence = 30
//! rdtsc = 20
//! rdtscp = 30
//! pause = 10
//! cpuid = 100
//! syscall = 400
//! switch = 3000                       # giving a core to another thread
//! interrupt = 0                       # default 0: off; what `membarrier` and memory that is unmapped cost the other cores
//!
//! [scheduling]
//! time_slice_us = 1000                # default 1000; how long a thread keeps a core others wait for
//! ```
//!
//! A chip is a group of cores among which a line moves at the same cost: a die, or on recent
//! processors a core complex.

use crate::model::{
    Coherence, Costs, MAX_CORES, Machine, Occupancy, Protocol, Stores, TICKS_PER_CYCLE, Ticks,
};
use serde::Deserialize;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The machine files that come with the crate.
const BUILT_IN: [(&str, &str); 5] = [
    ("opteron-48", include_str!("../machines/opteron-48.toml")),
    ("xeon-40", include_str!("../machines/xeon-40.toml")),
    ("xeon-120", include_str!("../machines/xeon-120.toml")),
    ("s85-24", include_str!("../machines/s85-24.toml")),
    ("epyc-128", include_str!("../machines/epyc-128.toml")),
];

/// A machine and what its file says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// What the model needs.
    pub machine: Machine,
    /// One sentence on what machine it is.
    pub description: String,
    /// Where the numbers come from.
    pub source: Vec<String>,
}

/// Why there is no machine. One line each.
#[derive(Debug)]
#[non_exhaustive]
pub enum MachineError {
    /// The name is not that of a machine that comes with the crate, and there is no such file.
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file could not be read.
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The file is not TOML, or not that of a machine.
    Syntax {
        /// The file, or the built-in machine's name.
        origin: String,
        /// The line, from 1, where there is one to blame.
        line: Option<usize>,
        /// What is wrong there.
        message: String,
    },
    /// The file describes a machine that cannot be.
    Invalid {
        /// The file, or the built-in machine's name.
        origin: String,
        /// Which field, its value, and what it must be.
        message: String,
    },
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineError::Unknown { name } => {
                let known: Vec<&str> = names().collect();
                write!(
                    f,
                    "machine {name:?}: no such machine or file; give a path, or one of {}",
                    known.join(", ")
                )
            }
            MachineError::Read { path, error } => {
                write!(f, "machine file {}: {error}", path.display())
            }
            MachineError::Syntax {
                origin,
                line: Some(line),
                message,
            } => write!(f, "machine {origin}, line {line}: {message}"),
            MachineError::Syntax {
                origin,
                line: None,
                message,
            }
            | MachineError::Invalid { origin, message } => {
                write!(f, "machine {origin}: {message}")
            }
        }
    }
}

impl std::error::Error for MachineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MachineError::Read { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The names of the machines that come with the crate.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The TOML of a machine that comes with the crate: a start for one's own.
pub fn text(name: &str) -> Option<&'static str> {
    BUILT_IN
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// A machine that comes with the crate.
///
/// # Errors
/// If there is none of that name.
pub fn built_in(name: &str) -> Result<Machine, MachineError> {
    let text = text(name).ok_or_else(|| MachineError::Unknown {
        name: name.to_owned(),
    })?;
    parse(name, text).map(|description| description.machine)
}

/// A machine by the name of one that comes with the crate, or else by the path of its file.
///
/// # Errors
/// If there is neither, or the file cannot be read or describes no machine.
pub fn load(name_or_path: &str) -> Result<Description, MachineError> {
    if let Some(text) = text(name_or_path) {
        return parse(name_or_path, text);
    }
    let path = Path::new(name_or_path);
    match read(path) {
        Ok(text) => parse(name_or_path, &text),
        // A bare word that is no file was meant as a name.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && !name_or_path.contains(['/', '.']) =>
        {
            Err(MachineError::Unknown {
                name: name_or_path.to_owned(),
            })
        }
        Err(error) => Err(MachineError::Read {
            path: path.to_owned(),
            error,
        }),
    }
}

/// No machine's file is longer: those that come with the crate have some 3 kB.
const LONGEST_FILE: u64 = 1 << 20;

/// The text of a file, which may be anything: a device that never ends.
fn read(path: &Path) -> io::Result<String> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(LONGEST_FILE + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return refused(format!("is longer than {} MiB", LONGEST_FILE >> 20));
    }
    String::from_utf8(bytes).or_else(|_| refused("is no text in UTF-8".to_owned()))
}

/// Reads a machine from `text`; `origin` is named in errors.
///
/// # Errors
/// If it is not TOML, lacks a field or has one too many, or describes a machine that cannot be.
pub fn parse(origin: &str, text: &str) -> Result<Description, MachineError> {
    let file: File = toml::from_str(text).map_err(|error| MachineError::Syntax {
        origin: origin.to_owned(),
        line: error
            .span()
            .map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count()),
        message: short(error.message()),
    })?;
    file.describe().map_err(|message| MachineError::Invalid {
        origin: origin.to_owned(),
        message: short(&message),
    })
}

/// On one line that is not too long, whatever it quotes from the file.
fn short(message: &str) -> String {
    const LONGEST: usize = 300;
    let line = message.replace('\n', "; ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
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
    plain: f64,
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
    fn describe(self) -> Result<Description, String> {
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
        let cycles = |field: &str, cycles: f64| ticks_of(&format!("costs.{field}"), cycles);
        let locked = cycles("locked", self.costs.locked)?;
        // One and a half locked instructions: whoever repeats one at once finds the line still there.
        let kept = u32::try_from(locked * 3 / 2 / TICKS_PER_CYCLE).unwrap_or(u32::MAX);
        let kept = |transfer: &u32| kept.min(*transfer);
        let probe = self.latency.probe;
        let probe = probe.unwrap_or_else(|| self.latency.transfer.iter().map(kept).collect());
        let machine = Machine {
            cores,
            chips,
            cores_per_chip,
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
            occupancy: Occupancy {
                read: share("read", self.occupancy.read)?,
                write: share("write", self.occupancy.write)?,
                upgrade: share("upgrade", self.occupancy.upgrade)?,
            },
            invalidate_per_sharer: self.latency.invalidate_per_sharer,
            probe,
            bus: self.latency.bus,
            costs: Costs {
                plain: cycles("plain", self.costs.plain)?,
                locked,
                fence: cycles("fence", self.costs.fence)?,
                rdtsc: cycles("rdtsc", self.costs.rdtsc)?,
                rdtscp: cycles("rdtscp", self.costs.rdtscp)?,
                pause: cycles("pause", self.costs.pause)?,
                cpuid: cycles("cpuid", self.costs.cpuid)?,
                syscall: cycles("syscall", self.costs.syscall)?,
                switch: cycles("switch", self.costs.switch)?,
                interrupt: cycles("interrupt", self.costs.interrupt)?,
            },
            time_slice: u64::from(self.scheduling.time_slice_us)
                * u64::from(self.megahertz)
                * TICKS_PER_CYCLE,
            stores: stores(&self.stores)?,
            name: self.name,
        };
        if machine.costs.plain == 0 {
            // Else a loop that waits for another thread would never let time pass.
            return Err("costs.plain 0: must be at least 1/16 of a cycle".to_owned());
        }
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

fn share(field: &str, share: f64) -> Result<u16, String> {
    if (0.0..=1.0).contains(&share) {
        Ok((share * f64::from(Occupancy::FULL)).round() as u16)
    } else {
        Err(format!(
            "occupancy.{field} {share}: must be from 0 (home free at once) to 1 (until all is done)"
        ))
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

#[cfg(test)]
mod tests;
