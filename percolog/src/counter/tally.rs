//! What a counter itself consists of: sixteen bytes, of which nothing changes while it is hot.

use super::word::{Address, Word};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::const_fn;

/// What a counter itself consists of.
#[derive(Debug)]
pub(super) struct Tally {
    /// Bits of the counter's [`Word`]: its value, or what of it is not in shares.
    word: AtomicU64,
    /// Bits of its [`Address`]: where its shares are.
    address: AtomicU32,
    /// How much a row may keep to itself.
    batch: u32,
}

impl Tally {
    const_fn! {
        pub(super) const fn new(batch: u64) -> Self {
            Self {
                word: AtomicU64::new(Word::ZERO.bits()),
                address: AtomicU32::new(Address::cold(0).bits()),
                batch: if batch < u32::MAX as u64 { batch as u32 } else { u32::MAX },
            }
        }
    }

    #[inline(always)]
    pub(super) fn address(&self) -> Address {
        // Acquire pairs with the Release in `set_address`: shares that the last owner of the place left behind are seen cleared; and
        // who finds the counter cold finds what was moved to the word.
        Address::from_bits(self.address.load(Ordering::Acquire))
    }

    /// Only who holds `Bank::changing` does this.
    pub(super) fn set_address(&self, address: Address) {
        // Release pairs with the Acquire in `address`.
        self.address.store(address.bits(), Ordering::Release);
    }

    pub(super) fn word(&self) -> Word {
        // Acquire pairs with the Release in `settle`: who finds the shares moved, and does not find that said any more, finds the
        // generation of their place over.
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Puts `new` in the place of `current`, or finds something else there.
    pub(super) fn exchange(&self, current: Word, new: Word) -> bool {
        // Relaxed: sums are promised what coherence gives. What `cool_down` moves was acquired, and is released with the address.
        self.word
            .compare_exchange(
                current.bits(),
                new.bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Only for who has it alone.
    pub(super) fn begin_with(&mut self, word: Word) {
        // Relaxed: nobody else has it.
        self.word.store(word.bits(), Ordering::Relaxed);
    }

    /// Says who adds to a cold counter.
    pub(super) fn say_who(&self, address: Address, mine: Address) {
        // Relaxed: it says nothing of memory. If it fails, another one adds, or makes the counter hot.
        let _ = self.address.compare_exchange(
            address.bits(),
            mine.bits(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Takes back that shares were moved: they are cleared.
    pub(super) fn settle(&self) {
        // Release pairs with the Acquire in `word`.
        self.word.fetch_and(Word::SETTLE, Ordering::Release);
    }

    /// Adds a small amount, and returns what was there before. Whatever the address says by now, the word is part of the sum.
    #[inline(always)]
    pub(super) fn step(&self, amount: i64, heat: u64) -> Word {
        // Relaxed: as in `exchange`.
        let before = self
            .word
            .fetch_add(Word::step(amount, heat), Ordering::Relaxed);
        Word::from_bits(before)
    }

    #[inline(always)]
    pub(super) fn batch(&self) -> u64 {
        u64::from(self.batch)
    }

    /// The amount, within what so many rows may keep to themselves.
    pub(super) fn clamp(&self, pending: i64, rows: u64) -> i64 {
        let most = i64::try_from(self.batch().saturating_mul(rows)).unwrap_or(i64::MAX);
        pending.clamp(most.saturating_neg(), most)
    }
}
