//! What a developer of percolog runs: `cargo xtask test`, `ci`, `floors`, `lines`, `mutate`, `worst-lines`,
//! `tutorial`.
//!
//! Each command ends with an exit status of 0 only if nothing failed. What cannot run on this machine is skipped
//! loudly: it is named, counted, and the way to make it run is printed.

mod ci;
mod counts;
mod layers;
mod lines;
mod mutate;
mod process;
mod report;
mod test;
mod toolchain;
mod tools;
mod tutorial;
mod workspace;
mod worst;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::report::Report;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// What a developer of percolog runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every test there is, with each way of finding slots and on each C library.
    Test(Options),
    /// Run every check, the sanitizers, every test, then as many mutations as there is time for.
    Ci {
        #[command(flatten)]
        options: Options,
        /// After how many minutes to begin no further mutation; everything else runs to its end.
        #[arg(long, value_name = "N", default_value_t = 90)]
        minutes: u64,
    },
    /// Check which modules and crates depend on which.
    Layers,
    /// Count what structures for each core take, by hand and with logs.
    Lines {
        /// Print the table for a Markdown page.
        #[arg(long)]
        markdown: bool,
    },
    /// Break one promise at a time, and see that the tests notice.
    Mutate {
        /// The mutation to try; all of them when left out.
        name: Option<String>,
        /// Print the mutations, and try none.
        #[arg(long, conflicts_with = "name")]
        list: bool,
        /// Print what the tests print.
        #[arg(long)]
        verbose: bool,
    },
    /// Run ten programs that nobody here wrote under the simulator, and write a page about their worst lines.
    WorstLines {
        /// The programs to run; all of them when left out.
        names: Vec<String>,
        /// Run none, and make the page of what earlier runs have left.
        #[arg(long, conflicts_with = "names")]
        render: bool,
    },
    /// Run the tutorial's program on machines of many sizes, and make the tutorial's pictures.
    Tutorial,
}

/// Options of the commands that run many steps.
#[derive(clap::Args)]
struct Options {
    /// Install missing tools through apt (as root, or through sudo without a password).
    #[arg(long)]
    install: bool,
    /// Print the output of every step, not only of those that fail.
    #[arg(long)]
    verbose: bool,
    /// Run only the steps whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Leave out the step of this name, which was run before; may be given several times.
    #[arg(long, value_name = "NAME")]
    except: Vec<String>,
    /// Remove what a step has built in a folder of its own once it is done: for a disk with little space.
    #[arg(long)]
    sweep: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether everything that ran passed; an error means that it could not be found out.
fn run(command: Command) -> Result<bool> {
    let workspace = Workspace::find()?;
    match command {
        Command::Test(options) => {
            let (tools, mut report) = prepare(&workspace, &options)?;
            test::run(&workspace, &tools, &mut report);
            Ok(report.finish())
        }
        Command::Ci { options, minutes } => {
            let (tools, mut report) = prepare(&workspace, &options)?;
            let time = Duration::from_secs(minutes * 60);
            ci::run(&workspace, &tools, time, &mut report);
            Ok(report.finish())
        }
        Command::Layers => layers::command(&workspace),
        Command::Lines { markdown } => lines::command(&workspace, markdown),
        Command::Mutate {
            name,
            list,
            verbose,
        } => mutate::command(&workspace, name.as_deref(), list, verbose),
        Command::Tutorial => tutorial::command(&workspace),
        Command::WorstLines { names, render } => worst::command(&workspace, &names, render),
    }
}

fn prepare(workspace: &Workspace, options: &Options) -> Result<(Tools, Report)> {
    let tools = Tools::find(options.install)?;
    let report = Report::new(
        workspace.target.join("xtask").join("logs"),
        options.verbose,
        options.only.clone(),
        options.except.clone(),
    )?;
    let report = if options.sweep {
        report.sweeping()
    } else {
        report
    };
    Ok((tools, report))
}
