//! `cargo xtask mutate`: breaks one promise at a time in a copy of the tree, and sees that the tests notice.
//!
//! A test that cannot fail proves nothing. Each mutation in `mutations.toml` is one small break, named with the promise that it
//! breaks and the test command that has to fail with it. The same commands must pass on the unbroken tree, or their failing
//! would say nothing either.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::counts::Counts;
use crate::layers;
use crate::process::{self, Outcome};
use crate::report::print_failure;
use crate::workspace::{self, Workspace};

/// The list, inside the tree.
const LIST: &str = "xtask/mutations.toml";

/// What building may take: a slow machine is no finding.
const BUILD: Duration = Duration::from_secs(1500);

/// How often a break is tried that nobody notices.
const TRIES: u32 = 3;

/// How long a mutation's tests may take once all is built: so many times as long as they take unbroken, and a moment.
const TIMES: u32 = 10;
const MOMENT: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 20 });

/// How long a step of mutations may take, as far as can be foreseen.
const STEP_MINUTES: u32 = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default, rename = "mutation")]
    mutations: Vec<Mutation>,
}

/// One break.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    name: String,
    /// The promise that it breaks, in a sentence.
    promise: String,
    /// The file that it changes, from the root of the tree.
    file: PathBuf,
    /// What it replaces; this must be there exactly once.
    find: String,
    replace: String,
    /// The command that must fail with it, a `cargo test` with or without a filter; split at spaces, no shell.
    test: String,
    /// Variables for the command.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// How long the command may run at least, where the break makes it slower than ten times as slow.
    #[serde(default)]
    timeout_seconds: u64,
    /// Whether running past that time is what the break is expected to do, as a deadlock is.
    #[serde(default)]
    may_hang: bool,
}

impl Mutation {
    /// What it breaks: a module of the library, or a crate.
    fn subject(&self) -> String {
        let parts: Vec<_> = self
            .file
            .iter()
            .map(|part| part.to_string_lossy())
            .collect();
        match parts.iter().position(|part| part == "src") {
            Some(1) if parts[0] == "percolog" => parts[..3].join("/"),
            Some(place) => parts[..place].join("/"),
            None => parts[0].to_string(),
        }
    }

    /// How long its tests may take, if they take so long unbroken.
    fn limit(&self, unbroken: Duration) -> Duration {
        Duration::from_secs(self.timeout_seconds).max(MOMENT + TIMES * unbroken)
    }

    /// How long trying it takes, on two cores.
    fn seconds(&self) -> u32 {
        match self.test.as_str() {
            test if test.contains("lab/Cargo.toml") || test.contains("--test transfers") => 40,
            test if test.contains("--release") || test.contains("percolog-sim") => 20,
            _ => 15,
        }
    }

    /// Its command, to be run in the copy; every set of compiler flags has a target folder of its own.
    fn command(&self, tree: &Path, targets: &Path) -> Command {
        let mut command = Command::new("cargo");
        process::clean(&mut command)
            .current_dir(tree)
            .args(self.test.split_whitespace().skip(1))
            // The same is built again and again here, in release too, whatever is best elsewhere: 3 s instead of 47 s for a model.
            .env("CARGO_INCREMENTAL", "1")
            .env("PERCOLOG_TESTS", "full")
            .envs(&self.environment);
        command.env("CARGO_TARGET_DIR", self.target(targets));
        command
    }

    /// Where it is built.
    fn target(&self, targets: &Path) -> PathBuf {
        let flags = self.environment.get("RUSTFLAGS").map_or("", String::as_str);
        let folder: String = flags
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        targets.join(format!("target-{folder}"))
    }
}

/// What became of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// The tests noticed.
    Caught,
    /// The tests ran past their limit, as this break makes them.
    Hung,
    /// The tests passed: nothing holds the code to this promise.
    Survived,
    /// Nothing was found out: the reason.
    Invalid(String),
}

impl Fate {
    fn is_caught(&self) -> bool {
        matches!(self, Self::Caught | Self::Hung)
    }
}

/// The copy of the tree in which the breaking is done.
struct Workshop {
    tree: PathBuf,
    targets: PathBuf,
    verbose: bool,
}

/// The command `mutate`: tries some mutations, or all; tells whether all were caught.
pub(crate) fn command(
    workspace: &Workspace,
    names: &[String],
    list: bool,
    verbose: bool,
) -> Result<bool> {
    let mut chosen = read(&workspace.root)?;
    if list {
        for mutation in &chosen {
            println!("{}: {}", mutation.name, mutation.promise);
            println!("    {} must fail", mutation.test);
        }
        println!("{} mutations", chosen.len());
        return Ok(true);
    }
    let is_known = |name: &&String| chosen.iter().any(|mutation| mutation.name == **name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        bail!("no mutation is called `{unknown}`: cargo xtask mutate --list");
    }
    if !names.is_empty() {
        chosen.retain(|mutation| names.contains(&mutation.name));
    }
    let (counts, failure) = try_all(workspace, &chosen, verbose)?;
    println!("{} of {} mutations caught", counts.passed, chosen.len());
    if let Some(failure) = &failure {
        println!("FAILED   {failure}");
    }
    Ok(failure.is_none())
}

/// A step of `cargo xtask full`: each mutation counted as a test.
pub(crate) fn step(
    workspace: &Workspace,
    mutations: &[Mutation],
) -> Result<(Counts, Option<String>)> {
    try_all(workspace, mutations, false)
}

/// Mutations that are tried in one step.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) minutes: u32,
    pub(crate) paths: Vec<String>,
    pub(crate) mutations: Vec<Mutation>,
}

/// The mutations by what they break: a module of the library, or a crate. What takes too long together is divided.
pub(crate) fn groups(root: &Path, mutations: &[Mutation]) -> Vec<Group> {
    let mut broken: BTreeMap<String, Vec<Mutation>> = BTreeMap::new();
    for mutation in mutations {
        broken
            .entry(mutation.subject())
            .or_default()
            .push(mutation.clone());
    }
    let mut groups = Vec::new();
    for (subject, mutations) in broken {
        let seconds: u32 = mutations.iter().map(Mutation::seconds).sum();
        let parts = seconds.div_ceil(STEP_MINUTES * 60).max(1);
        let paths = paths(root, &subject, &mutations);
        for (part, mutations) in mutations
            .chunks(mutations.len().div_ceil(parts as usize))
            .enumerate()
        {
            let seconds: u32 = mutations.iter().map(Mutation::seconds).sum();
            groups.push(Group {
                name: if parts == 1 {
                    subject.clone()
                } else {
                    format!("{subject}, {} of {parts}", part + 1)
                },
                minutes: seconds.div_ceil(60),
                paths: paths.clone(),
                mutations: mutations.to_vec(),
            });
        }
    }
    groups
}

/// What decides whether tests notice: what is broken, what it is built on, and the tests.
fn paths(root: &Path, subject: &str, mutations: &[Mutation]) -> Vec<String> {
    /// What the laboratory is built on.
    const PRODUCT: [&str; 5] = [
        "percolog/src",
        "percolog-cli",
        "percolog-roi",
        "percolog-sim",
        "telemetry",
    ];
    let mut paths = BTreeSet::from(["Cargo.toml".to_owned(), "Cargo.lock".to_owned()]);
    let mut add = |more: &[&str]| paths.extend(more.iter().map(|&path| path.to_owned()));
    add(&[subject]);
    match subject {
        "percolog-roi" => {}
        "percolog-sim" => add(&["percolog-roi"]),
        "percolog-cli" => add(&["percolog/src", "percolog-roi", "percolog-sim/src"]),
        "xtask" => {}
        _ if subject.starts_with("telemetry/") => add(&["percolog/src", "telemetry/instruments"]),
        _ => match subject.strip_prefix("percolog/src/") {
            Some(module) => {
                for module in layers::below(module.trim_end_matches(".rs")) {
                    let folder = format!("percolog/src/{module}");
                    let file = format!("{folder}.rs");
                    let is_file = root.join(&file).exists();
                    add(&[if is_file { &file } else { &folder }]);
                }
            }
            None => add(&["percolog/src"]),
        },
    }
    for mutation in mutations {
        if mutation.test.contains("-p percolog ") && mutation.test.contains(" --test ") {
            add(&["percolog/tests"]);
        }
        if mutation.test.contains("--test transfers") {
            add(&["percolog-roi", "percolog-sim"]);
        }
        if mutation.test.contains("-p percolog-validation") {
            add(&[
                "percolog/src",
                "percolog-cli",
                "percolog-roi",
                "percolog-sim",
            ]);
        }
        if mutation.test.contains("lab/Cargo.toml") {
            add(&["lab"]);
            add(&PRODUCT);
        }
    }
    paths.into_iter().collect()
}

/// Each mutation counted as a test; and, if some were not caught, which and why.
fn try_all(
    workspace: &Workspace,
    mutations: &[Mutation],
    verbose: bool,
) -> Result<(Counts, Option<String>)> {
    let folder = workspace.target_for("mutate");
    let workshop = Workshop {
        tree: folder.join("tree"),
        targets: folder,
        verbose,
    };
    workshop.copy(&workspace.root)?;
    let fates = workshop.try_all(mutations)?;
    let mut counts = Counts::default();
    for fate in &fates {
        counts += if fate.is_caught() {
            Counts::ONE_PASSED
        } else {
            Counts::ONE_FAILED
        };
    }
    Ok((counts, failure(mutations, &fates)))
}

/// Names what was not caught, in one line: the end of a log is often all of it that is seen.
fn failure(mutations: &[Mutation], fates: &[Fate]) -> Option<String> {
    let missed: Vec<String> = mutations
        .iter()
        .zip(fates)
        .filter_map(|(mutation, fate)| {
            let why = match fate {
                Fate::Caught | Fate::Hung => return None,
                Fate::Survived => "survived",
                Fate::Invalid(why) => &format!("not tried: {why}"),
            };
            Some(format!("{} ({why})", mutation.name))
        })
        .collect();
    let were = match missed.len() {
        0 => return None,
        1 => "1 mutation was".to_owned(),
        several => format!("{several} mutations were"),
    };
    Some(format!("{were} not caught: {}", missed.join(", ")))
}

/// The mutations that the tree lists.
pub(crate) fn read(root: &Path) -> Result<Vec<Mutation>> {
    let path = root.join(LIST);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Vec<Mutation>> {
    let list: List = toml::from_str(text)?;
    let mut names = BTreeSet::new();
    for mutation in &list.mutations {
        if !names.insert(&mutation.name) {
            bail!("two mutations are called `{}`", mutation.name);
        }
        if mutation.find == mutation.replace || mutation.find.is_empty() {
            bail!("mutation `{}` changes nothing", mutation.name);
        }
        if !mutation.test.starts_with("cargo test ") || mutation.test.contains(" -- ") {
            bail!(
                "mutation `{}`: its test is no `cargo test` with a filter",
                mutation.name
            );
        }
    }
    Ok(list.mutations)
}

impl Workshop {
    /// Brings the copy up to date. It stays at one place, and files that are as they were are not touched, so that only what
    /// changed is built again.
    fn copy(&self, root: &Path) -> Result<()> {
        fs::create_dir_all(&self.tree)
            .with_context(|| format!("creating {}", self.tree.display()))?;
        let wanted: BTreeSet<PathBuf> = workspace::files(root)?.into_iter().collect();
        for stale in files_below(&self.tree, &self.tree)?.difference(&wanted) {
            let path = self.tree.join(stale);
            fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        for file in &wanted {
            let source = root.join(file);
            let contents =
                fs::read(&source).with_context(|| format!("reading {}", source.display()))?;
            let target = self.tree.join(file);
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder)
                    .with_context(|| format!("creating {}", folder.display()))?;
            }
            // What cannot be read is not as it was.
            if fs::read(&target).ok().as_deref() != Some(contents.as_slice()) {
                fs::write(&target, contents)
                    .with_context(|| format!("writing {}", target.display()))?;
            }
        }
        Ok(())
    }

    /// The fate of each mutation, in order.
    fn try_all(&self, mutations: &[Mutation]) -> Result<Vec<Fate>> {
        let key = |mutation: &Mutation| (mutation.test.clone(), mutation.environment.clone());
        // All that is unbroken comes first: it is built once, not again after each break.
        let mut unbroken: BTreeMap<_, Option<Duration>> = BTreeMap::new();
        for mutation in mutations {
            if let Entry::Vacant(place) = unbroken.entry(key(mutation)) {
                place.insert(self.time_unbroken(mutation)?);
            }
        }
        let mut fates = Vec::new();
        for mutation in mutations {
            let started = Instant::now();
            let fate = match unbroken[&key(mutation)] {
                Some(took) => self.try_one(mutation, mutation.limit(took))?,
                None => Fate::Invalid("its command fails on the unbroken tree".to_owned()),
            };
            let text = match &fate {
                Fate::Caught => "caught".to_owned(),
                Fate::Hung => "caught: the tests hang".to_owned(),
                Fate::Survived => "SURVIVED".to_owned(),
                Fate::Invalid(why) => format!("NOT TRIED: {why}"),
            };
            println!(
                "   {}: {text} ({:.1} s)",
                mutation.name,
                started.elapsed().as_secs_f64()
            );
            if fate == Fate::Survived {
                println!(
                    "   nothing holds the code to its promise: {}",
                    mutation.promise
                );
            }
            fates.push(fate);
        }
        Ok(fates)
    }

    /// Runs a mutation's command; or, if what it tests cannot be built, gives the outcome of that.
    fn build_and_run(&self, mutation: &Mutation, limit: Duration) -> Result<Outcome> {
        let command = || mutation.command(&self.tree, &self.targets);
        let mut building = command();
        building.arg("--no-run");
        let built = process::run(&mut building, BUILD, None, self.verbose)?;
        if built.status.is_none() {
            bail!("`{}` was not built in {} s", mutation.test, BUILD.as_secs());
        }
        if !built.success() {
            return Ok(built);
        }
        process::run(&mut command(), limit, None, self.verbose)
    }

    /// How long a mutation's tests take on the unbroken tree; nothing if they do not pass.
    fn time_unbroken(&self, mutation: &Mutation) -> Result<Option<Duration>> {
        let outcome = self.build_and_run(mutation, BUILD)?;
        let ran = Counts::read(&outcome.output).passed;
        if !outcome.success() && !self.verbose {
            print_failure(&outcome.output);
        }
        if outcome.success() && ran == 0 {
            println!("   `{}` runs no test at all", mutation.test);
        }
        Ok((outcome.success() && ran > 0).then_some(outcome.took))
    }

    /// Runs a mutation's command on the broken tree.
    fn run_once(&self, mutation: &Mutation, limit: Duration) -> Result<Outcome> {
        let outcome = self.build_and_run(mutation, limit)?;
        if outcome.status.is_none() {
            // A compiler that was stopped in the middle may leave what the next one trips over.
            for profile in ["debug", "release"] {
                let half_done = mutation
                    .target(&self.targets)
                    .join(profile)
                    .join("incremental");
                if half_done.exists() {
                    fs::remove_dir_all(&half_done)
                        .with_context(|| format!("removing {}", half_done.display()))?;
                }
            }
        }
        Ok(outcome)
    }

    /// A break of what threads do to each other can go unnoticed once in a while, or make threads wait for each other where it mostly makes
    /// them fail: then the last try decides.
    fn run_until_it_is_noticed(&self, mutation: &Mutation, limit: Duration) -> Result<Outcome> {
        let mut outcome = self.run_once(mutation, limit)?;
        for _ in 1..TRIES {
            if outcome.status.is_some_and(|status| !status.success())
                || (outcome.status.is_none() && mutation.may_hang)
            {
                break;
            }
            outcome = self.run_once(mutation, limit)?;
        }
        Ok(outcome)
    }

    fn try_one(&self, mutation: &Mutation, limit: Duration) -> Result<Fate> {
        let path = self.tree.join(&mutation.file);
        let Ok(sound) = fs::read_to_string(&path) else {
            return Ok(Fate::Invalid(format!(
                "{} cannot be read",
                mutation.file.display()
            )));
        };
        let places = sound.matches(&mutation.find).count();
        if places != 1 {
            return Ok(Fate::Invalid(format!(
                "its `find` stands {places} times in {}, not once: bring it up to date in {LIST}",
                mutation.file.display()
            )));
        }
        let write = |text: &str| {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
        };
        write(&sound.replacen(&mutation.find, &mutation.replace, 1))?;
        let outcome = self.run_until_it_is_noticed(mutation, limit);
        write(&sound)?;
        let outcome = outcome?;
        let fate = judge(mutation, limit, &outcome);
        if !fate.is_caught() && !self.verbose {
            print_failure(&outcome.output);
        }
        Ok(fate)
    }
}

fn judge(mutation: &Mutation, limit: Duration, outcome: &Outcome) -> Fate {
    if outcome.status.is_none() {
        return if mutation.may_hang {
            Fate::Hung
        } else {
            Fate::Invalid(format!(
                "its command still ran after {} s; if the break makes it hang, say `may_hang = true`",
                limit.as_secs()
            ))
        };
    }
    if outcome.success() {
        return Fate::Survived;
    }
    // What does not compile breaks no promise: the compiler noticed, not the tests.
    if outcome.output.contains("could not compile") {
        let error = outcome
            .output
            .lines()
            .find(|line| line.starts_with("error"))
            .unwrap_or("no error shown");
        return Fate::Invalid(format!("it does not compile: {error}"));
    }
    Fate::Caught
}

/// The files below `folder`, relative to `root`.
fn files_below(root: &Path, folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry
            .with_context(|| format!("reading {}", folder.display()))?
            .path();
        if path.is_dir() {
            files.extend(files_below(root, &path)?);
        } else if let Ok(inside) = path.strip_prefix(root) {
            files.insert(inside.to_owned());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
