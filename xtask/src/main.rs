//! What a developer of percolog runs: `cargo xtask ci`, `full`, `layers`, `mutate`, `lab`, `validate`, `lines`, `worst-lines`,
//! `tutorial`.
//!
//! Each command ends with an exit status of 0 only if nothing failed. What cannot run on this machine is skipped
//! loudly: it is named, counted, and the way to make it run is printed.

mod counts;
mod disturb;
mod full;
mod layers;
mod lines;
mod mutate;
mod process;
mod programs;
mod report;
mod steps;
mod toolchain;
mod tools;
mod tutorial;
mod workspace;
mod worst;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::report::Report;
use crate::steps::{Job, Step};
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
    /// Run what every change must pass.
    Ci(Options),
    /// Run everything there is, or a shard of it; what has passed and has not changed is not run again.
    Full {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        selection: full::Selection,
    },
    /// Build the laboratory's command, and run it.
    #[command(disable_help_flag = true)]
    Lab {
        /// What to tell it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Build what the simulator is validated with, and run it.
    #[command(disable_help_flag = true)]
    Validate {
        /// What to tell it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
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
        /// The mutations to try; all of them when left out.
        names: Vec<String>,
        /// Print the mutations, and try none.
        #[arg(long, conflicts_with = "names")]
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
        Command::Ci(options) => {
            let (tools, mut report) = prepare(&workspace, &options, false)?;
            for step in options.chosen(steps::all(&workspace.root, &[])) {
                if step.every_change {
                    step.run(&mut Job {
                        workspace: &workspace,
                        tools: &tools,
                        report: &mut report,
                        full: false,
                    });
                }
            }
            Ok(report.finish())
        }
        Command::Full { options, selection } => {
            let steps =
                options.chosen(steps::all(&workspace.root, &mutate::read(&workspace.root)?));
            if selection.show(&workspace, &steps)? {
                return Ok(true);
            }
            let (tools, mut report) = prepare(&workspace, &options, true)?;
            selection.run(&workspace, &tools, &mut report, &steps)?;
            Ok(report.finish())
        }
        Command::Lab { arguments } => programs::laboratory(&workspace, &arguments),
        Command::Validate { arguments } => programs::validation(&workspace, &arguments),
        Command::Layers => layers::command(&workspace),
        Command::Lines { markdown } => lines::command(&workspace, markdown),
        Command::Mutate {
            names,
            list,
            verbose,
        } => mutate::command(&workspace, &names, list, verbose),
        Command::Tutorial => tutorial::command(&workspace),
        Command::WorstLines { names, render } => worst::command(&workspace, &names, render),
    }
}

impl Options {
    /// The steps that were asked for.
    fn chosen(&self, mut steps: Vec<Step>) -> Vec<Step> {
        if let Some(text) = &self.only {
            steps.retain(|step| step.name.contains(text));
        }
        steps
    }
}

fn prepare(workspace: &Workspace, options: &Options, full: bool) -> Result<(Tools, Report)> {
    let tools = Tools::find(options.install, full)?;
    let logs = workspace.target.join("xtask").join("logs");
    let report = Report::new(logs, options.verbose)?;
    let report = if options.sweep {
        report.sweeping()
    } else {
        report
    };
    Ok((tools, report))
}
