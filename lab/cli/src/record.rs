//! `lab record`: a trace of a command and all its processes.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use clap::ValueEnum;
use percolog_cli::failure::Failure;
use percolog_cli::format::{plural, wrap};
use percolog_cli::output::{Output, WIDTH};
use percolog_papers::trace::{self, Misread, NotUnderstood, RecordError, Request};
use serde::Serialize;

/// Arguments of `lab record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the trace goes
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    /// What the command builds or runs, for people who read the trace later
    #[arg(long, value_name = "NAME", default_value = "")]
    package: String,

    /// Tell the files' names: `all` with their whole paths, or `system` the last name of those that belong
    /// to the operating system; a hash that nothing can be guessed from stands for all others
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "all")]
    names: Names,

    /// The command to record, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How much a trace tells of the files' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Names {
    /// A hash for each
    None,
    /// The last name of those of the operating system
    System,
    /// Whole paths
    All,
}

impl From<Names> for percolog_papers::trace::Names {
    fn from(names: Names) -> Self {
        match names {
            Names::None => Self::None,
            Names::System => Self::System,
            Names::All => Self::All,
        }
    }
}

/// What `lab record --json` prints.
#[derive(Serialize)]
struct Recorded {
    output: String,
    bytes: u64,
    events: u64,
    tasks: u32,
    /// The command's, as a shell tells it: 128 and the signal's number if it was killed.
    exit_code: u8,
    lines_not_understood: u64,
    first_not_understood: Vec<Line>,
}

/// A line of strace's that was not understood.
#[derive(Serialize)]
struct Line {
    line: u64,
    text: String,
    why: &'static str,
}

/// Records a command with all its processes.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    // Ctrl-C is for the recorded command; strace ends with it, and what it saw so far is the recording.
    ctrlc::set_handler(|| {})
        .map_err(|error| Failure::Work(format!("cannot prepare for Ctrl-C: {error}")))?;
    let recorded = trace::record(&Request {
        command: &arguments.command,
        output: &arguments.output,
        force: arguments.force,
        package: &arguments.package,
        names: arguments.names.into(),
    })
    .map_err(failure)?;
    let events = recorded.trace.events().len() as u64;
    let tasks = recorded.trace.header().tasks;
    let exit_code = exit_code(recorded.status);
    if output.is_json() {
        output.data(&Recorded {
            output: arguments.output.display().to_string(),
            bytes: recorded.bytes,
            events,
            tasks,
            exit_code,
            lines_not_understood: recorded.not_understood.lines,
            first_not_understood: recorded
                .not_understood
                .first
                .into_iter()
                .map(|Misread { line, text, why }| Line { line, text, why })
                .collect(),
        })?;
    } else {
        if let Some(line) = told(&recorded.not_understood) {
            output.line(&line)?;
        }
        if let Some(signal) = recorded.status.signal() {
            output.line(&format!("The command was killed by signal {signal}."))?;
        } else if exit_code != 0 {
            output.line(&format!("The command failed with exit code {exit_code}."))?;
        }
        let text = format!(
            "{} of {} are in {} ({} bytes).",
            plural(events, "event"),
            // English, and the only plural of its kind here.
            match tasks {
                1 => "1 process".to_owned(),
                tasks => format!("{tasks} processes and threads"),
            },
            arguments.output.display(),
            recorded.bytes
        );
        output.line(&wrap(&text, ""))?;
    }
    match exit_code {
        0 => Ok(()),
        code => Err(Failure::Guest(code)),
    }
}

/// How a recording that did not come about is reported.
fn failure(error: RecordError) -> Failure {
    let line = error.to_string();
    match error {
        RecordError::NoCommand
        | RecordError::NoSuchProgram(_)
        | RecordError::StraceMissing
        | RecordError::OutputExists(_)
        | RecordError::Output { .. } => Failure::Input(line),
        _ => Failure::Work(line),
    }
}

/// A command's exit code as a shell tells it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(1)
}

/// One line on what was not understood; `None` when there is nothing to say.
fn told(not_understood: &NotUnderstood) -> Option<String> {
    let Misread { line, text, why } = not_understood.first.first()?;
    let said = format!(
        "{} of strace's not understood; the first is {line} ({why}): ",
        plural(not_understood.lines, "line"),
    );
    let room = WIDTH.saturating_sub(said.chars().count());
    // The process and the time come first, and say nothing here. What a program printed may hold anything; a terminal is to
    // see none of it but text.
    let text: String = text
        .splitn(3, ' ')
        .last()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    Some(if text.chars().count() <= room {
        said + &text
    } else {
        said + &text
            .chars()
            .take(room.saturating_sub(1))
            .collect::<String>()
            + "…"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_a_shells() {
        for (wait_status, code) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (2, 130), (9, 137)] {
            assert_eq!(exit_code(ExitStatus::from_raw(wait_status)), code);
        }
    }

    #[test]
    fn what_was_not_understood_is_one_narrow_line() {
        assert_eq!(told(&NotUnderstood::default()), None);
        for text in ["x".repeat(500), "a\u{1b}[31m\nb".to_owned()] {
            let line = told(&NotUnderstood {
                lines: 2,
                first: vec![Misread {
                    line: 7,
                    text,
                    why: "no call",
                }],
            })
            .expect("a line");
            assert!(
                line.starts_with("2 lines of strace's not understood; the first is 7 (no call): ")
            );
            assert!(
                line.chars().count() <= WIDTH && !line.chars().any(char::is_control),
                "{line}"
            );
        }
    }
}
