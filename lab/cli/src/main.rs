//! The laboratory's command: the papers' figures, duels with other libraries, recorded programs replayed.
//!
//! Bad input ends with one line and exit code 2; what is wrong with the machine or a run, with exit code 1.

mod args;
mod bench;
mod contest;
mod figures;
mod numbers;
mod record;
mod replay;
mod report;
mod trace_info;
mod traces;

use std::process::ExitCode;

use args::{Arguments, Command};
use percolog_cli::command_line;
use percolog_cli::failure::Failure;

fn main() -> ExitCode {
    command_line::run(run)
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = arguments.presentation.output();
    match &arguments.command {
        Command::Figures(figures) => figures::run(figures, &mut output),
        Command::Bench(bench) => bench::run(bench, &mut output),
        Command::Record(record) => record::run(record, &mut output),
        Command::Replay(replay) => replay::run(replay, &mut output),
        Command::Trace(trace) => trace_info::run(trace, &mut output),
    }
}
