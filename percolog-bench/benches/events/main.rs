//! Events from up to 47 cores to one that takes them while they come, simulated: [`EventQueue`](percolog::collections::EventQueue) beside
//! `crossbeam-channel`.
//!
//! `cargo bench -p percolog-bench --bench events`; `-- --json` for programs, `-- --quick` for fewer numbers of cores, `-- --only NAME` for one of
//! the two. The program starts
//! itself again under the simulator, once for each cell. What the cells do is said in [`percolog_bench::validation::events`].

#[path = "../simulated/mod.rs"]
mod simulated;

use std::process::ExitCode;

use percolog_bench::validation::crew::Shift;
use percolog_bench::validation::events::ChannelKind;
use percolog_bench::validation::guest::Guest;
use simulated::{Called, Found, simulate};

/// The machine of Figure 8-4, as for the lists.
const MACHINE: &str = "opteron-48";

/// Producers; the consumer has a core of its own. Within a chip, two chips, and then multiples.
const PRODUCERS: [usize; 5] = [1, 5, 11, 23, 47];

/// Cycles between a producer's events: those of the lists, and none.
const WORK: [u64; 2] = [1000, 0];

const KINDS: [(&str, ChannelKind); 2] = [
    ("EventQueue", ChannelKind::Queue),
    ("crossbeam-channel", ChannelKind::Channel),
];

/// One cell of the table.
struct Cell {
    work: u64,
    producers: usize,
    name: &'static str,
    found: Result<Found, String>,
}

fn main() -> ExitCode {
    let called = match Called::read("events", MACHINE) {
        Ok(called) => called,
        Err(code) => return code,
    };
    let mut cells = Vec::new();
    for work in WORK {
        for producers in PRODUCERS {
            for (name, kind) in KINDS {
                if !called.wants(name) || !called.runs([1, 47].contains(&producers), cells.len()) {
                    continue;
                }
                let shift = Shift {
                    threads: producers + 1,
                    warm_up: 400_000 + 200_000 * producers as u64,
                    // Several merges of all queues.
                    cycles: 1_600_000 + 600_000 * producers as u64,
                };
                let found = simulate(&called.machine, Guest::Events { kind, work }, shift);
                // It takes minutes: whoever waits sees where it is.
                match &found {
                    Ok(found) => eprintln!("{work} {producers} {name}: {:.0}", found.rate),
                    Err(why) => eprintln!("{work} {producers} {name}: {why}"),
                }
                cells.push(Cell {
                    work,
                    producers,
                    name,
                    found,
                });
            }
        }
    }
    if cells.is_empty() {
        return Called::nothing("events", &KINDS.map(|(name, _)| name));
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
        "Simulated on {MACHINE}: events delivered a millisecond, lines moved for each, waiting for lines."
    );
    for cell in cells {
        print!(
            "{:>5} cycles, {:>2} producers, {:>17}: ",
            cell.work, cell.producers, cell.name
        );
        match &cell.found {
            Ok(found) => println!("{:>8.0} {}", found.rate, found.columns()),
            Err(why) => println!("{why}"),
        }
    }
}

fn show_json(cells: &[Cell]) {
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| match &cell.found {
            Err(why) => serde_json::json!({
                "work_cycles": cell.work,
                "producers": cell.producers,
                "channel": cell.name,
                "error": why,
            }),
            Ok(found) => serde_json::json!({
                "work_cycles": cell.work,
                "producers": cell.producers,
                "channel": cell.name,
                "delivered_per_millisecond": found.rate,
                "lines_per_event": found.lines,
                "waiting": found.waiting,
            }),
        })
        .collect();
    println!(
        "{:#}",
        serde_json::json!({ "machine": MACHINE, "cells": rows })
    );
}
