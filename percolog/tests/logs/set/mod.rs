//! `collections::Set` against the plain set: histories known to be hard, random programs, threads, and what must never have
//! to be executed. That a read shows one instant is in `consistent_cut.rs`, recorded histories are in `linearizability`.
#![cfg(not(percolog_loom))]

mod differential;
mod histories;
mod keys;
mod sustained;
mod threads;
