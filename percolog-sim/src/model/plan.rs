//! What a request costs, by where the line is and who has it.

use super::table::{Line, State};
use super::{Coherence, Core, Event, Machine, Ticks, ticks};

/// What a request costs and does, before anything is changed.
pub(super) struct Plan {
    /// From the start of service to the arrival of line and rights.
    pub(super) latency: Ticks,
    /// From the start of service until whoever loses the line has heard of it.
    pub(super) probe: Ticks,
    /// The share of the latency for which the home is busy.
    pub(super) occupancy: u16,
    pub(super) event: Event,
    /// Whether the data come from memory.
    pub(super) from_memory: bool,
}

impl Plan {
    /// What a request by `core`, which lacks the rights, for a line whose home is chip `home`
    /// costs.
    pub(super) fn new(
        machine: &Machine,
        line: &Line,
        core: Core,
        home: usize,
        writes: bool,
    ) -> Plan {
        let here = machine.chip_of(core);
        let to_home = match machine.coherence {
            Coherence::Directory => machine.distance(here, home),
            // The bus has no homes: all hear the request.
            Coherence::Bus => 0,
        };
        let holds = line.holders.contains(core);
        let others = || {
            line.holders
                .iter()
                .filter(|&other| other != core)
                .map(|other| machine.chip_of(other))
        };
        // A chip that knows its cores' copies needs no home for what concerns only its own cores.
        let concerned_only_here = machine.chip_directory && others().all(|chip| chip == here);
        let way = |distance: usize| {
            let served_here =
                machine.chip_directory && distance == 0 && (!writes || concerned_only_here);
            if served_here {
                0
            } else {
                distance.max(to_home)
            }
        };
        let reach = |distance: usize| u64::from(machine.transfer[way(distance)]);
        let memory = u64::from(machine.memory[to_home]);
        // Where the data come from: nowhere, if the core has them.
        let (data, from_memory) = match line.state {
            _ if holds => (0, false),
            State::Idle => (memory, true),
            State::Exclusive | State::Modified | State::Owned => {
                let owner = machine.chip_of(line.owner);
                (reach(machine.distance(here, owner)), false)
            }
            State::Shared => {
                let nearest = others().map(|chip| machine.distance(here, chip)).min();
                let nearest = nearest.map_or(u64::MAX, reach);
                (nearest.min(memory), memory < nearest)
            }
        };
        let mut cycles = data;
        let furthest = others().map(|chip| machine.distance(here, chip)).max();
        let probe = furthest.map_or(0, |distance| machine.probe[way(distance)]);
        if writes {
            let copies = others().count() as u64;
            if let Some(furthest) = furthest {
                cycles = cycles.max(reach(furthest));
            } else if holds {
                // Nobody else has it, but only the home knows.
                cycles = reach(0);
            }
            cycles += copies.saturating_sub(1) * u64::from(machine.invalidate_per_sharer);
        }
        let (event, occupancy) = match (writes, holds) {
            (true, true) => (Event::Upgrade, machine.occupancy.upgrade),
            (true, false) => (Event::Write, machine.occupancy.write),
            (false, _) => (Event::Read, machine.occupancy.read),
        };
        let event = if line.state == State::Idle {
            Event::Memory
        } else {
            event
        };
        Plan {
            latency: ticks(cycles),
            probe: ticks(probe.into()),
            occupancy,
            event,
            from_memory,
        }
    }
}
