//! What a structure has to be able to do to be compared: the duels are written against these, and each peer implements them.

use std::collections::BTreeSet;

/// A counter in a `static`, as programs use it: no instance to pass around.
pub trait CounterPeer: Sync {
    /// How tables call it.
    const NAME: &'static str;

    /// What [`total`](Self::total) shows while others add.
    const READING: Reading;

    /// Adds one.
    fn add();

    /// The number of adds: all that have finished, exactly once nobody adds.
    fn total() -> u64;

    /// What one takes of memory, where `threads` threads add as fast as they can.
    fn bytes(threads: usize) -> Bytes;
}

/// What a read shows while others add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The value at one moment during the read, whatever was added: the counter is linearizable.
    OneMoment,
    /// A sum over parts that go on changing: every add that finished before, and of those under way each or not. With
    /// ones alone that is the value at one moment too; with other amounts, or up and down, it may be none
    /// that the counter ever had.
    FinishedAdds,
}

impl Reading {
    /// In a few words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::OneMoment => "read at one moment",
            Self::FinishedAdds => "read while others add",
        }
    }
}

/// What a counter takes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Before anybody adds.
    pub idle: usize,
    /// While threads add as fast as they can.
    pub hot: usize,
}

impl Bytes {
    /// The same in either state.
    #[must_use]
    pub fn always(bytes: usize) -> Self {
        Self {
            idle: bytes,
            hot: bytes,
        }
    }
}

/// A set of open ids that threads share.
pub trait SetPeer: Sync + Sized {
    /// How tables call it.
    const NAME: &'static str;

    /// A set that holds `initial`.
    fn with(initial: BTreeSet<u64>) -> Self;

    /// Adds an id.
    fn open(&self, id: u64);

    /// Removes an id.
    fn close(&self, id: u64);

    /// Adds an id, and says whether it was not there before.
    fn open_and_tell(&self, id: u64) -> bool;

    /// Removes an id, and says whether it was there before.
    fn close_and_tell(&self, id: u64) -> bool;

    /// Says whether an id is in the set, all finished changes considered.
    fn contains(&self, id: u64) -> bool;

    /// The number of ids in the set.
    fn count(&self) -> usize;

    /// The final read, for structures that have something to bring together.
    fn settle(&self);

    /// A copy of the set, for the check at the end.
    fn contents(&self) -> BTreeSet<u64>;
}

/// A count of things in use.
pub trait Gauge: Sync + Sized {
    /// How tables call it.
    const NAME: &'static str;

    /// What [`in_use`](Self::in_use) shows while others acquire and release.
    const READING: Reading;

    /// Nothing is in use.
    fn new() -> Self;

    /// One more is in use.
    fn acquire(&self);

    /// One less is in use.
    fn release(&self);

    /// How many are in use.
    fn in_use(&self) -> i64;

    /// What one takes of memory now, if `threads` threads have acquired and released.
    fn bytes(&self, threads: usize) -> usize;
}
