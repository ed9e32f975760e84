//! `cargo xtask worst-lines`: runs programs that nobody here wrote under the simulator, and writes `docs/worst-lines.md` about what is in
//! their way.
//!
//! Each run leaves in `results/worst-lines.json` the command, what it cost, the first screen of the report, and its worst lines. The page
//! is made of that file alone, so that programs can be run one by one.

mod fixes;
mod ground;
mod kept;
mod memcached;
mod page;
mod pairs;
mod programs;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;
use fixes::FIXES;
use ground::{Ground, Guest};
use kept::{Kept, Record};
use pairs::PAIRS;
use programs::{PROGRAMS, Program};

/// What came of a run.
struct Measured {
    /// The command, as one would type it.
    command: String,
    seconds: f64,
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
    let path = Kept::path(&workspace.root);
    let mut kept = Kept::read(&path)?;
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
            let result = simulate(&ground, program).and_then(|record| {
                kept.programs.insert(program.name.to_owned(), record);
                kept.write(&path)
            });
            ended(program.name, result, begin);
        }
        for fix in FIXES.iter().filter(|fix| wanted(fix.name)) {
            let begin = Instant::now();
            let result = fixes::run(&ground, fix).and_then(|confirmed| {
                kept.what_ifs.insert(fix.name.to_owned(), confirmed);
                kept.write(&path)
            });
            ended(fix.name, result, begin);
        }
        for pair in PAIRS.iter().filter(|pair| wanted(pair.name)) {
            let begin = Instant::now();
            let result = pairs::run(&ground, pair).and_then(|confirmed| {
                kept.what_ifs.insert(pair.name.to_owned(), confirmed);
                kept.write(&path)
            });
            ended(pair.name, result, begin);
        }
    }
    let page = page::render(&kept);
    let path = workspace.root.join("docs").join("worst-lines.md");
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    println!("{} was written", path.display());
    Ok(failed == 0)
}

/// What can be named on the command line.
fn known_names() -> impl Iterator<Item = &'static str> {
    let programs = PROGRAMS.iter().map(|program| program.name);
    programs
        .chain(PAIRS.iter().map(|pair| pair.name))
        .chain(FIXES.iter().map(|fix| fix.name))
}

/// Runs one program, and says what came of it.
fn simulate(ground: &Ground, program: &Program) -> Result<Record> {
    let measured = measure(ground, program.cores, (program.guest)(ground)?, &[])?;
    let (lines, known) = kept::worst(program, &measured.report);
    Ok(Record {
        command: measured.command,
        seconds: measured.seconds,
        kilobytes: measured.kilobytes,
        screen: measured.screen,
        known,
        lines,
    })
}

/// Runs a program on so many cores, with these options besides.
fn measure(ground: &Ground, cores: u64, guest: Guest, options: &[&str]) -> Result<Measured> {
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
    Ok(Measured {
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
