//! You have a set behind a `Mutex`: where absorption helps, and where it does not.

use percolog_bench::sets::{Load, Pattern, SetKind};

use super::contest::{Contest, Contestant, as_many, nanoseconds};
use crate::report::{Headline, Role, Section, Unit};

/// The contest on ids that come back.
pub(crate) fn reused_ids() -> Contest {
    Contest {
        name: "sets",
        title: "You have a set behind a Mutex",
        workload: "Connections open and close: every thread adds and removes ids, which are reused as file descriptors \
                   are. Most are open for a short time, some for long, 10,000 always. Nobody reads before the end; the \
                   final merge counts.",
        unit: Unit::millions("millions of adds and removes a second"),
        contestants: contestants(
            Pattern::Connections,
            &[
                (SetKind::Mutex, Role::Today),
                (SetKind::Logged, Role::Plain),
                (SetKind::Absorbing, Role::Best),
                (SetKind::Dash, Role::Peer),
            ],
        ),
        explain: explain_reused,
        without_more_threads_than_cpus: false,
    }
}

/// The contest on ids that never come back, which a log loses.
pub(crate) fn fresh_ids() -> Contest {
    Contest {
        name: "sets-fresh-ids",
        title: "The same set, but every id is new",
        workload: "Ids are spread over 64 bits and are removed 1024 changes after they were added: no queue ever holds both, \
                   so nothing absorbs, and every change has to be executed by one core in the end.",
        unit: Unit::millions("millions of adds and removes a second"),
        contestants: contestants(
            Pattern::FreshIds,
            &[
                (SetKind::Mutex, Role::Today),
                (SetKind::Logged, Role::Plain),
                (SetKind::Dash, Role::Peer),
            ],
        ),
        explain: explain_fresh,
        without_more_threads_than_cpus: true,
    }
}

fn contestants(pattern: Pattern, kinds: &[(SetKind, Role)]) -> Vec<Contestant> {
    kinds
        .iter()
        .map(|&(kind, role)| Contestant {
            name: kind.name(),
            role,
            measure: Box::new(move |settings| {
                Ok(kind
                    .run(settings.into(), Load::updates_only(pattern))?
                    .rate())
            }),
        })
        .collect()
}

/// The places of the contestants. On fresh ids there is nothing to absorb, and one contestant less.
const TODAY: usize = 0;
const LOGGED: usize = 1;
const ABSORBING: usize = 2;
const DASH: usize = 3;
const FRESH_DASH: usize = 2;

fn explain_reused(section: &Section, column: usize) -> (Option<Headline>, Vec<String>) {
    let threads = section.columns[column].size();
    let ratio = section.ratio(ABSORBING, column);
    let mut findings = vec![format!(
        "On {threads}, Logged with absorption takes {} changes as the mutex; without absorption, {}.",
        as_many(ratio),
        as_many(section.ratio(LOGGED, column)),
    )];
    if column != 0 {
        findings.push(format!(
            "Alone on one thread a change takes {} with the mutex, {} logged and {} absorbed.",
            nanoseconds(section.rate(TODAY, 0)),
            nanoseconds(section.rate(LOGGED, 0)),
            nanoseconds(section.rate(ABSORBING, 0)),
        ));
    }
    let best = section
        .rate(LOGGED, column)
        .max(section.rate(ABSORBING, column));
    findings.push(beside_dashset(
        section,
        column,
        section.rate(DASH, column) / best,
        "the better of the two logs",
    ));
    let headline = Headline {
        ratio,
        caption: format!(
            "changes a second on {threads}: Logged with absorption instead of a Mutex"
        ),
        role: Role::Best,
    };
    (Some(headline), findings)
}

fn explain_fresh(section: &Section, column: usize) -> (Option<Headline>, Vec<String>) {
    let threads = section.columns[column].size();
    let findings = vec![
        format!(
            "On {threads}, Logged takes {} changes as the mutex; absorption would find nothing to absorb.",
            as_many(section.ratio(LOGGED, column)),
        ),
        beside_dashset(
            section,
            column,
            section.rate(FRESH_DASH, column) / section.rate(LOGGED, column),
            "the log",
        ),
        "A log cannot execute such a stream faster than one core does. Use it for short updates and one view of the \
         whole; for throughput use DashSet."
            .to_owned(),
    ];
    let headline = Headline {
        ratio: section.rate(FRESH_DASH, column) / section.rate(LOGGED, column),
        caption: format!(
            "changes a second on {threads} if every id is new: DashSet instead of Logged"
        ),
        role: Role::Peer,
    };
    (Some(headline), findings)
}

/// Where the set that answers every call stands. It keeps no order and offers no view of one instant.
fn beside_dashset(section: &Section, column: usize, ratio: f64, log: &str) -> String {
    let threads = section.columns[column].size();
    if ratio > 1.05 {
        format!(
            "DashSet wins: {} changes a second as {log} on {threads}, and it answers each call. It keeps no order and \
             shows no single instant; where neither matters to you, take it.",
            as_many(ratio)
        )
    } else if ratio > 0.95 {
        format!(
            "DashSet does about as many changes a second on {threads}, and it answers each call: take it if you need the \
             answers. It keeps no order and shows no single instant."
        )
    } else {
        format!(
            "DashSet, with its answers ignored, does {} changes as {log} on {threads}. It wins as soon as you need each \
             call's answer, or read often.",
            as_many(ratio)
        )
    }
}
