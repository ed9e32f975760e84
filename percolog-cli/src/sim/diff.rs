//! `percolog sim diff A.json B.json`: what has changed.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use percolog_sim::report::{Difference, Reported};

use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

/// Arguments of `percolog sim diff`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The status is 0 whatever has changed, and 2 if a file is no report. `percolog sim assert` holds a program to a bound."
)]
pub(crate) struct Arguments {
    /// The report before: what `percolog sim --json` printed
    #[arg(value_name = "BEFORE.json")]
    before: PathBuf,

    /// The report after
    #[arg(value_name = "AFTER.json")]
    after: PathBuf,
}

/// Reads both, and says what differs.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let difference = Difference::between(&before, &after);
    if output.is_json() {
        output.data(&difference)
    } else {
        output.write(&difference.to_text())
    }
}

/// A report with a hundred thousand lines, the most that `--lines` takes, is shorter.
const LONGEST: u64 = 256 << 20;

fn read(path: &Path) -> Result<Reported, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::Input(format!(
            "{}: {why}; see `percolog sim diff --help`",
            path.display()
        ))
    };
    let mut text = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text))
        .map_err(|error| wrong(&error))?;
    if text.len() as u64 > LONGEST {
        let limit = format!("it is longer than {} MiB", LONGEST >> 20);
        return Err(wrong(&limit));
    }
    Reported::from_json(&text).map_err(|error| wrong(&error))
}
