//! Every state against a sequential model, before anything is measured.

use percolog_papers::replay::{self, Load, Progress};
use percolog_papers::subsystem::Implementation;
use serde::Serialize;

use super::failure;
use percolog_cli::failure::Failure;
use percolog_cli::format::{plural, threads, wrap};
use percolog_cli::output;

/// One implementation's states, compared with the model's.
#[derive(Serialize)]
pub(super) struct Checked {
    subsystem: &'static str,
    implementation: &'static str,
    threads: usize,
    comparisons: u64,
    entries_compared: u64,
}

/// Compares what each implementation holds, again and again, on one number of threads.
pub(super) fn run(
    load: &Load,
    made_of: &[Implementation],
    number: usize,
) -> Result<Vec<Checked>, Failure> {
    let mut checks = Vec::new();
    for &implementation in made_of {
        let bar = output::bar();
        bar.set_message(format!(
            "checking the {}, {implementation}, {}",
            load.subsystem().title(),
            threads(number)
        ));
        let checked = replay::check(load, implementation, number, &|progress: Progress| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        });
        bar.finish_and_clear();
        let report = checked.map_err(failure)?;
        checks.push(Checked {
            subsystem: load.subsystem().name(),
            implementation: implementation.name(),
            threads: number,
            comparisons: report.comparisons,
            entries_compared: report.entries_compared,
        });
    }
    Ok(checks)
}

/// What was compared, in a sentence.
pub(super) fn sentence(load: &Load, checks: &[Checked]) -> String {
    let (Some(first), entries) = (
        checks.first(),
        checks.iter().map(|check| check.entries_compared).sum(),
    ) else {
        return String::new();
    };
    let names: Vec<&str> = checks.iter().map(|check| check.implementation).collect();
    wrap(
        &format!(
            "{} on {}: {} compared at {} each, all as the sequential model has them ({}).",
            capital(load.subsystem().title()),
            threads(first.threads),
            plural(entries, "entry").replace("entrys", "entries"),
            plural(first.comparisons, "moment"),
            names.join(", "),
        ),
        "",
    )
}

/// `text` as a sentence begins.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
