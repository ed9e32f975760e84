//! `percolog sim -- COMMAND…`

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use percolog_sim::model::Machine;
use percolog_sim::report::{Baseline, Summary};
use percolog_sim::run::{Free, Run, Simulation};

use super::how::{CORES, How, N, ending, start, with_cores};
use super::page;
use super::sizes::Sizes;
use super::sweep::{self, INTERRUPTED};
use super::what_if::{WhatIf, check_names};
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;
use percolog_cli::terminal::to_stderr;

/// Arguments of `percolog sim`, but for its subcommands.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    how: How,

    /// Run the program with so many seeds, and show how much the figures differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Run the program on one core too, and compare its throughput (default if the command contains ⦃cores⦄)
    #[arg(long, overrides_with = "no_baseline")]
    baseline: bool,

    /// Do not run the program on one core
    #[arg(long)]
    no_baseline: bool,

    /// Write the report as JSON to this file as well
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Let accesses to a line of memory cost nothing: an address (0x…), a label or a variable, as the report names it
    /// (may be given several times)
    #[arg(long, value_name = "LINE|LABEL")]
    free: Vec<Free>,

    #[command(flatten)]
    what_if: WhatIf,

    #[command(flatten)]
    sweep: sweep::Options,

    /// Print all figures: counts, ten lines of memory, processes
    #[arg(long)]
    full: bool,

    /// Make a page with pictures as well (one that this command has made is replaced)
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    #[command(flatten)]
    chaos: super::chaos::ChaosArguments,

    /// The program to run and its arguments, behind `--`; ⦃cores⦄ or ⦃n⦄ in an argument becomes the number of cores
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What was found out about a program.
pub(crate) struct Examined {
    /// What it comes to.
    pub(crate) summary: Summary,
    /// The run that it is about.
    run: Run,
    /// Whether the user has had enough of a sweep.
    interrupted: bool,
}

/// Runs the program, and reports.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if arguments.sweep.sweep.is_none() {
        arguments.sweep.check_without_sweep()?;
    }
    if arguments.chaos.is_wanted() {
        let machine = arguments.how.machine()?;
        let (how, command) = (&arguments.how, &arguments.command);
        return super::chaos::run(&arguments.chaos, how, machine, command, output);
    }
    let page = page::destination(arguments.html.as_deref())?;
    let examined = examine(arguments, arguments.sweep.sweep.as_ref(), output)?;
    report(arguments, &examined.summary, output)?;
    if let Some(file) = &arguments.save {
        save(file, &examined.summary)?;
    }
    if let Some(page) = page {
        page::write(page, &examined.summary)?;
    }
    examined.end()
}

impl Examined {
    /// How the command ends after its report: as the program did.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        if self.interrupted {
            return Err(Failure::Guest(INTERRUPTED));
        }
        ending(&self.run)?;
        self.summary
            .check()
            .map_err(|nothing| Failure::NothingSimulated(nothing.to_string()))
    }
}

/// Runs the program, with all of `sizes` if there are any, and finds out what was asked for.
pub(crate) fn examine(
    arguments: &Arguments,
    sizes: Option<&Sizes>,
    output: &Output,
) -> Result<Examined, Failure> {
    let kind = arguments.how.machine()?;
    let swept = match sizes {
        Some(sizes) => Some(sweep::run(
            sizes,
            &arguments.sweep,
            &kind,
            |machine| arguments.simulation(machine),
            &arguments.command,
        )?),
        None => None,
    };
    let machine = match &swept {
        Some(swept) => swept.machine.clone(),
        None => kind,
    };
    let simulation = arguments
        .simulation(machine.clone())
        .stdout_to_stderr(output.is_json());
    let (first, took, scaling, baseline, interrupted) = match swept {
        Some(swept) => (
            swept.run,
            swept.took,
            Some(swept.scaling),
            swept.baseline,
            swept.interrupted,
        ),
        None => {
            let begun = Instant::now();
            let run = start(&simulation, &arguments.command)?;
            (run, begun.elapsed(), None, None, false)
        }
    };
    let mut summary = first.summary();
    let sweeping = scaling.is_some();
    if let Some(scaling) = scaling {
        summary = summary.with_scaling(scaling);
    }
    if let Some(baseline) = baseline {
        summary = summary.against(baseline);
    }
    if interrupted {
        summary
            .warnings
            .push("the sweep was interrupted: not all sizes were tried".to_owned());
    }
    if first.timed_out || interrupted {
        // What it had done by then is worth reading; it would take as long again.
        return Ok(Examined {
            summary,
            run: first,
            interrupted,
        });
    }
    check_names(&first)?;
    if arguments.seeds > 1 {
        let others = other_seeds(arguments, &simulation)?;
        summary = summary.with_spread(&others);
    }
    if !sweeping && arguments.wants_baseline() && summary.operations_per_ms.is_some() {
        let one = arguments.simulation(with_cores(machine, 1)?).capture(true);
        let run = start(&one, &arguments.command)?;
        match Baseline::of(&run).filter(|_| !run.timed_out) {
            Some(baseline) => summary = summary.against(baseline),
            None => summary.warnings.push(
                "on one core the program did not end, or marked no region: nothing to compare with"
                    .to_owned(),
            ),
        }
    }
    arguments
        .what_if
        .add(&simulation, &arguments.command, &first, took, &mut summary);
    Ok(Examined {
        summary,
        run: first,
        interrupted,
    })
}

impl Arguments {
    /// The sizes of the sweep: those that were asked for, or powers of two up to the machine's.
    pub(crate) fn sizes_or_doubling(&self) -> Result<Sizes, Failure> {
        match &self.sweep.sweep {
            Some(sizes) => Ok(sizes.clone()),
            None => Ok(Sizes::doubling_to(self.how.machine()?.cores)),
        }
    }

    /// Simulations on `machine`, with what is to be free.
    fn simulation(&self, machine: Machine) -> Simulation {
        self.free
            .iter()
            .fold(self.how.simulation(machine), |simulation, free| {
                simulation.free(free.clone())
            })
    }

    fn wants_baseline(&self) -> bool {
        let sizes_itself = |argument: &OsString| {
            argument
                .to_str()
                .is_some_and(|text| text.contains(CORES) || text.contains(N))
        };
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

/// Keeps the report, for `percolog sim diff` or whoever reads JSON.
fn save(file: &Path, summary: &Summary) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Work(format!("cannot write {}: {error}", file.display()))
    };
    let mut json = serde_json::to_string_pretty(summary).map_err(|error| failed(&error))?;
    json.push('\n');
    std::fs::write(file, json).map_err(|error| failed(&error))
}

fn report(arguments: &Arguments, summary: &Summary, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.data(summary);
    }
    if arguments.full {
        to_stderr(&summary.to_full_text());
    } else {
        to_stderr(&summary.to_text());
        let page = if arguments.html.is_none() {
            ", --html FILE makes a page with pictures"
        } else {
            ""
        };
        to_stderr(&format!("--full prints all figures{page}\n"));
    }
    Ok(())
}
