//! What the user typed, and one clear line when it cannot be understood.

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;
use clap::{ColorChoice, Parser};

use crate::failure::Failure;

/// What is to be done after the arguments have been read.
#[derive(Debug)]
pub enum Parsed<A> {
    /// Run the command.
    Run(A),
    /// Print the help or the version that was asked for.
    Explain(String),
}

/// Reads the arguments of this process.
///
/// # Errors
/// They cannot be understood; the line ends with the help to look at.
pub fn parse<A: Parser>() -> Result<Parsed<A>, Failure> {
    parse_from(std::env::args_os().collect())
}

/// Reads `typed`, which begins with the name of the command.
///
/// # Errors
/// It cannot be understood; the line ends with the help to look at.
pub fn parse_from<A: Parser>(typed: Vec<OsString>) -> Result<Parsed<A>, Failure> {
    let no_color = typed.iter().any(|argument| argument == "--no-color");
    let command = A::command().color(if no_color {
        ColorChoice::Never
    } else {
        ColorChoice::Auto
    });
    let way_out = way_out(&command, &typed);
    let parsed = command
        .try_get_matches_from(typed)
        .and_then(|matches| A::from_arg_matches(&matches));
    match parsed {
        Ok(arguments) => Ok(Parsed::Run(arguments)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Ok(Parsed::Explain(error.to_string()))
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                Err(Failure::Input(format!(
                    "a command is missing; see `{way_out}`"
                )))
            }
            _ => Err(Failure::Input(format!(
                "{}; see `{way_out}`",
                one_line(&error.to_string())
            ))),
        },
    }
}

/// The help to look at: that of the deepest command the user named rightly.
fn way_out(command: &clap::Command, typed: &[OsString]) -> String {
    let mut at = command;
    let mut name = command.get_name().to_owned();
    // Behind `--` stands another program's command line.
    let ours = typed.iter().take_while(|argument| *argument != "--");
    for argument in ours.skip(1) {
        if let Some(inner) = named(at, argument) {
            name = format!("{name} {}", inner.get_name());
            at = inner;
        }
    }
    format!("{name} --help")
}

fn named<'a>(command: &'a clap::Command, argument: &OsStr) -> Option<&'a clap::Command> {
    command.find_subcommand(argument)
}

/// What a message of several paragraphs says, on one line: without the usage and the pointer to the help.
fn one_line(message: &str) -> String {
    let mut line = String::new();
    for part in message
        .lines()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more information"))
    {
        let part = part.strip_prefix("error: ").unwrap_or(part);
        let part = part.strip_prefix("tip: ").unwrap_or(part);
        if line.ends_with(':') || part.starts_with('[') {
            line.push(' ');
        } else if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(part);
    }
    line
}
