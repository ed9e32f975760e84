//! `percolog figures`: figures of the papers, made again on this machine.

mod log_memory;
mod objects;
mod page;

pub(crate) use objects::run as run_guest;

use std::path::PathBuf;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `percolog figures`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which figure.
    #[command(subcommand)]
    figure: Figure,
}

/// The figures that can be made.
#[derive(Debug, Subcommand)]
enum Figure {
    /// What millions of objects take of memory with a counter each: shared, one a core, and with logs that a
    /// cache lends (OpLog thesis, figure 8-5); needs Linux
    LogMemory(LogMemory),
}

/// Arguments of `percolog figures log-memory`.
#[derive(Debug, clap::Args)]
struct LogMemory {
    /// How many objects (default: 15 million, or as many as fit in half of the memory that is free)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    objects: Option<u64>,

    /// For how many cores
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: u32,

    /// Where the page goes (default: report.html; an earlier report of that name is replaced)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

/// What a process of its own allocates and measures, for a figure.
#[derive(Debug, clap::Args)]
pub(crate) struct GuestArguments {
    /// What the objects are.
    #[arg(long)]
    kind: objects::Kind,

    /// How many objects.
    #[arg(long)]
    objects: u64,

    /// For how many cores.
    #[arg(long)]
    cores: u32,
}

/// Makes the figure that was asked for.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    match &arguments.figure {
        Figure::LogMemory(arguments) => log_memory::run(arguments, output),
    }
}
