//! How a program is simulated: the options that all of `percolog sim` share, and how a run is started and judged.

use std::ffi::OsString;
use std::time::Duration;

use percolog_sim::machine;
use percolog_sim::model::{MAX_CORES, Machine};
use percolog_sim::run::{Run, Simulation, SimulationError};

use super::part;
use percolog_cli::failure::Failure;

/// The machine, unless another is named.
pub(super) const DEFAULT_MACHINE: &str = "opteron-48";

/// How to simulate.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
    /// The machine: one of `percolog sim machines`, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_MACHINE)]
    pub(super) machine: String,

    /// As many cores of that kind (default: as many as the machine has)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_CORES as u64))]
    pub(super) cores: Option<u64>,

    /// How many cycles a core may be ahead of the others on lines it holds
    #[arg(long, value_name = "CYCLES", default_value_t = Simulation::RUN_AHEAD,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(super) run_ahead: u64,

    /// Where all arbitrary choices come from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Do not simulate programs that the program executes (the report names them)
    #[arg(long)]
    pub(super) no_follow: bool,

    /// End the program after so many seconds, and report what it did until then
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) timeout: Option<u64>,

    /// Name as many lines of memory in the JSON
    #[arg(long, value_name = "N", default_value_t = Simulation::TOP_LINES as u64,
          value_parser = clap::value_parser!(u64).range(0..=100_000))]
    lines: u64,

    #[command(flatten)]
    part: part::Part,

    /// Do not find out which objects lines belong to and who uses them (faster for programs that allocate much)
    #[arg(long)]
    no_objects: bool,

    /// Check the simulator against the emulator at each access (slow)
    #[arg(long)]
    verify: bool,
}

impl How {
    /// The machine that was asked for, with as many cores as were asked for.
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        let machine = machine::load(&self.machine)
            .map_err(|error| Failure::Input(format!("{error}; see `percolog sim machines`")))?
            .machine;
        match self.cores {
            Some(cores) => with_cores(machine, cores as usize),
            None => Ok(machine),
        }
    }

    /// Simulations on `machine`.
    pub(crate) fn simulation(&self, machine: Machine) -> Simulation {
        let simulation = Simulation::new(machine)
            .run_ahead(self.run_ahead)
            .seed(self.seed)
            .verify(self.verify)
            .follow(!self.no_follow)
            .top_lines(self.lines as usize)
            .objects(!self.no_objects)
            .keys_are_for_the_guest(true);
        let simulation = self.part.of(simulation);
        match self.timeout {
            Some(seconds) => simulation.timeout(Duration::from_secs(seconds)),
            None => simulation,
        }
    }
}

/// The machine with another number of cores.
pub(crate) fn with_cores(machine: Machine, cores: usize) -> Result<Machine, Failure> {
    let name = machine.name.clone();
    machine
        .with_cores(cores)
        .map_err(|error| Failure::Input(format!("machine {name} with {cores} cores: {error}")))
}

/// Runs `command`, in which `{cores}` or `{n}` stands for the number of cores.
pub(crate) fn start(simulation: &Simulation, command: &[OsString]) -> Result<Run, Failure> {
    let (program, arguments) = replaced(command, simulation.machine().cores)?;
    simulation
        .clone()
        .env(VARIABLE, simulation.machine().cores.to_string())
        .run(program, arguments)
        .map_err(|error| failure(&error))
}

/// The program and its arguments, with the number of cores for `{cores}` and `{n}`.
pub(super) fn replaced(
    command: &[OsString],
    cores: usize,
) -> Result<(&OsString, Vec<OsString>), Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::Input(
            "a program to run is missing: name it behind `--`; see `percolog sim --help`"
                .to_owned(),
        ));
    };
    let cores = cores.to_string();
    let arguments = arguments.iter().map(|argument| match argument.to_str() {
        Some(text) => OsString::from(text.replace(CORES, &cores).replace(N, &cores)),
        None => argument.clone(),
    });
    Ok((program, arguments.collect()))
}

/// What stands for the number of cores in the arguments of a program.
pub(crate) const CORES: &str = "{cores}";
/// The same, short.
pub(crate) const N: &str = "{n}";
/// What tells a program how many cores its machine has, should it not ask the system.
pub(super) const VARIABLE: &str = "PERCOLOG_SIM_CORES";

/// How a simulation that failed is reported.
pub(crate) fn failure(error: &SimulationError) -> Failure {
    match error {
        SimulationError::NotInPath(_)
        | SimulationError::Program { .. }
        | SimulationError::Function { .. }
        | SimulationError::Machine { .. }
        | SimulationError::Variable(_) => {
            Failure::Input(format!("{error}; see `percolog sim --help`"))
        }
        SimulationError::NoResult { .. } => Failure::NothingSimulated(error.to_string()),
        _ => Failure::Work(error.to_string()),
    }
}

/// Whether the program ended at all, be it well or not.
pub(crate) fn came_to_an_end(run: &Run) -> Result<(), Failure> {
    use percolog_sim::report::Ending;

    if run.timed_out {
        return Err(Failure::Work(
            "time was up before the program ended".to_owned(),
        ));
    }
    if run
        .processes
        .iter()
        .any(|process| process.ending == Ending::Deadlock)
    {
        return Err(Failure::Work("the program deadlocked".to_owned()));
    }
    Ok(())
}

/// What is wrong with how the program ended; the report has been printed.
pub(crate) fn ending(run: &Run) -> Result<(), Failure> {
    use std::os::unix::process::ExitStatusExt;

    came_to_an_end(run)?;
    let status = match (run.status.code(), run.status.signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or(0),
    };
    match u8::try_from(status) {
        Ok(0) => Ok(()),
        Ok(status) => Err(Failure::Guest(status)),
        Err(_) => Err(Failure::Guest(u8::MAX)),
    }
}
