//! The command as its users meet it: one line and exit code 2 for bad input, whole files or none, text that fits.

mod advice;
mod chaos;
mod demo;
mod doctor;
mod refusals;
mod sim;
mod sim_report;
mod what_if;

#[path = "../support/mod.rs"]
mod support;

use support::{
    assert_fine, assert_plain_and_narrow, assert_refused, command, folder, run, simulated, skip,
    stderr, stdout,
};

/// The command under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_percolog");
