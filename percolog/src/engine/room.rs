//! An update that has found its queue full and is not to be refused: it merges, or waits for who does.

use super::gate::{Door, Refusal, Wait};
use super::limits::{Full, FullReason};

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
