//! The registry: the plain table that it must agree with, histories that must be explained, and what its handles do.
#![cfg(not(percolog_loom))]

mod differential;
mod handles;
mod histories;
#[path = "../common/history.rs"]
mod history;
#[path = "../common/machine.rs"]
mod machine;
#[path = "../common/seed.rs"]
mod seed;
#[path = "../common/share.rs"]
mod share;
