//! `percolog::counter::Counter` in a static.

use percolog::counter::Counter;

use crate::interfaces::{Bytes, CounterPeer, Reading};

/// percolog's counter, with its default batch.
#[derive(Debug)]
pub struct PercologCounter;

static HITS: Counter = Counter::new();

impl CounterPeer for PercologCounter {
    const NAME: &'static str = "percolog Counter";
    const READING: Reading = Reading::FinishedAdds;

    #[inline]
    fn add() {
        HITS.increment();
    }

    #[inline]
    fn total() -> u64 {
        // Only increments: a negative sum would be a lost update, which the check reports as a wrong total.
        HITS.sum().unsigned_abs()
    }

    fn bytes(threads: usize) -> Bytes {
        let idle = size_of::<Counter>();
        Bytes {
            idle,
            // A share in each thread's row.
            hot: idle + 16 * threads,
        }
    }
}
