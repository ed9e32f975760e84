//! Calls of objects with representatives: distributed ones move nothing, on any number of cores; shared ones what their state makes them.
//!
//! The marks stand around calls, sections included. All transfers and ownership upgrades between them count, whatever line they are of.

use percolog::clustered::{self, Distributed, ObjectRef, Placement, Shared};
use percolog_sim::assert::{Assertion, Measured};
use std::sync::atomic::{AtomicU64, Ordering};

use super::workloads::on_every_core;
use super::{CORES, FEW_CORES, SHARED_LINE, measure_with};

/// The example of the way from shared to distributed.
#[path = "../../examples/distribute.rs"]
#[allow(dead_code, reason = "its main function is not called")]
mod distribute;

/// What is called.
trait Tick: Sync {
    fn tick(&self);
}

/// Counts with one atomic, whoever calls.
#[derive(Default)]
#[repr(align(128))]
struct Common(AtomicU64);

impl Tick for Common {
    #[inline(never)]
    fn tick(&self) {
        // Relaxed: nobody reads it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a call of a distributed object may move.
const NOTHING: f64 = 0.001;

/// What one of a shared object moves at least: a core that has got the line makes two or three calls before it loses it.
const SHARED: f64 = 0.2;

/// Calls of each core that count.
const CALLS: u32 = 100;

#[track_caller]
fn at_most(measured: &Measured, bound: f64) {
    if let Err(exceeded) = measured.check(bound) {
        panic!("{exceeded}");
    }
}

#[track_caller]
fn at_least(measured: &Measured, bound: f64) {
    assert!(
        measured.check(bound).is_err(),
        "{:.3} per call:\n{}",
        measured.per_operation(),
        measured.report
    );
}

fn on(threads: usize, object: ObjectRef<dyn Tick>) {
    on_every_core(threads, |_, together| {
        // The first one makes the representative, or finds it.
        for _ in 0..2 {
            object.call(|it| it.tick()).expect("it is there");
            together.wait();
        }
        percolog_roi::begin();
        for _ in 0..CALLS {
            object.call(|it| it.tick()).expect("it is there");
        }
        percolog_roi::end(u64::from(CALLS));
        together.wait();
    });
    object.destroy().expect("it is there");
}

fn distributed(threads: usize) {
    let object = clustered::create(Distributed::new(
        Placement::EachSlot,
        |_| Common::default(),
        |it| it as &dyn Tick,
    ));
    on(threads, object);
}

fn shared(threads: usize) {
    let object = clustered::create(Shared::new(Common::default(), |it| it as &dyn Tick));
    on(threads, object);
}

#[test]
fn calls_of_distributed_objects_move_nothing() {
    for &cores in CORES.iter() {
        let Some(measured) = measure_with(&Assertion::on(cores), || distributed(cores)) else {
            return;
        };
        at_most(&measured, NOTHING);
    }
}

#[test]
fn calls_of_shared_objects_move_their_state() {
    for &cores in FEW_CORES {
        let Some(measured) = measure_with(&Assertion::on(cores), || shared(cores)) else {
            return;
        };
        at_least(&measured, SHARED);
    }
}

/// The callers are the same function.
fn example(threads: usize, is_distributed: bool) {
    let views = clustered::create(distribute::shared());
    if is_distributed {
        distribute::distribute(views).expect("it is there");
    }
    on_every_core(threads, |_, together| {
        for _ in 0..2 {
            distribute::serve(views, 16).expect("it is there");
            together.wait();
        }
        percolog_roi::begin();
        distribute::serve(views, CALLS).expect("it is there");
        percolog_roi::end(u64::from(CALLS));
        together.wait();
    });
    views.destroy().expect("it is there");
}

#[test]
fn the_example_before_and_after() {
    for &cores in FEW_CORES {
        let on = || Assertion::on(cores);
        let Some(before) = measure_with(&on(), || example(cores, false)) else {
            return;
        };
        at_least(&before, SHARED_LINE);
        let Some(after) = measure_with(&on(), || example(cores, true)) else {
            return;
        };
        at_most(&after, NOTHING);
    }
}
