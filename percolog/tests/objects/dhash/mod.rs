//! Distributed hash tables, their partitioned relatives, and counters of requests.
#![cfg(not(percolog_loom))]

mod differential;
#[cfg(target_os = "linux")]
mod forked;
mod histories;
mod leases;
mod requests;
mod storm;
mod table;
mod threads;
