//! `cargo xtask worst-lines`: runs programs that nobody here wrote under the simulator, and writes `docs/worst-lines.md` about what is in
//! their way.
//!
//! Each run leaves `results/worst-lines/NAME.json`: the command, what it cost, the first screen of the report, and the report. The page
//! is made of these files alone, so that programs can be run one by one.

mod ground;
mod memcached;
mod page;
mod pairs;
mod programs;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::process;
use crate::workspace::Workspace;
use ground::{Ground, Guest};
use pairs::PAIRS;
use programs::{PROGRAMS, Program};

/// What a run leaves.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The command, as one would type it.
    command: String,
    /// How long it took.
    seconds: f64,
    /// The memory of its largest process, the simulator's share included; none if `time` is missing.
    kilobytes: Option<u64>,
    /// What the report says on a terminal.
    screen: String,
    /// The report.
    report: serde_json::Value,
}

/// Runs the programs of these names, or all, and writes the page.
pub(crate) fn command(workspace: &Workspace, names: &[String], render: bool) -> Result<bool> {
    for name in names {
        let known: Vec<&str> = known_names().collect();
        if !known.contains(&name.as_str()) {
            bail!("no program `{name}`; there are {}", known.join(", "));
        }
    }
    let results = workspace.root.join("results").join("worst-lines");
    fs::create_dir_all(&results).with_context(|| format!("making {}", results.display()))?;
    let mut failed = 0;
    if !render {
        let ground = Ground::new(workspace)?;
        let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        let mut ended = |name: &str, result: Result<()>, begin: Instant| match result {
            Ok(()) => println!("{name:<16} {:.0} s", begin.elapsed().as_secs_f64()),
            Err(error) => {
                failed += 1;
                println!("{name:<16} SKIPPED: {error:#}");
            }
        };
        for program in PROGRAMS.iter().filter(|program| wanted(program.name)) {
            let begin = Instant::now();
            let result = results.join(format!("{}.json", program.name));
            ended(program.name, simulate(&ground, program, &result), begin);
        }
        for pair in PAIRS.iter().filter(|pair| wanted(pair.name)) {
            let begin = Instant::now();
            ended(pair.name, pairs::run(&ground, pair, &results), begin);
        }
    }
    let page = page::render(&results)?;
    let path = workspace.root.join("docs").join("worst-lines.md");
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    println!("{} was written", path.display());
    Ok(failed == 0)
}

/// What can be named on the command line.
fn known_names() -> impl Iterator<Item = &'static str> {
    let programs = PROGRAMS.iter().map(|program| program.name);
    programs.chain(PAIRS.iter().map(|pair| pair.name))
}

/// Runs one program, and keeps what came of it.
fn simulate(ground: &Ground, program: &Program, result: &Path) -> Result<()> {
    let record = measure(ground, program.cores, (program.guest)(ground)?, &[])?;
    let text = serde_json::to_string_pretty(&record).context("a record")?;
    fs::write(result, text + "\n").with_context(|| format!("writing {}", result.display()))
}

/// Runs a program on so many cores, with these options besides.
fn measure(ground: &Ground, cores: u64, guest: Guest, options: &[&str]) -> Result<Record> {
    let (json, cost) = (ground.path("report.json"), ground.path("cost"));
    for old in [&json, &cost] {
        let _ = fs::remove_file(old);
    }
    let shown = format!(
        "percolog sim --cores {} -- {}",
        cores,
        guest.command.join(" ")
    );
    let timed = ground.time.is_some();
    let mut command = Command::new(ground.time.as_ref().unwrap_or(&ground.percolog));
    if timed {
        command
            .args(["-f", "%M", "-o"])
            .arg(&cost)
            .arg(&ground.percolog);
    }
    command
        .args(["sim", "--cores", &cores.to_string()])
        .args(["--lines", "10", "--timeout", "240", "--save"])
        .arg(&json)
        .args(options)
        // Clients come but once.
        .args(guest.client.is_some().then_some("--no-what-if"))
        .arg("--")
        .args(&guest.command);
    process::clean(&mut command)
        .envs(guest.environment.iter().copied())
        .current_dir(&ground.folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begin = Instant::now();
    let child = command.spawn().context("starting percolog")?;
    let client = guest.client.map(std::thread::spawn);
    let output = child.wait_with_output().context("waiting for percolog")?;
    let seconds = begin.elapsed().as_secs_f64();
    if let Some(client) = client {
        client.join().expect("the client does not panic")?;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let report = fs::read(&json).with_context(|| format!("there is no report: {}", tail(&said)))?;
    if !output.status.success() {
        bail!("{}: {}", output.status, tail(&said));
    }
    Ok(Record {
        command: ground.scrub(&shown),
        seconds,
        kilobytes: fs::read_to_string(&cost)
            .ok()
            .and_then(|text| text.lines().last()?.trim().parse().ok()),
        screen: ground.scrub(page::screen(&said)),
        report: serde_json::from_str(&ground.scrub(&String::from_utf8_lossy(&report)))
            .context("reading the report")?,
    })
}

/// The last lines of what a program has said.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}
