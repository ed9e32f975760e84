//! One subsystem's implementations on real threads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use percolog_cli::failure::Failure;
use percolog_papers::replay::{self, Load};
use percolog_papers::subsystem::{Implementation, Subsystem};
use serde::Serialize;

use super::failure;
use crate::contest::{Contest, Contestant, Plan};
use crate::report::{Role, Section, Unit};

/// Measurements behind each figure, where every thread has a CPU.
pub(super) const CELLS: usize = 3;

/// What was measured.
pub(super) struct Measured {
    pub(super) section: Section,
    pub(super) logs: Vec<Logs>,
}

/// What the logs of an implementation did in one pass through the trace.
#[derive(Clone, Serialize)]
pub(super) struct Logs {
    pub(super) implementation: &'static str,
    /// On so many threads.
    pub(super) threads: usize,
    /// Operations that were carried out on the shared structure.
    pub(super) carried_out: u64,
    /// Operations that cancelled before.
    pub(super) absorbed: u64,
    /// Times that logs were brought together.
    pub(super) merges: u64,
    /// Times that an updater did it, because its log was full.
    pub(super) merges_by_updaters: u64,
}

/// Times every implementation on every number of threads.
pub(super) fn run(
    load: &Arc<Load>,
    made_of: &[Implementation],
    threads: &[usize],
    cell: Duration,
    work: u64,
    cpus: usize,
) -> Result<Measured, Failure> {
    let logs: Rc<RefCell<BTreeMap<(Implementation, usize), Logs>>> = Rc::default();
    let contestants = made_of
        .iter()
        .map(|&implementation| {
            let (load, logs) = (Arc::clone(load), Rc::clone(&logs));
            Contestant {
                name: implementation.name(),
                role: role(implementation, made_of),
                measure: Box::new(move |settings| {
                    let settings = replay::Settings {
                        threads: settings.threads,
                        budget: settings.duration,
                        work,
                    };
                    let report =
                        replay::time(&load, implementation, &settings, &|_| ()).map_err(failure)?;
                    if let Some(did) = report.statistics {
                        logs.borrow_mut().insert(
                            (implementation, report.threads),
                            Logs {
                                implementation: implementation.name(),
                                threads: report.threads,
                                carried_out: did.executed,
                                absorbed: did.absorbed,
                                merges: did.merges,
                                merges_by_updaters: did.updater_merges,
                            },
                        );
                    }
                    Ok(report.median_events_per_second() * calls_an_event(&load))
                }),
            }
        })
        .collect();
    let contest = Contest {
        name: load.subsystem().name(),
        title: load.subsystem().title(),
        workload: workload(load.subsystem()),
        unit: Unit::millions("millions of updates and reads a second"),
        contestants,
    };
    let mut threads = threads.to_vec();
    threads.push(1);
    threads.sort_unstable();
    threads.dedup();
    let section = contest.run(&Plan {
        threads,
        cell,
        cells: CELLS,
        cpus,
    })?;
    let logs = logs.borrow().values().cloned().collect();
    Ok(Measured { section, logs })
}

/// How many updates and reads an event of the trace comes to.
fn calls_an_event(load: &Load) -> f64 {
    (load.updates() + load.reads()) as f64 / load.events().max(1) as f64
}

/// Whose an implementation is. The best of percolog's is the one that absorbs, where there is one.
fn role(implementation: Implementation, among: &[Implementation]) -> Role {
    match implementation {
        Implementation::Mutex => Role::Today,
        Implementation::OplogAbsorb => Role::Best,
        Implementation::Oplog if among.contains(&Implementation::OplogAbsorb) => Role::Plain,
        Implementation::Oplog => Role::Best,
        // Other logs of percolog's: a colour of their own would say which is the best before anybody has measured.
        Implementation::LduGlobal | Implementation::LduPerCore => Role::Plain,
        _ => Role::Peer,
    }
}

fn workload(subsystem: Subsystem) -> &'static str {
    match subsystem {
        Subsystem::Files => {
            "Which process maps which part of a file: updated at every fork, exec, mmap and exit, read when a file is cut."
        }
        Subsystem::Memory => {
            "Which process maps which part of memory that was forked: updated at every fork, mmap and exit, read when a page is \
             taken away."
        }
        Subsystem::Names => {
            "How often a name of a file is in use: counted at every lookup, open and close, read when a file is renamed or removed."
        }
        Subsystem::OpenFiles => {
            "Which files are open: updated at every open and last close, read when a file system is taken away."
        }
        Subsystem::Events => {
            "What somebody who watches the file system is told: appended at every open, close, create, rename and removal, read when \
             the watcher asks."
        }
    }
}
