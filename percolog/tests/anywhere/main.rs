//! What nothing about the machine can change: models of processors, what the compiler says, and what a page says.
#![cfg(not(percolog_loom))]

mod compile_errors;
mod litmus;
mod readme;
