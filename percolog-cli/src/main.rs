//! The `percolog` command: finds the cache line that stops a program from scaling.
//!
//! Bad input ends with one line and exit code 2; what is wrong with the machine or a run, with exit code 1.
//! `percolog sim` passes on the status of the program it ran, and ends with 3 if nothing of it was simulated.

mod advise;
mod args;
mod demo;
mod doctor;
mod sim;

use std::process::ExitCode;

use args::{Arguments, Command};
use percolog_cli::command_line::{self, Parsed};
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

fn main() -> ExitCode {
    let result = command_line::parse().and_then(|parsed| match parsed {
        Parsed::Run(arguments) => run(&arguments),
        Parsed::Explain(text) => Output::new(true, false).write(&text),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("percolog"),
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = Output::new(arguments.no_color, arguments.json);
    match &arguments.command {
        Command::Sim(sim) => sim::run(sim, &mut output),
        Command::Advise(arguments) => advise::run(arguments, &mut output),
        Command::Demo(arguments) => demo::run(arguments, &mut output),
        Command::DemoProgram(program) => demo::program::run(program, &mut output),
        Command::Doctor => doctor::run(&mut output),
    }
}
