//! Hash tables that share no line with other memory: one thread writes to its own all the time.

use crate::cpu::{DropsAll, OwnLines};
use crate::hash::DefaultHashBuilder;

/// A map on lines of its own.
pub(super) type Table<K, V> = DropsAll<hashbrown::HashMap<K, V, DefaultHashBuilder, OwnLines>>;

/// A set on lines of its own.
pub(super) type Set<K> = DropsAll<hashbrown::HashSet<K, DefaultHashBuilder, OwnLines>>;

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn tables_grow_and_shrink_there() {
        let mut table: Table<u32, u32> = Table::default();
        table.extend((0..1000).map(|number| (number, number)));
        table.shrink_to_fit();
        assert_eq!(table.values().sum::<u32>(), 999 * 500);
    }
}
