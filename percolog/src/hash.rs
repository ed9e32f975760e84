//! The hasher of collections that are given no other.

use core::fmt;
use core::hash::{BuildHasher, Hasher};

/// The hasher that collections use unless they are given another one: SipHash, with random keys for each builder.
///
/// Who chooses keys for a collection cannot make them collide, without knowing what only the process knows. That takes some nanoseconds
/// for each key: where nobody who chooses keys means harm, a faster one can be named (`with_hasher`). The random keys are those of
/// [`RandomState`](std::hash::RandomState); without the `std` feature they come from addresses and the clock, which are not as hard to guess. What
/// hashes an equal value has is neither stable nor the same for two builders.
///
/// ```
/// use percolog::collections::DefaultHashBuilder;
/// use std::hash::BuildHasher;
///
/// let hasher = DefaultHashBuilder::new();
/// assert_eq!(hasher.hash_one("key"), hasher.clone().hash_one("key"));
/// ```
#[derive(Clone)]
pub struct DefaultHashBuilder(Keys);

/// The [`Hasher`] of a [`DefaultHashBuilder`].
#[derive(Clone)]
pub struct DefaultHasher(Sip);

#[cfg(feature = "std")]
type Keys = std::hash::RandomState;
#[cfg(feature = "std")]
type Sip = std::hash::DefaultHasher;

#[cfg(not(feature = "std"))]
type Keys = [u64; 2];
#[cfg(not(feature = "std"))]
#[allow(deprecated, reason = "`core` has no other")]
type Sip = core::hash::SipHasher;

#[cfg(not(feature = "std"))]
#[allow(deprecated, reason = "`core` has no other")]
fn sip([first, second]: Keys) -> Sip {
    Sip::new_with_keys(first, second)
}

impl DefaultHashBuilder {
    /// Creates one with random keys of its own.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(feature = "std")]
        return Self(Keys::new());
        #[cfg(not(feature = "std"))]
        Self(guess_proof())
    }
}

/// Numbers that are hard to guess.
#[cfg(not(feature = "std"))]
fn guess_proof() -> Keys {
    use crate::sync::global::{AtomicU64, Ordering};

    static BUILDERS: AtomicU64 = AtomicU64::new(0);
    // Relaxed: each has another number.
    let number = BUILDERS.fetch_add(1, Ordering::Relaxed);
    let key = |salt: u64| {
        let places = [
            (&raw const BUILDERS).addr() as u64,
            (&raw const number).addr() as u64,
        ];
        let mut hasher = sip([places[0], crate::cpu::clock::stamp()]);
        hasher.write_u64(places[1]);
        hasher.write_u64(number);
        hasher.write_u64(salt);
        hasher.finish()
    };
    [key(0), key(1)]
}

impl Default for DefaultHashBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for DefaultHashBuilder {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        #[cfg(feature = "std")]
        return DefaultHasher(self.0.build_hasher());
        #[cfg(not(feature = "std"))]
        DefaultHasher(sip(self.0))
    }
}

impl Hasher for DefaultHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// Does not tell the keys.
impl fmt::Debug for DefaultHashBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultHashBuilder").finish_non_exhaustive()
    }
}

impl fmt::Debug for DefaultHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultHasher").finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_builder_hashes_in_its_own_way() {
        let builders = [DefaultHashBuilder::new(), DefaultHashBuilder::default()];
        let hashes = builders.each_ref().map(|builder| {
            let of = |key: u64| builder.hash_one(key);
            assert_eq!(of(1), builder.clone().hash_one(1u64));
            assert_ne!(of(1), of(2));
            of(1)
        });
        // Equal once in 2⁶⁴ times.
        assert_ne!(hashes[0], hashes[1]);
    }
}
