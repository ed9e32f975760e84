//! Objects whose logs a cache lends them: the same as ever, however small the cache is.
#![cfg(not(percolog_loom))]

mod busy;
mod full;
mod kinds;
#[path = "../common/machine.rs"]
mod machine;
mod programs;
#[path = "../common/seed.rs"]
mod seed;
#[path = "../common/share.rs"]
mod share;
mod sizes;
mod threads;
mod trouble;
