//! Programs under the simulator. Where QEMU or a compiler is missing, that is said, and nothing is tested.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod aarch64;
mod assertions;
mod chaos;
mod common;
mod costs;
mod exactness;
mod guests;
mod kernels;
mod locks;
mod programs;
mod sharing;
mod sites;
mod skipped;
mod smt;
