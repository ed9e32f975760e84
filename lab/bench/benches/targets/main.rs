//! Every published figure, measured in one run beside its limit or its peer, as a table or as `--json`.
//!
//! `cargo bench -p percolog-bench --bench targets` (about seven minutes); `-- --quick` to try it; `-- --only reclaim`
//! for one group of figures; `-- --json` for programs. With `--features c-peers` the reclaimers in C take part. It says which targets are met and does not fail when one is missed: a figure is the machine's as much as
//! the library's, and a machine that is shared has bad moments.

mod clustered;
mod dhash;
mod entries;
mod events;
mod figures;
mod in_use;
mod latency;
mod lifetimes;
mod maps;
mod names;
mod objects;
mod pages;
mod reads;
mod reclaim;
mod reducers;
mod references;
mod sweeps;

use std::process::ExitCode;
use std::time::Duration;

use percolog_bench::host::Host;
use percolog_bench::runner::RunError;
use serde_json::json;

use figures::{Line, Target};

/// How long and how often things are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// The length of one cell of a duel.
    pub(crate) cell: Duration,
    /// Cells behind a figure of a duel.
    pub(crate) cells: usize,
    /// Samples behind a figure of a single operation.
    pub(crate) samples: usize,
}

fn main() -> ExitCode {
    let mut as_json = false;
    let mut effort = Effort {
        cell: Duration::from_millis(250),
        cells: 5,
        samples: 31,
    };
    let mut benchmarking = false;
    let mut only = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => as_json = true,
            // What cargo passes to every benchmark.
            "--bench" => benchmarking = true,
            "--quick" => effort = quick(),
            "--only" => {
                only = arguments.next();
                let is_known = figures::groups().any(|group| Some(group) == only.as_deref());
                if !is_known {
                    let groups: Vec<_> = figures::groups().collect();
                    eprintln!("targets: --only takes one of {}", groups.join(", "));
                    return ExitCode::from(2);
                }
            }
            other => {
                eprintln!(
                    "targets: unknown argument {other:?}; there are --json, --only and --quick"
                );
                return ExitCode::from(2);
            }
        }
    }
    if !benchmarking {
        // `cargo test --all-targets` runs benchmarks too: see that everything works, measure nothing.
        effort = quick();
    }
    match figures::measure(effort, only.as_deref()) {
        Ok(lines) if as_json => print_json(&lines),
        Ok(lines) => print_table(&lines),
        Err(error) => {
            eprintln!("targets: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn quick() -> Effort {
    Effort {
        cell: Duration::from_millis(10),
        cells: 1,
        samples: 3,
    }
}

/// What a measurement gives.
pub(crate) type Measured = Result<Vec<Line>, RunError>;

fn print_table(lines: &[Line]) {
    let host = Host::describe();
    println!(
        "{}, {} CPUs, {}\n",
        host.processor, host.cpus, host.platform
    );
    println!(
        "{:<46} {:>11} {:>11} {:>7} {:>8}  verdict",
        "figure", "measured", "beside", "ratio", "target"
    );
    for line in lines {
        let beside = line
            .beside
            .as_ref()
            .map_or_else(String::new, |beside| line.unit.show(beside.value));
        let ratio = line
            .ratio()
            .map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        println!(
            "{:<46} {:>11} {beside:>11} {ratio:>7} {:>8}  {}",
            line.name,
            line.unit.show(line.measured),
            line.target.to_string(),
            line.verdict()
        );
        if let Some(beside) = &line.beside {
            println!("    beside: {}", beside.name);
        }
        for part in wrapped(&line.remark) {
            println!("    {part}");
        }
    }
    let missed = lines
        .iter()
        .filter(|line| line.is_met() == Some(false))
        .count();
    let targets = lines.iter().filter(|line| line.is_met().is_some()).count();
    println!("\n{} of {targets} targets met", targets - missed);
}

/// The lines of a remark, none wider than the table.
fn wrapped(remark: &str) -> Vec<String> {
    const WIDTH: usize = 96;
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in remark.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

fn print_json(lines: &[Line]) {
    let host = Host::describe();
    let figures: Vec<_> = lines
        .iter()
        .map(|line| {
            json!({
                "figure": line.name,
                "measured": line.measured,
                "unit": line.unit.name(),
                "beside": line.beside.as_ref().map(|beside| json!({
                    "name": beside.name,
                    "value": beside.value,
                })),
                "ratio": line.ratio(),
                "target": match line.target {
                    Target::None => None,
                    _ => Some(line.target.to_string()),
                },
                "met": line.is_met(),
                "remark": line.remark,
            })
        })
        .collect();
    let document = json!({
        "processor": host.processor,
        "cpus": host.cpus,
        "platform": host.platform,
        "figures": figures,
    });
    println!("{document:#}");
}
