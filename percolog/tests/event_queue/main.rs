//! The event queue: the plain queue that it must agree with, histories that must be explained, and a live consumer.
#![cfg(not(percolog_loom))]

mod differential;
mod histories;
#[path = "../common/history.rs"]
mod history;
mod live;
#[path = "../common/machine.rs"]
mod machine;
mod plain;
#[path = "../common/seed.rs"]
mod seed;
#[path = "../common/share.rs"]
mod share;
