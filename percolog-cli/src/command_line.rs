//! What every command does: reads its arguments, works, and ends with one clear line and an exit code when something is wrong.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, Parser};

use crate::failure::Failure;
use crate::output::Output;

/// How a command presents what it prints: arguments that all commands have.
#[derive(Debug, Default, clap::Args)]
pub struct Presentation {
    /// Print data as JSON instead of text
    #[arg(long, global = true)]
    json: bool,

    /// Print without colours (also: NO_COLOR in the environment)
    #[arg(long, global = true)]
    no_color: bool,
}

impl Presentation {
    /// Returns standard output as these arguments ask for it.
    pub fn output(&self) -> Output {
        Output::new(self.no_color, self.json)
    }
}

/// The main function of a command: reads its arguments and does the `work`, or prints the help or the version that was asked for.
///
/// A failure is printed as one line behind the name of the command, and decides the exit code.
pub fn run<A: Parser>(work: impl FnOnce(&A) -> Result<(), Failure>) -> ExitCode {
    let result = parse_from(std::env::args_os().collect()).and_then(|parsed| match parsed {
        Parsed::Run(arguments) => work(&arguments),
        Parsed::Explain(text) => Output::new(true, false).write(&text),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(A::command().get_name()),
    }
}

/// What is to be done after the arguments have been read.
#[derive(Debug)]
pub enum Parsed<A> {
    /// Run the command.
    Run(A),
    /// Print the help or the version that was asked for.
    Explain(String),
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
    let deepest = deepest(&command, &typed);
    let way_out = format!("{} --help", deepest.name);
    let behind = takes_a_program(deepest.command).then(|| deepest.name.clone());
    let parsed = command
        .clone()
        .try_get_matches_from(&typed)
        .and_then(|matches| A::from_arg_matches(&matches));
    match parsed {
        Ok(arguments) => Ok(Parsed::Run(arguments)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Ok(Parsed::Explain(with_braces(&error.to_string())))
            }
            // Whoever types the name alone wants to know what there is.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if typed.len() <= 1 => {
                Ok(Parsed::Explain(with_braces(&error.to_string())))
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                Err(Failure::Input(format!(
                    "a command is missing; see `{way_out}`"
                )))
            }
            _ => match behind.and_then(|name| program_without_dashes(&name, &error, &typed)) {
                Some(line) => Err(Failure::Input(line)),
                None => Err(Failure::Input(format!(
                    "{}; see `{way_out}`",
                    one_line(&with_braces(&error.to_string()))
                ))),
            },
        },
    }
}

/// What stands for braces in the text of a help: clap would take `{n}` for a line break.
const BRACES: [(char, char); 2] = [('⦃', '{'), ('⦄', '}')];

/// A help as it is shown.
fn with_braces(help: &str) -> String {
    BRACES
        .into_iter()
        .fold(help.to_owned(), |help, (written, shown)| {
            help.replace(written, &shown.to_string())
        })
}

/// The deepest command that the user named rightly.
struct Deepest<'a> {
    command: &'a clap::Command,
    /// With those above it.
    name: String,
}

fn deepest<'a>(command: &'a clap::Command, typed: &[OsString]) -> Deepest<'a> {
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
    Deepest { command: at, name }
}

/// Whether a program stands behind the `--` of this command.
fn takes_a_program(command: &clap::Command) -> bool {
    command.get_positionals().any(clap::Arg::is_last_set)
}

/// What to type, if the error is that a program was named without the `--` in front of it.
fn program_without_dashes(name: &str, error: &clap::Error, typed: &[OsString]) -> Option<String> {
    if typed.iter().any(|argument| argument == "--")
        || error.get(ContextKind::SuggestedSubcommand).is_some()
    {
        return None;
    }
    let wrong = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(program)) = error.get(wrong) else {
        return None;
    };
    if program.starts_with('-') {
        return None;
    }
    let at = typed
        .iter()
        .position(|argument| argument.to_str() == Some(program))?;
    let words: Vec<String> = typed[..at]
        .iter()
        .skip(1)
        .map(|word| quoted(word))
        .chain(["--".to_owned()])
        .chain(typed[at..].iter().map(|word| quoted(word)))
        .collect();
    let root = name.split(' ').next().unwrap_or(name);
    Some(format!(
        "the program to run, {}, stands behind `--`; type `{root} {}`",
        quoted(OsStr::new(program)),
        words.join(" ")
    ))
}

/// A word as a shell reads it.
pub fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./=:,+@%{}".contains(sign);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
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
