//! A `static AtomicU64`: what most programs have today.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::interfaces::{Bytes, CounterPeer, Reading};

/// One atomic counter, alone on its cache line: no neighbour slows it down.
#[derive(Debug)]
pub struct Atomic;

#[repr(align(128))]
struct Alone(AtomicU64);

static HITS: Alone = Alone(AtomicU64::new(0));

impl CounterPeer for Atomic {
    const NAME: &'static str = "static AtomicU64";
    const READING: Reading = Reading::OneMoment;

    #[inline]
    fn add() {
        // Relaxed, as programs count: the final read is ordered by joining the threads.
        HITS.0.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn total() -> u64 {
        HITS.0.load(Ordering::Relaxed)
    }

    fn bytes(_threads: usize) -> Bytes {
        // The word; kept apart from its neighbours it takes a line.
        Bytes::always(size_of::<AtomicU64>())
    }
}
