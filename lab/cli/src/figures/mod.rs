//! `lab figures`: figures of the papers and every duel with other libraries, made again, and the page that shows them.

mod list;
mod render;
mod run;
mod wrong;

pub(crate) use run::laboratory;

use clap::Subcommand;

use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

/// Arguments of `lab figures`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    figure: Figure,
}

/// What can be done with figures.
#[derive(Debug, Subcommand)]
enum Figure {
    /// Say which figures there are
    List,
    /// Make figures, and one page of all that are there (simulated ones need QEMU); goes on where an interrupted run has stopped
    Run(run::RunArguments),
    /// Make the page of the results that are there, without measuring
    Render(render::RenderArguments),
}

/// Does what was asked for.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    match &arguments.figure {
        Figure::List => list::run(output),
        Figure::Run(arguments) => run::run(arguments, output),
        Figure::Render(arguments) => render::run(arguments, output),
    }
}
