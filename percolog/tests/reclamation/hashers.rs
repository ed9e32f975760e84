//! The hasher that nobody has named.

use percolog::collections::{Cache, DefaultHashBuilder, Lru, Map, TableCache};
use percolog::dhash::{DHash, Partitioned};

/// What a collection hashes with.
trait Hashed<S> {}

impl<S> Hashed<S> for Map<'_, u8, u8, S> {}
impl<S> Hashed<S> for Cache<'_, u8, u8, S> {}
impl<S> Hashed<S> for Lru<u8, S> {}
impl<S> Hashed<S> for TableCache<u8, u8, S> {}
impl<S> Hashed<S> for DHash<u8, (), (), S> {}
impl<S> Hashed<S> for Partitioned<u8, (), S> {}

#[test]
fn all_collections_have_the_same_one() {
    fn has_it<T: Hashed<DefaultHashBuilder>>() {}

    has_it::<Map<'_, u8, u8>>();
    has_it::<Cache<'_, u8, u8>>();
    has_it::<Lru<u8>>();
    has_it::<TableCache<u8, u8>>();
    has_it::<DHash<u8>>();
    has_it::<Partitioned<u8, ()>>();
}
