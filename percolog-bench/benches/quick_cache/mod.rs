//! `quick_cache`, as the benchmarks that have it for a peer make it: each item counts as one, and keys are hashed as everywhere here.

use std::hash::Hash;

use percolog_bench::hash::BuildIdHasher;
use quick_cache::UnitWeighter;
use quick_cache::sync::DefaultLifecycle;

pub(crate) const NAME: &str = "quick_cache";

pub(crate) type Quick<K, V> = quick_cache::sync::Cache<K, V, UnitWeighter, BuildIdHasher>;

/// With room for so many items.
pub(crate) fn quick<K: Eq + Hash, V: Clone>(items: usize) -> Quick<K, V> {
    Quick::with(
        items,
        items as u64,
        UnitWeighter,
        BuildIdHasher::default(),
        DefaultLifecycle::default(),
    )
}
