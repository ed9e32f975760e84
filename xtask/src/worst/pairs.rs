//! What-ifs that can be confirmed: the same program as it is and with the worst line really gone.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

use super::fixes::FIXES;
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
pub(crate) const PAIRS: [Pair; 6] = [
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
        before: |ground| programs::rocksdb(ground, "0", "lru_cache"),
        after: |ground| programs::rocksdb(ground, "6", "lru_cache"),
    },
    Pair {
        name: "rocksdb-clock",
        what: "RocksDB: the same",
        cure: "[HyperClockCache](https://github.com/facebook/rocksdb/wiki/Block-Cache), which has no mutex: `--cache_type=hyper_clock_cache`",
        before: |ground| programs::rocksdb(ground, "0", "lru_cache"),
        after: |ground| programs::rocksdb(ground, "0", "hyper_clock_cache"),
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
        measured: None,
    })
}

/// Operations in a time, or how little time the whole took.
pub(super) fn speed(report: &Value) -> Result<f64> {
    let elapsed = || Some(1e9 / report["process"]["elapsed_ns"].as_f64()?);
    report["operations_per_ms"]
        .as_f64()
        .or_else(elapsed)
        .context("the report has no time")
}

/// The rows of a table.
pub(super) fn rows(confirmed: &BTreeMap<String, Confirmed>) -> String {
    let mut rows = String::new();
    let pairs = PAIRS.iter().map(|pair| (pair.name, pair.what, pair.cure));
    let fixes = FIXES.iter().map(|fix| (fix.name, fix.what, fix.cure));
    for (name, what, cure) in pairs.chain(fixes) {
        let Some(Confirmed {
            foretold,
            really,
            measured,
        }) = confirmed.get(name)
        else {
            continue;
        };
        let off = (foretold / really - 1.0).abs() * 100.0;
        let measured = measured.map_or("—".to_owned(), |ratio| format!("× {ratio:.2}"));
        let _ = writeln!(
            rows,
            "| {what} | {cure} | × {foretold:.2} | × {really:.2} | {off:.0} % | {measured} |"
        );
    }
    rows
}
