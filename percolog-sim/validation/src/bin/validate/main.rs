//! `validate`: figures that were published of large machines, beside what formulas and the simulator make of them.
//!
//! What is simulated, and what counts as a hit, is said in [`percolog_validation`]; here it is run and printed. The simulated programs
//! are in `validation-guest`, which is built with this program and lies beside it.
//!
//! Bad input ends with one line and exit code 2; a figure that is missed without an explanation, with exit code 1.

mod table;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use percolog_cli::command_line::{self, Presentation};
use percolog_cli::companion;
use percolog_cli::failure::Failure;
use percolog_cli::output::WIDTH;
use percolog_sim::machine;
use percolog_sim::model::{self, Coherence, Occupancy};
use percolog_sim::run::{Run, Simulation};
use percolog_validation::crew::{Shift, Work};
use percolog_validation::experiments::{
    Bench, Experiment, Laboratory, Machine, Measured, Request, Service,
};
use percolog_validation::guest::Guest;

/// Simulates what was published of large machines, and prints how far off the simulator is (some minutes; needs QEMU).
#[derive(Debug, clap::Parser)]
#[command(name = "validate", version, max_term_width = WIDTH)]
struct Arguments {
    /// Simulate at fewer numbers of cores and for a shorter time
    #[arg(long)]
    quick: bool,

    /// Simulate this alone
    #[arg(long, value_name = "FIGURE", value_parser = experiment_parser())]
    only: Option<String>,

    /// Print the tables as Markdown
    #[arg(long)]
    markdown: bool,

    /// How many cycles a core may be ahead of the others on lines it holds
    #[arg(long, value_name = "CYCLES", default_value_t = Simulation::RUN_AHEAD,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    run_ahead: u64,

    #[command(flatten)]
    presentation: Presentation,
}

fn experiment_parser() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(Experiment::ALL.map(Experiment::name))
}

/// The longest a guest may take before it is taken to hang.
const TIMEOUT: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    command_line::run(run)
}

/// Runs the command; it fails if a figure is missed and nobody knows why.
fn run(arguments: &Arguments) -> Result<(), Failure> {
    let output = &mut arguments.presentation.output();
    let guest = companion::beside("validation-guest", "--package percolog-validation")?;
    let mut simulator = Simulator::new(guest, arguments.run_ahead)?;
    let chosen = |experiment: &Experiment| {
        let only = arguments.only.as_deref();
        only.is_none_or(|only| only == experiment.name())
    };
    let mut results: Vec<table::Section> = Vec::new();
    for experiment in Experiment::ALL.into_iter().filter(chosen) {
        simulator.progress.set_prefix(experiment.name());
        let findings = experiment.run(&mut Bench {
            laboratory: &mut simulator,
            quick: arguments.quick,
        })?;
        let result = (experiment, findings);
        if !output.is_json() {
            simulator.progress.suspend(|| {
                let section = std::slice::from_ref(&result);
                if arguments.markdown {
                    output.write(&table::markdown(section))
                } else {
                    table::text(section, output)
                }
            })?;
        }
        results.push(result);
    }
    simulator.progress.finish_and_clear();
    if output.is_json() {
        output.data(&table::data(&results))?;
    } else {
        let tally = table::tally(&results);
        output.line(&tally)?;
    }
    if table::nothing_unexplained(&results) {
        Ok(())
    } else {
        Err(Failure::Unhealthy)
    }
}

/// Runs guests under the simulator.
struct Simulator {
    /// `validation-guest`.
    guest: PathBuf,
    opteron: model::Machine,
    s85: model::Machine,
    run_ahead: u64,
    progress: ProgressBar,
}

impl Simulator {
    fn new(guest: PathBuf, run_ahead: u64) -> Result<Self, Failure> {
        let load = |machine: Machine| {
            machine::built_in(machine.name()).map_err(|error| Failure::Work(error.to_string()))
        };
        let progress = ProgressBar::new_spinner();
        if std::io::stderr().is_terminal() {
            // The template is a constant, and right.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {msg}") {
                progress.set_style(style);
            }
            progress.enable_steady_tick(Duration::from_millis(200));
        } else {
            progress.set_draw_target(ProgressDrawTarget::hidden());
        }
        Ok(Self {
            guest,
            opteron: load(Machine::Opteron48)?,
            s85: load(Machine::S85)?,
            run_ahead,
            progress,
        })
    }

    fn machine(&self, machine: Machine) -> &model::Machine {
        match machine {
            Machine::Opteron48 => &self.opteron,
            Machine::S85 => &self.s85,
        }
    }
}

impl Laboratory for Simulator {
    type Error = Failure;

    fn measure(
        &mut self,
        machine: Machine,
        guest: Guest,
        shift: Shift,
    ) -> Result<Measured, Failure> {
        let words = guest.arguments(shift);
        let command = words.join(" ");
        self.progress.set_message(command.clone());
        let failed = |why: String| Failure::Work(format!("the guest `{command}`: {why}"));
        let run = Simulation::new(self.machine(machine).clone())
            .run_ahead(self.run_ahead)
            .follow(false)
            .top_lines(0)
            .timeout(TIMEOUT)
            .capture(true)
            .run(&self.guest, &words)
            .map_err(|error| failed(error.to_string()))?;
        measured(&run).map_err(failed)
    }

    fn service(&self, machine: Machine, request: Request, cores: u32) -> Service {
        service(self.machine(machine), request, cores)
    }

    fn megahertz(&self, machine: Machine) -> f64 {
        f64::from(self.machine(machine).megahertz)
    }
}

/// What a run says, if the guest has ended well.
fn measured(run: &Run) -> Result<Measured, String> {
    if run.timed_out {
        return Err(format!("took longer than {} s", TIMEOUT.as_secs()));
    }
    let said = String::from_utf8_lossy(&run.stderr);
    if !run.status.success() {
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        return Err(format!(
            "{}; {}",
            run.status,
            last.unwrap_or("it said nothing")
        ));
    }
    let stdout = String::from_utf8_lossy(&run.stdout);
    let work: Work = stdout
        .lines()
        .find_map(|line| line.parse().ok())
        .ok_or("it printed no result")?;
    let region = run.processes.first().map(|process| &process.region);
    let region = region
        .filter(|region| region.operations == work.operations && region.busy > 0)
        .ok_or("the simulator has not counted what the guest has")?;
    Ok(Measured {
        work,
        waiting: region.counts.stall as f64 / region.busy as f64,
    })
}

/// What a machine's file says about a line that its first `cores` cores pass round: the average over all pairs of a core that asks
/// and a core that has the line, with the line's home on the first chip.
fn service(machine: &model::Machine, request: Request, cores: u32) -> Service {
    let cores = (cores as usize).clamp(2, machine.cores.max(2));
    let occupancy = match request {
        Request::Read => machine.occupancy.read,
        Request::Write => machine.occupancy.write,
    };
    let bus = f64::from(machine.bus);
    let mut latency = 0.0;
    let mut pairs = 0.0;
    for asks in 0..cores {
        for has in (0..cores).filter(|has| *has != asks) {
            let chip = |core: usize| core / machine.cores_per_chip;
            let between = usize::from(machine.hops[chip(asks)][chip(has)]);
            let to_home = match machine.coherence {
                Coherence::Directory if !(machine.chip_directory && between == 0) => {
                    usize::from(machine.hops[chip(asks)][0])
                }
                Coherence::Directory | Coherence::Bus => 0,
            };
            latency += f64::from(machine.transfer[between.max(to_home)]);
            pairs += 1.0;
        }
    }
    let latency = latency / pairs;
    Service {
        latency,
        busy: (latency * f64::from(occupancy) / f64::from(Occupancy::FULL)).max(bus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_the_average_over_pairs() {
        let mut machine = model::Machine::flat("two", 4);
        machine.chips = 2;
        machine.cores_per_chip = 2;
        machine.hops = vec![vec![0, 1], vec![1, 0]];
        machine.transfer = vec![100, 300];
        machine.occupancy.read = Occupancy::FULL / 2;
        // Of 12 pairs the 2 on the first chip take 100; all others cross, or ask the first chip.
        let expected = (2.0 * 100.0 + 10.0 * 300.0) / 12.0;
        let read = service(&machine, Request::Read, 4);
        assert!(
            (read.latency - expected).abs() < 1e-9 && (read.busy - expected / 2.0).abs() < 1e-9
        );
        let write = service(&machine, Request::Write, 4);
        assert!((write.busy - expected).abs() < 1e-9);
        machine.chip_directory = true;
        // Now the 2 of the other chip take 100 as well.
        let expected = (4.0 * 100.0 + 8.0 * 300.0) / 12.0;
        assert!((service(&machine, Request::Write, 4).latency - expected).abs() < 1e-9);
        // A line that one core has is still asked for by another.
        assert!((service(&machine, Request::Write, 1).latency - 100.0).abs() < 1e-9);
    }

    #[test]
    fn the_machines_are_there() {
        let simulator = Simulator::new(PathBuf::new(), 100).expect("built-in machines can be read");
        for machine in [Machine::Opteron48, Machine::S85] {
            assert_eq!(simulator.machine(machine).name, machine.name());
        }
        assert!((simulator.megahertz(Machine::Opteron48) - 2400.0).abs() < 1e-9);
    }
}
