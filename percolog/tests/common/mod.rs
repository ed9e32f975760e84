//! What several of these programs need.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each program uses a part of it"
)]

pub(crate) mod alive;
pub(crate) mod alone;
#[cfg(unix)]
pub(crate) mod child;
pub(crate) mod eventually;
pub(crate) mod history;
pub(crate) mod machine;
pub(crate) mod model;
pub(crate) mod seed;
pub(crate) mod share;
pub(crate) mod storm;
