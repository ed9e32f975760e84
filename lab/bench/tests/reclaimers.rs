//! Every reclaimer runs every workload for a moment: nothing is freed too early, twice or never.

use std::time::Duration;

use percolog_bench::reclaim::bare;
use percolog_bench::reclaim::checked::checked;
use percolog_bench::reclaim::lone;
use percolog_bench::reclaim::trace::Trace;
use percolog_bench::reclaim::{ReclaimerKind, node::Node};
use percolog_bench::runner::Settings;

/// Of a trace: they come again and again.
const OPERATIONS: usize = 10_000;

fn moment(threads: usize) -> Settings {
    Settings::until(threads, 10_000)
}

#[test]
fn nothing_is_freed_while_a_section_can_see_it() {
    for &kind in ReclaimerKind::ALL {
        for threads in [1, 2, 5] {
            // Where threads queue for a lock and spin, one that has no processor holds all of them up.
            if threads > 2 && kind.name() == "MCS lock" {
                continue;
            }
            for percent in [0, 10, 50, 90] {
                let trace = Trace::of(OPERATIONS, percent, threads);
                let cell = checked(kind, &trace, moment(threads))
                    .unwrap_or_else(|error| panic!("{percent} % on {threads} threads: {error}"));
                assert!(cell.operations > 0);
            }
        }
    }
}

#[test]
fn reads_and_updates_are_all_counted_and_everything_is_freed() {
    let trace = Trace::of(OPERATIONS, 50, 2);
    for &kind in ReclaimerKind::ALL {
        let rates = bare::throughput(kind, &trace, moment(2)).expect("a right end");
        assert!(rates.reads > 0 && rates.updates > 0, "{rates:?}");
        assert_eq!(rates.reads + rates.updates, rates.cell.operations);
        let watched = bare::watched(kind, &trace, moment(2)).expect("a right end");
        // Each thread gives up its last object at the end, without an update.
        assert!(watched.peak <= watched.updates + 2, "{watched:?}");
        let times = bare::latency(kind, &trace, moment(2)).expect("a right end");
        assert!(!times.read.is_empty() && !times.update.is_empty());
        assert!(times.p99(&times.update) >= 0.0 && times.mean(&times.read) >= 0.0);
        let sections = lone::sections(kind, moment(2)).expect("a right end");
        assert!(sections.operations > 0);
    }
}

#[test]
fn an_object_that_a_stalled_reader_may_see_is_not_freed() {
    const UPDATES: u64 = 3000;
    for &kind in ReclaimerKind::ALL {
        let garbage = lone::beside_a_stalled_reader(kind, UPDATES, Duration::from_millis(5))
            .expect("a right end");
        if kind.waits() {
            assert_eq!(garbage.updates, 0, "{}", kind.name());
        } else {
            assert_eq!(garbage.peak, UPDATES, "{}", kind.name());
            assert!(garbage.left <= UPDATES + UPDATES / 10);
        }
    }
}

#[test]
fn idle_threads_change_nothing_but_the_cost() {
    for &kind in ReclaimerKind::ALL {
        let costs =
            lone::beside_idle_threads(kind, &[0, 20], 1000, Duration::ZERO).expect("a right end");
        assert!(costs.len() == 2 && costs.iter().all(|&cost| cost > 0.0));
    }
}

#[test]
fn a_node_is_a_line() {
    assert_eq!(size_of::<Node>(), 64);
}
