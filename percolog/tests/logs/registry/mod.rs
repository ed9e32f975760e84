//! The registry: the plain table that it must agree with, histories that must be explained, and what its handles do.
#![cfg(not(percolog_loom))]

mod differential;
mod handles;
mod histories;
