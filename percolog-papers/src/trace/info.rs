//! What is in a trace, in a few figures.

use super::Trace;
use super::event::{Counts, FileKind};
use crate::replay::plan::{Plan, Update};
use std::collections::BTreeMap;
use std::fmt;

/// A summary of a trace; [`Display`](fmt::Display) makes a page of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// What was run.
    pub command: String,
    /// What that built or ran.
    pub package: String,
    /// When, `YYYY-MM-DD`.
    pub recorded: String,
    /// With what.
    pub recorder: String,
    /// How long it ran, in microseconds.
    pub duration: u64,
    /// Processes and threads.
    pub processes: u32,
    /// How many of them had an address space of their own.
    pub address_spaces: usize,
    /// The most that were alive at once.
    pub peak_processes: usize,
    /// Events by kind.
    pub counts: Counts,
    /// Additions to reverse maps that the events amount to.
    pub additions: u64,
    /// Removals from reverse maps that the events amount to.
    pub removals: u64,
    /// The most mappings that existed at once.
    pub peak_mappings: usize,
    /// Files by kind.
    pub files: BTreeMap<FileKind, usize>,
    /// The files with the most mappings over the run: name, mappings, most processes at once.
    pub popular: Vec<(String, u64, usize)>,
    /// Truncates that found anything mapped.
    pub truncates_of_mapped: u64,
}

/// How many files [`Info::popular`] names.
const POPULAR: usize = 8;

pub(super) fn summarize(trace: &Trace) -> Info {
    let header = trace.header();
    let plan = Plan::of(trace);
    let mut files = BTreeMap::new();
    for file in trace.files() {
        *files.entry(file.kind).or_insert(0) += 1;
    }

    let mut ever = vec![0_u64; trace.files().len()];
    let mut now: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); trace.files().len()];
    let mut peak_sharers = vec![0; trace.files().len()];
    let (mut additions, mut removals, mut truncates_of_mapped) = (0, 0, 0);
    let (mut mapped, mut peak_mappings) = (0_usize, 0);
    for update in plan.updates() {
        match *update {
            Update::Add { file, mapping } => {
                let file = file as usize;
                additions += 1;
                mapped += 1;
                peak_mappings = peak_mappings.max(mapped);
                ever[file] += 1;
                *now[file].entry(mapping.process).or_insert(0) += 1;
                peak_sharers[file] = peak_sharers[file].max(now[file].len());
            }
            Update::Remove { file, mapping } => {
                removals += 1;
                mapped -= 1;
                let sharers = &mut now[file as usize];
                if let Some(count) = sharers.get_mut(&mapping.process) {
                    *count -= 1;
                    if *count == 0 {
                        sharers.remove(&mapping.process);
                    }
                }
            }
            Update::Truncate { file, .. } => {
                truncates_of_mapped += u64::from(!now[file as usize].is_empty());
            }
        }
    }
    let mut by_use: Vec<usize> = (0..ever.len()).collect();
    by_use.sort_by_key(|&file| std::cmp::Reverse(ever[file]));
    let popular = by_use
        .into_iter()
        .take(POPULAR)
        .filter(|&file| ever[file] > 0)
        .map(|file| (trace.file_name(file as u32), ever[file], peak_sharers[file]))
        .collect();

    Info {
        command: header.command.clone(),
        package: header.package.clone(),
        recorded: header.recorded.clone(),
        recorder: header.recorder.clone(),
        duration: trace.events().last().map_or(0, |event| event.time),
        processes: header.processes,
        address_spaces: plan.processes(),
        peak_processes: peak_processes(trace),
        counts: header.counts,
        additions,
        removals,
        peak_mappings,
        files,
        popular,
        truncates_of_mapped,
    }
}

fn peak_processes(trace: &Trace) -> usize {
    use super::event::Action;
    let (mut alive, mut peak) = (1, 1);
    for event in trace.events() {
        match event.action {
            Action::Fork { .. } => alive += 1,
            Action::Exit => alive -= 1,
            _ => {}
        }
        peak = peak.max(alive);
    }
    peak
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        if self.package.is_empty() {
            writeln!(f, "{}", self.command)?;
        } else {
            writeln!(f, "{}: {}", self.package, self.command)?;
        }
        writeln!(f, "recorded {} with {}", self.recorded, self.recorder)?;
        writeln!(
            f,
            "{:.2} s, {} processes and threads ({} address spaces), at most {} at once",
            self.duration as f64 / 1e6,
            self.processes,
            self.address_spaces,
            self.peak_processes
        )?;
        writeln!(
            f,
            "events: {} map, {} unmap, {} fork (copy), {} fork (shared), {} exec, {} exit, {} truncate",
            counts.map,
            counts.unmap,
            counts.fork,
            counts.share,
            counts.exec,
            counts.exit,
            counts.truncate
        )?;
        writeln!(
            f,
            "reverse maps: {} additions, {} removals, at most {} mappings at once; {} truncates found a mapping",
            self.additions, self.removals, self.peak_mappings, self.truncates_of_mapped
        )?;
        write!(f, "files:")?;
        for (position, (kind, count)) in self.files.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma} {count} {kind}")?;
        }
        for (name, mappings, sharers) in &self.popular {
            write!(
                f,
                "\n  {name}: {mappings} mappings, at most {sharers} processes at once"
            )?;
        }
        Ok(())
    }
}
