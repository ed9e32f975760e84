//! Distributed hash tables, their partitioned relatives, and counters of requests.
#![cfg(not(percolog_loom))]

mod differential;
#[cfg(target_os = "linux")]
mod forked;
mod histories;
#[path = "../common/history.rs"]
mod history;
mod requests;
#[path = "../common/seed.rs"]
mod seed;
#[path = "../common/share.rs"]
mod share;
mod table;
mod threads;

use share::share;
