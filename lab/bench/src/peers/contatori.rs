//! `contatori`: 128 shards a counter, each thread on the shard of its number.

use contatori::counters::unsigned::Unsigned;
use contatori::counters::{CounterValue, Observable};

use crate::interfaces::{Bytes, CounterPeer, Reading};

/// contatori's unsigned counter in a static.
#[derive(Debug)]
pub struct Contatori;

static HITS: Unsigned = Unsigned::new();

impl CounterPeer for Contatori {
    const NAME: &'static str = "contatori Unsigned";
    const READING: Reading = Reading::FinishedAdds;

    #[inline]
    fn add() {
        HITS.add(1);
    }

    #[inline]
    fn total() -> u64 {
        match HITS.value() {
            CounterValue::Unsigned(total) => total,
            other => unreachable!("an unsigned counter gave {other:?}"),
        }
    }

    fn bytes(_threads: usize) -> Bytes {
        // All shards are there from the start.
        Bytes::always(size_of::<Unsigned>())
    }
}
