//! What a server keeps: by key, the answer to a `get` as it is sent, without `VALUE` and the key.

use std::fmt;
use std::hash::RandomState;
use std::sync::{Arc, Mutex, PoisonError};

use percolog::collections;
use percolog::collections::cache::CacheBuildError;
use percolog::reclaim::Domain;

use crate::caches::LeastRecent;

/// Answers by key.
pub trait Items: Send + Sync {
    /// How figures call it.
    const NAME: &'static str;

    /// Calls `look` with the answer, if there is one.
    fn get(&self, key: &[u8], look: impl FnOnce(&[u8]));

    /// Keeps an answer.
    ///
    /// # Errors
    /// There is no room for it; what was there may be gone.
    fn set(&self, key: &[u8], answer: Box<[u8]>) -> Result<(), Refused>;
}

/// An item was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no room for the item")
    }
}

impl std::error::Error for Refused {}

static DOMAIN: Domain = Domain::new();

/// In a `percolog::collections::Cache`.
#[derive(Debug)]
pub struct OurItems(collections::Cache<'static, Box<[u8]>, Box<[u8]>>);

impl OurItems {
    /// With room for so many bytes, keys and what is needed to find them included.
    ///
    /// # Errors
    /// These are too few, or there is no memory for the tables.
    pub fn new(bytes: usize) -> Result<Self, CacheBuildError> {
        let builder = collections::Cache::<Box<[u8]>, Box<[u8]>>::builder(bytes)
            .weigher(|key, answer| key.len() + answer.len());
        Ok(Self(builder.build(&DOMAIN)?))
    }
}

impl Items for OurItems {
    const NAME: &'static str = "Cache";

    fn get(&self, key: &[u8], look: impl FnOnce(&[u8])) {
        self.0.observe(key, |answer| look(answer));
    }

    fn set(&self, key: &[u8], answer: Box<[u8]>) -> Result<(), Refused> {
        match self.0.set(key.into(), answer) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refused),
        }
    }
}

/// In the exact order of use behind one lock.
#[derive(Debug)]
pub struct LockedItems(Mutex<Recent>);

type Recent = LeastRecent<Arc<[u8]>, Box<[u8]>, RandomState>;

impl LockedItems {
    /// With room for so many items.
    #[must_use]
    pub fn new(items: usize) -> Self {
        Self(Mutex::new(LeastRecent::new(items)))
    }
}

impl Items for LockedItems {
    const NAME: &'static str = "Mutex<LRU>";

    fn get(&self, key: &[u8], look: impl FnOnce(&[u8])) {
        let mut items = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = items.get(key) {
            look(answer);
        }
    }

    fn set(&self, key: &[u8], answer: Box<[u8]>) -> Result<(), Refused> {
        let mut items = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        items.set(key.into(), answer);
        Ok(())
    }
}
