//! Updates that find no room: one that has found its queue full and is not to be refused merges, or waits for who does. And many at once.

use super::gate::{Door, Refusal, Wait};
use super::limits::{Full, FullReason};
use super::queue::Absorbed;

/// An object with a queue at its limit, as the update sees it that found it so.
pub(super) trait Crowded {
    /// Whether nothing is merged any more, since a panic may have left the state half changed.
    fn is_stuck(&self) -> bool;

    /// Takes the object for this thread alone.
    fn enter(&self, wait: Wait) -> Result<Door<'_>, Refusal>;

    /// Takes the object, which this thread does not hold, for itself unless this slot's queue is found below its limit first.
    fn enter_unless_short(&self) -> Option<Door<'_>>;

    fn merge_for_updater(&self, door: Door<'_>);
}

/// Merges if that needs no waiting; whether it did.
pub(super) fn merge_unless_busy(object: &impl Crowded) -> bool {
    if object.is_stuck() {
        return false;
    }
    match object.enter(Wait::No) {
        Ok(door) => {
            object.merge_for_updater(door);
            true
        }
        Err(_) => false,
    }
}

/// Merges, or waits for who does, until `append`, which hands back what it has no room for, finds room below the hard limit.
pub(super) fn merge_or_grow<O>(
    object: &impl Crowded,
    mut operation: O,
    mut append: impl FnMut(O) -> Result<(), O>,
) -> Result<(), Full<O>> {
    let mut reason = if object.is_stuck() {
        FullReason::Poisoned
    } else {
        match object.enter(Wait::No) {
            Ok(door) => {
                object.merge_for_updater(door);
                FullReason::Limit
            }
            Err(Refusal::Held) => FullReason::Held,
            Err(Refusal::Busy) => FullReason::Busy,
        }
    };
    loop {
        match append(operation) {
            Ok(()) => return Ok(()),
            Err(back) => operation = back,
        }
        // Waiting for oneself, or for nothing, cannot help.
        if let FullReason::Held | FullReason::Poisoned = reason {
            return Err(Full { operation, reason });
        }
        // Somebody else merges or reads, and the queue is at its hard limit: until they have taken it. All others that were
        // full then wait as well, and would merge one after the other what little there is by then.
        if let Some(door) = object.enter_unless_short() {
            object.merge_for_updater(door);
        }
        if object.is_stuck() {
            reason = FullReason::Poisoned;
        }
    }
}

/// How many operations go in with one lock and stamp.
pub(super) const CHUNK: usize = 16;

/// What has become of the operations of a chunk: absorbed ones, which are dropped without a lock, and those that are left over.
pub(super) type Left<O> = [Option<Result<Absorbed<O>, O>>; CHUNK];

/// Hands operations on, in order: `some` takes as many as there is room for, and `one` each that it has left over.
pub(super) fn in_chunks<O>(
    operations: impl IntoIterator<Item = O>,
    mut some: impl FnMut([Option<O>; CHUNK]) -> Left<O>,
    mut one: impl FnMut(O) -> Result<(), Full<O>>,
) -> Result<(), Full<O>> {
    let mut operations = operations.into_iter();
    loop {
        // The iterator is the caller's code and is asked with no lock held.
        let chunk: [Option<O>; CHUNK] = core::array::from_fn(|_| operations.next());
        if chunk[0].is_none() {
            return Ok(());
        }
        let left = some(chunk);
        let complete = left[CHUNK - 1].is_some();
        for operation in left.into_iter().flatten().filter_map(Result::err) {
            one(operation)?;
        }
        if !complete {
            return Ok(());
        }
    }
}
