//! One hash for every structure that hashes ids, so that no duel is decided by the hash function.

use std::hash::{BuildHasherDefault, Hasher};

/// Mixes an id so that all bits of the result depend on all bits of it: one multiplication, folded.
#[inline]
#[must_use]
pub fn mix(id: u64) -> u64 {
    // An odd constant without structure: the golden ratio, scaled to 64 bits, is the customary choice.
    let product = u128::from(id ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
    (product >> 64) as u64 ^ product as u64
}

/// [`mix`] as a [`Hasher`], for the peers that want one.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

/// Builds [`IdHasher`]s.
pub type BuildIdHasher = BuildHasherDefault<IdHasher>;

impl Hasher for IdHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, id: u64) {
        self.0 = mix(self.0 ^ id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn neighbouring_ids_do_not_collide() {
        let hashes: BTreeSet<u64> = (0..100_000).map(mix).collect();
        assert_eq!(hashes.len(), 100_000);
        // Both ends of the hash choose buckets somewhere; both must vary.
        let high: BTreeSet<u64> = (0..1000).map(|id| mix(id) >> 56).collect();
        let low: BTreeSet<u64> = (0..1000).map(|id| mix(id) & 0xFF).collect();
        assert!(high.len() > 200 && low.len() > 200);
    }
}
