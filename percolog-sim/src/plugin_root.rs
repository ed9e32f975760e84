//! Root of the shared library that QEMU loads: the model, and what drives it from a running program.
//!
//! `build.rs` compiles it without dependencies. The library compiles the same modules for its own tests.

mod maps;
#[allow(dead_code, unused_imports, reason = "the library uses more of it")]
mod model;
mod plugin;
