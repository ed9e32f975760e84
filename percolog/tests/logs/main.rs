//! Structures made of logs: every read sees every finished update, in order, whatever queues, limits and threads do.
#![cfg(not(percolog_loom))]

mod combining;
#[path = "../common/mod.rs"]
mod common;
mod consistent_cut;
mod contract;
mod eager;
mod event_queue;
mod full_queues;
mod ldu;
mod lent;
mod limits;
mod panics;
mod poison;
mod properties;
mod reading;
mod registry;
mod sessions;
mod set;
mod shared_lines;
mod sizes;
mod snapshots;
mod stamps;
mod storm;
mod table_cache;
mod torture;
