//! What-ifs that can be confirmed: the same program as it is and with the worst line really gone.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

use super::ground::{Ground, Guest};
use super::kept::Confirmed;
use super::{measure, page, programs};

/// A program and its cure.
pub(crate) struct Pair {
    /// What it is called in the results.
    pub(crate) name: &'static str,
    /// The line.
    what: &'static str,
    /// What is done about it.
    cure: &'static str,
    before: fn(&Ground) -> Result<Guest>,
    after: fn(&Ground) -> Result<Guest>,
}

/// All of them, in the order of the page.
pub(crate) const PAIRS: [Pair; 5] = [
    Pair {
        name: "counter",
        what: "prometheus-client: a counter that all workers add to",
        cure: "a storage of its own for each worker, which the crate lets one choose",
        before: |ground| ground.bench("registry-kept"),
        after: |ground| ground.bench("registry-spread"),
    },
    Pair {
        name: "regex-count",
        what: "regex: the reference count of the groups' names",
        cure: "`captures_read` into memory of the worker's own",
        before: |ground| ground.bench("regex"),
        after: |ground| ground.bench("regex-read"),
    },
    Pair {
        name: "regex-cloned",
        what: "regex: the same, with clones of the pattern, as the documentation advises",
        cure: "the same",
        before: |ground| ground.bench("regex-cloned"),
        after: |ground| ground.bench("regex-read-cloned"),
    },
    Pair {
        name: "regex-pool",
        what: "regex: the pool, once that count is gone",
        cure: "a clone for each worker",
        before: |ground| ground.bench("regex-read"),
        after: |ground| ground.bench("regex-read-cloned"),
    },
    Pair {
        name: "rocksdb-shards",
        what: "RocksDB: the mutex of the cache's one shard",
        cure: "64 shards: `--cache_numshardbits=6`",
        before: |ground| programs::rocksdb(ground, "0"),
        after: |ground| programs::rocksdb(ground, "6"),
    },
];

/// Runs both, and says what came of it.
pub(super) fn run(ground: &Ground, pair: &Pair) -> Result<Confirmed> {
    let before = measure(ground, 48, (pair.before)(ground)?, &[])?.report;
    let after = measure(ground, 48, (pair.after)(ground)?, &["--no-what-if"])?.report;
    let foretold = page::gain(&before["lines"][0]).context("the worst line has no what-if")?;
    Ok(Confirmed {
        foretold,
        really: speed(&after)? / speed(&before)?,
    })
}

/// Operations in a time, or how little time the whole took.
fn speed(report: &Value) -> Result<f64> {
    let elapsed = || Some(1e9 / report["process"]["elapsed_ns"].as_f64()?);
    report["operations_per_ms"]
        .as_f64()
        .or_else(elapsed)
        .context("the report has no time")
}

/// The rows of a table.
pub(super) fn rows(confirmed: &BTreeMap<String, Confirmed>) -> String {
    let mut rows = String::new();
    for pair in &PAIRS {
        let Some(Confirmed { foretold, really }) = confirmed.get(pair.name) else {
            continue;
        };
        let _ = writeln!(
            rows,
            "| {} | {} | × {foretold:.2} | × {really:.2} | {:.0} % |",
            pair.what,
            pair.cure,
            (foretold / really - 1.0).abs() * 100.0
        );
    }
    rows
}
