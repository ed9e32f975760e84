//! Promise 4, bounded: what each policy does at the limit, and that a thread that would wait for itself
//! is told so instead.
#![cfg(not(percolog_loom))]

mod guards;
mod nested;
mod policies;
mod slots;
mod waiting;

use percolog::cpu::{self, CoreId};
use percolog::oplog::{FullReason, Logged, LoggedBuilder, Mode, Operation};
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Push(u32);

impl Operation<Vec<u32>> for Push {
    fn exec(self, all: &mut Vec<u32>) {
        all.push(self.0);
    }
}

type Pushes = Logged<Vec<u32>, Push>;

/// Logs that have limits to come to, whoever uses them.
fn deferring() -> LoggedBuilder {
    LoggedBuilder::new().mode(Mode::Deferring)
}

/// Limits are a slot's: most tests here must stay on one.
fn stay() {
    cpu::bind(CoreId::new(0));
}

fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let panic = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("a panic was expected"),
        Err(panic) => panic,
    };
    *panic.downcast::<String>().expect("a panic with a text")
}

fn refusal(log: &Pushes) -> FullReason {
    let full = log.try_queue(Push(77)).expect_err("the queue is full");
    assert_eq!(full.into_inner().0, 77, "the operation comes back");
    log.try_queue(Push(77)).expect_err("it is still").reason
}
