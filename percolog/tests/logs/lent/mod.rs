//! Objects whose logs a cache lends them: the same as ever, however small the cache is.
#![cfg(not(percolog_loom))]

mod busy;
mod eager;
mod full;
mod kinds;
mod programs;
mod sizes;
mod threads;
mod trouble;
