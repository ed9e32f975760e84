//! What happened, added up while the guest runs, and written for the launcher when it ends.
//!
//! The raw result is JSON, written by hand: the plugin has no dependencies. `report::ProcessResult` of the library reads
//! it, and says what each field means.

mod bytes;
mod json;
mod tally;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::{Counts, LineCounts, TICKS_PER_CYCLE, Ticks};
use crate::plugin::chaos::Interleaving;

use crate::plugin::free::Met;
use crate::plugin::spaces::Spaces;
use crate::plugin::witness::Witness;
pub(crate) use json::Json;
pub(crate) use tally::{LineHasher, Tally};

/// The version of the raw result.
const FORMAT: u64 = 2;

/// How the simulation of the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The process ends itself, with this status.
    Exit(i32),
    /// A signal kills it.
    Signal(i32),
    /// All threads sleep, and nobody is there to wake them.
    Deadlock,
    /// It becomes another program.
    Exec,
    /// It was measured for as long as was asked for, and is ended.
    Stopped,
}

impl Ending {
    fn name(self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::Signal(_) => "signal",
            Self::Deadlock => "deadlock",
            Self::Exec => "exec",
            Self::Stopped => "stopped",
        }
    }
}

/// A thread that sleeps when nothing can go on.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    pub(crate) thread: usize,
    /// `futex`, `time`, `system call N` or `spinning`.
    pub(crate) why: String,
    pub(crate) pc: u64,
    pub(crate) address: u64,
}

/// A process that was on the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnMachine {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) threads: u64,
    pub(crate) has_executed: bool,
    /// What killed it; 0 if nothing did.
    pub(crate) signal: i32,
}

/// All that is written, but for the tally.
#[derive(Debug)]
pub(crate) struct Snapshot<'a> {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) program: &'a str,
    pub(crate) machine: &'a str,
    pub(crate) cores: usize,
    pub(crate) megahertz: u32,
    pub(crate) line_size: u64,
    pub(crate) ending: Ending,
    pub(crate) exit_code: i32,
    pub(crate) threads: u64,
    pub(crate) instructions: u64,
    pub(crate) elapsed: Ticks,
    /// When the part began that counts.
    pub(crate) began: Ticks,
    /// Instructions before that.
    pub(crate) skipped: u64,
    /// Whether it has not begun.
    pub(crate) is_skipping: bool,
    /// Accesses before that that were looked at all the same.
    pub(crate) looked_at: u64,
    pub(crate) maps: &'a str,
    pub(crate) sleepers: &'a [Sleeper],
    pub(crate) unsimulated: &'a [String],
    pub(crate) not_reproducible: &'a [&'static str],
    pub(crate) forced: u64,
    pub(crate) unordered: u64,
    /// All that were on the machine, the first one first.
    pub(crate) processes: &'a [OnMachine],
    pub(crate) interleaving: Option<Interleaving>,
    pub(crate) top_lines: usize,
    /// What has become of each wish for free lines.
    pub(crate) free: &'a [Met],
    /// The free lines.
    pub(crate) free_lines: &'a [u64],
    /// Which memory lay where in them.
    pub(crate) spaces: &'a Spaces,
    pub(crate) tally: &'a Tally,
    pub(crate) witness: &'a Witness,
}

/// Writes the result into `folder`: whole, or not at all.
///
/// It is `<pid>.json`, and `<pid>.<n>.json` for the programs that the process leaves for another.
pub(crate) fn write(folder: &Path, snapshot: &Snapshot<'_>) -> io::Result<PathBuf> {
    let pid = snapshot.pid;
    let place = if snapshot.ending == Ending::Exec {
        (0_u64..)
            .map(|before| folder.join(format!("{pid}.{before}.json")))
            .find(|place| !place.exists())
            .unwrap_or_else(|| folder.join(format!("{pid}.json")))
    } else {
        folder.join(format!("{pid}.json"))
    };
    let unfinished = folder.join(format!("{pid}.unfinished"));
    fs::write(&unfinished, to_json(snapshot))?;
    fs::rename(&unfinished, &place)?;
    Ok(place)
}

/// The result as text.
pub(crate) fn to_json(snapshot: &Snapshot<'_>) -> String {
    let tally = snapshot.tally;
    let region = &tally.region;
    let inside = tally
        .threads
        .iter()
        .filter(|thread| thread.depth > 0)
        .count() as u64;
    let mut json = Json::default();
    json.open('{');
    json.number("format", FORMAT);
    json.number("pid", u64::from(snapshot.pid));
    json.number("parent", u64::from(snapshot.parent));
    json.text("program", snapshot.program);
    json.text("machine", snapshot.machine);
    json.number("cores", snapshot.cores as u64);
    json.text("ending", snapshot.ending.name());
    json.key("exit_code");
    let _ = write!(json.text, "{}", snapshot.exit_code);
    json.number("ticks_per_cycle", TICKS_PER_CYCLE);
    json.number("megahertz", u64::from(snapshot.megahertz));
    json.number("line_size", snapshot.line_size);
    json.number("threads", snapshot.threads);
    let (began, skipped) = if snapshot.is_skipping {
        (snapshot.elapsed, snapshot.instructions)
    } else {
        (snapshot.began, snapshot.skipped)
    };
    json.number(
        "instructions",
        snapshot.instructions.saturating_sub(skipped),
    );
    json.number("elapsed", snapshot.elapsed.saturating_sub(began));
    json.number("skipped_instructions", skipped);
    json.number("skipped_time", began);
    json.number("skipped_but_looked_at", snapshot.looked_at);
    json.counts("whole", &tally.whole);

    json.key("region");
    json.open('{');
    let region_end = if inside > 0 {
        region.last_end.max(snapshot.elapsed)
    } else {
        region.last_end
    };
    json.number("entered", region.entered);
    json.number("operations", region.operations);
    json.number("elapsed", region_end.saturating_sub(region.first_begin));
    json.number("busy", region.busy);
    json.counts("counts", &region.counts);
    json.number("threads", region.threads);
    json.close('}');

    json.list(
        "cores_detail",
        tally.cores.iter().enumerate(),
        |json, (core, of_core)| {
            if of_core.busy > 0 || of_core.counts != Counts::default() {
                json.open('{');
                json.number("core", core as u64);
                json.number("busy", of_core.busy);
                json.counts("counts", &of_core.counts);
                json.close('}');
            }
        },
    );
    json.number("lines_seen", tally.lines.len() as u64);
    let lines = worst(tally, snapshot.top_lines);
    snapshot
        .witness
        .stacks_of(&mut json, lines.iter().map(|(line, _)| **line));
    json.list("lines", lines, |json, (line, counts)| {
        json.line(snapshot, *line, counts);
    });
    json.list("free", snapshot.free, |json, met| {
        json.open('{');
        json.number("lines", met.lines);
        json.number("events", met.events);
        json.close('}');
    });
    json.list(
        "free_lines",
        free_lines(tally, snapshot.free_lines),
        |json, (line, counts)| json.line(snapshot, line, counts),
    );
    snapshot.spaces.write(&mut json);
    json.list("labels", tally.labels(), |json, (address, size, name)| {
        json.open('{');
        json.text("name", name);
        json.number("address", snapshot.spaces.shown(address).0);
        json.number("size", size);
        json.close('}');
    });
    json.text("maps", snapshot.maps);
    json.list("sleepers", snapshot.sleepers, |json, sleeper| {
        json.open('{');
        json.number("thread", sleeper.thread as u64);
        json.text("why", &sleeper.why);
        json.number("pc", sleeper.pc);
        json.number("address", sleeper.address);
        json.close('}');
    });
    json.list("unsimulated", snapshot.unsimulated, |json, what| {
        json.item(what)
    });
    json.list(
        "not_reproducible",
        snapshot.not_reproducible,
        |json, why| json.item(why),
    );
    let mut warnings = warnings(region, inside);
    if snapshot.is_skipping {
        warnings.push(
            "the program ended before the part that was to be measured: all of it was skipped"
                .to_owned(),
        );
    }
    json.list("warnings", warnings, |json, warning| json.item(&warning));
    json.number("forced", snapshot.forced);
    json.number("unordered", snapshot.unordered);
    let began = snapshot.processes.iter().filter(|process| process.pid != 0);
    json.list("processes", began, |json, process| {
        json.open('{');
        json.number("pid", u64::from(process.pid));
        json.number("parent", u64::from(process.parent));
        json.number("threads", process.threads);
        json.number("executed", u64::from(process.has_executed));
        json.number("signal", process.signal.unsigned_abs().into());
        json.close('}');
    });
    if let Some(interleaving) = snapshot.interleaving {
        json.key("interleaving");
        json.open('{');
        json.number("points", interleaving.points);
        json.number("delays", interleaving.delays);
        json.number("order", interleaving.order);
        json.close('}');
    }
    json.close('}');
    json.text.push('\n');
    json.text
}

/// What is wrong with the marks.
fn warnings(region: &tally::RegionTally, inside: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if region.stray_ends > 0 {
        warnings.push(format!(
            "{} marks of an end had no beginning; their operations are not counted",
            region.stray_ends
        ));
    }
    let unfinished = inside + region.never_ended;
    if unfinished > 0 {
        warnings.push(format!(
            "{unfinished} threads never marked the end of the region; their operations are not counted"
        ));
    }
    warnings
}

/// The free lines that went from core to core, in ascending order. Their times say nothing, but where they were used does.
fn free_lines<'a>(tally: &'a Tally, lines: &[u64]) -> Vec<(u64, &'a LineCounts)> {
    /// More are not named.
    const MOST: usize = 64;
    let mut lines: Vec<(u64, &LineCounts)> = lines
        .iter()
        .filter_map(|line| Some((*line, tally.lines.get(line)?)))
        .collect();
    lines.sort_unstable_by_key(|(line, _)| *line);
    lines.truncate(MOST);
    lines
}

/// The lines for which cores waited longest. The order is the same however the table is.
fn worst(tally: &Tally, most: usize) -> Vec<(&u64, &LineCounts)> {
    let mut lines: Vec<(&u64, &LineCounts)> = tally.lines.iter().collect();
    lines.sort_unstable_by_key(|(line, counts)| {
        (
            std::cmp::Reverse((counts.counts.stall, counts.counts.transfers())),
            **line,
        )
    });
    lines.truncate(most);
    lines
}
