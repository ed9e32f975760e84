//! Reducers and what is built on them: reads that are one moment, takes that lose nothing, and the plain structures that they
//! must agree with.
#![cfg(not(percolog_loom))]

#[cfg(feature = "histogram")]
mod histogram;
mod histories;
mod labels;
mod merging;
mod shares;
mod summary;
mod top;
mod torture;
