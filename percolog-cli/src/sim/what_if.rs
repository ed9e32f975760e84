//! What the program would gain if one of the worst objects cost nothing: it is run again for each, with its lines free.

use std::ffi::OsString;
use std::time::Duration;

use percolog_sim::report::Summary;
use percolog_sim::run::{Run, Simulation};
use percolog_sim::what_if::{self, Incomparable};

use super::how::{came_to_an_end, start};
use percolog_cli::failure::Failure;
use percolog_cli::output::bar;
use percolog_cli::terminal::harmless;

/// How many objects are tried if nobody says how many.
const OBJECTS: usize = 3;
/// Nor is one tried then whose lines have less than this of all waiting,
const SHARE: f64 = 0.03;
/// or for which cores waited less than this of their time: the figure would be 1.00.
const OF_TIME: f64 = 0.01;

/// What to run again.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatIf {
    /// Run the program again for each of the worst N objects, with their contended lines of memory costing nothing (default: for
    /// the worst three that have at least 3 % of all waiting, and 1 % of all time)
    #[arg(long = "what-if", value_name = "N", overrides_with = "no_what_if",
          value_parser = clap::value_parser!(u64).range(0..=1000))]
    what_if: Option<u64>,

    /// Do not run the program again to see what lines cost, as when it uses up what it works on
    #[arg(long, overrides_with = "what_if")]
    no_what_if: bool,
}

/// How long a run may take that is like one which took so long: a server whose clients have gone would wait for ever.
fn patience(first: Duration) -> Duration {
    Duration::from_secs(10).saturating_add(first.saturating_mul(4))
}

impl WhatIf {
    /// Runs the program again, as `first` was run in `took`, and adds to the summary what that says.
    pub(super) fn add(
        &self,
        simulation: &Simulation,
        command: &[OsString],
        first: &Run,
        took: Duration,
        summary: &mut Summary,
    ) {
        if self.no_what_if || came_to_an_end(first).is_err() || first.status.code().is_none() {
            return;
        }
        let most = self.what_if.map_or(OBJECTS, |objects| objects as usize);
        let mut candidates = what_if::worst(first, summary, most);
        if self.what_if.is_none() {
            candidates.retain(|candidate| {
                let share = candidate.share(summary);
                share >= SHARE && share * summary.stall_share >= OF_TIME
            });
        }
        let bar = bar();
        bar.set_length(candidates.len() as u64);
        let mut patient = simulation.clone();
        if simulation
            .time_limit()
            .is_none_or(|limit| limit > patience(took))
        {
            patient = patient.timeout(patience(took));
        }
        for candidate in candidates {
            let line = &summary.lines[candidate.worst()];
            let name = line.label.as_ref().unwrap_or(&line.memory);
            let what = match candidate.lines.len() - 1 {
                0 => format!("{:#x}", line.address),
                1 => format!("{:#x} and another line of its object", line.address),
                more => format!("{:#x} and {more} more lines of its object", line.address),
            };
            bar.set_message(
                harmless(&format!("what if {what} ({name}) cost nothing")).into_owned(),
            );
            bar.tick();
            // That the program cannot be run a second time is no reason to say nothing of the first.
            let found = start(&candidate.simulation(&patient), command)
                .map_err(|_| Incomparable::Different)
                .and_then(|again| candidate.compare(first, &again));
            match found {
                Ok(found) => candidate.note(found, summary),
                Err(why) => {
                    summary
                        .warnings
                        .push(format!("what if {what} cost nothing is not known: {why}"));
                    // It would do the same with the next object.
                    if why != Incomparable::NotMet {
                        break;
                    }
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
    }
}

/// Refuses names that no line has.
pub(super) fn check_names(run: &Run) -> Result<(), Failure> {
    let freed = run.freed();
    let Some(unknown) = freed.iter().find(|freed| freed.lines == 0) else {
        return Ok(());
    };
    let name = unknown.wish.to_string();
    let typed = name.split("+0x").next().unwrap_or(&name);
    let near = run.names_like(typed);
    let hint = if near.is_empty() {
        "the report names labels and variables, and an address (0x…) always does".to_owned()
    } else {
        format!("there are: {}", near.join(", "))
    };
    Err(Failure::Input(format!(
        "--free {name}: no label and no variable of the program is called so; {hint}"
    )))
}
