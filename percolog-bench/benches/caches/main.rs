//! Figures 7 and 8 of the paper on parallel sections, simulated on its machine: requests to memcached as it was, with queue locks and
//! CLOCK, to percolog's cache, and to a table of the same parts that replaces nothing, from all cores; how many a second, and the time
//! within which 99 of 100 end. And to `quick_cache`, the fastest of other people's caches.
//!
//! `cargo bench -p percolog-bench --bench caches`; `-- --json` for programs, `-- --quick` for fewer cells, `-- --only NAME` for one
//! cache. The program starts itself again under the simulator, once for each cell. What the caches are is said in
//! [`percolog_bench::validation::caches`].

mod peer;
#[path = "../quick_cache/mod.rs"]
mod quick;
#[path = "../simulated/mod.rs"]
mod simulated;

use std::process::ExitCode;

use percolog_bench::validation::caches::CacheKind;
use percolog_bench::validation::crew::Shift;
use percolog_bench::validation::guest::Guest;
use simulated::{Called, Found, GUEST, simulate, simulate_words};

/// The paper's machine.
const MACHINE: &str = "xeon-40";

/// Numbers of cores: the paper's, and half a chip more.
const CORES: [usize; 6] = [1, 5, 10, 20, 30, 40];

/// Requests in a hundred that set: the paper's, and half of all.
const SETS: [u64; 4] = [0, 10, 20, 50];

/// So many keys: items and table have some four megabytes, and fit into a chip's last cache.
const KEYS: u64 = 20_000;

/// Those of the paper are guests that anybody can simulate; the other one is this program's.
const CACHES: [(&str, Option<CacheKind>); 6] = [
    ("stock", Some(CacheKind::Stock)),
    ("stock-once-a-minute", Some(CacheKind::StockOnceAMinute)),
    ("queue-locks", Some(CacheKind::QueueLocks)),
    (quick::NAME, None),
    ("percolog", Some(CacheKind::Percolog)),
    ("endless", Some(CacheKind::Endless)),
];

/// One cell of the table.
struct Cell {
    cache: &'static str,
    sets: u64,
    cores: usize,
    found: Result<Found, String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name, numbers @ ..] = &arguments[..]
        && first == GUEST
        && name == quick::NAME
    {
        return peer::run(numbers);
    }
    let called = match Called::read("caches", MACHINE) {
        Ok(called) => called,
        Err(code) => return code,
    };
    let mut cells = Vec::new();
    for sets in SETS {
        for (cache, kind) in CACHES.into_iter().filter(|(name, _)| called.wants(name)) {
            for cores in CORES {
                let quick = [0, 50].contains(&sets) && [1, 10, 40].contains(&cores);
                if !called.runs(quick, cells.len()) {
                    continue;
                }
                let shift = Shift {
                    threads: cores,
                    warm_up: 1_000_000,
                    cycles: 2_000_000,
                };
                let found = match kind {
                    Some(kind) => {
                        let keys = KEYS;
                        let guest = Guest::Cache { kind, keys, sets };
                        simulate(&called.machine, guest, shift)
                    }
                    None => simulate_words(&called.machine, peer::words(shift, KEYS, sets)),
                };
                // It takes minutes: whoever waits sees where it is.
                match &found {
                    Ok(found) => {
                        eprintln!("{cache}, {sets} % sets, {cores} cores: {:.0}", found.rate)
                    }
                    Err(why) => eprintln!("{cache}, {sets} % sets, {cores} cores: {why}"),
                }
                cells.push(Cell {
                    cache,
                    sets,
                    cores,
                    found,
                });
            }
        }
    }
    if cells.is_empty() {
        return Called::nothing("caches", &CACHES.map(|(name, _)| name));
    }
    if called.json {
        show_json(&cells);
    } else {
        show(&cells);
    }
    ExitCode::SUCCESS
}

fn show(cells: &[Cell]) {
    println!(
        "Simulated on {MACHINE}: requests a millisecond (× one core), lines moved for each, waiting, 99 % end within."
    );
    for sets in SETS {
        for (cache, _) in CACHES {
            let own: Vec<&Cell> = cells
                .iter()
                .filter(|cell| cell.cache == cache && cell.sets == sets)
                .collect();
            if own.is_empty() {
                continue;
            }
            println!("\n{cache}, {sets} % sets");
            let one = own.iter().find(|cell| cell.cores == 1);
            let one = one.and_then(|cell| Some(cell.found.as_ref().ok()?.rate));
            for cell in own {
                match &cell.found {
                    Ok(found) => println!(
                        "{:>4} {:>8.0} {:>7.2} {}",
                        cell.cores,
                        found.rate,
                        one.map_or(f64::NAN, |one| found.rate / one),
                        found.columns()
                    ),
                    Err(why) => println!("{:>4} {why}", cell.cores),
                }
            }
        }
    }
}

fn show_json(cells: &[Cell]) {
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| match &cell.found {
            Err(why) => serde_json::json!({
                "cache": cell.cache,
                "sets_percent": cell.sets,
                "cores": cell.cores,
                "error": why,
            }),
            Ok(found) => serde_json::json!({
                "cache": cell.cache,
                "sets_percent": cell.sets,
                "cores": cell.cores,
                "requests_per_millisecond": found.rate,
                "p99_nanoseconds": found.p99,
                "lines_per_request": found.lines,
                "waiting": found.waiting,
            }),
        })
        .collect();
    println!(
        "{:#}",
        serde_json::json!({ "machine": MACHINE, "keys": KEYS, "skew": 0.99, "cells": rows })
    );
}
