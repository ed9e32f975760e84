//! Where arrangements that were replaced wait until no call can be using them.
//!
//! They wait in one list, and not with the thread that replaced them: that may do nothing any more, and what stands behind an object may be
//! large. So whoever [collects](collect) drops what all threads have left. The lock is held in [steps](undivided), and no destructor runs
//! under it.

use super::turn::Turn;
use crate::cpu::undivided::undivided;
use crate::reclaim::{Domain, Period, contain};
use crate::sync::SlotLock;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::any::Any;

/// The domain of all objects.
pub(super) static DOMAIN: Domain = Domain::new();

/// What was replaced.
type Replaced = Arc<dyn Any + Send + Sync>;

/// What waits, and for what: in the order in which it came.
static WAITING: SlotLock<VecDeque<(Period, Replaced)>> = SlotLock::new(VecDeque::new());

/// Held by who drops what others have left: their destructors drop nothing more, or they could be nested as deep as the list is long.
static DROPPING: Turn = Turn::new();

/// How much a swap drops: more than it adds.
const PACE: usize = 2;

/// After so many a swap finds out whether it is time for a look at all threads.
const LOOK: usize = 64;

fn with<R>(f: impl FnOnce(&mut VecDeque<(Period, Replaced)>) -> R) -> R {
    undivided(|| f(WAITING.lock().get()))
}

/// How much waits.
pub(super) fn count() -> usize {
    with(|waiting| waiting.len())
}

/// Has something dropped when every section has ended that is open now. No section that begins from now on finds it. Runs destructors
/// of what was replaced before.
pub(super) fn retire(replaced: Replaced) {
    let period = DOMAIN.begin_period();
    let count = with(|waiting| {
        waiting.push_back((period, replaced));
        waiting.len()
    });
    if let Some(_dropping) = DROPPING.try_take() {
        let look = count.is_multiple_of(LOOK) && count >= DOMAIN.worth_a_look();
        drop_some(PACE, look);
    }
}

/// Drops whatever can be dropped; says how much that was.
pub(super) fn collect() -> usize {
    drop_some(usize::MAX, true)
}

fn drop_some(most: usize, look: bool) -> usize {
    let mut dropped = 0;
    // A destructor that panics keeps no other from running; the panic hook has reported it.
    contain(|| {
        while dropped < most
            && let Some(replaced) = take(look)
        {
            dropped += 1;
            drop(replaced);
        }
    });
    dropped
}

/// Takes out what has waited longest, if that is over; with a look at all threads, or as far as others have found out.
fn take(look: bool) -> Option<Replaced> {
    loop {
        let oldest = with(|waiting| waiting.front().map(|(period, _)| *period))?;
        if !DOMAIN.is_over(oldest, look) {
            return None;
        }
        // Another thread may have taken it meanwhile.
        let taken = with(|waiting| {
            let is_over = waiting.front().is_some_and(|(period, _)| *period == oldest);
            is_over.then(|| waiting.pop_front()).flatten()
        });
        if let Some((_, replaced)) = taken {
            return Some(replaced);
        }
    }
}
