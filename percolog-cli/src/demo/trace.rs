//! You run programs: a recorded build through the kernel's reverse map.

use std::sync::Arc;

use percolog_papers::replay;
use percolog_papers::subsystem::{Implementation, Subsystem};

use super::contest::{Contest, Contestant, as_many};
use crate::failure::Failure;
use crate::format;
use crate::replay::measure::calls_an_event;
use crate::replay::simulate::{self, Machine};
use crate::replay::{Source, failure};
use crate::report::{Headline, Role, Section, Unit};

/// What the reverse map is made of.
pub(crate) const IMPLEMENTATIONS: [Implementation; 3] = [
    Implementation::Mutex,
    Implementation::Oplog,
    Implementation::OplogAbsorb,
];

/// What the section is called.
pub(crate) const NAME: &str = "trace";

/// The machine that is simulated.
const MACHINE: &str = "opteron-48";
/// So many events are simulated: enough for every core to have some, few enough for a few seconds.
const EVENTS: u64 = 5000;
/// With `--quick`.
const FEW_EVENTS: u64 = 500;

/// The contest of the reverse maps on the built-in trace.
pub(crate) fn contest() -> Result<Contest, Failure> {
    let load = Arc::new(Source::built_in(None)?.load(Subsystem::Files));
    Ok(Contest {
        name: NAME,
        title: "You have a program: a recorded run through the reverse map",
        workload: "Which process maps which part of a file: an operating system updates that map at every fork, exec, mmap and \
                   exit, and reads it only when a file is cut. The threads share out the processes of a recorded run and replay \
                   what they did.",
        unit: Unit::millions("millions of updates and reads a second"),
        contestants: [
            (Implementation::Mutex, "Mutex", Role::Today),
            (Implementation::Oplog, "Logged", Role::Plain),
            (
                Implementation::OplogAbsorb,
                "Logged with absorption",
                Role::Best,
            ),
        ]
        .into_iter()
        .map(|(implementation, name, role)| {
            let load = Arc::clone(&load);
            Contestant {
                name,
                role,
                measure: Box::new(move |settings| {
                    let report = replay::time(
                        &load,
                        implementation,
                        &replay::Settings {
                            threads: settings.threads,
                            budget: settings.duration,
                            work: 0,
                        },
                        &|_| (),
                    )
                    .map_err(failure)?;
                    Ok(report.events_per_second() * calls_an_event(&load))
                }),
            }
        })
        .collect(),
        explain,
        without_more_threads_than_cpus: false,
    })
}

/// Adds what the simulator says of a machine with many cores, if it can run here; else why it cannot.
pub(crate) fn simulate(section: &mut Section, quick: bool) -> Result<(), Failure> {
    if let Err(error) = percolog_sim::run::available() {
        section.findings.push(format!(
            "How it would be on 48 cores, the simulator could tell: {error}."
        ));
        return Ok(());
    }
    let events = if quick { FEW_EVENTS } else { EVENTS };
    let source = Source::built_in(Some(events))?;
    let load = source.load(Subsystem::Files);
    let machine = Machine::find(MACHINE, &[])?;
    let moved = simulate::run(&source, &load, &IMPLEMENTATIONS, &machine, section)?;
    if let (Some(column), [mutex, .., best]) = (section.simulated_column(), moved.as_slice()) {
        section.findings.push(format!(
            "Simulated, not measured: on {} of {MACHINE} the first {events} events go {} as fast with absorption as behind the \
             mutex. Each update moves {} cache lines from core to core behind the mutex, {} with absorption.",
            section.columns[column].size(),
            format::ratio(section.ratio(ABSORBING, column)),
            format::number(mutex.transfers_per_update),
            format::number(best.transfers_per_update),
        ));
    }
    Ok(())
}

const LOGGED: usize = 1;
const ABSORBING: usize = 2;

fn explain(section: &Section, column: usize) -> (Option<Headline>, Vec<String>) {
    let threads = section.columns[column].size();
    let ratio = section.ratio(ABSORBING, column);
    let mut findings = vec![format!(
        "On {threads}, the logged map with absorption takes {} updates as the one behind a mutex; without absorption, {}.",
        as_many(ratio),
        as_many(section.ratio(LOGGED, column)),
    )];
    if column != 0 {
        findings.push(format!(
            "Alone on one thread, with nobody to fight with, it takes {} with absorption and {} without.",
            as_many(section.ratio(ABSORBING, 0)),
            as_many(section.ratio(LOGGED, 0)),
        ));
    }
    findings.push(if ratio >= 1.05 {
        "Most mappings live shortly: what absorbs never reaches the shared map, so there is less to do, not only less to \
         fight over."
            .to_owned()
    } else {
        "So few threads do not fight enough over these maps for a log to pay here."
            .to_owned()
    });
    let headline = Headline {
        ratio,
        caption: format!(
            "recorded updates a second on {threads}: Logged with absorption instead of a Mutex"
        ),
        role: Role::Best,
    };
    (Some(headline), findings)
}
