//! `percolog demo`: find, fix, proved, on one small program.
//!
//! The program is part of this command ([`program`]). Its worst line is found on a machine that is simulated, the fix is shown, and
//! what it has brought is simulated on the same machine and measured on this one.

mod chart;
mod cpu_time;
mod duel;
mod page;
pub(crate) mod program;
mod screen;
mod shown;
mod simulate;
mod stored;

use std::path::PathBuf;

use serde::Serialize;

use percolog_cli::destination::Destination;
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;
use shown::Shown;

/// Arguments of `percolog demo`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without QEMU (Debian's package `qemu-user`) a stored run stands in for the simulated part, and is marked as such.\n\
                  An earlier report.html that this command made is replaced; any other file only with --force."
)]
pub(crate) struct Demo {
    /// A quick look: two sizes of the simulated machine, and short measurements
    #[arg(long)]
    quick: bool,

    /// Measure with these numbers of threads (default: 1, 2 and one for each processor)
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Vec<u16>,

    /// Where the page goes (default: report.html)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file if there is one
    #[arg(long)]
    force: bool,

    /// Write the simulated part to a file as JSON, measure nothing, and make no page: how the stored run is made
    #[arg(long, value_name = "FILE", hide = true, conflicts_with_all = ["quick", "threads", "output", "force"])]
    store: Option<PathBuf>,
}

/// What `percolog demo --json` prints.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    shown: &'a Shown,
    /// Where the page is.
    file: String,
}

/// Simulates, measures, shows and writes.
pub(crate) fn run(arguments: &Demo, output: &mut Output) -> Result<(), Failure> {
    if let Some(file) = &arguments.store {
        return store(file);
    }
    let destination = Destination::choose(arguments.output.as_deref(), arguments.force)?;
    let (simulated, stored_because) = match percolog_sim::run::available() {
        Ok(()) => (simulate::simulate(arguments.quick)?, None),
        Err(missing) => (stored::stored()?, Some(missing.to_string())),
    };
    if !output.is_json() {
        // What is known is shown before anything else is measured.
        let text = screen::simulated(output, &simulated, stored_because.as_deref());
        output.write(&text)?;
    }
    let measured = duel::duel(&arguments.threads, arguments.quick);
    let shown = Shown {
        version: env!("CARGO_PKG_VERSION"),
        foretold: simulated.found.foretold,
        real: simulated.real(),
        simulated,
        stored_because,
        fix: screen::fix(),
        measured,
    };
    if !output.is_json() {
        let text = screen::measured(output, &shown.measured);
        output.write(&text)?;
    }
    let path = destination.write(&page::html(&shown))?;
    if output.is_json() {
        output.data(&Written {
            shown: &shown,
            file: path.display().to_string(),
        })
    } else {
        let end = screen::end(output, &path);
        output.write(&end)
    }
}

/// Makes the run that is shown where nothing can be simulated.
fn store(file: &std::path::Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Work(format!("cannot write {}: {error}", file.display()))
    };
    let simulated = simulate::simulate(false)?;
    let mut json = serde_json::to_string_pretty(&simulated).map_err(|error| failed(&error))?;
    json.push('\n');
    std::fs::write(file, json).map_err(|error| failed(&error))
}
