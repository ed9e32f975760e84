//! The checks of `cargo xtask ci` and `cargo xtask full`: each with what it depends on and how long it takes.

mod builds;
mod laboratory;
mod library;
mod sanitizers;
mod simulated;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::counts::Counts;
use crate::disturb::Disturbance;
use crate::layers;
use crate::mutate::{self, Mutation};
use crate::process;
use crate::report::{Counting, Report};
use crate::tools::Tools;
use crate::workspace::Workspace;

/// No command may run longer: a deadlock must become a failure. The slowest one takes half of this on two cores.
const LIMIT: Duration = Duration::from_secs(1500);

/// The same for simulations: how long they take depends on how fast a machine switches between threads, which differs by a factor of three.
const SIMULATIONS_LIMIT: Duration = Duration::from_secs(2700);

/// All that users build.
const PRODUCT: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "percolog",
    "percolog-cli",
    "percolog-roi",
    "percolog-sim",
    "telemetry",
];
const LIBRARY: &[&str] = &["Cargo.toml", "Cargo.lock", "percolog"];
const SIMULATOR: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "percolog",
    "percolog-roi",
    "percolog-sim",
];
const EVERYTHING: &[&str] = &["."];

/// How often the tests run beside other work: what the scheduler decides shows once in a while.
const BUSY_RUNS: u32 = 5;

/// What a step works with.
pub(crate) struct Job<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) tools: &'a Tools,
    pub(crate) report: &'a mut Report,
    /// Whether to check everything, or what is checked with every change.
    pub(crate) full: bool,
}

impl Job<'_> {
    /// Runs a command that takes no longer than tests may.
    fn run(&mut self, name: &str, counting: Counting, mut command: Command) {
        self.report.run(name, counting, LIMIT, &mut command);
    }

    /// `cargo <arguments>` in the workspace, with the compiler that the user has.
    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        process::clean(&mut command)
            .current_dir(&self.workspace.root)
            .args(arguments);
        command
    }

    /// Has tests fail that would skip themselves without the simulator, where it is installed.
    fn require_simulator(&self, command: &mut Command) {
        if self.tools.simulator {
            command.env("PERCOLOG_SIM_REQUIRED", "1");
        }
    }

    /// Has tests do all of their work where everything is checked.
    fn all_the_work(&self, command: &mut Command) {
        if self.full {
            command.env("PERCOLOG_TESTS", "full");
        }
    }

    /// How much of their work those tests do that can do less, in percent: where everything takes several times as long, and where
    /// the same was done in another way already.
    fn less_work(&self, command: &mut Command) {
        command.env("PERCOLOG_WORK", if self.full { "25" } else { "10" });
    }
}

/// A check.
pub(crate) struct Step {
    pub(crate) name: String,
    /// Whether every change must pass it, or only what is released.
    pub(crate) every_change: bool,
    /// How long it takes in all of its parts, on two cores that have built nothing yet.
    pub(crate) minutes: u32,
    /// The files and folders that decide how it ends.
    pub(crate) paths: Vec<String>,
    work: Work,
}

enum Work {
    Checks(fn(&mut Job)),
    Mutations(Vec<Mutation>),
}

impl Step {
    pub(crate) fn run(&self, job: &mut Job) {
        match &self.work {
            Work::Checks(run) => run(job),
            Work::Mutations(mutations) => {
                let workspace = job.workspace;
                job.report
                    .call(&self.name, || mutate::step(workspace, mutations));
            }
        }
    }

    /// What decides how it ends beside the files.
    pub(crate) fn beside(&self) -> String {
        match &self.work {
            Work::Checks(_) => String::new(),
            Work::Mutations(mutations) => format!("{mutations:?}"),
        }
    }

    /// Whether a change of this file or folder, or of something in it, asks for the step.
    pub(crate) fn depends_on(&self, changed: &str) -> bool {
        let contains = |outer: &str, inner: &str| {
            outer == "."
                || inner
                    .strip_prefix(outer)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let changed = changed.trim_start_matches("./").trim_end_matches('/');
        self.paths
            .iter()
            .any(|path| contains(path, changed) || contains(changed, path))
    }
}

/// All steps, in the order in which they run.
pub(crate) fn all(root: &Path, mutations: &[Mutation]) -> Vec<Step> {
    let every_change =
        |name, minutes, paths: &[&[&str]], run| step(name, true, minutes, paths, run);
    let only_full = |name, minutes, paths: &[&[&str]], run| step(name, false, minutes, paths, run);
    let lab: &[&[&str]] = &[PRODUCT, &["lab"]];
    let mut steps = vec![
        every_change("demo", 3, &[PRODUCT], demo),
        every_change("cargo test", 6, &[PRODUCT, &["docs", "README.md"]], tests),
        every_change("formatting", 1, &[EVERYTHING], formatting),
        every_change("layers", 1, &[EVERYTHING], check_layers),
        every_change("tests of cargo xtask", 1, &[EVERYTHING], own_tests),
        every_change("clippy", 3, &[PRODUCT, &["xtask"]], builds::clippy),
        every_change(
            "bare metal",
            1,
            &[LIBRARY, &["percolog-roi"]],
            builds::bare_metal,
        ),
        every_change("other targets", 3, &[LIBRARY], builds::other_targets),
        every_change("loom models", 4, &[LIBRARY], library::loom),
        every_change(
            "AddressSanitizer",
            7,
            &[LIBRARY, &["xtask/planted"]],
            sanitizers::address,
        ),
        every_change(
            "transfers",
            20,
            &[SIMULATOR, &["telemetry"]],
            simulated::transfers,
        ),
        every_change("laboratory", 7, lab, laboratory::check),
        only_full(
            "documentation",
            2,
            &[PRODUCT, &["xtask"]],
            builds::documentation,
        ),
        only_full("combinations of features", 1, &[LIBRARY], builds::features),
        only_full(
            "oldest Rust",
            3,
            &[PRODUCT, &["xtask"]],
            builds::oldest_rust,
        ),
        only_full("publishing, dry run", 6, &[PRODUCT], builds::publish),
        only_full(
            "ThreadSanitizer",
            14,
            &[LIBRARY, &["xtask/planted"]],
            sanitizers::thread,
        ),
        only_full(
            "a slot for each thread",
            4,
            &[LIBRARY],
            library::slot_for_each_thread,
        ),
        only_full("origins, 64-byte lines", 2, &[LIBRARY], library::switched),
        only_full("portable", 4, &[LIBRARY], library::portable),
        only_full("Miri", 10, &[LIBRARY, &["xtask/planted"]], library::miri),
        only_full("musl", 7, &[LIBRARY, &["xtask/musl"]], library::musl),
        only_full("aarch64, emulated", 5, &[LIBRARY], library::aarch64),
        only_full(
            "toy kernel",
            1,
            &[LIBRARY, &["examples/toy-kernel"]],
            library::toy_kernel,
        ),
        only_full("instruction budgets", 3, &[LIBRARY], library::instructions),
        only_full(
            "simulator and command, optimized",
            8,
            &[SIMULATOR, &["percolog-cli"]],
            simulated::optimized,
        ),
        only_full("a stranger's crate", 3, &[SIMULATOR], simulated::stranger),
        only_full(
            "validation of the simulator",
            12,
            &[SIMULATOR, &["percolog-cli"]],
            simulated::validation,
        ),
        only_full("laboratory, all tests", 15, lab, laboratory::tests),
        only_full("laboratory, peers in C", 3, lab, laboratory::c_peers),
        only_full("laboratory, all figures", 15, lab, laboratory::figures),
    ];
    steps.extend((1..=BUSY_RUNS).map(|run| Step {
        name: format!("busy machine, {run} of {BUSY_RUNS}"),
        ..only_full("", 10, &[PRODUCT, &["xtask", "lab"]], on_a_busy_machine)
    }));
    steps.extend(
        mutate::groups(root, mutations)
            .into_iter()
            .map(|group| Step {
                name: format!("mutations of {}", group.name),
                every_change: false,
                minutes: group.minutes,
                paths: group.paths,
                work: Work::Mutations(group.mutations),
            }),
    );
    steps
}

fn step(
    name: &str,
    every_change: bool,
    minutes: u32,
    paths: &[&[&str]],
    run: fn(&mut Job),
) -> Step {
    Step {
        name: name.to_owned(),
        every_change,
        minutes,
        paths: paths
            .concat()
            .iter()
            .map(|path| (*path).to_owned())
            .collect(),
        work: Work::Checks(run),
    }
}

/// The number that stands directly before some words.
fn number_before(text: &str, words: &str) -> Option<f64> {
    let (before, _) = text.split_once(words)?;
    let mut parts = before.rsplit(|letter: char| !letter.is_ascii_digit() && letter != '.');
    parts.next()?.parse().ok()
}

/// The first command that the README gives: it writes a report.
fn demo(job: &mut Job) {
    // A name that no earlier run has used.
    let name = format!("xtask/report-{}.html", std::process::id());
    let report = job.workspace.target.join(name);
    let mut command = job.cargo(&["run", "--release", "--", "demo", "--quick", "--output"]);
    command.arg(&report);
    job.run("demo", Counting::Nothing, command);
    job.report.call("demo has written its report", || {
        let page = std::fs::read_to_string(&report).unwrap_or_default();
        let gains = [
            number_before(&page, "× foretold"),
            number_before(&page, "× real"),
        ];
        let wrong = match gains {
            [Some(foretold), Some(real)] if page.contains("</html>") => {
                // The first page says that the fix is worth what was foretold.
                (real < 0.7 * foretold)
                    .then(|| format!("{foretold}× was foretold, {real}× is real"))
            }
            _ => Some(format!("{} is not a whole page", report.display())),
        };
        Ok(match wrong {
            None => (Counts::ONE_PASSED, None),
            wrong => (Counts::default(), wrong),
        })
    });
}

/// The second: what users build, tested.
fn tests(job: &mut Job) {
    let mut command = job.cargo(&["test", "--no-fail-fast"]);
    job.require_simulator(&mut command);
    job.all_the_work(&mut command);
    job.run("cargo test", Counting::Tests, command);
}

fn formatting(job: &mut Job) {
    for manifest in ["Cargo.toml", "lab/Cargo.toml"] {
        let command = job.cargo(&["fmt", "--all", "--check", "--manifest-path", manifest]);
        job.run(
            &format!("formatting, {manifest}"),
            Counting::Nothing,
            command,
        );
    }
}

fn check_layers(job: &mut Job) {
    let workspace = job.workspace;
    job.report.call("layers", || {
        let failures = layers::check(workspace)?;
        let failure = (failures > 0).then(|| format!("{failures} broken rules, listed above"));
        Ok((Counts::default(), failure))
    });
}

/// Tests of what `cargo test` leaves out: these commands, and the simulator's validation.
fn own_tests(job: &mut Job) {
    let command = job.cargo(&[
        "test",
        "--no-fail-fast",
        "-p",
        "xtask",
        "-p",
        "percolog-validation",
    ]);
    job.run("tests of cargo xtask", Counting::Tests, command);
}

/// The tests of all workspaces, which have to say the same beside other work: four threads that never wait, and most of the memory in use.
/// (Examples of the documentation are left out: of them, nearly all the time is building.)
fn on_a_busy_machine(job: &mut Job) {
    const SUITES: [(&str, &[&str]); 2] = [
        ("all crates", &["--workspace", "--tests"]),
        (
            "laboratory, unit tests",
            &[
                "--manifest-path",
                "lab/Cargo.toml",
                "--workspace",
                "--lib",
                "--bins",
            ],
        ),
    ];
    let command = |job: &Job, arguments: &[&str]| {
        let mut command = job.cargo(&["test", "--no-fail-fast"]);
        command
            .args(arguments)
            .env("CARGO_TARGET_DIR", &job.workspace.target);
        job.require_simulator(&mut command);
        command
    };
    for (suite, arguments) in SUITES {
        let mut build = command(job, arguments);
        build.arg("--no-run");
        job.run(&format!("building: {suite}"), Counting::Nothing, build);
    }
    let _disturbance = Disturbance::start();
    for (suite, arguments) in SUITES {
        let mut tests = command(job, arguments);
        let name = format!("on a busy machine: {suite}");
        job.report
            .run(&name, Counting::Tests, SIMULATIONS_LIMIT, &mut tests);
    }
}

#[cfg(test)]
mod tests_of_the_list {
    use super::*;

    #[test]
    fn a_report_says_what_was_foretold_and_what_is_real() {
        let page = "<p>9.4× foretold, <strong>12× real</strong>. 48 cores";
        assert_eq!(number_before(page, "× foretold"), Some(9.4));
        assert_eq!(number_before(page, "× real"), Some(12.0));
        assert_eq!(number_before("none", "× real"), None);
    }

    #[test]
    fn a_change_asks_for_the_steps_that_depend_on_it() {
        let steps = all(Path::new("."), &[]);
        let asked = |changed: &str| -> Vec<&str> {
            let asked = steps.iter().filter(|step| step.depends_on(changed));
            asked.map(|step| step.name.as_str()).collect()
        };
        assert!(asked("percolog/src/oplog/").contains(&"loom models"));
        assert!(asked("./percolog").contains(&"loom models"));
        assert!(!asked("percolog-sim/src/run").contains(&"loom models"));
        assert!(asked("percolog-sim/src/run").contains(&"transfers"));
        assert!(asked("Cargo.toml").contains(&"transfers"));
        assert!(!asked("lab/papers").contains(&"transfers"));
        // Beside the checks of all files.
        assert_eq!(
            asked("SECURITY.md"),
            ["formatting", "layers", "tests of cargo xtask"]
        );
    }

    #[test]
    fn no_two_steps_have_one_name() {
        let steps = all(Path::new("."), &[]);
        for (place, step) in steps.iter().enumerate() {
            assert!(
                steps[..place].iter().all(|other| other.name != step.name),
                "{}",
                step.name
            );
        }
    }
}
