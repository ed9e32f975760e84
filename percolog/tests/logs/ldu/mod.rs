//! Containers whose updates cancel in the log.
#![cfg(not(percolog_loom))]

mod containers;
mod differential;
mod fifo;
mod handles;
mod order;
mod periodic;
mod threads;

use percolog::ldu::{DeferredBuilder, Variant};

/// Both published variants.
const VARIANTS: [Variant; 2] = [Variant::PerCore, Variant::Global];

fn of(variant: Variant) -> DeferredBuilder {
    DeferredBuilder::new().variant(variant)
}
