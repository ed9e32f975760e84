//! Instructions an operation, counted by callgrind, against budgets.
//!
//! Time on a shared machine is noise; the number of instructions of a single thread is the same in every run. So this
//! is what tells a regression of the fast path: `cargo bench -p percolog --bench instructions` fails when an
//! operation takes more than its budget in `loops.rs` and the tolerance allow.
//!
//! Each loop is run under `valgrind --tool=callgrind` twice, the second time twice as long: the difference is the loop
//! alone, without the program's start and the structure's first allocations. What it does not see: cache misses,
//! transfers, and the cost of a fence. Valgrind runs one thread at a time and offers no rseq area, so slots are found
//! by thread.

mod loops;

use std::fmt;
use std::process::{Command, ExitCode};

use loops::Loop;

/// Operations in the shorter of the two runs: enough that a merge at the limit happens often.
const OPERATIONS: u64 = 128 * 1000;

/// Instructions that never matter: what a compiler makes of the loop itself.
const SLACK: f64 = 2.0;

/// How far above its budget a loop may be. Compilers differ from release to release.
const TOLERANCE: f64 = 0.1;

#[derive(Debug)]
enum Failed {
    /// Nothing could be compared.
    Broken(String),
    /// Something takes more instructions than it may.
    Regressed(Vec<String>),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(why) => f.write_str(why),
            Self::Regressed(names) => write!(f, "over budget: {}", names.join(", ")),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, operations] = arguments.as_slice()
        && flag == "--loop"
    {
        // The child, under valgrind.
        return match (Loop::named(name), operations.parse()) {
            (Some(counted), Ok(operations)) => {
                counted.run(operations);
                ExitCode::SUCCESS
            }
            _ => ExitCode::from(2),
        };
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        // `cargo test --all-targets` runs benchmarks too: see that the loops work, count nothing.
        for counted in Loop::ALL {
            counted.run(1000);
        }
        return ExitCode::SUCCESS;
    }
    if !valgrind_is_there() {
        println!("SKIPPED: instructions: valgrind is not installed: apt-get install valgrind");
        return ExitCode::SUCCESS;
    }
    match compare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("instructions: {failed}");
            ExitCode::FAILURE
        }
    }
}

fn valgrind_is_there() -> bool {
    Command::new("valgrind")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

fn compare() -> Result<(), Failed> {
    let mut over = Vec::new();
    println!(
        "{:<34} {:>9} {:>9}",
        "instructions an operation", "counted", "budget"
    );
    for counted in Loop::ALL {
        let (name, budget) = counted.budget();
        let short = instructions(name, OPERATIONS)?;
        let long = instructions(name, 2 * OPERATIONS)?;
        let each = (long as f64 - short as f64) / OPERATIONS as f64;
        let tolerance = (budget * TOLERANCE).max(SLACK);
        let verdict = if each > budget + tolerance {
            over.push(name.to_owned());
            "OVER BUDGET"
        } else if each < budget - tolerance {
            "well below its budget: lower it"
        } else {
            ""
        };
        println!("{name:<34} {each:>9.1} {budget:>9.1}  {verdict}");
    }
    if over.is_empty() {
        Ok(())
    } else {
        Err(Failed::Regressed(over))
    }
}

/// What callgrind counts while this program runs one loop.
fn instructions(name: &str, operations: u64) -> Result<u64, Failed> {
    let program = std::env::current_exe()
        .map_err(|error| Failed::Broken(format!("cannot find this program: {error}")))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["--loop", name, &operations.to_string()])
        .output()
        .map_err(|error| Failed::Broken(format!("cannot run valgrind: {error}")))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Failed::Broken(format!(
            "valgrind failed on {name}: {report}"
        )));
    }
    collected(&report).ok_or_else(|| {
        Failed::Broken(format!(
            "valgrind said nothing of what it collected on {name}: {report}"
        ))
    })
}

/// The number in callgrind's line `==123== Collected : 456789`.
fn collected(report: &str) -> Option<u64> {
    let (_, rest) = report.split_once("Collected : ")?;
    rest.split_whitespace().next()?.parse().ok()
}
