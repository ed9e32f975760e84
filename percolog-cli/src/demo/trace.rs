//! You run programs: a recorded build through the kernel's reverse map.

use std::sync::Arc;

use percolog_papers::replay::{self, Structure};
use percolog_papers::trace::Trace;

use super::contest::{Contest, Contestant, as_many};
use crate::format;
use crate::report::{Headline, Role, Section, Unit};
use crate::traces::replay_failure;

/// The contest of the reverse maps on a trace.
pub(crate) fn contest(trace: Arc<Trace>) -> Contest {
    Contest {
        name: "trace",
        title: "You have a program: a recorded run through the reverse map",
        workload: "Which process maps which part of a file: an operating system updates that map at every fork, exec, mmap and \
                   exit, and reads it only when a file is cut. The threads share out the processes of a recorded run and replay \
                   what they did.",
        unit: Unit::millions("millions of recorded events a second"),
        contestants: [
            (Structure::Mutex, "Mutex", Role::Today),
            (Structure::Logged, "Logged", Role::Plain),
            (
                Structure::LoggedAbsorbing,
                "Logged with absorption",
                Role::Best,
            ),
        ]
        .into_iter()
        .map(|(structure, name, role)| {
            let trace = Arc::clone(&trace);
            Contestant {
                name,
                role,
                measure: Box::new(move |settings| {
                    let report = replay::time(
                        &trace,
                        structure,
                        settings.threads,
                        settings.duration,
                        &|_| (),
                    )
                    .map_err(replay_failure)?;
                    Ok(report.events_per_second())
                }),
            }
        })
        .collect(),
        explain,
        without_more_threads_than_cpus: false,
    }
}

const LOGGED: usize = 1;
const ABSORBING: usize = 2;

fn explain(section: &Section, column: usize) -> (Option<Headline>, Vec<String>) {
    let threads = format::threads(section.threads[column]);
    let ratio = section.ratio(ABSORBING, column);
    let mut findings = vec![format!(
        "On {threads}, the logged map with absorption takes {} events as the one behind a mutex; without absorption, {}.",
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
            "recorded events a second on {threads}: Logged with absorption instead of a Mutex"
        ),
        role: Role::Best,
    };
    (Some(headline), findings)
}
