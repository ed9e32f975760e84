//! Figure 8-4 of the thesis, simulated on its machine: a list that every core adds an element to and removes it from again, first
//! behind the thesis' own log, then behind percolog's, with one lever after the other.
//!
//! `cargo bench -p percolog-bench --bench lists`; `-- --json` for programs, `-- --quick` for fewer numbers of cores, `-- --only NAME`
//! for one list. The program starts itself again under the simulator, once for each cell. What the lists are is said in
//! [`percolog_bench::validation::logs`].

#[path = "../simulated/mod.rs"]
mod simulated;

use std::process::ExitCode;

use percolog_bench::validation::crew::Shift;
use percolog_bench::validation::guest::Guest;
use percolog_bench::validation::logs::ListKind;
use simulated::{Called, Found, simulate};

/// The thesis' machine.
const MACHINE: &str = "opteron-48";

/// Numbers of cores: within a chip, two chips, and then multiples.
const CORES: [usize; 11] = [1, 2, 4, 6, 8, 10, 12, 18, 24, 36, 48];

/// The delay after each change: the thesis'.
const DELAY: u64 = 1000;

const LISTS: [(&str, ListKind); 7] = [
    ("lock-free", ListKind::LockFree),
    ("thesis", ListKind::Thesis),
    ("basic", ListKind::Basic),
    ("compact", ListKind::Compact),
    ("batched", ListKind::Batched),
    ("global", ListKind::Global),
    ("local", ListKind::Local),
];

/// One cell of the table.
struct Cell {
    list: &'static str,
    cores: usize,
    /// Operations a millisecond, and transfers and ownership upgrades for each; or why there is nothing.
    found: Result<Found, String>,
}

fn main() -> ExitCode {
    let called = match Called::read("lists", MACHINE) {
        Ok(called) => called,
        Err(code) => return code,
    };
    let mut cells = Vec::new();
    for (list, kind) in LISTS.into_iter().filter(|(name, _)| called.wants(name)) {
        for cores in CORES {
            if !called.runs([1, 6, 48].contains(&cores), cells.len()) {
                continue;
            }
            let guest = Guest::List { kind, delay: DELAY };
            let found = simulate(&called.machine, guest, shift(kind, cores));
            // It takes minutes: whoever waits sees where it is.
            match &found {
                Ok(found) => eprintln!("{list}, {cores} cores: {:.0}", found.rate),
                Err(why) => eprintln!("{list}, {cores} cores: {why}"),
            }
            cells.push(Cell { list, cores, found });
        }
    }
    if cells.is_empty() {
        let names: Vec<&str> = LISTS.iter().map(|(name, _)| *name).collect();
        return Called::nothing("lists", &names);
    }
    if called.json {
        show_json(&cells);
    } else {
        show(&cells);
    }
    ExitCode::SUCCESS
}

/// How long to warm up, and to count: dozens of merges of all queues, so that it matters little whether one more falls into it.
fn shift(kind: ListKind, cores: usize) -> Shift {
    let wide = cores as u64;
    let (warm_up, cycles) = match kind {
        ListKind::LockFree | ListKind::Local => (200_000, 1_200_000),
        _ => (300_000 + 120_000 * wide, 3_000_000 + 1_800_000 * wide),
    };
    Shift {
        threads: cores,
        warm_up,
        cycles,
    }
}

/// The figures of one list, fewest cores first.
fn curve(cells: &[Cell], list: &str) -> Vec<(usize, Found)> {
    let of_list = cells.iter().filter(|cell| cell.list == list);
    of_list
        .filter_map(|cell| Some((cell.cores, *cell.found.as_ref().ok()?)))
        .collect()
}

/// A curve's highest point, and what is left of it at the lowest of those with more cores.
fn peak(curve: &[(usize, Found)]) -> Option<(usize, f64, f64)> {
    let (cores, top) = curve
        .iter()
        .max_by(|(_, one), (_, other)| one.rate.total_cmp(&other.rate))?;
    let beyond = curve.iter().filter(|(more, _)| more >= cores);
    let lowest = beyond.map(|(_, found)| found.rate).fold(top.rate, f64::min);
    Some((*cores, top.rate, lowest / top.rate))
}

fn show(cells: &[Cell]) {
    println!(
        "Simulated on {MACHINE}: operations a millisecond (× one core), lines moved for each, waiting for lines."
    );
    for (list, _) in LISTS {
        let curve = curve(cells, list);
        let Some((at, top, left)) = peak(&curve) else {
            continue;
        };
        println!(
            "\n{list}: {top:.0} at {at} cores; beyond, never below {:.0} % of that",
            100.0 * left
        );
        let one = curve.iter().find(|(cores, _)| *cores == 1);
        for (cores, found) in &curve {
            let times = one.map_or(f64::NAN, |(_, one)| found.rate / one.rate);
            println!(
                "{cores:>4} {:>8.0} {times:>7.2} {}",
                found.rate,
                found.columns()
            );
        }
    }
}

fn show_json(cells: &[Cell]) {
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| match &cell.found {
            Err(why) => {
                serde_json::json!({ "list": cell.list, "cores": cell.cores, "error": why })
            }
            Ok(found) => serde_json::json!({
                "list": cell.list,
                "cores": cell.cores,
                "operations_per_millisecond": found.rate,
                "lines_per_operation": found.lines,
                "waiting": found.waiting,
            }),
        })
        .collect();
    println!(
        "{:#}",
        serde_json::json!({ "machine": MACHINE, "delay_cycles": DELAY, "cells": rows })
    );
}
