//! What a run comes to: figures per operation, shares of time, the worst lines by name.

use std::collections::HashSet;

use serde::Serialize;

use super::callers::{CallerSummary, Callers};
use super::caveats::{self, Caveat, SharedMemory};
use super::code::Code;
use super::findings::{ObjectSummary, ObjectWhatIf, Sharing, SpanSummary, Suggestion, WhatIf};
use super::pattern;
use super::scaling::Scaling;
use super::skipped::SkippedSummary;
use super::spread::Spread;
use crate::machine::not_modelled;
use crate::raw::{Counts, Ending, LineResult, ProcessResult, SpanResult};
use crate::run::{Freed, Run};
use crate::symbols::{Place, Symbols};

/// The version of the JSON that is made of a [`Summary`].
pub const VERSION: u64 = 1;

/// What a run comes to. Its fields, as JSON, are described in `docs/json.md`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The version of this form.
    pub version: u64,
    /// What ran without being simulated: the figures say nothing about it.
    pub unsimulated: Vec<String>,
    /// What else there is to know before the figures.
    pub caveats: Vec<Caveat>,
    /// Memory that processes on several machines have used: lines that went from one to another are not seen.
    pub shared_memory: Vec<SharedMemory>,
    /// The machine.
    pub machine: MachineSummary,
    /// The process that the figures are about.
    pub process: ProcessSummary,
    /// All that were simulated, each with those that were forked from it; empty if there was but one.
    pub processes: Vec<ProcessSummary>,
    /// Lines that cost nothing, because that was asked for.
    pub free: Vec<FreeSummary>,
    /// What was not simulated because it was to be skipped; the figures begin behind it.
    pub skipped: Option<SkippedSummary>,
    /// Whether the figures are about the marked region alone.
    pub region: Option<RegionSummary>,
    /// Totals.
    pub totals: Totals,
    /// The same for each operation, if the program said how many it did.
    pub per_operation: Option<PerOperation>,
    /// The share of the time that threads had a core in which they waited for lines that others had. 0 to 1.
    pub stall_share: f64,
    /// The share in which they waited for others to be served first. 0 to 1.
    pub queue_share: f64,
    /// The share of all cores' time in which they had a thread. 0 to 1.
    pub busy_share: f64,
    /// Operations in a millisecond of simulated time, if the program said how many it did.
    pub operations_per_ms: Option<f64>,
    /// The same program on one core of the machine, if that was run.
    pub one_core: Option<OneCore>,
    /// How its speed grows with the number of cores, if that was tried.
    pub scaling: Option<Scaling>,
    /// How much the figures differ from seed to seed, if there were several.
    pub spread: Option<Spread>,
    /// How many lines went from core to core.
    pub lines_seen: u64,
    /// The worst of them, the worst first.
    pub lines: Vec<LineSummary>,
    /// Who sleeps, if nobody could go on.
    pub sleepers: Vec<SleeperSummary>,
    /// Why another run may give other figures. If empty, it gives the same.
    pub not_reproducible: Vec<String>,
    /// What is wrong with the marks.
    pub warnings: Vec<String>,
    /// How often a thread was let go out of turn because the emulator needed it.
    pub forced: u64,
    /// How many accesses were ordered only after they were made.
    pub unordered: u64,
    /// Whether the program was ended because it took too long.
    pub timed_out: bool,
    /// How many cycles a core could be ahead of the others.
    pub run_ahead: u64,
    /// Where arbitrary choices came from.
    pub seed: u64,
    /// The version of QEMU.
    pub qemu: String,
    /// What the simulator leaves out, on this machine.
    pub not_modelled: Vec<&'static str>,
}

/// A machine, in short.
#[derive(Clone, Debug, Serialize)]
pub struct MachineSummary {
    /// Its name.
    pub name: String,
    /// Its cores.
    pub cores: usize,
    /// Million cycles in a second.
    pub megahertz: u32,
    /// Bytes in a line.
    pub line_size: u64,
}

/// A process, in short.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessSummary {
    /// The program.
    pub program: String,
    /// How its simulation ended.
    pub ending: Ending,
    /// Its status, or the signal that killed it.
    pub exit_code: i32,
    /// Its threads, and those of the processes that were forked from it and stayed on its machine.
    pub threads: u64,
    /// How many processes these are.
    pub processes: u64,
    /// The instructions they executed.
    pub instructions: u64,
    /// Simulated nanoseconds.
    pub elapsed_ns: f64,
    /// Lines that went from core to core.
    pub transfers: u64,
}

/// Lines that cost nothing.
#[derive(Clone, Debug, Serialize)]
pub struct FreeSummary {
    /// How they were named.
    pub name: String,
    /// How many they are.
    pub lines: u64,
    /// How many accesses to them needed more than the core's own cache.
    pub events: u64,
}

/// The region that the program has marked.
#[derive(Clone, Debug, Serialize)]
pub struct RegionSummary {
    /// How often it was entered.
    pub entered: u64,
    /// By how many threads.
    pub threads: u64,
    /// The operations they said they did.
    pub operations: u64,
    /// Simulated nanoseconds from the first entry to the last exit.
    pub elapsed_ns: f64,
    /// Simulated nanoseconds that threads had a core in it, added up.
    pub busy_ns: f64,
}

/// Coherence events.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    /// Lines that went from one core's cache to another's.
    pub transfers: u64,
    /// Those of them that went to be read.
    pub reads: u64,
    /// Those that went to be written.
    pub writes: u64,
    /// Lines that others had to give up so that a core that had them could write them.
    pub upgrades: u64,
    /// Copies that cores lost.
    pub invalidations: u64,
    /// Lines that came from memory for the first time.
    pub cold: u64,
    /// Lines that came from memory again.
    pub memory: u64,
    /// Nanoseconds that cores waited, but for cold lines.
    pub stall_ns: f64,
    /// Nanoseconds of these that they waited for others to be served first.
    pub queued_ns: f64,
    /// Nanoseconds that cores waited for cold lines.
    pub cold_stall_ns: f64,
}

/// Coherence events for each operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PerOperation {
    /// See [`Totals::transfers`].
    pub transfers: f64,
    /// See [`Totals::upgrades`].
    pub upgrades: f64,
    /// See [`Totals::invalidations`].
    pub invalidations: f64,
    /// See [`Totals::cold`].
    pub cold: f64,
    /// Nanoseconds that a thread was at an operation.
    pub busy_ns: f64,
}

/// The same program on one core.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OneCore {
    /// Operations in a millisecond there.
    pub operations_per_ms: f64,
    /// How many times as many all cores do.
    pub speedup: f64,
}

/// A line of memory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LineSummary {
    /// Its address.
    pub address: u64,
    /// The process that it belongs to, counted in the order in which they were forked; nothing for the first (0), and for memory that
    /// processes share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The variables in it, or the kind of memory.
    pub memory: String,
    /// What the program calls it.
    pub label: Option<String>,
    /// What was done to it.
    pub totals: Totals,
    /// Its share of all waiting, 0 to 1.
    pub share: f64,
    /// The cores that fetched it to read.
    pub readers: Vec<u32>,
    /// The cores that fetched it to write.
    pub writers: Vec<u32>,
    /// The instructions that did, the worst first.
    pub places: Vec<PlaceSummary>,
    /// Events of further instructions.
    pub elsewhere: u64,
    /// The object that it is part of, if that is known.
    pub object: Option<ObjectSummary>,
    /// Whether cores share what lies in it, or only the line.
    pub sharing: Sharing,
    /// Which of its bytes were used, in ascending order.
    pub spans: Vec<SpanSummary>,
    /// What the program would gain if this line alone cost nothing, if that was tried.
    pub what_if: Option<WhatIf>,
    /// What it would gain if all contended lines of its object did, if that was tried: at the worst of them only.
    pub what_if_object: Option<ObjectWhatIf>,
    /// What is usually done about a line like this, if its pattern is known.
    pub suggestion: Option<Suggestion>,
    /// The cores that took part, in ascending order.
    pub by_core: Vec<CoreShare>,
}

/// What one core had to do with a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoreShare {
    /// Its number.
    pub core: u32,
    /// How often it had to wait.
    pub events: u64,
    /// Nanoseconds that it waited, cold misses included.
    pub stall_ns: f64,
}

/// An instruction that waited for a line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PlaceSummary {
    /// Its address.
    pub pc: u64,
    /// Where that is.
    #[serde(flatten)]
    pub place: Place,
    /// Whether it wrote.
    pub write: bool,
    /// How often it waited.
    pub events: u64,
    /// Its share of the waiting for this line, 0 to 1.
    pub share: f64,
    /// The calls that led there, the innermost first: functions that the compiler has inlined, then callers as far as they are known.
    /// Empty if nothing is known beyond the place itself.
    pub frames: Vec<Place>,
    /// All on whose behalf it was, the most frequent first, if there are several: a lock is used by many.
    pub callers: Vec<CallerSummary>,
}

/// A thread that sleeps for ever.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SleeperSummary {
    /// Its number within the process.
    pub thread: u64,
    /// What it waits for.
    pub why: String,
    /// The word it waits at, if it does.
    pub address: Option<u64>,
    /// What lies there.
    pub memory: Option<String>,
    /// The address of the instruction it is at.
    pub pc: u64,
    /// Where that is.
    #[serde(flatten)]
    pub place: Place,
}

/// Why the figures of a run must not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nothing {
    /// No instruction was simulated.
    Instructions,
    /// The program marked a region in which no operation was simulated.
    Operations,
    /// The program marked no region, and one was needed.
    Region,
    /// There are figures, but they leave out what was asked about: a [caveat](Caveat) says why.
    Caveat(String),
}

impl std::fmt::Display for Nothing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Caveat(why) => why,
            Self::Instructions => "nothing of the program was simulated",
            Self::Operations => {
                "the program marked a region, but no operation was simulated in it"
            }
            Self::Region => {
                "the program marked no region, so there are no operations to count; percolog-roi marks one"
            }
        })
    }
}

impl std::error::Error for Nothing {}

/// How many operations one core does: what a machine's throughput is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    operations_per_ms: f64,
}

impl Baseline {
    /// Of a run on one core. `None` if the program did not say how many operations it did.
    #[must_use]
    pub fn of(run: &Run) -> Option<Self> {
        throughput(run.main()?).map(|operations_per_ms| Self { operations_per_ms })
    }
}

impl Run {
    /// What this run comes to.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary::new(self)
    }
}

/// Nanoseconds of the machine.
fn nanoseconds(process: &ProcessResult, ticks: u64) -> f64 {
    process.nanoseconds(ticks)
}

fn throughput(process: &ProcessResult) -> Option<f64> {
    let region = &process.region;
    let elapsed = nanoseconds(process, region.elapsed);
    (region.operations > 0 && elapsed > 0.0).then(|| region.operations as f64 * 1e6 / elapsed)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn totals(process: &ProcessResult, counts: &Counts) -> Totals {
    Totals {
        transfers: counts.transfers(),
        reads: counts.reads,
        writes: counts.writes,
        upgrades: counts.upgrades,
        invalidations: counts.invalidations,
        cold: counts.cold,
        memory: counts.memory,
        stall_ns: nanoseconds(process, counts.stall),
        queued_ns: nanoseconds(process, counts.queued),
        cold_stall_ns: nanoseconds(process, counts.cold_stall),
    }
}

impl Summary {
    fn new(run: &Run) -> Self {
        let none = ProcessResult::default();
        let main = run.main().unwrap_or(&none);
        let counts = main.counts();
        let marked = main.region.entered > 0;
        let busy = if marked {
            main.region.busy
        } else {
            main.busy()
        };
        let operations = main.region.operations;
        let per = |count: u64| count as f64 / operations as f64;
        let elapsed = if marked {
            main.region.elapsed
        } else {
            main.elapsed
        };
        let symbols = Symbols::new(&main.maps);
        let callers = Callers::new(main, &symbols);
        let shared_memory = SharedMemory::of(run);
        let mut summary = Self {
            version: VERSION,
            unsimulated: unsimulated(run),
            caveats: caveats::of(run, &shared_memory),
            shared_memory,
            machine: MachineSummary {
                name: run.machine.name.clone(),
                cores: run.machine.cores,
                megahertz: run.machine.megahertz,
                line_size: run.machine.line_size,
            },
            process: process_summary(main),
            processes: if run.processes.len() > 1 {
                run.processes.iter().map(process_summary).collect()
            } else {
                Vec::new()
            },
            free: run.freed().iter().map(free_summary).collect(),
            skipped: SkippedSummary::of(
                main.skipped_instructions,
                nanoseconds(main, main.skipped_time),
            ),
            region: marked.then(|| RegionSummary {
                entered: main.region.entered,
                threads: main.region.threads,
                operations,
                elapsed_ns: nanoseconds(main, main.region.elapsed),
                busy_ns: nanoseconds(main, main.region.busy),
            }),
            totals: totals(main, counts),
            per_operation: (operations > 0).then(|| PerOperation {
                transfers: per(counts.transfers()),
                upgrades: per(counts.upgrades),
                invalidations: per(counts.invalidations),
                cold: per(counts.cold),
                busy_ns: nanoseconds(main, main.region.busy) / operations as f64,
            }),
            stall_share: share(counts.stall, busy),
            queue_share: share(counts.queued, busy),
            busy_share: share(busy, elapsed.saturating_mul(run.machine.cores as u64)).min(1.0),
            operations_per_ms: throughput(main),
            one_core: None,
            scaling: None,
            spread: None,
            lines_seen: main.lines_seen,
            lines: main
                .lines
                .iter()
                .map(|line| line_summary(main, line, counts.stall, &symbols, &callers))
                .collect(),
            sleepers: sleepers(main, &symbols),
            not_reproducible: once(run, |process| &process.not_reproducible),
            warnings: once(run, |process| &process.warnings),
            forced: run.processes.iter().map(|process| process.forced).sum(),
            unordered: run.processes.iter().map(|process| process.unordered).sum(),
            timed_out: run.timed_out,
            run_ahead: run.run_ahead,
            seed: run.seed,
            qemu: run.qemu.clone(),
            not_modelled: not_modelled(&run.machine),
        };
        // Last, for it takes all that is known of a line.
        let code = Code::new(&main.maps);
        for line in &mut summary.lines {
            line.suggestion = pattern::suggest(line, |pc| code.instruction(pc));
        }
        summary
    }

    /// Adds how the speed grows with the number of cores.
    #[must_use]
    pub fn with_scaling(mut self, scaling: Scaling) -> Self {
        self.scaling = Some(scaling);
        self
    }

    /// Compares the throughput with that of one core.
    #[must_use]
    pub fn against(mut self, baseline: Baseline) -> Self {
        self.one_core = self.operations_per_ms.map(|operations_per_ms| OneCore {
            operations_per_ms: baseline.operations_per_ms,
            speedup: operations_per_ms / baseline.operations_per_ms,
        });
        self
    }

    /// Whether there is anything that figures can be about.
    ///
    /// # Errors
    ///
    /// When nothing was simulated, or nothing in the region that the program marked or that was asked for, and when processes share
    /// memory: what goes from one to another is not seen.
    pub fn check(&self) -> Result<(), Nothing> {
        self.check_counted()?;
        match self.caveats.iter().find(|caveat| caveat.kind.is_fatal()) {
            Some(caveat) => Err(Nothing::Caveat(caveat.text.clone())),
            None => Ok(()),
        }
    }

    /// Whether anything was counted, be it all of it or not.
    pub(super) fn check_counted(&self) -> Result<(), Nothing> {
        if self.process.instructions == 0 {
            return Err(Nothing::Instructions);
        }
        match &self.region {
            Some(region) if region.operations == 0 || region.busy_ns <= 0.0 => {
                Err(Nothing::Operations)
            }
            _ => Ok(()),
        }
    }

    /// The figures per operation.
    ///
    /// # Errors
    ///
    /// As [`Summary::check`], and when the program marked no region.
    pub fn operations(&self) -> Result<PerOperation, Nothing> {
        self.check()?;
        self.per_operation.ok_or(Nothing::Region)
    }
}

fn process_summary(process: &ProcessResult) -> ProcessSummary {
    ProcessSummary {
        program: process.program.clone(),
        ending: process.ending,
        exit_code: match process.ending {
            Ending::Signal => caveats::signal(process),
            _ => process.exit_code,
        },
        threads: process.threads,
        processes: process.processes.len().max(1) as u64,
        instructions: process.instructions,
        elapsed_ns: nanoseconds(process, process.elapsed),
        transfers: process.whole.transfers(),
    }
}

/// What any process says of itself, once.
fn once(run: &Run, of: impl Fn(&ProcessResult) -> &Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    run.processes
        .iter()
        .flat_map(|process| of(process).iter())
        .filter(|text| seen.insert(text.as_str()))
        .cloned()
        .collect()
}

/// What the processes name, and processes that have left nothing at all.
fn unsimulated(run: &Run) -> Vec<String> {
    let mut all = once(run, |process| &process.unsimulated);
    let known: HashSet<u32> = run.processes.iter().map(|process| process.pid).collect();
    let lost = run
        .processes
        .iter()
        .flat_map(|machine| &machine.processes)
        .filter(|process| process.executed != 0 && !known.contains(&process.pid))
        .count();
    if !known.is_empty() && !known.contains(&run.first) {
        all.push("the process that was started first, which left no result".to_owned());
    }
    match lost {
        0 => {}
        1 => all.push("a process that it started, which left no result".to_owned()),
        _ => all.push(format!(
            "{lost} processes that it started, which left no result"
        )),
    }
    all
}

fn line_summary(
    process: &ProcessResult,
    line: &LineResult,
    stall: u64,
    symbols: &Symbols,
    callers: &Callers<'_>,
) -> LineSummary {
    LineSummary {
        address: line.line,
        process: line.process,
        memory: match &line.file {
            Some(file) => caveats::mapped(file),
            None => symbols.memory(line.line, process.line_size.max(1)),
        },
        label: line.label.clone(),
        totals: totals(process, &line.counts),
        share: share(line.counts.stall, stall),
        readers: line.readers.clone(),
        writers: line.writers.clone(),
        places: line
            .places
            .iter()
            .map(|place| (place, callers.users(line, place)))
            .map(|(place, users)| PlaceSummary {
                pc: place.pc,
                place: match &users {
                    Some(users) => users.place.clone(),
                    None => symbols.place(place.pc),
                },
                write: place.write,
                events: place.events,
                // A place's waiting includes cold misses.
                share: share(
                    place.stall,
                    line.counts.stall.saturating_add(line.counts.cold_stall),
                ),
                frames: users
                    .as_ref()
                    .map_or_else(Vec::new, |users| users.frames.clone()),
                callers: users.map_or_else(Vec::new, |users| users.callers),
            })
            .collect(),
        elsewhere: line.elsewhere,
        object: callers.object(line),
        sharing: Sharing::of(line.true_events, line.false_events, line.undecided_events),
        spans: line.spans.iter().map(span_summary).collect(),
        what_if: None,
        what_if_object: None,
        suggestion: None,
        by_core: line
            .by_core
            .iter()
            .map(|of| CoreShare {
                core: of.core,
                events: of.events,
                stall_ns: nanoseconds(process, of.stall),
            })
            .collect(),
    }
}

fn free_summary(freed: &Freed) -> FreeSummary {
    FreeSummary {
        name: freed.wish.to_string(),
        lines: freed.lines,
        events: freed.events,
    }
}

fn span_summary(span: &SpanResult) -> SpanSummary {
    SpanSummary {
        offset: span.offset,
        size: span.size,
        readers: span.readers.clone(),
        writers: span.writers.clone(),
        events: span.events,
        name: None,
    }
}

fn sleepers(process: &ProcessResult, symbols: &Symbols) -> Vec<SleeperSummary> {
    process
        .sleepers
        .iter()
        .map(|sleeper| SleeperSummary {
            thread: sleeper.thread,
            why: sleeper.why.clone(),
            address: (sleeper.address != 0).then_some(sleeper.address),
            memory: (sleeper.address != 0).then(|| symbols.memory(sleeper.address, 4)),
            pc: sleeper.pc,
            place: symbols.place(sleeper.pc),
        })
        .collect()
}
