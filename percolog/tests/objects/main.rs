//! Per-core counters, reducers, reference counts and clustered objects.
#![cfg(not(percolog_loom))]

mod clustered;
#[path = "../common/mod.rs"]
mod common;
mod dhash;
mod forks;
mod per_core_list;
mod reduce;
mod refcount;
mod seams;
mod sloppy_counter;
mod storm;
