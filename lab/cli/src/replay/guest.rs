//! `percolog replay-guest`: one replay, as `percolog replay --sim` simulates it.

use percolog_papers::replay;
use percolog_papers::subsystem::{Implementation, Subsystem};

use serde::{Deserialize, Serialize};

use super::source::{self, Source};
use super::{failure, one_of};
use crate::args;
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

/// Arguments of `percolog replay-guest`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: source::Chosen,

    /// What to replay
    #[arg(long, value_name = "NAME", value_parser = one_of::<Subsystem>)]
    subsystem: Subsystem,

    /// What to make it of
    #[arg(long = "impl", value_name = "NAME", value_parser = one_of::<Implementation>)]
    implementation: Implementation,

    /// On how many threads
    #[arg(long, value_name = "N", value_parser = args::thread_count)]
    threads: usize,
}

/// What a replay did, for the one who simulates it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Done {
    events: usize,
    updates: u64,
    reads: u64,
    /// By the simulated machine's clock.
    pub(super) nanoseconds: f64,
    pub(super) looking_nanoseconds: f64,
}

/// Replays once, between marks, and says what it did.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let source = Source::open(&arguments.source)?;
    let load = source.load(arguments.subsystem);
    let report = replay::guest(
        &load,
        arguments.implementation,
        arguments.threads,
        source.work(),
    )
    .map_err(failure)?;
    output.data(&Done {
        events: report.events,
        updates: report.updates,
        reads: report.reads,
        nanoseconds: report.elapsed.as_nanos() as f64,
        looking_nanoseconds: report.looked.as_nanos() as f64,
    })
}
