//! How the command ends when something is wrong: one clear line and an exit code.

use std::io;
use std::process::ExitCode;

use crate::terminal::complain;

/// Why the command did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// The input is wrong; the line says how to put it right.
    Input(String),
    /// The input was right, but the work failed.
    Work(String),
    /// What was asked for has been printed, and it is bad news.
    Unhealthy,
    /// There are no figures, for nothing was simulated that they could be about.
    NothingSimulated(String),
    /// The program that was run ended with this status; the report says so.
    Guest(u8),
    /// The output could not be written.
    Output(io::Error),
}

impl Failure {
    /// Prints the one line after the name of the `command`, if there is one to print, and gives the exit code.
    pub fn report(self, command: &str) -> ExitCode {
        let (line, code) = match self {
            Self::Input(line) => (line, 2),
            Self::Work(line) => (line, 1),
            Self::NothingSimulated(line) => (line, 3),
            Self::Unhealthy => return ExitCode::from(1),
            Self::Guest(status) => return ExitCode::from(status),
            // Whoever read our output has seen enough (`percolog doctor | head`): no reason to complain.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Self::Output(error) => (format!("cannot write the output: {error}"), 1),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        complain(&format!("{command}: {}", words.join(" ")));
        ExitCode::from(code)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
