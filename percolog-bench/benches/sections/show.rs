//! The cells as tables, and as JSON.

use serde_json::json;

use super::{Found, PERCENT, Row};

/// What the tables say of themselves.
const NOTES: &str = "\
Simulated on xeon-40. Millions of operations a second: cores, over the mean time of the operation in the mixture; \
p99 in cycles (2 a nanosecond); × is all of it against one core; lines are transfers and ownership upgrades for each operation, \
reads and updates together. The kernel is not modelled: what membarrier's interrupts cost readers and frees is in no figure; \
the fenced variants contain everything.";

/// Prints a table for each rate of updates.
pub(crate) fn tables(rows: &[Row], megahertz: f64) {
    println!("{NOTES}");
    for percent in PERCENT {
        println!("\n{percent} % updates");
        println!(
            "{:<28} {:>5} {:>9} {:>7} {:>8} {:>9} {:>7} {:>8} {:>8}",
            "", "cores", "reads", "×", "p99", "updates", "×", "p99", "lines"
        );
        for row in rows.iter().filter(|row| row.percent == percent) {
            let (name, cores) = (row.kind.name(), row.cores);
            match &row.found {
                Err(why) => println!("{name:<28} {cores:>5} {why}"),
                Ok(found) => {
                    let (reads, updates) = rates(found, cores, megahertz);
                    let (reads_times, updates_times) = speedups(rows, row, megahertz);
                    println!(
                        "{name:<28} {cores:>5} {reads:>9.1} {reads_times:>7.2} {:>8} {updates:>9.1} {updates_times:>7.2} {:>8} {:>8.4}",
                        found.cell.reads.p99, found.cell.updates.p99, found.lines
                    );
                }
            }
        }
    }
}

/// Prints the same for programs.
pub(crate) fn json(rows: &[Row], megahertz: f64) {
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let head = json!({
                "reclaimer": row.kind.name(),
                "percent_updates": row.percent,
                "cores": row.cores,
            });
            let body = match &row.found {
                Err(why) => json!({ "error": why }),
                Ok(found) => {
                    let (reads, updates) = rates(found, row.cores, megahertz);
                    json!({
                        "reads_million_a_second": reads,
                        "read_mean_cycles": found.cell.reads.mean,
                        "read_p99_cycles": found.cell.reads.p99,
                        "updates_million_a_second": updates,
                        "update_mean_cycles": found.cell.updates.mean,
                        "update_p99_cycles": found.cell.updates.p99,
                        "transfers_and_upgrades_an_operation": found.lines,
                    })
                }
            };
            json!({ "cell": head, "result": body })
        })
        .collect();
    println!(
        "{:#}",
        json!({ "machine": super::MACHINE, "notes": NOTES, "cells": cells })
    );
}

/// Reads and updates a second, in millions.
fn rates(found: &Found, cores: usize, megahertz: f64) -> (f64, f64) {
    let Found { cell, .. } = found;
    (
        cell.reads.millions(cores, megahertz),
        cell.updates.millions(cores, megahertz),
    )
}

/// Both against the same reclaimer on one core.
fn speedups(rows: &[Row], row: &Row, megahertz: f64) -> (f64, f64) {
    let rates_of = |row: &Row| {
        let found = row.found.as_ref().ok()?;
        Some(rates(found, row.cores, megahertz))
    };
    let one = rows
        .iter()
        .find(|one| (one.kind, one.percent, one.cores) == (row.kind, row.percent, 1))
        .and_then(rates_of);
    match (one, rates_of(row)) {
        (Some(one), Some(all)) => {
            let times = |all: f64, one: f64| if one > 0.0 { all / one } else { 0.0 };
            (times(all.0, one.0), times(all.1, one.1))
        }
        _ => (0.0, 0.0),
    }
}
