//! Ordered lists and hash maps whose entries are looked up without locks: alone, and with many threads.
#![cfg(not(percolog_loom))]

mod differential;
mod linearizable;
mod misuse;
mod threads;

use percolog::collections::map::{AddError, ChangeError};
use percolog::collections::{Map, OrderedList};
use percolog::reclaim::{Domain, Section};
use std::hash::{BuildHasher, Hasher, RandomState};

/// Hashes everything to the same few numbers.
#[derive(Clone, Copy, Default)]
struct Colliding<const BITS: u64>;

struct FewBits<const BITS: u64>(u64);

impl<const BITS: u64> Hasher for FewBits<BITS> {
    fn finish(&self) -> u64 {
        self.0 & BITS
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(31) + u64::from(*byte);
        }
    }
}

impl<const BITS: u64> BuildHasher for Colliding<BITS> {
    type Hasher = FewBits<BITS>;

    fn build_hasher(&self) -> FewBits<BITS> {
        FewBits(0)
    }
}

type Every = Colliding<0>;

/// What both structures do.
trait Structure<V: Send + Sync + 'static>: Sync + Sized {
    type In<'d>: Structure<V>;
    /// Whether keys are shown in order.
    const SORTED: bool;

    fn make(domain: &Domain) -> Self::In<'_>;
    fn get<'s>(&'s self, section: &'s Section<'_>, key: u64) -> Option<&'s V>;
    fn observe<R>(&self, key: u64, f: impl FnOnce(&V) -> R) -> Option<R>;
    fn modify<R>(&self, key: u64, f: impl FnOnce(&V) -> R) -> Result<R, ChangeError>;
    fn update(&self, key: u64, f: impl FnOnce(&V) -> V) -> Result<(), ChangeError>;
    fn clear_poison(&self, key: u64) -> bool;
    fn add(&self, key: u64, value: V) -> Result<(), AddError<u64, V>>;
    fn put(&self, key: u64, value: V) -> Result<bool, AddError<u64, V>>;
    fn put_with<R>(
        &self,
        key: u64,
        value: V,
        f: impl FnOnce(&V) -> R,
    ) -> Result<Option<R>, AddError<u64, V>>;
    fn get_or_add<'s>(
        &'s self,
        section: &'s Section<'_>,
        key: u64,
        make: impl FnOnce() -> V,
    ) -> Result<&'s V, AddError<u64, V>>;
    fn delete(&self, key: u64) -> bool;
    fn delete_with<R>(&self, key: u64, f: impl FnOnce(&V) -> R) -> Option<R>;
    fn delete_if(&self, key: u64, f: impl FnOnce(&V) -> bool) -> bool;
    fn iter<'s>(
        &'s self,
        section: &'s Section<'_>,
    ) -> percolog::collections::map::EntryIter<'s, u64, V>;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool;
    fn clear(&self);
    fn collect(&self);
}

macro_rules! structure {
    ($($(#[$generics:meta])? [$($more:ident)?] $name:ident $(<$hasher:ident>)?, $sorted:expr, $new:expr;)*) => {
        $(
            impl<'a, V: Send + Sync + 'static $(, $more: BuildHasher + Default + Sync + Send + 'static)?> Structure<V>
                for $name<'a, u64, V $(, $hasher)?>
            {
                type In<'d> = $name<'d, u64, V $(, $hasher)?>;
                const SORTED: bool = $sorted;

                fn make(domain: &Domain) -> Self::In<'_> {
                    $new(domain)
                }
                fn get<'s>(&'s self, section: &'s Section<'_>, key: u64) -> Option<&'s V> {
                    $name::get(self, section, &key)
                }
                fn observe<R>(&self, key: u64, f: impl FnOnce(&V) -> R) -> Option<R> {
                    $name::observe(self, &key, f)
                }
                fn modify<R>(&self, key: u64, f: impl FnOnce(&V) -> R) -> Result<R, ChangeError> {
                    $name::modify(self, &key, f)
                }
                fn update(&self, key: u64, f: impl FnOnce(&V) -> V) -> Result<(), ChangeError> {
                    $name::update(self, &key, f)
                }
                fn clear_poison(&self, key: u64) -> bool {
                    $name::clear_poison(self, &key)
                }
                fn add(&self, key: u64, value: V) -> Result<(), AddError<u64, V>> {
                    $name::add(self, key, value)
                }
                fn put(&self, key: u64, value: V) -> Result<bool, AddError<u64, V>> {
                    $name::put(self, key, value)
                }
                fn put_with<R>(
                    &self,
                    key: u64,
                    value: V,
                    f: impl FnOnce(&V) -> R,
                ) -> Result<Option<R>, AddError<u64, V>> {
                    $name::put_with(self, key, value, f)
                }
                fn get_or_add<'s>(
                    &'s self,
                    section: &'s Section<'_>,
                    key: u64,
                    make: impl FnOnce() -> V,
                ) -> Result<&'s V, AddError<u64, V>> {
                    $name::get_or_add(self, section, key, make)
                }
                fn delete(&self, key: u64) -> bool {
                    $name::delete(self, &key)
                }
                fn delete_with<R>(&self, key: u64, f: impl FnOnce(&V) -> R) -> Option<R> {
                    $name::delete_with(self, &key, f)
                }
                fn delete_if(&self, key: u64, f: impl FnOnce(&V) -> bool) -> bool {
                    $name::delete_if(self, &key, f)
                }
                fn iter<'s>(
                    &'s self,
                    section: &'s Section<'_>,
                ) -> percolog::collections::map::EntryIter<'s, u64, V> {
                    $name::iter(self, section)
                }
                fn len(&self) -> usize {
                    $name::len(self)
                }
                fn is_empty(&self) -> bool {
                    $name::is_empty(self)
                }
                fn clear(&self) {
                    $name::clear(self);
                }
                fn collect(&self) {
                    $name::collect(self);
                }
            }
        )*
    };
}

structure! {
    [] OrderedList, true, OrderedList::new;
    [S] Map<S>, false, |domain| Map::with_hasher(domain, S::default());
}

/// A list, a map, and maps whose hashes collide a little and altogether.
type List<V> = OrderedList<'static, u64, V>;
type Hashed<V> = Map<'static, u64, V, RandomState>;
type Crowded<V> = Map<'static, u64, V, Colliding<0b1001>>;
type Collided<V> = Map<'static, u64, V, Every>;
