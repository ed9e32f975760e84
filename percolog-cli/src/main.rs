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
use percolog_cli::command_line;
use percolog_cli::failure::Failure;

fn main() -> ExitCode {
    command_line::run(run)
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = arguments.presentation.output();
    match &arguments.command {
        Command::Sim(sim) => sim::run(sim, &mut output),
        Command::Advise(arguments) => advise::run(arguments, &mut output),
        Command::Demo(arguments) => demo::run(arguments, &mut output),
        Command::DemoProgram(program) => demo::program::run(program, &mut output),
        Command::Doctor => doctor::run(&mut output),
    }
}
