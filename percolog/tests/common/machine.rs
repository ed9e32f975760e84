//! A machine whose slots, clocks and scheduling are made up.

use percolog::cpu::CoreId;
use percolog::testing::Environment;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static SLOT: Cell<u32> = const { Cell::new(0) };
    static CHANCE: RefCell<Option<fastrand::Rng>> = const { RefCell::new(None) };
}

/// Puts the calling thread on a slot of every [`Machine`].
pub(crate) fn stand_on(slot: u32) {
    SLOT.set(slot);
}

/// From now on the calling thread is moved at random, and is held up at random, whenever a structure
/// looks at its slot or its clock.
pub(crate) fn be_moved(seed: u64) {
    CHANCE.set(Some(fastrand::Rng::with_seed(seed)));
}

/// A machine. Clones are the same machine.
#[derive(Clone)]
pub(crate) struct Machine(Arc<Parts>);

struct Parts {
    /// True time, in ticks.
    now: AtomicU64,
    /// How far true time advances between two looks at any clock: what the fastest hand-off between
    /// two threads takes.
    hand_off: u64,
    /// By slot: how far its clock is ahead of true time.
    ahead: Vec<u64>,
    /// Slots that moved threads end up on.
    slots: Vec<u32>,
    /// Added to all clocks, which are right when it is not zero: set when the clocks were found wrong.
    repaired: AtomicU64,
}

impl Machine {
    /// Slots with exact clocks.
    pub(crate) fn exact(slots: &[u32]) -> Self {
        Self::skewed(slots, 1, Vec::new())
    }

    /// Slots whose clocks are ahead by this much; those not named are not.
    pub(crate) fn skewed(slots: &[u32], hand_off: u64, ahead: Vec<u64>) -> Self {
        Self(Arc::new(Parts {
            now: AtomicU64::new(hand_off),
            hand_off,
            ahead,
            slots: slots.to_vec(),
            repaired: AtomicU64::new(0),
        }))
    }

    /// Moves the thread, or holds it up, if it wants to be.
    fn perturb(&self) {
        CHANCE.with_borrow_mut(|chance| {
            let Some(chance) = chance else { return };
            let slots = &self.0.slots;
            match chance.u8(..8) {
                0 | 1 => SLOT.set(slots[chance.usize(..slots.len())]),
                2 | 3 => std::thread::yield_now(),
                4 => (0..chance.u32(..200)).for_each(|_| std::hint::spin_loop()),
                _ => {}
            }
        });
    }
}

impl Environment for Machine {
    fn slot(&self) -> CoreId {
        self.perturb();
        CoreId::new(SLOT.get())
    }

    fn stamp(&self) -> u64 {
        self.perturb();
        let parts = &*self.0;
        let now = parts.now.fetch_add(parts.hand_off, Ordering::SeqCst);
        match parts.repaired.load(Ordering::SeqCst) {
            0 => now + parts.ahead.get(SLOT.get() as usize).unwrap_or(&0),
            leap => now + leap,
        }
    }

    fn chip(&self) -> usize {
        self.perturb();
        SLOT.get() as usize % 2
    }

    fn disorder(&self, latest: u64) {
        // As the native clock does: all clocks are given up for one that is right, and that starts
        // beyond what any of them can still show.
        let most = self.0.ahead.iter().max().unwrap_or(&0);
        self.0.repaired.fetch_max(latest + most, Ordering::SeqCst);
    }
}
