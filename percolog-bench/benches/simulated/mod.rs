//! Benchmarks whose cells are guests: the program starts itself again under the simulator, once for each.

use std::process::ExitCode;
use std::time::Duration;

use percolog_bench::validation::crew::{Shift, Work};
use percolog_bench::validation::guest::Guest;
use percolog_sim::model::Machine;
use percolog_sim::run::Simulation;

/// Asks this program to be the guest.
pub(crate) const GUEST: &str = "--guest";

/// The longest a cell may take on the wall's clock.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// What a cell gave.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// Operations a millisecond.
    pub(crate) rate: f64,
    /// Transfers and ownership upgrades for each.
    pub(crate) lines: f64,
    /// The share of the time in which cores waited for lines.
    pub(crate) waiting: f64,
}

/// Runs the guest on the machine.
pub(crate) fn simulate(machine: &Machine, guest: Guest, shift: Shift) -> Result<Found, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let words = guest.arguments(shift);
    let run = Simulation::new(machine.clone())
        .follow(false)
        .top_lines(0)
        .timeout(TIMEOUT)
        .capture(true)
        .run(&program, std::iter::once(GUEST.to_owned()).chain(words))
        .map_err(|error| error.to_string())?;
    if run.timed_out {
        return Err(format!("took longer than {} s", TIMEOUT.as_secs()));
    }
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        let last = said.lines().last().unwrap_or("");
        return Err(format!("{}: {last}", run.status));
    }
    let work: Work = String::from_utf8_lossy(&run.stdout)
        .lines()
        .find_map(|line| line.parse().ok())
        .ok_or("it printed no result")?;
    let region = &run.main().ok_or("nothing was simulated")?.region;
    let moved = region.counts.transfers() + region.counts.upgrades;
    Ok(Found {
        rate: work.rate() * f64::from(machine.megahertz),
        lines: moved as f64 / region.operations.max(1) as f64,
        waiting: region.counts.stall as f64 / region.busy.max(1) as f64,
    })
}

/// Runs one cell, and prints what it gave.
pub(crate) fn guest(bench: &str, words: &[String]) -> ExitCode {
    let Some((name, parameters)) = words.split_first() else {
        eprintln!("{bench}: {GUEST} NAME KEY=NUMBER …");
        return ExitCode::from(2);
    };
    let (guest, shift) = match Guest::parse(name, parameters.iter().map(String::as_str)) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!("{bench}: {error}");
            return ExitCode::from(2);
        }
    };
    match guest.run(shift) {
        Ok(work) => {
            println!("{work}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{bench}: {error}");
            ExitCode::FAILURE
        }
    }
}
