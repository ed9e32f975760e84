//! Objects with representatives: what callers see while everything behind the interface changes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what they expect"
)]

mod calls;
mod destroy;
#[cfg(unix)]
mod forked;
mod gather;
mod interfaces;
mod interpose;
mod stale;
mod storm;
mod swap;
