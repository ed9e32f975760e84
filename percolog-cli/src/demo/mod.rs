//! `percolog demo`: what do you have, and what would percolog make of it on this machine?
//!
//! Each part is a contest: the structure the user has today first, what percolog offers, and the best-known crate
//! beside it. Parts are measured, shown and explained one after the other; the page is written at the end.

pub(crate) mod contest;
mod counters;
mod screen;
mod sets;
pub(crate) mod trace;

use std::time::Duration;

use percolog::cpu;
use percolog_bench::host::Host;
use serde::Serialize;

use crate::args::{self, Part};
use crate::failure::Failure;
use crate::output::Output;
use crate::report::destination::Destination;
use crate::report::{Machine, Report, Section, page};
use contest::{Contest, Plan};

/// How long one measurement lasts, unless the user says otherwise: as long as twenty seconds for all allow.
const CELL: Duration = Duration::from_millis(220);
/// Measurements behind each figure: enough for a median, few enough for twenty seconds.
const CELLS: usize = 3;
/// How long one lasts with `--quick`, which has one for each figure.
const QUICK_CELL: Duration = Duration::from_millis(20);

/// What `percolog demo --json` prints.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// Where the page is.
    file: String,
}

/// Measures, shows and writes what was asked for.
pub(crate) fn run(arguments: &args::Demo, output: &mut Output) -> Result<(), Failure> {
    let destination = Destination::choose(arguments.output.as_deref(), arguments.force)?;
    let host = Host::describe();
    let plan = Plan::new(arguments, host.cpus);
    let wanted = |part| arguments.only.is_none_or(|only| only == part);
    let mut contests: Vec<Contest> = Vec::new();
    if wanted(Part::Counters) {
        contests.push(counters::contest());
    }
    if wanted(Part::Sets) {
        contests.push(sets::reused_ids());
        contests.push(sets::fresh_ids());
    }
    if wanted(Part::Trace) {
        contests.push(trace::contest()?);
    }

    if !output.is_json() {
        let heading = screen::heading(output, &host, plan.most_threads());
        output.write(&heading)?;
    }
    let mut report = Report {
        title: "What percolog does for what you have",
        subject: String::new(),
        version: env!("CARGO_PKG_VERSION"),
        machine: machine(host),
        cell_milliseconds: plan.cell.as_millis() as u64,
        cells: plan.cells,
        sections: Vec::new(),
    };
    for contest in contests {
        let mut section = contest.run(&plan)?;
        if section.name == trace::NAME {
            trace::simulate(&mut section, arguments.quick)?;
        }
        if !output.is_json() {
            let text = screen::section(output, &section);
            output.write(&text)?;
        }
        report.sections.push(section);
    }

    let path = destination.write(&page::html(&report))?;
    if output.is_json() {
        output.data(&Written {
            report: &report,
            file: path.display().to_string(),
        })
    } else {
        let path = output.strong(&path.display().to_string());
        output.line(&format!("The report with charts: {path}"))
    }
}

/// A section as it is shown on the terminal.
pub(crate) fn show(output: &Output, section: &Section) -> String {
    screen::section(output, section)
}

/// The machine that is measured.
pub(crate) fn machine(host: Host) -> Machine {
    let clock = cpu::clock::health();
    Machine {
        processor: host.processor,
        cpus: host.cpus,
        platform: host.platform,
        slots: format!("{}, {}", cpu::count(), cpu::source()),
        clock: format!("{}, since {}", clock.source, clock.why),
    }
}
