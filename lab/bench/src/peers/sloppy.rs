//! `percolog::counter::SloppyCounter` as a counter of events, which is not what it is for.

use percolog::counter::SloppyCounter;

use crate::interfaces::{Bytes, CounterPeer, Reading};

/// Acquires that nobody releases: there are never spares, so each goes to the central counter.
#[derive(Debug)]
pub struct Sloppy;

/// As many spares as the examples of the documentation keep.
pub(super) const THRESHOLD: u64 = 8;

static HITS: SloppyCounter = SloppyCounter::new(THRESHOLD);

impl CounterPeer for Sloppy {
    const NAME: &'static str = "SloppyCounter, acquires alone";
    const READING: Reading = Reading::OneMoment;

    #[inline]
    fn add() {
        HITS.acquire(1);
    }

    #[inline]
    fn total() -> u64 {
        // Nothing is released: a negative count would be a lost acquire, which the check reports as a wrong total.
        HITS.in_use().unsigned_abs()
    }

    fn bytes(_threads: usize) -> Bytes {
        // A share is for spares, of which there are none.
        Bytes::always(size_of::<SloppyCounter>())
    }
}
