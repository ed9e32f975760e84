//! What most programs begin with, behind a lock: so many items, of which the one goes that was used longest ago.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// A hash map whose entries are in a list, the one used last first.
#[derive(Debug)]
pub(crate) struct LeastRecent<K, V, S> {
    capacity: usize,
    places: HashMap<K, usize, S>,
    /// The first one is no entry: it comes before the one used last, and after the one used longest ago.
    entries: Vec<Entry<K, V>>,
}

#[derive(Debug)]
struct Entry<K, V> {
    item: Option<(K, V)>,
    before: usize,
    after: usize,
}

impl<K, V> Entry<K, V> {
    const EMPTY: Self = Self {
        item: None,
        before: 0,
        after: 0,
    };
}

impl<K: Hash + Eq + Clone, V, S: BuildHasher + Default> LeastRecent<K, V, S> {
    /// With room for so many, but at least one.
    pub(crate) fn new(items: usize) -> Self {
        Self {
            capacity: items.max(1),
            places: HashMap::default(),
            entries: vec![Entry::EMPTY],
        }
    }

    fn unlink(&mut self, at: usize) {
        let Entry { before, after, .. } = self.entries[at];
        self.entries[before].after = after;
        self.entries[after].before = before;
    }

    fn link_first(&mut self, at: usize) {
        let first = self.entries[0].after;
        self.entries[at].before = 0;
        self.entries[at].after = first;
        self.entries[first].before = at;
        self.entries[0].after = at;
    }

    /// The value of a key, which becomes the one used last.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let at = *self.places.get(key)?;
        self.unlink(at);
        self.link_first(at);
        self.entries[at].item.as_ref().map(|(_, value)| value)
    }

    /// Keeps a value, as the one used last.
    pub(crate) fn set(&mut self, key: K, value: V) {
        if let Some(at) = self.places.get(&key).copied() {
            self.unlink(at);
            self.entries[at].item = Some((key, value));
            self.link_first(at);
            return;
        }
        let at = if self.entries.len() <= self.capacity {
            self.entries.push(Entry::EMPTY);
            self.entries.len() - 1
        } else {
            let last = self.entries[0].before;
            self.unlink(last);
            if let Some((evicted, _)) = self.entries[last].item.take() {
                self.places.remove(&evicted);
            }
            last
        };
        self.places.insert(key.clone(), at);
        self.entries[at].item = Some((key, value));
        self.link_first(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::RandomState;

    #[test]
    fn the_one_used_longest_ago_goes() {
        let mut items: LeastRecent<&str, u32, RandomState> = LeastRecent::new(2);
        items.set("a", 1);
        items.set("b", 2);
        assert_eq!(items.get("a"), Some(&1));
        items.set("c", 3);
        assert_eq!(items.get("b"), None);
        items.set("a", 4);
        items.set("d", 5);
        assert_eq!(items.get("c"), None);
        assert_eq!(
            (items.get("a").copied(), items.get("d").copied()),
            (Some(4), Some(5))
        );
    }
}
