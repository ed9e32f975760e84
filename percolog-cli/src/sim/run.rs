//! `percolog sim -- COMMAND…`

use std::ffi::OsString;

use percolog_sim::report::{Baseline, Summary};
use percolog_sim::run::Simulation;

use super::{CORES, How, ending, start, to_stderr, with_cores};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `percolog sim`, but for its subcommands.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    how: How,

    /// Run the program with so many seeds, and show how much the figures differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Run the program on one core too, and compare its throughput (default if the command contains {cores})
    #[arg(long, overrides_with = "no_baseline")]
    baseline: bool,

    /// Do not run the program on one core
    #[arg(long)]
    no_baseline: bool,

    /// The program to run and its arguments, behind `--`; {cores} in an argument becomes the number of cores
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the program, and reports.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let machine = arguments.how.machine()?;
    let simulation = arguments
        .how
        .simulation(machine.clone())
        .stdout_to_stderr(output.is_json());
    let first = start(&simulation, &arguments.command)?;
    let mut summary = first.summary();
    if first.timed_out {
        // What it had done by then is worth reading; it would take as long again.
        report(&summary, output)?;
        return ending(&first);
    }
    if arguments.seeds > 1 {
        let others = other_seeds(arguments, &simulation)?;
        summary = summary.with_spread(&others);
    }
    if arguments.wants_baseline() && summary.operations_per_ms.is_some() {
        let one = arguments
            .how
            .simulation(with_cores(machine, 1)?)
            .capture(true);
        let run = start(&one, &arguments.command)?;
        match Baseline::of(&run).filter(|_| !run.timed_out) {
            Some(baseline) => summary = summary.against(baseline),
            None => summary.warnings.push(
                "on one core the program did not end, or marked no region: nothing to compare with"
                    .to_owned(),
            ),
        }
    }
    report(&summary, output)?;
    ending(&first)?;
    summary
        .check()
        .map_err(|nothing| Failure::NothingSimulated(nothing.to_string()))
}

impl Arguments {
    fn wants_baseline(&self) -> bool {
        let sizes_itself =
            |argument: &OsString| argument.to_str().is_some_and(|text| text.contains(CORES));
        self.baseline || (!self.no_baseline && self.command.iter().skip(1).any(sizes_itself))
    }
}

/// The same program with the next seeds; what it prints is not shown again.
fn other_seeds(arguments: &Arguments, simulation: &Simulation) -> Result<Vec<Summary>, Failure> {
    (1..arguments.seeds)
        .map(|further| {
            let seed = arguments.how.seed.wrapping_add(further);
            let simulation = simulation.clone().seed(seed).capture(true);
            Ok(start(&simulation, &arguments.command)?.summary())
        })
        .collect()
}

fn report(summary: &Summary, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        output.data(summary)
    } else {
        to_stderr(&summary.to_text());
        Ok(())
    }
}
