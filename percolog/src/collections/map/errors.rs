//! What can go wrong with an entry.

use core::fmt;

use super::list::{Lack, Refused};

/// The error of adding an entry, with its key and value: nothing was added.
pub struct AddError<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// Why.
    pub reason: AddReason,
}

impl<K, V> AddError<K, V> {
    pub(super) fn because(Refused { key, value, lack }: Refused<K, V>) -> Self {
        let reason = match lack {
            Lack::Exists(_) => AddReason::Exists,
            Lack::Memory(limit) => AddReason::Exhausted { limit },
        };
        Self { key, value, reason }
    }
}

/// The reason why no entry was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddReason {
    /// There is an entry with this key.
    Exists,
    /// There is no memory for an entry, also after what waited for sections to end was looked through.
    Exhausted {
        /// The [limit](super::MapBuilder::limit) in bytes, if that is what has been reached; `None` if the system has no memory.
        limit: Option<usize>,
    },
}

/// The error of changing an entry: nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no entry with this key.
    Absent,
    /// A closure panicked while it changed the entry, which can be in the middle of that: put another value in its place, delete
    /// it, or say that it is in order.
    Poisoned,
    /// There is no memory for the new value: as [`AddReason::Exhausted`].
    Exhausted {
        /// The [limit](super::MapBuilder::limit) in bytes, if that is what has been reached.
        limit: Option<usize>,
    },
}

fn exhausted(f: &mut fmt::Formatter<'_>, limit: Option<usize>) -> fmt::Result {
    match limit {
        Some(limit) => write!(f, "the limit of {limit} bytes is reached"),
        None => f.write_str("the system has no memory"),
    }
}

impl fmt::Display for AddReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("there is an entry with this key"),
            Self::Exhausted { limit } => exhausted(f, *limit),
        }
    }
}

impl<K, V> fmt::Display for AddError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<K, V> fmt::Debug for AddError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddError")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<K, V> core::error::Error for AddError<K, V> {}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no entry with this key"),
            Self::Poisoned => f.write_str("a closure panicked while it changed the entry"),
            Self::Exhausted { limit } => exhausted(f, *limit),
        }
    }
}

impl core::error::Error for ChangeError {}
