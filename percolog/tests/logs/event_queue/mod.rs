//! The event queue: the plain queue that it must agree with, histories that must be explained, and a live consumer.
#![cfg(not(percolog_loom))]

mod differential;
mod histories;
mod live;
mod plain;
