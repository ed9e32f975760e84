//! You have a `static AtomicU64`.

use percolog_bench::counters::CounterKind;

use super::contest::{Contest, Contestant, as_many, nanoseconds};
use crate::format;
use crate::report::{Headline, Role, Section, Unit};

/// The contest of the counters.
pub(crate) fn contest() -> Contest {
    Contest {
        name: "counters",
        title: "You have a static AtomicU64",
        workload: "Every thread adds one to the same counter, over and over; the exact sum is read at the end.",
        unit: Unit::millions("millions of adds a second"),
        contestants: [
            CounterKind::Atomic,
            CounterKind::Percolog,
            CounterKind::Contatori,
        ]
        .into_iter()
        .zip([Role::Today, Role::Best, Role::Peer])
        .map(|(kind, role)| Contestant {
            name: kind.name(),
            role,
            measure: Box::new(move |settings| Ok(kind.run(settings.into(), None)?.rate())),
        })
        .collect(),
        explain,
        without_more_threads_than_cpus: false,
    }
}

const TODAY: usize = 0;
const OURS: usize = 1;
const PEER: usize = 2;

fn explain(section: &Section, column: usize) -> (Option<Headline>, Vec<String>) {
    let unit = section.unit;
    let threads = section.columns[column].size();
    let ratio = section.ratio(OURS, column);
    let mut findings = vec![format!(
        "On {threads}, Counter does {} million adds a second where the atomic does {}: {}.",
        format::number(unit.of(section.rate(OURS, column))),
        format::number(unit.of(section.rate(TODAY, column))),
        as_many(ratio),
    )];
    if column != 0 {
        findings.push(format!(
            "Alone on one thread an add takes {} with Counter and {} with the atomic.",
            nanoseconds(section.rate(OURS, 0)),
            nanoseconds(section.rate(TODAY, 0)),
        ));
    }
    let beside = section.rate(OURS, column) / section.rate(PEER, column);
    findings.push(format!(
        "Beside contatori, which also keeps a shard a thread, Counter does {} on {threads}.",
        as_many(beside)
    ));
    findings.push(
        "The price is the read: sum() visits every place that was written, where the atomic loads one word. Keep the \
         atomic if you read more often than once in some ten adds, or need the new value of each add."
            .to_owned(),
    );
    let headline = Headline {
        ratio,
        caption: format!("adds a second on {threads}: Counter instead of AtomicU64"),
        role: Role::Best,
    };
    (Some(headline), findings)
}
