//! Finding the earlier operation that a new one absorbs.

use hashbrown::HashTable;

/// From the hash of a key to the places of operations on it.
#[derive(Default)]
pub(super) struct Index {
    table: HashTable<Item>,
}

#[derive(Clone, Copy)]
struct Item {
    hash: u64,
    place: usize,
}

/// Spreads a user's hash, which may well be the key itself, over all bits.
#[inline]
pub(super) fn spread(hash: u64) -> u64 {
    let wide = u128::from(hash ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (wide >> 64) as u64 ^ wide as u64
}

impl Index {
    /// The place under `hash` that `is_it` accepts.
    #[inline]
    pub(super) fn find_mut(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(usize) -> bool,
    ) -> Option<&mut usize> {
        self.table
            .find_mut(hash, |item| item.hash == hash && is_it(item.place))
            .map(|item| &mut item.place)
    }

    /// Forgets the place under `hash` that `is_it` accepts, and returns it.
    #[inline]
    pub(super) fn remove(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        self.table
            .find_entry(hash, |item| item.hash == hash && is_it(item.place))
            .ok()
            .map(|item| item.remove().0.place)
    }

    #[inline]
    pub(super) fn insert(&mut self, hash: u64, place: usize) {
        self.table
            .insert_unique(hash, Item { hash, place }, |item| item.hash);
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.table.is_empty() {
            self.table.clear();
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.table.allocation_size()
    }
}
