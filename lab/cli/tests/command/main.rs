//! The command as its users meet it: one line and exit code 2 for bad input, whole files or none, text that fits.

mod bench;
mod catalogue;
mod committed;
mod memcached;
mod record;
mod replay;
mod traces;

#[path = "../../../../percolog-cli/tests/support/mod.rs"]
mod support;

use support::{
    assert_fine, assert_plain_and_narrow, assert_refused, command, folder, run, simulated, skip,
    stderr,
};

/// The command under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_lab");
