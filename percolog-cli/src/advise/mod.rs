//! `percolog advise -- COMMAND…`: what is in the program's way on many cores, and what would take its place.

use percolog_sim::report::{LineSummary, ObjectWhatIf, Summary, VERSION, WhatIf};
use serde::Serialize;

use crate::sim::page;
use crate::sim::run::{self, examine};
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;
use percolog_cli::terminal::to_stderr;

/// Of how many lines something is said.
const LINES: usize = 5;

/// Arguments of `percolog advise`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "percolog advise [OPTIONS] -- COMMAND…",
    after_help = "Runs the program on 1, 2, 4, 8, … cores of the machine (--sweep chooses others), and says which lines of memory are in \
                  its way with the most, what it would gain without them, which type of percolog fits in their place, or why none \
                  does.\n\
                  The status is that of `percolog sim`: 0 if the program ended well, whatever the advice."
)]
pub(crate) struct Advise {
    #[command(flatten)]
    run: run::Arguments,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Advice<'a> {
    version: u64,
    /// In one or two sentences.
    conclusion: String,
    /// The worst line first.
    advice: Vec<LineAdvice<'a>>,
    summary: &'a Summary,
}

/// What is said of a line.
#[derive(Serialize)]
struct LineAdvice<'a> {
    name: String,
    address: u64,
    share: f64,
    what_if: Option<WhatIf>,
    what_if_object: Option<&'a ObjectWhatIf>,
    fits: Option<&'a str>,
    text: String,
}

impl<'a> LineAdvice<'a> {
    fn of(line: &'a LineSummary) -> Self {
        let suggestion = line.suggestion.as_ref();
        Self {
            name: line.name(),
            address: line.address,
            share: line.share,
            what_if: line.what_if,
            what_if_object: line.what_if_object.as_ref(),
            fits: suggestion.and_then(|suggestion| suggestion.fits.as_deref()),
            text: line.advice(),
        }
    }
}

/// Runs the sweep, and advises.
pub(crate) fn run(arguments: &Advise, output: &mut Output) -> Result<(), Failure> {
    let page = page::destination(arguments.run.html.as_deref())?;
    let sizes = arguments.run.sizes_or_doubling()?;
    let examined = examine(&arguments.run, Some(&sizes), output)?;
    let summary = &examined.summary;
    if output.is_json() {
        output.data(&Advice {
            version: VERSION,
            conclusion: summary.conclusion(),
            advice: summary.culprits(LINES).map(LineAdvice::of).collect(),
            summary,
        })?;
    } else {
        to_stderr(&summary.to_advice());
    }
    if let Some(page) = page {
        page::write(page, summary)?;
    }
    examined.end()
}
