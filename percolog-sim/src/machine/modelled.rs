//! What of a machine is modelled, and what is not.

use crate::model::{Coherence, Costs, Machine, Stores, TICKS_PER_CYCLE, Units};
use serde::Serialize;

/// A part of real machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Modelled {
    /// What it is.
    pub part: &'static str,
    /// The field of a machine's file that says it; none if no file can.
    pub field: Option<&'static str>,
    /// Whether it is modelled on this machine.
    pub is_modelled: bool,
    /// How, or what is assumed instead.
    pub how: String,
}

/// What is not modelled on this machine, so that no report can be read as if it were.
pub fn not_modelled(machine: &Machine) -> Vec<&'static str> {
    let bandwidth = match (machine.memory_occupancy > 0, machine.coherence) {
        (true, Coherence::Bus) => None,
        (true, Coherence::Directory) => Some("the bandwidth of links"),
        (false, Coherence::Bus) => Some("the bandwidth of memory"),
        (false, Coherence::Directory) => Some("the bandwidth of memory and links"),
    };
    let capacity = (machine.last_level_cache == 0).then_some("the capacity of caches");
    let threads = (machine.threads_per_core == 1).then_some("simultaneous multithreading");
    let never = ["reordering within a core", "what the kernel does"];
    let capacity = capacity.into_iter().chain(bandwidth);
    capacity.chain(threads).chain(never).collect()
}

/// The parts of a machine that decide how a program scales, and what the model makes of them.
pub fn modelled(machine: &Machine) -> Vec<Modelled> {
    let part = |part, field, is_modelled, how: String| Modelled {
        part,
        field: Some(field),
        is_modelled,
        how,
    };
    let never = |part, how: &str| Modelled {
        part,
        field: None,
        is_modelled: false,
        how: how.to_owned(),
    };
    let buffered = match machine.stores {
        Stores::Blocking => "a core waits for a store that misses".to_owned(),
        Stores::Buffered(room) => format!("{room} at a time"),
    };
    let bus = match machine.coherence {
        Coherence::Bus => format!("{} cycles a request", machine.bus),
        Coherence::Directory => "links carry any number of lines at once".to_owned(),
    };
    let memory = match machine.memory_occupancy {
        0 => "no limit".to_owned(),
        cycles => format!("a line each {cycles} cycles, a chip"),
    };
    let caches = match machine.last_level_cache {
        0 => "a line leaves only if it is taken".to_owned(),
        bytes => format!("{} KiB a chip", bytes >> 10),
    };
    let pairs = if machine.adjacent_line_prefetch {
        format!("{} bytes come together", 2 * machine.line_size)
    } else {
        "each line comes by itself".to_owned()
    };
    let interrupt = match machine.costs.interrupt {
        0 => "they cost nothing".to_owned(),
        ticks => format!("{} cycles", ticks / TICKS_PER_CYCLE),
    };
    let width = match machine.costs.width {
        0 => "each takes its time".to_owned(),
        width => format!("up to {width} a cycle"),
    };
    let units = if machine.costs.units == Units::default() {
        "all instructions take the same".to_owned()
    } else {
        "a block takes as long as its busiest".to_owned()
    };
    let threads = match machine.threads_per_core {
        1 => "one a core".to_owned(),
        threads => format!(
            "{threads}, all at once {:.2} times as slow",
            f64::from(machine.costs.smt_slowdown) / f64::from(Costs::ALONE)
        ),
    };
    vec![
        part(
            "moves of lines between caches",
            "latency.transfer",
            true,
            "by distance".to_owned(),
        ),
        part(
            "one request for a line after the other",
            "occupancy",
            machine.occupancy.write > 0,
            "at the line's home".to_owned(),
        ),
        part(
            "a core keeps a line until a probe comes",
            "latency.probe",
            machine.probe.iter().any(|&cycles| cycles > 0),
            format!("{:?} cycles", machine.probe),
        ),
        part(
            "stores that wait in a buffer",
            "stores",
            machine.stores != Stores::Blocking,
            buffered,
        ),
        part(
            "bandwidth between chips",
            "latency.bus",
            machine.coherence == Coherence::Bus,
            bus,
        ),
        part(
            "bandwidth of memory",
            "latency.memory_occupancy",
            machine.memory_occupancy > 0,
            memory,
        ),
        part(
            "lines that are fetched in pairs",
            "adjacent_line_prefetch",
            machine.adjacent_line_prefetch,
            pairs,
        ),
        part(
            "interrupts of other cores",
            "costs.interrupt",
            machine.costs.interrupt > 0,
            interrupt,
        ),
        part(
            "instructions at the same time",
            "costs.width",
            machine.costs.width > 0,
            width,
        ),
        part(
            "units that are busy: loads, divisions, …",
            "units",
            machine.costs.units != Units::default(),
            units,
        ),
        part(
            "capacity of caches",
            "topology.last_level_cache_kib",
            machine.last_level_cache > 0,
            caches,
        ),
        part(
            "hardware threads of a core",
            "topology.threads_per_core",
            machine.threads_per_core > 1,
            threads,
        ),
        never("other prefetchers, TLBs", "nothing comes early or late"),
        never("mispredictions, overlap of misses", "a block has one cost"),
        never("the kernel's own lines", "a call has a cost"),
    ]
}
