//! Benchmarks whose cells are guests: the program starts itself again under the simulator, once for each.

use std::process::ExitCode;
use std::time::Duration;

use percolog_bench::validation::crew::{Shift, Work};
use percolog_bench::validation::guest::Guest;
use percolog_sim::machine::built_in;
use percolog_sim::model::Machine;
use percolog_sim::run::Simulation;

/// Asks this program to be the guest.
pub(crate) const GUEST: &str = "--guest";

/// The longest a cell may take on the wall's clock.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// How such a benchmark was called.
pub(crate) struct Called {
    pub(crate) machine: Machine,
    /// `--json`: for programs.
    pub(crate) json: bool,
    /// `--quick`: fewer cells.
    quick: bool,
    /// `--only NAME`.
    pub(crate) only: Option<String>,
    /// By `cargo bench`. `cargo test --all-targets` runs benchmarks too, to see that they work.
    benchmarking: bool,
}

impl Called {
    /// Reads the command line; or runs the guest that it asks for, or finds that there is nothing to be done.
    pub(crate) fn read(bench: &str, machine: &str) -> Result<Self, ExitCode> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if arguments.first().is_some_and(|first| first == GUEST) {
            return Err(guest(bench, &arguments[1..]));
        }
        let machine = match built_in(machine) {
            Ok(machine) => machine,
            Err(error) => {
                eprintln!("{bench}: {error}");
                return Err(ExitCode::FAILURE);
            }
        };
        let mut called = Self {
            machine,
            json: false,
            quick: false,
            only: None,
            benchmarking: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => called.json = true,
                "--quick" => called.quick = true,
                // What cargo passes to every benchmark.
                "--bench" => called.benchmarking = true,
                "--only" => {
                    let Some(name) = arguments.next() else {
                        eprintln!("{bench}: --only needs a NAME");
                        return Err(ExitCode::from(2));
                    };
                    called.only = Some(name);
                }
                other => {
                    eprintln!(
                        "{bench}: unknown argument {other:?}; there are --json, --quick and --only NAME"
                    );
                    return Err(ExitCode::from(2));
                }
            }
        }
        if let Err(error) = percolog_sim::run::available() {
            eprintln!("{bench}: {error}");
            // Where there is no simulator, tests go on.
            return Err(ExitCode::from(u8::from(called.benchmarking)));
        }
        Ok(called)
    }

    /// Whether `--only` leaves this name in.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == name)
    }

    /// Whether to run a cell: all, or those that `--quick` leaves; in a test, the first one.
    pub(crate) fn runs(&self, in_quick: bool, cells: usize) -> bool {
        (in_quick || !self.quick) && (self.benchmarking || cells == 0)
    }

    /// The exit code where `--only` has left nothing.
    pub(crate) fn nothing(bench: &str, names: &[&str]) -> ExitCode {
        eprintln!(
            "{bench}: nothing has that name; there are {}",
            names.join(", ")
        );
        ExitCode::from(2)
    }
}

/// What a cell gave.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// Operations a millisecond.
    pub(crate) rate: f64,
    /// Transfers and ownership upgrades for each.
    pub(crate) lines: f64,
    /// The share of the time in which cores waited for lines.
    pub(crate) waiting: f64,
    /// Nanoseconds within which 99 of 100 operations ended, where the guest looked.
    pub(crate) p99: Option<f64>,
}

impl Found {
    /// Lines moved for each, the share of waiting, and the time within which 99 of 100 ended, if it is known.
    pub(crate) fn columns(&self) -> String {
        let p99 = self
            .p99
            .map_or(String::new(), |p99| format!(" {p99:>9.0} ns"));
        format!("{:>7.2} {:>5.0} %{p99}", self.lines, 100.0 * self.waiting)
    }
}

/// Runs the guest on the machine.
pub(crate) fn simulate(machine: &Machine, guest: Guest, shift: Shift) -> Result<Found, String> {
    simulate_words(machine, guest.arguments(shift))
}

/// The same of what the program does when it is given these words behind [`GUEST`]: it prints its [`Work`].
pub(crate) fn simulate_words(machine: &Machine, words: Vec<String>) -> Result<Found, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
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
        p99: work
            .p99
            .map(|cycles| cycles as f64 * 1000.0 / f64::from(machine.megahertz)),
    })
}

/// Runs one cell, and prints what it gave.
fn guest(bench: &str, words: &[String]) -> ExitCode {
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
    print_work(bench, guest.run(shift))
}

/// What a guest prints.
pub(crate) fn print_work(bench: &str, work: Result<Work, impl std::fmt::Display>) -> ExitCode {
    match work {
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
