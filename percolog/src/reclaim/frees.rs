//! The way of an object from being retired to being destroyed.

use super::collector::{Collector, TARGET, TARGET_A_BARRIER, TARGET_A_THREAD};
use super::queue::{self, BLOCK, Chain, Retired};
use super::records::{Counts, Record, add};
use crate::cpu::Environment;
use crate::cpu::barrier::BarrierMode;
use crate::sync::atomic::Ordering;
use crate::sync::global::AtomicU64 as Count;

/// How many objects a thread destroys when it retires one: one more than it adds, so that what has
/// gathered goes away, and few, so that no single call takes long.
const PACE: usize = 2;

/// How many when very many have gathered, behind a section that was open for long.
const PACE_AFTER_A_STALL: usize = 8;

/// How many targets a thread lets gather between two looks, however long a section is in the way.
const LONGEST: usize = 4;

/// What is very many.
const MANY: usize = 8 * TARGET;

impl<E: Environment> Collector<E> {
    /// The target of a record that has never been used. Different ones, so that threads that do the
    /// same at the same pace do not all look for quiescence at the same moment.
    pub(super) fn first_target(index: usize) -> usize {
        TARGET + spread(index, TARGET)
    }

    /// Takes a free record.
    pub(super) fn take_record(&self, hint: usize) -> &Record {
        self.records.take(hint, Self::first_target)
    }

    /// Retires an object that the caller, who holds the record, has unlinked.
    ///
    /// Wait-free: at most a few objects are destroyed, and every 64 objects one word is read, or, if
    /// that does not help and enough objects have gathered, one line of each active thread.
    #[inline]
    pub(super) fn retire(&self, record: &Record, retired: Retired) {
        let private = &*record.private;
        add(&private.counts.retired, 1);
        add(&private.counts.retired_bytes, retired.bytes() as u64);
        private.since_attempt.set(private.since_attempt.get() + 1);
        // SAFETY: the caller holds the record.
        let (full, ready) =
            unsafe { record.with_queue(|queue| (queue.push(retired), queue.readies)) };
        if full {
            self.seal(record);
            self.look_for_quiescence(record, false);
        }
        if ready != 0 {
            let pace = if ready > MANY {
                PACE_AFTER_A_STALL
            } else {
                PACE
            };
            self.destroy_ready(record, pace);
        }
    }

    /// Closes the open block, if there is one.
    pub(super) fn seal(&self, record: &Record) {
        // Taken out first: what the grace period retires goes to another block.
        // SAFETY: the caller holds the record.
        if let Some(block) = unsafe { record.with_queue(|queue| queue.take_open()) } {
            let (stamp, ticket) = self.now_and_ticket();
            // SAFETY: as above.
            unsafe { record.with_queue(|queue| queue.seal(block, stamp, ticket)) };
        }
    }

    fn now_and_ticket(&self) -> (u64, u64) {
        // Code of the user: no queue is borrowed. Blocks that it fills are stamped earlier, and queued
        // earlier.
        let ticket = self.options.grace.map_or(0, |grace| grace.begin());
        (self.now(), ticket)
    }

    /// Moves what is quiescent to where it is destroyed from; looks at other threads if enough has
    /// gathered since the last time, or if told to.
    #[cold]
    pub(super) fn look_for_quiescence(&self, record: &Record, at_once: bool) {
        self.ensure_process();
        self.adopt(record);
        let private = &*record.private;
        if self.ripen(record) {
            add(&private.counts.borrowed, 1);
            // Somebody else looks at the threads: as long as that helps, one of all is enough.
            private.since_attempt.set(0);
            // Who has only borrowed so far would look after as few as a record begins with.
            private.target.set(self.target(record));
        }
        // SAFETY: the caller holds the record.
        let oldest =
            || unsafe { record.with_queue(|queue| queue.oldest().map(|block| block.stamp)) };
        let Some(stamp) = oldest() else { return };
        if stamp < self.known_to(record) {
            // Only the custom grace period has not elapsed.
            return;
        }
        if !at_once && private.since_attempt.get() < private.target.get() {
            return;
        }
        private.since_attempt.set(0);
        if self.is_current(stamp) {
            // Sections that begin from now on will not be in the way; those that are open would be, so the look is taken
            // when the next block is full. All that is retired until then waits for one tick: each costs every thread a
            // line.
            self.advance(stamp);
            if !at_once {
                let target = private.target.get();
                private.since_attempt.set(target.saturating_sub(BLOCK));
                return;
            }
        }
        match self.scan(Some(record), stamp) {
            Ok(bound) => {
                private.known.set(private.known.get().max(bound));
                private.target.set(self.target(record));
                self.ripen(record);
                // What is left can be quiescent the next time, if sections have moved on by then. Who is in no hurry moves
                // the clock on when enough has gathered for a look.
                if let Some(left) = oldest().filter(|_| at_once) {
                    self.advance(left);
                }
            }
            Err(obstacle) => {
                // Less often, so that looking in vain costs little; but often enough to see soon that
                // whoever is in the way has left.
                let least = self.target(record);
                let later = (private.target.get() + TARGET).min(LONGEST * least);
                private.target.set(least.max(later));
                self.note(obstacle);
            }
        }
    }

    /// How many objects a thread retires before it looks for quiescence again: so many that what the
    /// look costs is little for each of them.
    ///
    /// Up to twice that, another number for each thread and each time: what one finds out lets all begin to count again at the same
    /// moment, and they would all look again at the same moment. So the first one does, and the others find its result.
    fn target(&self, record: &Record) -> usize {
        let least = self.worth_a_look(Some(record));
        // Relaxed: the caller is the only one that writes it.
        let scans = record.private.counts.scans.load(Ordering::Relaxed) as usize;
        least + spread(record.index.wrapping_add(scans), least)
    }

    /// How many objects should have gathered at least, so that a look at all threads, but for the one that has the record, costs
    /// little for each.
    pub(super) fn worth_a_look(&self, own: Option<&Record>) -> usize {
        let others = || {
            self.records
                .active_from(0)
                .any(|other| own.is_none_or(|own| other.index != own.index))
        };
        let least = if self.hot.mode == BarrierMode::Membarrier && others() {
            TARGET_A_BARRIER
        } else {
            TARGET
        };
        least.max(TARGET_A_THREAD * self.records.active_count())
    }

    /// Up to where this thread may take everything to be quiescent.
    fn known_to(&self, record: &Record) -> u64 {
        if self.options.optimizations.borrow_quiescence {
            self.known()
        } else {
            record.private.known.get()
        }
    }

    /// Moves blocks that are quiescent, and whose custom grace period has elapsed, to where they are
    /// destroyed from; tells whether there were any.
    fn ripen(&self, record: &Record) -> bool {
        let known = self.known_to(record);
        let mut any = false;
        loop {
            // SAFETY: the caller holds the record.
            let oldest = unsafe {
                record.with_queue(|queue| queue.oldest().map(|block| (block.stamp, block.ticket)))
            };
            match oldest {
                Some((stamp, ticket)) if stamp < known => {
                    // Code of the user: no queue is borrowed. It may retire objects, which go behind
                    // this block, and even come here.
                    if !self.options.grace.is_none_or(|grace| grace.elapsed(ticket)) {
                        return any;
                    }
                    // SAFETY: as above.
                    unsafe { record.with_queue(|queue| queue.ripen(stamp, ticket)) };
                    any = true;
                }
                _ => return any,
            }
        }
    }

    /// Destroys up to `limit` objects that may be; returns how many. Destructors run here: code of
    /// users, which may retire objects and enter sections of this domain. What they retire waits.
    pub(super) fn destroy_ready(&self, record: &Record, limit: usize) -> usize {
        let private = &*record.private;
        if private.destroying.replace(true) {
            return 0;
        }
        /// Also when a destructor panics where that cannot be caught.
        struct Done<'a>(&'a core::cell::Cell<bool>);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        let _done = Done(&private.destroying);
        let mut left = limit;
        let panics = contain(|| {
            while left != 0 {
                // SAFETY: the caller holds the record.
                let Some(retired) = (unsafe { record.with_queue(|queue| queue.take_ready()) })
                else {
                    return;
                };
                left -= 1;
                add(&private.counts.destroyed, 1);
                add(&private.counts.destroyed_bytes, retired.bytes() as u64);
                // SAFETY: quiescent, by `ripen`: see the collector.
                unsafe { retired.destroy() };
            }
        });
        add(&private.counts.panics, panics);
        limit - left
    }

    /// Takes over what threads that have exited left behind.
    fn adopt(&self, record: &Record) {
        // Relaxed: a hint; the lock orders.
        if self.orphaned.load(Ordering::Relaxed) == 0 {
            return;
        }
        let orphans = self.try_rarely(|rare| {
            self.orphaned.store(0, Ordering::Relaxed);
            core::mem::replace(&mut rare.orphans, Chain::new())
        });
        if let Some(mut orphans) = orphans {
            // A later stamp than theirs, so that the queue stays in order.
            self.seal(record);
            let (stamp, ticket) = self.now_and_ticket();
            orphans.restamp(stamp, ticket);
            // SAFETY: the caller holds the record.
            unsafe { record.with_queue(|queue| queue.adopt(orphans)) };
        }
    }

    /// Hands what is queued here to whoever retires next. The caller holds the record.
    pub(super) fn abandon(&self, record: &Record) {
        self.rarely(|rare| {
            // A domain that is closed has destroyed it.
            if !rare.closed {
                // SAFETY: the caller holds the record, and closing takes this lock.
                let rest = unsafe { record.with_queue(|queue| queue.take_all(0, 0)) };
                if !rest.is_empty() {
                    rare.orphans.append(rest);
                    // Relaxed: a hint; the lock orders.
                    self.orphaned.store(1, Ordering::Relaxed);
                }
            }
        });
    }

    /// Everything that is retired and not destroyed, and nothing is taken in any more.
    ///
    /// # Safety
    /// Nobody uses the domain any more, and no section is open.
    pub(super) unsafe fn close(&self) -> impl Iterator<Item = Retired> {
        let all = self.rarely(|rare| {
            rare.closed = true;
            let mut all = core::mem::replace(&mut rare.orphans, Chain::new());
            for record in self.records.all() {
                // SAFETY: nobody uses the domain; threads that exit take this lock before they look at
                // their record, and then see that it is closed.
                all.append(unsafe { record.with_queue(|queue| queue.take_all(0, 0)) });
            }
            all
        });
        queue::drain(all)
    }

    /// The bytes of all that is retired and not destroyed.
    pub(super) fn unreclaimed_bytes(&self) -> u64 {
        self.total(|counts| &counts.retired_bytes)
            .saturating_sub(self.total(|counts| &counts.destroyed_bytes))
    }

    /// The sum of one number of all records.
    pub(super) fn total(&self, of: impl Fn(&Counts) -> &Count) -> u64 {
        self.records
            .all()
            // Relaxed: numbers for people, and for the cap.
            .map(|record| of(&record.private.counts).load(Ordering::Relaxed))
            .fold(0, u64::wrapping_add)
    }
}

/// A number below `range` for each `number`, evenly distributed; in whole blocks, because looks are taken when a block is full.
fn spread(number: usize, range: usize) -> usize {
    let blocks = (range / BLOCK).max(1) as u64;
    // The golden ratio's multiples, of which the fractions are spread as evenly as can be.
    let fraction = u64::from((number as u32).wrapping_mul(0x9e37_79b9));
    ((fraction * blocks) >> 32) as usize * BLOCK
}

/// Runs `f` until it returns without a panic; how often it panicked.
#[cfg(all(feature = "std", not(percolog_loom)))]
pub(crate) fn contain(mut f: impl FnMut()) -> u64 {
    let mut panics = 0;
    while let Err(payload) = std::panic::catch_unwind(core::panic::AssertUnwindSafe(&mut f)) {
        panics += 1;
        // What was thrown may panic when it is dropped: then it is leaked.
        let drop_it = core::panic::AssertUnwindSafe(|| drop(payload));
        if let Err(second) = std::panic::catch_unwind(drop_it) {
            core::mem::forget(second);
        }
    }
    panics
}

/// Without an operating system, and in models, panics cannot be caught.
#[cfg(not(all(feature = "std", not(percolog_loom))))]
pub(crate) fn contain(mut f: impl FnMut()) -> u64 {
    f();
    0
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn neighbours_look_at_different_times() {
        for range in [128, 640, 1024] {
            let numbers: Vec<usize> = (0..64).map(|number| spread(number, range)).collect();
            assert!(
                numbers
                    .iter()
                    .all(|at| *at < range && at.is_multiple_of(BLOCK))
            );
            // Each block of the range is somebody's, and nobody has the same as most others.
            for at in (0..range).step_by(BLOCK) {
                let here = numbers.iter().filter(|number| **number == at).count();
                assert!(
                    here >= 1 && here <= 2 * 64 * BLOCK / range,
                    "{here} of 64 look after {at} of {range}"
                );
            }
        }
        assert_eq!(spread(7, 1), 0);
    }
}
