//! `percolog sim --chaos`: seed after seed, until the program fails.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::time::Duration;

use percolog_sim::chaos::{Failure as Found, LIMITS, Progress, Search, Searched};
use percolog_sim::model::Machine;
use percolog_sim::run::Simulation;
use serde::Serialize;

use super::how::{self, DEFAULT_MACHINE, How, VARIABLE, replaced};
use percolog_cli::command_line::quoted;
use percolog_cli::failure::Failure;
use percolog_cli::output::{Output, WIDTH, bar};
use percolog_cli::terminal::to_stderr;

/// Arguments of `percolog sim` that are about interleavings.
#[derive(Debug, clap::Args)]
pub(crate) struct ChaosArguments {
    /// Look for an interleaving with which the program fails: run it with seed after seed, holding threads back just
    /// before and after they touch what others touch. The status is 1 if it failed, and the seed is named
    #[arg(long, conflicts_with_all = ["seeds", "baseline", "sweep", "html", "save", "free"])]
    chaos: bool,

    /// With --chaos: run the program so often
    #[arg(long, value_name = "N", requires = "chaos", default_value_t = Search::RUNS,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    runs: u64,

    /// With --chaos: go on for so long instead
    #[arg(long, value_name = "SECONDS", requires = "chaos", conflicts_with = "runs",
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    for_wall: Option<u64>,

    /// With --chaos: the status with which the program ends when all is well
    #[arg(long, value_name = "STATUS", requires = "chaos", default_value_t = 0)]
    expect_status: u8,
}

impl ChaosArguments {
    /// Whether interleavings are looked for.
    pub(super) fn is_wanted(&self) -> bool {
        self.chaos
    }
}

/// What `percolog sim --chaos --json` prints.
#[derive(Serialize)]
struct Report<'a> {
    version: u64,
    first_seed: u64,
    #[serde(flatten)]
    searched: &'a Searched,
    /// The command that fails in the same way.
    reproduce: Option<String>,
    limits: &'static str,
}

/// Looks for a seed with which the program fails.
pub(super) fn run(
    arguments: &ChaosArguments,
    how: &How,
    machine: Machine,
    command: &[OsString],
    output: &mut Output,
) -> Result<(), Failure> {
    let cores = machine.cores;
    // The interrupt key ends this command, and with it the program: it must not be taken for the program's own failure.
    // Nobody reads which objects its lines belong to.
    let simulation = how
        .simulation(machine)
        .objects(false)
        .env(VARIABLE, cores.to_string())
        .keys_are_for_the_guest(false);
    let search = Search::new(simulation)
        .seed(how.seed)
        .expect_status(i32::from(arguments.expect_status));
    let search = match arguments.for_wall {
        Some(seconds) => search.for_wall(Duration::from_secs(seconds)),
        None => search.runs(arguments.runs),
    };
    let (program, rest) = replaced(command, cores)?;
    let bar = bar();
    bar.set_length(1000);
    bar.set_message("a run with no thread held back");
    let searched = search.run(program, rest, |progress| {
        bar.set_position((progress.share * 1000.0) as u64);
        bar.set_message(state(progress));
    });
    bar.finish_and_clear();
    let searched = searched.map_err(|error| how::failure(&error))?;
    let reproduce = searched
        .failure
        .as_ref()
        .map(|found| reproduce(found.seed, arguments, how, command));
    if output.is_json() {
        output.data(&Report {
            version: percolog_sim::report::VERSION,
            first_seed: how.seed,
            searched: &searched,
            reproduce,
            limits: LIMITS,
        })?;
    } else {
        to_stderr(&text(&searched, how.seed, reproduce.as_deref()));
    }
    match searched.failure {
        Some(_) => Err(Failure::Unhealthy),
        // What nobody has disturbed has not survived anything.
        None if !searched.shared_memory.is_empty() => Err(Failure::NothingSimulated(
            "processes share memory, and in which order they use it was left to chance".to_owned(),
        )),
        None if !searched.unsimulated.is_empty() && !how.no_follow => {
            Err(Failure::NothingSimulated(
                "not all of the program was simulated, and so not all of it disturbed".to_owned(),
            ))
        }
        None => Ok(()),
    }
}

fn state(progress: &Progress) -> String {
    format!(
        "seed {}: {} runs, {} interleavings",
        progress.seed, progress.runs, progress.interleavings
    )
}

/// The command with which the program fails in the same way.
fn reproduce(
    seed: Option<u64>,
    arguments: &ChaosArguments,
    how: &How,
    command: &[OsString],
) -> String {
    let mut words: Vec<String> = vec!["percolog".to_owned(), "sim".to_owned()];
    let mut option = |name: &str, value: &dyn ToString| {
        words.push(name.to_owned());
        words.push(quoted(OsStr::new(&value.to_string())));
    };
    if let Some(seed) = seed {
        option("--seed", &seed);
        option("--runs", &1);
        if arguments.expect_status != 0 {
            option("--expect-status", &arguments.expect_status);
        }
    }
    if how.machine != DEFAULT_MACHINE {
        option("--machine", &how.machine);
    }
    if let Some(cores) = how.cores {
        option("--cores", &cores);
    }
    if how.run_ahead != Simulation::RUN_AHEAD {
        option("--run-ahead", &how.run_ahead);
    }
    if let Some(timeout) = how.timeout {
        option("--timeout", &timeout);
    }
    if seed.is_some() {
        words.insert(2, "--chaos".to_owned());
    }
    if how.no_follow {
        words.push("--no-follow".to_owned());
    }
    words.push("--".to_owned());
    words.extend(command.iter().map(|word| quoted(word)));
    words.join(" ")
}

/// What is printed.
fn text(searched: &Searched, first_seed: u64, reproduce: Option<&str>) -> String {
    let mut text = String::new();
    if !searched.unsimulated.is_empty() {
        let all = searched.unsimulated.join("; ");
        wrap(&mut text, &format!("NOT SIMULATED: {all}"));
    }
    for shared in &searched.shared_memory {
        wrap(
            &mut text,
            &format!(
                "SHARED BETWEEN PROCESSES: {} at {:#x}, {} bytes, is used by {} of them",
                shared.name,
                shared.address,
                shared.size,
                shared.processes.len()
            ),
        );
    }
    let runs = searched.runs;
    match &searched.failure {
        Some(found) => {
            let _ = match found.seed {
                Some(seed) => writeln!(
                    text,
                    "FAILED with seed {seed}, in run {runs}: the program {}",
                    found.how
                ),
                None => writeln!(
                    text,
                    "FAILED with no thread held back: the program {}",
                    found.how
                ),
            };
            details(&mut text, found);
            let _ = writeln!(
                text,
                "\nIt fails in the same way with\n\n  {}",
                reproduce.unwrap_or_default()
            );
            if !searched.not_reproducible.is_empty() {
                let why = searched.not_reproducible.join("; ");
                wrap(
                    &mut text,
                    &format!("unless it depends on what is outside the simulator: {why}"),
                );
            }
        }
        None => {
            wrap(
                &mut text,
                &format!(
                    "survived: {runs} runs with the seeds from {first_seed} on, {} different interleavings; of {} accesses to \
                     shared lines, {} held a thread back.",
                    searched.interleavings, searched.points, searched.delays
                ),
            );
            if searched.points == 0 {
                wrap(
                    &mut text,
                    "No two threads touched the same line, so nothing was tried.",
                );
            }
        }
    }
    let _ = writeln!(
        text,
        "{}{LIMITS}",
        if searched.failure.is_some() { "\n" } else { "" }
    );
    text
}

fn details(text: &mut String, found: &Found) {
    for sleeper in &found.sleepers {
        let place = match (&sleeper.place.file, sleeper.place.line) {
            (Some(file), Some(line)) => format!("{} ({file}:{line})", sleeper.place.function),
            _ => sleeper.place.function.clone(),
        };
        let _ = writeln!(
            text,
            "  thread {}: {} in {place}",
            sleeper.thread, sleeper.why
        );
    }
    for (name, written) in [("stdout", &found.stdout), ("stderr", &found.stderr)] {
        if !written.is_empty() {
            let _ = writeln!(text, "\nThe end of its {name}:");
            for line in written.lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
    }
}

/// A paragraph, in lines that a terminal shows.
fn wrap(text: &mut String, paragraph: &str) {
    let mut width = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            text.push('\n');
            width = 0;
        }
        if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text.push('\n');
}
