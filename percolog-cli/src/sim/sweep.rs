//! `percolog sim --sweep 1,2,4,…,48`: the same command on machines of several sizes.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use percolog_sim::model::Machine;
use percolog_sim::report::{Baseline, Measure, Scaling, ScalingPoint};
use percolog_sim::run::{Run, Simulation};

use super::how::{start, with_cores};
use super::sizes::Sizes;
use percolog_cli::failure::Failure;
use percolog_cli::output;

/// Options of a sweep.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run the program with each of these numbers of cores (1,2,4,…,48 or 1-8): in its arguments ⦃n⦄ is the number, as in its
    /// environment PERCOLOG_SIM_CORES. The report is about the most cores, and shows how the speed grows
    #[arg(long, value_name = "N,…", value_parser = Sizes::parse, conflicts_with = "cores")]
    pub(crate) sweep: Option<Sizes>,

    /// What stays the same in a sweep of a program that marks no operations: the total of the work, or the work of each core
    /// (default: whichever the numbers of instructions suggest)
    #[arg(long, value_name = "WHICH")]
    work: Option<Work>,
}

impl Options {
    /// Refuses what has a meaning in a sweep only, where none is made.
    pub(super) fn check_without_sweep(&self) -> Result<(), Failure> {
        match self.work {
            None => Ok(()),
            Some(_) => Err(Failure::Input(
                "--work says how the runs of a sweep are compared, and here is no sweep: add --sweep 1,2,4,…,48, or leave \
                 --work out"
                    .to_owned(),
            )),
        }
    }
}

/// What stays the same from size to size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Work {
    /// All runs do the same work
    Total,
    /// Each core does the same work
    Each,
}

/// What a sweep has found.
pub(crate) struct Swept {
    /// How the speed grows.
    pub(crate) scaling: Scaling,
    /// The machine with the most cores of those with figures.
    pub(crate) machine: Machine,
    /// What the program did there.
    pub(crate) run: Run,
    /// How long that run took.
    pub(crate) took: Duration,
    /// What it did on one core, if that was among them.
    pub(crate) baseline: Option<Baseline>,
    /// Whether the user has had enough.
    pub(crate) interrupted: bool,
}

/// The status of a command that Ctrl-C has ended, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Runs the command with all `sizes` of a `kind` of machine, simulated as is to be `on` each. What fails is noted, and the rest goes on.
pub(crate) fn run(
    sizes: &Sizes,
    options: &Options,
    kind: &Machine,
    on: impl Fn(Machine) -> Simulation,
    command: &[std::ffi::OsString],
) -> Result<Swept, Failure> {
    // Wrong sizes are told before anything has run.
    let machines = sizes
        .iter()
        .map(|size| with_cores(kind.clone(), size))
        .collect::<Result<Vec<_>, _>>()?;
    let stop = stop_at_ctrl_c()?;
    let bar = output::bar();
    bar.set_length(machines.len() as u64);
    let mut expected = Expected::default();
    let mut points = Vec::new();
    let mut largest = None;
    let mut baseline = None;
    let mut interrupted = false;
    for (index, machine) in machines.iter().enumerate() {
        let left = machines[index..].iter().map(|machine| machine.cores);
        show(
            &bar,
            index,
            machines.len(),
            machine.cores,
            expected.left(left),
        );
        // There is nobody to read what so many runs print, and one input for all of them.
        let simulation = on(machine.clone()).capture(true);
        let began = Instant::now();
        let result = start(&simulation, command);
        let took = began.elapsed();
        let point = match result {
            Ok(run) => {
                interrupted = was_interrupted(&run) || stop.load(Ordering::Relaxed);
                let point = judged(&run, machine.cores, interrupted);
                if point.failure.is_none() {
                    if machine.cores == 1 {
                        baseline = Baseline::of(&run);
                    }
                    largest = Some((machine.clone(), run, took));
                }
                point
            }
            // Nothing came out: another size may do better.
            Err(Failure::NothingSimulated(why)) => ScalingPoint::failed(machine.cores, why),
            Err(failure) => return Err(failure),
        };
        expected.took(machine.cores, took);
        points.push(point);
        bar.set_position(index as u64 + 1);
        if interrupted || stop.load(Ordering::Relaxed) {
            interrupted = true;
            break;
        }
    }
    bar.finish_and_clear();
    let measure = options.work.map(|work| match work {
        Work::Total => Measure::FixedWork,
        Work::Each => Measure::WorkPerCore,
    });
    let scaling = Scaling::of(points, measure);
    let Some((machine, run, took)) = largest else {
        let why = scaling.points.iter().filter_map(|point| {
            let why = point.failure.as_ref()?;
            Some(format!("{} cores: {why}", point.cores))
        });
        return Err(Failure::Work(format!(
            "no run of the sweep came to a result: {}",
            why.collect::<Vec<_>>().join("; ")
        )));
    };
    Ok(Swept {
        scaling,
        machine,
        run,
        took,
        baseline,
        interrupted,
    })
}

/// What a run says about its size, or why it says nothing.
fn judged(run: &Run, cores: usize, interrupted: bool) -> ScalingPoint {
    if interrupted {
        return ScalingPoint::failed(cores, "interrupted");
    }
    let point = ScalingPoint::of(&run.summary());
    if point.failure.is_some() || run.status.success() {
        return point;
    }
    let said = String::from_utf8_lossy(&run.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let why = match (run.status.code(), run.status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, None) => "it failed".to_owned(),
    };
    ScalingPoint::failed(
        cores,
        last.map_or_else(|| why.clone(), |last| format!("{why}: {}", last.trim())),
    )
}

/// Whether Ctrl-C has ended the program: it gets the key, not this command.
fn was_interrupted(run: &Run) -> bool {
    const SIGINT: i32 = 2;
    run.status.signal() == Some(SIGINT) || run.status.code() == Some(i32::from(INTERRUPTED))
}

/// Between two runs the key is this command's: it keeps what it has.
fn stop_at_ctrl_c() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let pressed = Arc::clone(&stop);
    // Relaxed: the flag alone says all there is to say.
    ctrlc::set_handler(move || pressed.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::Work(format!("cannot prepare for Ctrl-C: {error}")))?;
    Ok(stop)
}

fn show(bar: &ProgressBar, done: usize, all: usize, cores: usize, left: Option<Duration>) {
    let left = match left.map(|left| left.as_secs()) {
        None => String::new(),
        Some(seconds @ 0..100) => format!(", about {seconds} s left"),
        Some(seconds) => format!(", about {} min left", seconds.div_ceil(60)),
    };
    bar.set_message(format!("{cores} cores, {} of {all}{left}", done + 1));
    bar.tick();
}

/// How long runs may take, judged by those before.
#[derive(Default)]
struct Expected {
    took: Vec<(usize, f64)>,
}

impl Expected {
    fn took(&mut self, cores: usize, time: Duration) {
        self.took.push((cores, time.as_secs_f64()));
    }

    /// How long runs with so many cores may take, all together. Nothing is known before the first.
    fn left(&self, sizes: impl Iterator<Item = usize>) -> Option<Duration> {
        let (cores, time) = *self.took.last()?;
        let growth = match self.took[..] {
            // As steep as between the last two, within reason.
            [.., (before, earlier), _] if cores > before && earlier > 0.0 && time > 0.0 => {
                ((time / earlier).ln() / (cores as f64 / before as f64).ln()).clamp(0.0, 1.5)
            }
            _ => 0.5,
        };
        let seconds: f64 = sizes
            .map(|size| time * (size as f64 / cores as f64).powf(growth))
            .sum();
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_runs_before() {
        let mut expected = Expected::default();
        assert_eq!(expected.left([1, 2].into_iter()), None);
        expected.took(1, Duration::from_secs(2));
        expected.took(2, Duration::from_secs(4));
        // Twice the cores take twice as long.
        let left = expected.left([4, 8].into_iter()).expect("it is known");
        assert!((left.as_secs_f64() - 24.0).abs() < 1e-9, "{left:?}");
        // What takes ever less is not taken to go on like that.
        expected.took(4, Duration::from_secs(1));
        let left = expected.left([8].into_iter()).expect("it is known");
        assert!((left.as_secs_f64() - 1.0).abs() < 1e-9, "{left:?}");
    }
}
