//! What implementations on [`percolog::ldu`] have in common: the log that their objects are made with, and the
//! two halves of an entry's life.
//!
//! Both halves are handles of one entry. In a kernel that is a part of the memory of what enters (of a mapping, of an open
//! file), and is there before it enters and for as long as the log has it; so here, too, it is
//! made with the life.

use super::Entry;
use percolog::cpu;
use percolog::ldu::{self, Container, Deferred, DeferredBuilder, UpdateError, Variant};
use std::fmt;

/// How many entries a core's log holds before somebody looks at them: as many as in
/// [logs that absorb](super::Implementation::OplogAbsorb), so that what is compared is what an update costs.
///
/// An entry that has come and gone stays in the log until then; it takes a look, and no work.
const LIMIT: usize = 512;

/// Which of the two published logs a structure has.
pub trait Queue: fmt::Debug + Default + Send + Sync + 'static {
    /// The log's variant.
    const VARIANT: Variant;

    /// How many entries one log holds before somebody looks at them.
    fn limit() -> usize;
}

/// A log for each core: an entry that comes into one moves no line that other cores use.
#[derive(Debug, Default)]
pub struct PerCoreQueue;

/// One lock-free list for all cores: an entry that comes into it moves the list's line, and whoever reads has one
/// place to look.
#[derive(Debug, Default)]
pub struct GlobalQueue;

impl Queue for PerCoreQueue {
    const VARIANT: Variant = Variant::PerCore;

    fn limit() -> usize {
        LIMIT
    }
}

impl Queue for GlobalQueue {
    const VARIANT: Variant = Variant::Global;

    /// As many as all the logs of the cores together.
    fn limit() -> usize {
        LIMIT * cpu::count().max(1)
    }
}

/// A container behind the log that `Q` says.
pub(super) fn deferred<Q: Queue, C: Container>(container: C) -> Deferred<C> {
    DeferredBuilder::new()
        .variant(Q::VARIANT)
        .limit(Q::limit())
        .build(container)
}

/// Both halves of a life.
pub(super) fn life(entry: Entry) -> (ldu::Entry<Entry>, ldu::Entry<Entry>) {
    let arrival = ldu::Entry::new(entry);
    let departure = arrival.clone();
    (arrival, departure)
}

/// An entry comes, for the first time in its life.
pub(super) fn enter<C: Container<Item = Entry>>(into: &Deferred<C>, arrival: &ldu::Entry<Entry>) {
    let entered = into.insert(arrival);
    assert_eq!(entered, Ok(()), "an entry comes once, and logs grow");
}

/// An entry goes, unless a read has taken it away.
pub(super) fn leave<C: Container<Item = Entry>>(from: &Deferred<C>, departure: &ldu::Entry<Entry>) {
    let left = from.remove(departure);
    assert!(
        matches!(left, Ok(()) | Err(UpdateError::Absent)),
        "an entry goes once, and logs grow: {left:?}"
    );
}
