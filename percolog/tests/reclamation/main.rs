//! Parallel sections, and the structures whose memory is reclaimed through them.
#![cfg(not(percolog_loom))]

mod cache;
#[path = "../common/mod.rs"]
mod common;
mod hashers;
mod lru;
mod namespace;
mod node_lock;
mod ordered;
mod reclaim;
mod slab;
mod storm;
