//! On 48 simulated cores, and on 256: how many cache lines the structures move, and that the same code without padding moves more.
//!
//! Three figures for each. *Between reads*: updates of threads that have updated before, none of which fills its queue. *Sustained*:
//! 100,000 updates, with every merge that they have to make. *After a read*: the first update of each thread once somebody has read.
//!
//! `cargo test --release -p percolog --test transfers -- --nocapture` prints them; `PERCOLOG_TRANSFER_CORES=48,256` has both machines
//! simulated, and without it there are 48 cores.

#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_env = "gnu",
    not(percolog_loom)
))]

mod barrier;
mod clustered;
mod collections;
mod dhash;
mod entries;
mod lent;
mod maps;
mod names;
mod objects;
mod references;
mod sections;
mod shares;
mod slab;
mod trace;
mod workloads;

use std::io::{self, Write};
use std::sync::{LazyLock, Once};

use objects::{
    Absorbing, Channel, Counted, Events, Learning, Logs, PackedCounters, PackedQueues,
    PackedSpares, PaddedCounters, PaddedQueues, Registered, Senders, Shared, Spared,
};
use percolog_sim::assert::{Assertion, Measured};
use percolog_sim::run::Simulation;
use workloads::{Workload, between_reads, first_after_a_read, sustained, sustained_for_readers};

/// The numbers of cores in `PERCOLOG_TRANSFER_CORES`. What holds on 48 holds on 256, unless a structure has a limit in between; and those
/// take ten times as long to simulate.
static CORES: LazyLock<Vec<usize>> =
    LazyLock::new(|| match std::env::var("PERCOLOG_TRANSFER_CORES") {
        Ok(text) => text
            .split(',')
            .map(|cores| {
                let cores = cores
                    .trim()
                    .parse()
                    .ok()
                    .filter(|cores| [SMALL, LARGE].contains(cores));
                cores.expect("PERCOLOG_TRANSFER_CORES is 48, 256, or both with a comma")
            })
            .collect(),
        Err(_) => vec![SMALL],
    });

const SMALL: usize = 48;
const LARGE: usize = 256;

/// Where more cores would show nothing new: for what percolog's structures are compared with, and for what is bounded by more than
/// nothing because keys of different threads meet.
const FEW_CORES: &[usize] = &[SMALL];

/// Bytes that a queued operation of [`Logs`] takes: its stamp and itself.
const ENTRY: f64 = 16.0;

/// A log's entries travel to whoever merges, and the memory they were in travels back. The rest is for locks and marks.
const SUSTAINED_LOG: f64 = 2.0 * ENTRY / 64.0 + 0.1;

/// The queue, the memory of its entries, and the dirty mark.
const AFTER_A_READ: f64 = 3.0;

/// A counter's share, whose line has gone to whoever summed; and little more, for the one that summed. The line of the counter itself is
/// written by nobody.
const AFTER_A_SUM: f64 = 1.1;

/// How much more a structure needs at least whose threads write to lines that others write to as well. Eight counters, or two queues
/// and a bit, lie in a line, each used by a core of its own: between two updates by one core another one has nearly always had the
/// line, so it moves about once for each update. It is half of that because threads neither begin nor end at the same moment.
const SHARED_LINE: f64 = 0.5;

/// By how much figures may differ with the bound up to which a core runs ahead: that is to make simulation fast, nothing else.
const RUN_AHEAD_TOLERANCE: f64 = 0.03;

/// What the workload needs on so many cores; `None` where that cannot be found out, which is then said.
#[track_caller]
fn measure(workload: Workload, cores: usize, run_ahead: u64) -> Option<Measured> {
    let assertion = Assertion::on(cores).run_ahead(run_ahead);
    measure_with(&assertion, || workload(cores))
}

/// The same, of any workload on any machine.
#[track_caller]
fn measure_with(assertion: &Assertion, workload: impl FnOnce()) -> Option<Measured> {
    if cfg!(debug_assertions) {
        // Without optimization setting a bit atomically (a queue's mark) is a loop that first reads the word, also where nobody wants
        // to know what was there: one more trip each time, which no other way to write it saves. Nobody ships that.
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            let _ = writeln!(
                io::stderr(),
                "ELSEWHERE: transfers: lines of optimized code only are counted: cargo test --release -p percolog --test transfers"
            );
        });
        return None;
    }
    let measured = assertion.measure_or_skip(workload)?;
    println!(
        "{}, {} cores: {:.3} transfers and {:.3} ownership upgrades per operation",
        measured.machine,
        measured.cores,
        measured.transfers_per_operation(),
        measured.upgrades_per_operation()
    );
    Some(measured)
}

/// The structure keeps the bound on all numbers of cores that are asked for.
#[track_caller]
fn keeps(workload: Workload, bound: f64) {
    keeps_on(&CORES, workload, bound);
}

/// The same on these numbers of cores.
#[track_caller]
fn keeps_on(numbers: &[usize], workload: Workload, bound: f64) {
    for &cores in numbers {
        let Some(measured) = measure(workload, cores, Simulation::RUN_AHEAD) else {
            return;
        };
        if let Err(exceeded) = measured.check(bound) {
            panic!("{exceeded}");
        }
    }
}

/// The structure does not, by more than `excess`: an assertion that everything passes would say nothing. It takes no more than
/// the few cores to see that, and what everybody fights over takes long to simulate on many.
#[track_caller]
fn breaks(workload: Workload, bound: f64, excess: f64) {
    let cores = SMALL;
    let Some(measured) = measure(workload, cores, Simulation::RUN_AHEAD) else {
        return;
    };
    assert!(
        measured.check(bound + excess).is_err(),
        "{:.3} per operation on {cores} cores is not more than {bound} by {excess}:\n{}",
        measured.per_operation(),
        measured.report
    );
}

#[test]
fn logs_between_reads() {
    keeps(between_reads::<Logs>, 0.0);
}

#[test]
fn logs_sustained() {
    keeps(sustained::<Logs>, SUSTAINED_LOG);
}

/// Of merges that somebody makes whose queue is full, a small change makes more or fewer: those figures scatter by more than this.
#[test]
fn logs_for_readers_whatever_cores_run_ahead() {
    let figure = |run_ahead| {
        measure(sustained_for_readers::<Logs>, SMALL, run_ahead)
            .map(|measured| measured.per_operation())
    };
    let (Some(exact), Some(ahead)) = (figure(0), figure(1000)) else {
        return;
    };
    assert!(
        (ahead / exact - 1.0).abs() <= RUN_AHEAD_TOLERANCE,
        "{exact:.4} per operation if no core runs ahead, but {ahead:.4} with 1000 cycles"
    );
}

#[test]
fn logs_that_learn_sustained() {
    keeps(sustained::<Learning>, SUSTAINED_LOG);
}

#[test]
fn logs_after_a_read() {
    keeps(first_after_a_read::<Logs>, AFTER_A_READ);
}

#[test]
fn absorbing_logs_between_reads() {
    keeps(between_reads::<Absorbing>, 0.0);
}

#[test]
fn absorbing_logs_sustained() {
    keeps(sustained::<Absorbing>, 0.0);
}

#[test]
fn absorbing_logs_after_a_read() {
    keeps(first_after_a_read::<Absorbing>, AFTER_A_READ);
}

#[test]
fn events_between_reads() {
    keeps(between_reads::<Events>, 0.0);
}

/// An event and its stamp are as large as the operation of [`Logs`], and go the same way.
#[test]
fn events_sustained() {
    keeps_on(FEW_CORES, sustained::<Events>, SUSTAINED_LOG);
}

#[test]
fn events_after_a_read() {
    keeps(first_after_a_read::<Events>, AFTER_A_READ);
}

/// A sender that is not read asks for a segment with every 64th event, and then the allocator now and then has a line that another core had.
#[test]
fn senders_between_reads() {
    keeps(between_reads::<Senders>, 0.01);
}

/// An event travels to the receiver, and its place back; 100 of them at a time, with the count of them.
#[test]
fn senders_sustained() {
    keeps_on(
        FEW_CORES,
        sustained_for_readers::<Senders>,
        2.0 * 8.0 / 64.0 + 0.1,
    );
}

#[test]
fn senders_after_a_read() {
    keeps(first_after_a_read::<Senders>, AFTER_A_READ);
}

/// All who send write where the channel ends, and what they send lies beside what others do.
#[test]
fn channels_between_reads() {
    breaks(between_reads::<Channel>, 0.0, SHARED_LINE);
}

#[test]
fn registered_entries_between_reads() {
    keeps(between_reads::<Registered>, 0.0);
}

/// Each entry is unregistered where it was registered, and before anybody lists.
#[test]
fn registered_entries_sustained() {
    keeps(sustained::<Registered>, 0.0);
}

#[test]
fn registered_entries_after_a_read() {
    keeps(first_after_a_read::<Registered>, AFTER_A_READ);
}

// The next ones are the least that does what percolog's structures do, with padding and without: that is all that differs.

#[test]
fn padded_queues_between_reads() {
    keeps_on(FEW_CORES, between_reads::<PaddedQueues>, 0.0);
}

/// Padding alone does not always keep the bound: all whose queues are full wait for one mutex, where `Logged` lets them go on
/// queueing. But what it saves is more than that.
#[test]
fn padded_queues_sustained() {
    keeps_on(
        FEW_CORES,
        sustained::<PaddedQueues>,
        SUSTAINED_LOG + SHARED_LINE,
    );
}

#[test]
fn padded_queues_after_a_read() {
    keeps_on(FEW_CORES, first_after_a_read::<PaddedQueues>, AFTER_A_READ);
}

#[test]
fn packed_queues_between_reads() {
    breaks(between_reads::<PackedQueues>, 0.0, SHARED_LINE);
}

#[test]
fn packed_queues_sustained() {
    breaks(sustained::<PackedQueues>, SUSTAINED_LOG, SHARED_LINE);
}

#[test]
fn packed_queues_after_a_read() {
    breaks(
        first_after_a_read::<PackedQueues>,
        AFTER_A_READ,
        SHARED_LINE,
    );
}

#[test]
fn spares_between_looks() {
    keeps(between_reads::<Spared>, 0.0);
}

#[test]
fn spares_beside_each_other() {
    breaks(between_reads::<PackedSpares>, 0.0, SHARED_LINE);
}

#[test]
fn counters_between_reads() {
    keeps(between_reads::<Counted>, 0.0);
}

#[test]
fn counters_sustained() {
    keeps(sustained::<Counted>, 0.0);
}

#[test]
fn counters_after_a_read() {
    keeps(first_after_a_read::<Counted>, AFTER_A_SUM);
}

#[test]
fn padded_counters_between_reads() {
    keeps_on(FEW_CORES, between_reads::<PaddedCounters>, 0.0);
}

#[test]
fn padded_counters_sustained() {
    keeps_on(FEW_CORES, sustained::<PaddedCounters>, 0.0);
}

#[test]
fn padded_counters_after_a_read() {
    keeps_on(
        FEW_CORES,
        first_after_a_read::<PaddedCounters>,
        AFTER_A_READ,
    );
}

#[test]
fn packed_counters_between_reads() {
    breaks(between_reads::<PackedCounters>, 0.0, SHARED_LINE);
}

// After a read, packed counters cannot exceed the bound: an update is one load and one store, so at most two trips, wherever the
// counters lie. What padding saves, it saves between reads.

#[test]
fn packed_counters_sustained() {
    breaks(sustained::<PackedCounters>, 0.0, SHARED_LINE);
}

/// On the real machine, where lines cannot be counted: no update is lost. (Each workload checks it; on the simulated machines too.)
#[test]
fn every_workload_ends_with_all_its_updates() {
    fn all<S: Shared>() {
        for workload in [between_reads::<S>, sustained::<S>, first_after_a_read::<S>] {
            workload(4);
        }
    }
    all::<Logs>();
    all::<Learning>();
    all::<Absorbing>();
    all::<Events>();
    all::<Senders>();
    all::<Channel>();
    all::<Registered>();
    all::<Counted>();
    all::<PaddedQueues>();
    all::<PaddedCounters>();
    all::<PackedQueues>();
    all::<PackedCounters>();
}
