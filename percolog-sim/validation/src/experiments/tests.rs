//! Tests of the experiments with a laboratory that knows the formulas.

use std::cell::RefCell;

use super::*;
use crate::closed::{self, ClosedQueue, Reading};
use crate::locks::LockKind;
use crate::logs::ListKind;
use crate::requests::Counting;
use crate::rows::Value;
use crate::sharing::ReferenceKind;
use crate::stores::STORES;

/// Says what the formulas say.
#[derive(Default)]
struct Paper {
    asked: RefCell<Vec<(Machine, usize)>>,
}

impl Laboratory for Paper {
    type Error = std::convert::Infallible;

    fn measure(
        &mut self,
        machine: Machine,
        guest: Guest,
        shift: Shift,
    ) -> Result<Measured, Self::Error> {
        self.asked.borrow_mut().push((machine, shift.threads));
        let threads = shift.threads as u32;
        let wide = f64::from(threads);
        let queue = |think: f64, service: f64| ClosedQueue {
            think,
            service,
            servers: 1,
        };
        let round = match guest {
            Guest::Store(_) if threads == 1 => 150.0,
            Guest::Store(_) => 150.0 + closed::contended_store(threads, 182.0, 174.0, 150.0),
            Guest::Lock {
                kind,
                section,
                total,
            } => {
                let lock = closed::TicketLock {
                    between: (total - section) as f64,
                    section: section as f64,
                    response: 400.0,
                };
                let speedup = match kind {
                    LockKind::Ticket => lock.speedup(threads, Reading::Printed),
                    LockKind::Mcs => closed::amdahl(threads, 0.02),
                };
                total as f64 * wide / speedup
            }
            Guest::References { kind, work } => match kind {
                ReferenceKind::Locked => queue(work as f64, 1800.0).round(threads),
                ReferenceKind::Packed | ReferenceKind::Added => {
                    queue(work as f64, 600.0).round(threads)
                }
                ReferenceKind::Rows => work as f64 + 30.0,
            },
            Guest::Pushes { work, .. } => queue(work as f64, 400.0).round(threads),
            Guest::List { kind, .. } => match kind {
                ListKind::LockFree => 2000.0 + 1000.0 * wide * wide,
                ListKind::Thesis | ListKind::Basic => queue(2300.0, 300.0).round(threads),
                ListKind::Compact | ListKind::Batched => queue(2300.0, 100.0).round(threads),
                ListKind::Global => queue(2300.0, 250.0).round(threads),
                ListKind::Local => 2305.0,
            },
            Guest::Events { .. } | Guest::Cache { .. } => unreachable!("no experiment runs it"),
            Guest::Requests { counting, trip } => {
                let service = match counting {
                    Counting::Locked => 944.0,
                    Counting::Atomic | Counting::Exchanged => 596.0,
                    Counting::Packed => 298.0,
                    Counting::Padded => 0.001,
                };
                queue(trip as f64, service).round(threads)
            }
        };
        let round = match guest {
            Guest::Store(_) => round * STORES as f64,
            _ => round,
        };
        let cycles = shift.cycles * shift.threads as u64;
        let operations = ((cycles as f64 / round) as u64).max(1);
        Ok(Measured {
            work: Work {
                threads: shift.threads,
                operations,
                cycles,
                all: operations,
                later: None,
                rare: 0,
                p99: None,
            },
            waiting: match guest {
                Guest::References { work, .. } => queue(work as f64, 600.0).waiting(threads),
                _ => 0.35,
            },
        })
    }

    fn service(&self, _: Machine, request: Request, _: u32) -> Service {
        let busy = match request {
            Request::Read => 400.0,
            Request::Write => 174.0,
        };
        Service {
            latency: 182.0,
            busy,
        }
    }

    fn megahertz(&self, _: Machine) -> f64 {
        2400.0
    }
}

fn findings(experiment: Experiment, quick: bool) -> (Findings, Vec<(Machine, usize)>) {
    let mut laboratory = Paper::default();
    let Ok(findings) = experiment.run(&mut Bench {
        laboratory: &mut laboratory,
        quick,
    });
    (findings, laboratory.asked.into_inner())
}

fn row<'a>(findings: &'a Findings, what: &str, cores: Option<u32>) -> &'a Row {
    findings
        .rows
        .iter()
        .find(|row| row.what.starts_with(what) && row.cores == cores)
        .unwrap_or_else(|| panic!("no row {what:?} in {:?}", findings.rows))
}

#[test]
fn a_laboratory_that_knows_the_formulas_meets_them() {
    let (stores, _) = findings(Experiment::Stores, false);
    let all = row(&stores, "a store, 48", Some(48));
    assert!(all.holds() && all.given, "{all:?}");
    assert_eq!(all.closed, Some(Value::Cycles(48.0 * 174.0 - 150.0)));

    let (locks, _) = findings(Experiment::Locks, false);
    for what in [
        "ticket lock, section of 400 cycles: collapse",
        "ticket lock, section of 1600",
        "ticket lock, section of 25600",
        "MCS lock",
    ] {
        let row = row(&locks, what, None);
        assert!(row.holds(), "{row:?}");
    }
    assert!(
        locks
            .notes
            .iter()
            .any(|note| note.contains("as printed, s + ck, fits")),
        "{:?}",
        locks.notes
    );

    let (requests, asked) = findings(Experiment::Requests, false);
    assert!(requests.rows.iter().all(Row::holds), "{requests:?}");
    assert!(asked.iter().all(|(machine, _)| *machine == Machine::S85));

    let (pushes, _) = findings(Experiment::Pushes, false);
    assert!(row(&pushes, "waiting", Some(40)).given);
}

#[test]
fn a_list_without_a_peak_is_a_miss() {
    let (lists, _) = findings(Experiment::Lists, false);
    // The invented basic list saturates and does not fall.
    assert!(!row(&lists, "basic: peak", None).holds());
    assert!(row(&lists, "order", Some(48)).holds());
    assert!(row(&lists, "local: speedup", Some(48)).holds());
}

#[test]
fn quick_is_less_and_leaves_no_figure_out_but_one() {
    for experiment in Experiment::ALL {
        let (all, asked) = findings(experiment, false);
        let (quick, asked_quickly) = findings(experiment, true);
        let missing = usize::from(experiment == Experiment::Locks);
        assert_eq!(quick.rows.len() + missing, all.rows.len(), "{experiment:?}");
        assert!(asked_quickly.len() <= asked.len());
        assert!(asked.iter().all(|(_, threads)| (1..=48).contains(threads)));
    }
}
