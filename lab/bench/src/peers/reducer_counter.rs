//! `percolog::reduce::Reducer` as a counter whose reads are of one moment.

use percolog::cpu::LINE_SIZE;
use percolog::reduce::{Reducer, Sum};

use crate::interfaces::{Bytes, CounterPeer, Reading};

/// A sum in a reducer.
#[derive(Debug)]
pub struct ReducerCounter;

static HITS: Reducer<Sum<u64>> = Reducer::new();

/// What the first update allocates, before any share.
const TABLE: usize = 512;

impl CounterPeer for ReducerCounter {
    const NAME: &'static str = "Reducer<Sum>";
    const READING: Reading = Reading::OneMoment;

    #[inline]
    fn add() {
        HITS.update(|sum| sum.add(1));
    }

    #[inline]
    fn total() -> u64 {
        HITS.read().0
    }

    fn bytes(threads: usize) -> Bytes {
        Bytes {
            idle: hot_bytes(0) - TABLE,
            hot: hot_bytes(threads),
        }
    }
}

/// What a share takes in the list of those that `fork` keeps whole, about: a key and a number, in the nodes of a tree.
const IN_THE_LIST: usize = 32;

/// What a reducer of one number takes that `threads` threads have updated.
pub(super) fn hot_bytes(threads: usize) -> usize {
    // A share is the sum and 16 bytes, in lines of its own.
    let share = (16 + size_of::<Sum<u64>>()).next_multiple_of(LINE_SIZE);
    size_of::<Reducer<Sum<u64>>>() + TABLE + threads * (share + IN_THE_LIST)
}
