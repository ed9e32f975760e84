//! The event queue: the plain queue that it must agree with, histories that must be explained, and a live consumer. And its kind without one order.
#![cfg(not(percolog_loom))]

mod channel;
mod differential;
mod histories;
mod live;
mod plain;
