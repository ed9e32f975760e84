//! The `percolog` command: what per-core logs do to structures that threads fight over, on this machine.
//!
//! Bad input ends with one line and exit code 2; what is wrong with the machine or a run, with exit code 1.
//! `percolog sim` passes on the status of the program it ran, and ends with 3 if nothing of it was simulated.

mod advise;
mod args;
mod bench;
mod demo;
mod doctor;
mod failure;
mod figures;
mod format;
mod output;
mod record;
mod replay;
mod report;
mod sim;
mod trace_info;
mod traces;

use std::process::ExitCode;

use args::{Arguments, Command};
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    let result = args::parse().and_then(|parsed| match parsed {
        args::Parsed::Run(arguments) => run(&arguments),
        args::Parsed::Explain(text) => Output::new(true, false).write(&text),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = Output::new(arguments.no_color, arguments.json);
    match &arguments.command {
        Command::Demo(demo) => demo::run(demo, &mut output),
        Command::Doctor => doctor::run(&mut output),
        Command::Replay(replay) => replay::run(replay, &mut output),
        Command::ReplayGuest(guest) => replay::run_guest(guest, &mut output),
        Command::Figures(figures) => figures::run(figures, &mut output),
        Command::Bench(bench) => bench::run(bench, &mut output),
        Command::FiguresCell(cell) => figures::run_cell(cell, &mut output),
        Command::Record(record) => record::run(record, &mut output),
        Command::Trace(trace) => trace_info::run(trace, &mut output),
        Command::Sim(sim) => sim::run(sim, &mut output),
        Command::Advise(arguments) => advise::run(arguments, &mut output),
    }
}
