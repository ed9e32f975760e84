//! Reducers and what is built on them: reads that are one moment, takes that lose nothing, and the plain structures that they
//! must agree with.
#![cfg(not(percolog_loom))]

#[cfg(feature = "histogram")]
mod histogram;
mod histories;
#[path = "../common/history.rs"]
mod history;
mod labels;
mod merging;
#[path = "../common/seed.rs"]
mod seed;
#[path = "../common/share.rs"]
mod share;
mod shares;
mod summary;
mod top;
mod torture;

use share::share;
