//! `percolog sim assert`: a bound on what an operation may cost, for continuous integration.

use std::ffi::OsString;

use percolog_sim::report::{Ending, Summary};
use percolog_sim::run::Run;
use serde::Serialize;

use super::how::{self, How, start};
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;
use percolog_cli::terminal::to_stderr;

/// Arguments of `percolog sim assert`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "percolog sim assert [OPTIONS] --max-transfers-per-op X -- COMMAND…",
    group = clap::ArgGroup::new("limits").required(true).multiple(true)
        .args(["max_transfers_per_op", "max_upgrades_per_op"]),
    after_help = "The status is 0 if the operations stay within all bounds, 1 if not or if the program failed, 2 for wrong \
                  arguments, 3 if no operation was simulated, if a part of the program was not, or if processes share memory: \
                  a program marks its operations with percolog-roi, or --roi-fn names a function whose calls they are."
)]
pub(crate) struct Arguments {
    /// Lines that an operation may move from core to core, on average
    #[arg(long, value_name = "X", value_parser = bound)]
    max_transfers_per_op: Option<f64>,

    /// Lines that an operation may take from others that share them, on average
    #[arg(long, value_name = "X", value_parser = bound)]
    max_upgrades_per_op: Option<f64>,

    #[command(flatten)]
    how: How,

    /// The program to run and its arguments, behind `--`; ⦃cores⦄ or ⦃n⦄ in an argument becomes the number of cores
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn bound(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(bound) if bound >= 0.0 && bound.is_finite() => Ok(bound),
        _ => Err("a number of at least 0 is needed".to_owned()),
    }
}

/// One bound and what it bounds.
#[derive(Debug, Serialize)]
struct Check {
    figure: &'static str,
    found: f64,
    most: f64,
    passed: bool,
}

/// What `percolog sim assert --json` prints.
#[derive(Serialize)]
struct Asserted<'a> {
    version: u64,
    passed: bool,
    checks: &'a [Check],
    summary: &'a Summary,
}

/// Runs the program, and compares.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let simulation = arguments
        .how
        .simulation(arguments.how.machine()?)
        .stdout_to_stderr(output.is_json());
    let run = start(&simulation, &arguments.command)?;
    let summary = run.summary();
    if let Err(failure) = ended_well(&run, &summary) {
        to_stderr(&summary.to_text());
        return Err(failure);
    }
    let per_operation = summary.operations().map_err(|nothing| {
        let unsimulated = match &summary.unsimulated[..] {
            [] => String::new(),
            names => format!(" (not simulated: {})", names.join("; ")),
        };
        Failure::NothingSimulated(format!("{nothing}{unsimulated}"))
    })?;
    // A bound that holds for what was simulated says nothing of the rest, unless the rest was left out on purpose.
    let unjudged = !summary.unsimulated.is_empty() && !arguments.how.no_follow;
    let checks: Vec<Check> = [
        (
            "transfers",
            per_operation.transfers,
            arguments.max_transfers_per_op,
        ),
        (
            "upgrades",
            per_operation.upgrades,
            arguments.max_upgrades_per_op,
        ),
    ]
    .into_iter()
    .filter_map(|(figure, found, most)| {
        let most = most?;
        Some(Check {
            figure,
            found,
            most,
            passed: found <= most,
        })
    })
    .collect();
    let passed = checks.iter().all(|check| check.passed);
    if output.is_json() {
        output.data(&Asserted {
            version: percolog_sim::report::VERSION,
            passed,
            checks: &checks,
            summary: &summary,
        })?;
    } else {
        if passed {
            to_stderr(&summary.first_lines());
        } else {
            to_stderr(&summary.to_text());
        }
        for check in &checks {
            to_stderr(&format!(
                "{}: {:.4} {} per operation, at most {} allowed, on {} cores of {}\n",
                if check.passed { "ok" } else { "FAILED" },
                check.found,
                check.figure,
                check.most,
                summary.machine.cores,
                summary.machine.name,
            ));
        }
    }
    match (passed, unjudged) {
        (false, _) => Err(Failure::Unhealthy),
        (true, true) => Err(Failure::NothingSimulated(
            "not all of the program was simulated, so its bounds are not known to hold; --no-follow leaves out on purpose \
             what it executes"
                .to_owned(),
        )),
        (true, false) => Ok(()),
    }
}

/// A program that fails has not done what it is judged by.
fn ended_well(run: &Run, summary: &Summary) -> Result<(), Failure> {
    how::came_to_an_end(run)?;
    let measured = &summary.process;
    if run.status.success() && measured.ending == Ending::Signal && is_fault(measured.exit_code) {
        Err(Failure::Work(format!(
            "the process that was measured was killed by signal {}, so its figures are not judged",
            measured.exit_code
        )))
    } else if run.status.success() {
        Ok(())
    } else {
        Err(Failure::Work(format!(
            "the program failed ({}), so its figures are not judged",
            run.status
        )))
    }
}

/// Whether a process gets this signal for what it does itself; others are how a script ends a server.
fn is_fault(signal: i32) -> bool {
    // ILL, TRAP, ABRT, BUS, FPE, SEGV, SYS
    matches!(signal, 4..=8 | 11 | 31)
}
