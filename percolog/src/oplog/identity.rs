//! Identities that are added once and removed once.

use core::fmt;
use core::num::NonZeroU64;

/// The right to add something, once.
///
/// "Add, then remove" may be dropped as if neither had happened only if the thing was not there
/// before: with `x` already in a set, adding and removing `x` must leave it absent. [`token_pair`] makes
/// identities that were nowhere before, and the two tokens, which cannot be copied, make sure that
/// each is added and removed at most once.
#[derive(PartialEq, Eq, Hash)]
pub struct AddToken(NonZeroU64);

/// The right to remove what the matching [`AddToken`] adds, once.
#[derive(PartialEq, Eq, Hash)]
pub struct RemoveToken(NonZeroU64);

impl AddToken {
    /// The identity's number, unique in this process.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.0.get()
    }
}

impl RemoveToken {
    /// The identity's number, unique in this process.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for AddToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddToken({})", self.0)
    }
}

impl fmt::Debug for RemoveToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoveToken({})", self.0)
    }
}

/// Returns a new identity: the right to add it and the right to remove it.
///
/// ```
/// use percolog::oplog::{Absorb, AddToken, Logged, LoggedBuilder, Mode, Operation, RemoveToken, token_pair};
/// use std::collections::BTreeMap;
///
/// enum Edit { Open(AddToken, &'static str), Close(RemoveToken) }
///
/// impl Operation<BTreeMap<u64, &'static str>> for Edit {
///     const ABSORBS: bool = true;
///     fn exec(self, open: &mut BTreeMap<u64, &'static str>) {
///         match self {
///             Edit::Open(id, name) => { open.insert(id.id(), name); }
///             Edit::Close(id) => { open.remove(&id.id()); }
///         }
///     }
///     fn absorb(&self) -> Absorb<'_> {
///         match self {
///             Edit::Open(id, _) => Absorb::Add(id),
///             Edit::Close(id) => Absorb::Remove(id),
///         }
///     }
/// }
///
/// // As it is when several threads use it; for one thread alone it would execute both at once.
/// let open: Logged<_, Edit> = LoggedBuilder::new().mode(Mode::Deferring).build(BTreeMap::new());
/// let (birth, death) = token_pair();
/// open.queue(Edit::Open(birth, "a file"));
/// open.queue(Edit::Close(death));
/// assert!(open.synchronize().is_empty());
/// assert_eq!(open.stats().executed, 0); // the two cancelled each other where they were queued
/// ```
///
/// *Progress:* wait-free. *Cost:* a thread takes numbers in blocks of 65,536, so one transfer in as
/// many calls; without `std`, one transfer a call.
#[must_use]
pub fn token_pair() -> (AddToken, RemoveToken) {
    let number = numbers::next();
    (AddToken(number), RemoveToken(number))
}

#[cfg(feature = "std")]
mod numbers {
    use crate::sync::global::{AtomicU64, Ordering};
    use core::cell::Cell;
    use core::num::NonZeroU64;

    const BLOCK: u64 = 1 << 16;

    /// The next block's number. 2^48 blocks are not used up.
    static BLOCKS: AtomicU64 = AtomicU64::new(0);

    std::thread_local! {
        /// The last number given out; a multiple of `BLOCK` when the block is used up, or there is
        /// none yet.
        static LAST: Cell<u64> = const { Cell::new(0) };
    }

    #[inline]
    pub(super) fn next() -> NonZeroU64 {
        let mut last = LAST.get();
        if last.is_multiple_of(BLOCK) {
            // Relaxed: only that every thread gets another number matters.
            last = BLOCKS.fetch_add(1, Ordering::Relaxed) * BLOCK;
        }
        // A block's numbers run from 1 to BLOCK beyond its start: never 0.
        let next = last + 1;
        LAST.set(next);
        NonZeroU64::MIN.saturating_add(next - 1)
    }
}

#[cfg(not(feature = "std"))]
mod numbers {
    use crate::sync::global::{AtomicU64, Ordering};
    use core::num::NonZeroU64;

    static LAST: AtomicU64 = AtomicU64::new(0);

    pub(super) fn next() -> NonZeroU64 {
        // Relaxed: only that every caller gets another number matters.
        NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn identities_never_repeat() {
        let threads: std::vec::Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    (0..100_000)
                        .map(|_| {
                            let (birth, death) = token_pair();
                            assert_eq!(birth.id(), death.id());
                            birth.id()
                        })
                        .collect::<std::vec::Vec<_>>()
                })
            })
            .collect();
        let mut all: std::vec::Vec<u64> = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 400_000);
        assert!(!all.contains(&0));
    }
}
