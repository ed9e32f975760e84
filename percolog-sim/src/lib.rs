//! How would this program run on 48 or on 256 cores, and which cache line is in its way?
//!
//! The simulator runs an unmodified Linux program, for x86-64 or aarch64, under QEMU's user-mode emulation. Each thread of the program
//! runs on a core of a *described* machine with a clock of its own; every access to memory passes through a model of
//! that machine's coherence protocol. What comes out is deterministic: transfers, ownership upgrades and invalidations
//! per operation, the time lost waiting for them, and the lines that are to blame.
//!
//! * [`machine`]: the machines, as TOML files.
//! * [`model`]: the coherence protocol, a pure function of the accesses.
//! * [`run`]: starts a program on a machine.
//! * [`report`]: what it found.
//! * [`what_if`]: what a program would gain if a line cost nothing.
//! * [`assert_transfers`]: the same, as an assertion in a test.
//! * [`chaos`]: does the program still work when its threads are held back where it hurts?
#![cfg_attr(not(percolog_simulator), allow(dead_code))]

pub mod assert;
pub mod chaos;
pub mod machine;
mod maps;
pub mod model;
mod raw;
pub mod report;
pub mod run;
mod symbols;
pub mod what_if;

// QEMU calls the plugin's functions in the shared library; here they are only tested.
#[cfg(test)]
#[allow(dead_code, reason = "what QEMU calls is called by nobody here")]
mod plugin;

pub use assert::assert_transfers;
pub use chaos::assert_survives_chaos;

/// The shared library that QEMU loads.
#[cfg(percolog_simulator)]
pub(crate) const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/percolog_plugin.so"));

/// The shared library that QEMU loads: there is none for this target.
#[cfg(not(percolog_simulator))]
pub(crate) const PLUGIN: &[u8] = &[];
