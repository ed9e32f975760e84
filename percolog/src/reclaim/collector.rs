//! Sections and quiescence: who is inside since when, and up to when everybody has left.
//!
//! # Why nothing is destroyed too early
//!
//! Let an object be unlinked and then stamped *t*, and let a scan find out the bound *q* with *t* < *q*.
//! Take a section that found the object before it was unlinked. Its thread stored `inside(e)` in its word,
//! passed the light barrier, and then read the link. The scan read the clock (*b*), passed the heavy
//! barrier, and then read the word.
//!
//! * The scan read what the section stored, or something later. If it read `inside(e)`, then *q* ≤ *e*, so *t* < *e*:
//!   the section's stamp was taken after the object's, which was taken after the unlinking (a fence is
//!   between the two). A section reads links after its stamp, so it cannot have found the object.
//!   (With the coarse clock: the section read a tick that was set after the object was stamped with an earlier one.)
//!   If it read what the thread stored when it left, or later, then the section is over, and its reads happened
//!   before the scan's (Release and Acquire), hence before the destruction.
//! * The scan read something earlier. Then of the two barriers the scan's came first: the section read its links after
//!   the scan had read *b*. The bound is at most *b*, so *t* < *b*: the object had been unlinked before the
//!   section read a link, which therefore did not lead to it.
//!
//! # The kernel's barrier
//!
//! Where the light barrier is no instruction, the first case above rests on more than the language promises: the
//! section's read of the new tick, and the *read* of the old one by whoever stamped the object, tell in
//! which order two threads saw a third one's store. That is an order on processors where a store becomes
//! visible to all others at once, as on x86 and ARMv8, for which `tests/anywhere/litmus` goes through it; on others fences are used.
//!
//! # Ties, and what comes first
//!
//! The bound is strict because two different instants can have the same stamp. *b* is read before anything else
//! because a section can begin, and find an object that is retired a moment later, between the look at its thread
//! and a clock read after that.
//!
//! A bound that was found by one thread holds for all: it is published with Release and read with
//! Acquire, so the exits that it rests on happen before whatever is done on its strength. The same is
//! true of what is remembered of single threads.
//!
//! The paper's numbers are the same two for each thread: when it entered, with the exit folded in as a
//! flag (so that entering again at the stamp of the last exit cannot be mistaken for being outside), and
//! up to when it is known to be clear.
//!
//! # Skew
//!
//! With the time stamp counter, stamps of different processors are compared. [`MARGIN`] is taken off each bound,
//! so stamps that are wrong by less than that do no harm.

use core::cell::Cell;

use super::options::{DomainClock, DomainOptions};
use super::queue::Chain;
use super::records::{
    LAST_GIVES_BACK, Record, Records, SECTION, add, inside, is_inside, outside, stamp_of,
};
#[cfg(feature = "std")]
use super::stalled::StalledSection;
use crate::cpu::Environment;
use crate::cpu::barrier::{self, BarrierMode};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{Isolated, UnsafeCell};

/// How many objects a thread retires before it looks for quiescence.
#[cfg(not(percolog_loom))]
pub(super) const TARGET: usize = 128;
#[cfg(percolog_loom)]
pub(super) const TARGET: usize = 1;

/// How many more for each thread that has to be looked at: a scan costs what the threads are, and is
/// shared by what is retired between two scans.
#[cfg(not(percolog_loom))]
pub(super) const TARGET_A_THREAD: usize = 16;
#[cfg(percolog_loom)]
pub(super) const TARGET_A_THREAD: usize = 0;

/// How many if the look takes a barrier that the kernel has to bring to other processors: some 10 µs on
/// a virtual machine, and an interrupt for each of them.
pub(super) const TARGET_A_BARRIER: usize = if cfg!(percolog_loom) { 1 } else { 1024 };

/// What is taken off every bound where stamps of different processors are compared: skew between
/// processors below so many ticks does no harm. About 10 µs of a time stamp counter; processors of one
/// machine whose counter the kernel trusts differ by less than one.
pub(super) const MARGIN: u64 = 1 << 15;

/// What a section reads. Written when the tick moves on.
#[derive(Debug)]
pub(super) struct Hot {
    /// The coarse clock.
    tick: AtomicU64,
    pub(super) mode: BarrierMode,
    pub(super) tsc: bool,
    /// The first optimization is off.
    exits_read_clock: bool,
}

/// What only the process-wide lock of rare steps gives access to.
pub(super) struct Rare {
    /// What threads that have exited left behind.
    pub(super) orphans: Chain,
    /// The section that the last failed scan met, and since when it has been met.
    #[cfg(feature = "std")]
    pub(super) met: Option<(usize, u64, std::time::Instant)>,
    /// The threads that hold records.
    #[cfg(feature = "std")]
    pub(super) holders: alloc::collections::BTreeMap<usize, std::thread::Thread>,
    /// The domain has been dropped: what threads leave behind has been destroyed already.
    pub(super) closed: bool,
}

/// Why a scan found out nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The section of this record, whose word was this.
    Section(usize, u64),
    /// The kernel did not execute the barrier.
    NoBarrier,
}

/// What a domain is made of.
pub(super) struct Collector<E> {
    pub(super) hot: Isolated<Hot>,
    /// Up to where all sections are known to have ended. Read once for each block of retired objects.
    quiescent: Isolated<AtomicU64>,
    pub(super) records: Records,
    pub(super) options: DomainOptions,
    pub(super) environment: E,
    rare: UnsafeCell<Rare>,
    /// For threads, which keep it alive while they hold a record.
    #[cfg(all(feature = "std", not(percolog_loom)))]
    pub(super) itself: alloc::sync::Weak<Self>,
    /// Whether there are orphans: looked at without the lock.
    pub(super) orphaned: AtomicU32,
    /// The process for which the records are right.
    generation: AtomicU64,
    #[cfg(percolog_loom)]
    lock: crate::sync::SlotLock<()>,
}

// SAFETY: everything is atomic, read-only, or, as `rare` is, used under a lock. What is retired may be
// destroyed on any thread.
unsafe impl<E: Sync> Sync for Collector<E> {}
// SAFETY: as above.
unsafe impl<E: Send> Send for Collector<E> {}

impl<E: Environment> Collector<E> {
    pub(super) fn new(
        options: DomainOptions,
        environment: E,
        mode: BarrierMode,
        tsc_trusted: bool,
    ) -> Self {
        // See "The kernel's barrier" above.
        let checked = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        let mode = if options.fenced || !checked {
            BarrierMode::Fence
        } else {
            mode
        };
        Self {
            hot: Isolated::new(Hot {
                // Beyond the stamps that records begin with.
                tick: AtomicU64::new(1),
                mode,
                tsc: options.clock == DomainClock::Tsc && tsc_trusted,
                exits_read_clock: !options.optimizations.exit_without_clock,
            }),
            quiescent: Isolated::new(AtomicU64::new(0)),
            records: Records::new(),
            options,
            environment,
            rare: UnsafeCell::new(Rare {
                orphans: Chain::new(),
                #[cfg(feature = "std")]
                met: None,
                #[cfg(feature = "std")]
                holders: alloc::collections::BTreeMap::new(),
                closed: false,
            }),
            #[cfg(all(feature = "std", not(percolog_loom)))]
            itself: alloc::sync::Weak::new(),
            orphaned: AtomicU32::new(0),
            generation: AtomicU64::new(generation()),
            #[cfg(percolog_loom)]
            lock: crate::sync::SlotLock::new(()),
        }
    }

    /// Puts it where threads find it.
    #[cfg(not(percolog_loom))]
    pub(super) fn shared(self) -> alloc::sync::Arc<Self> {
        #[cfg(feature = "std")]
        return alloc::sync::Arc::new_cyclic(|itself| Self {
            itself: itself.clone(),
            ..self
        });
        #[cfg(not(feature = "std"))]
        alloc::sync::Arc::new(self)
    }

    /// Runs a rare step: one at a time, and never interrupted by a `fork`. `f` runs no code of users.
    pub(super) fn rarely<R>(&self, f: impl FnOnce(&mut Rare) -> R) -> R {
        // SAFETY: under the lock, which is not taken twice: `f` runs none of the users' code.
        let f = || self.rare.with_mut(|rare| f(unsafe { &mut *rare }));
        #[cfg(not(percolog_loom))]
        return crate::cpu::process::rarely(f);
        #[cfg(percolog_loom)]
        {
            let _guard = self.lock.lock();
            f()
        }
    }

    /// The same, unless it would have to wait.
    pub(super) fn try_rarely<R>(&self, f: impl FnOnce(&mut Rare) -> R) -> Option<R> {
        // SAFETY: as in `rarely`.
        let f = || self.rare.with_mut(|rare| f(unsafe { &mut *rare }));
        #[cfg(not(percolog_loom))]
        return crate::cpu::process::try_rarely(f);
        #[cfg(percolog_loom)]
        self.lock.lock_briefly().map(|_guard| f())
    }

    // ── Sections ──

    /// The caller, who holds the record, enters its outermost section.
    ///
    /// Wait-free but for the first section of a record and the first after a long time outside.
    #[inline(always)]
    pub(super) fn begin(&self, record: &Record) {
        let stamp = if self.hot.tsc {
            // Nothing that follows is done before the stamp is taken.
            self.environment.stamp_first()
        } else {
            // Acquire pairs with the exchange in `advance`: links are read after the tick, and whoever
            // sees a new tick sees what was unlinked before it was set.
            self.hot.tick.load(Ordering::Acquire)
        };
        let entered = &*record.entered;
        // Release pairs with the Acquire in `scan`: who sees this section sees the end of the last one.
        entered.word.store(inside(stamp), Ordering::Release);
        // Before any link is read: pairs with the heavy barrier in `scan` and in `park`.
        barrier::light(self.hot.mode);
        // Relaxed: ordered by the barriers alone, see `park`.
        if entered.parked.load(Ordering::Relaxed) != 0 {
            self.unpark(record);
        }
    }

    /// The caller, who holds the record, leaves its outermost section.
    #[inline(always)]
    pub(super) fn end(&self, record: &Record) {
        let word = &record.entered.word;
        // Relaxed: only the caller writes it.
        let mut now = outside(word.load(Ordering::Relaxed));
        if self.hot.exits_read_clock {
            now = outside(inside(self.clock()));
        }
        // Release pairs with the Acquire in `scan`: what the section read was read before whatever is
        // done because it has ended.
        word.store(now, Ordering::Release);
    }

    /// Enters, nested or not.
    #[inline(always)]
    pub(super) fn enter(&self, record: &Record) {
        let depth = record.entered.depth.get();
        record.entered.depth.set(depth + SECTION);
        if depth < SECTION {
            self.begin(record);
        }
    }

    /// Leaves, nested or not.
    #[inline(always)]
    pub(super) fn leave(&self, record: &Record) {
        let depth = record.entered.depth.get() - SECTION;
        record.entered.depth.set(depth);
        if depth < SECTION {
            self.end(record);
            if depth == LAST_GIVES_BACK {
                self.give_back(record);
            }
        }
    }

    /// The end of the outermost section gives the record back: it was taken for that section, or its thread could not wait.
    pub(super) fn last_gives_back(record: &Record) {
        record
            .entered
            .depth
            .set(record.entered.depth.get() | LAST_GIVES_BACK);
    }

    /// Gives back a record whose holder has left all its sections.
    #[cold]
    pub(super) fn give_back(&self, record: &Record) {
        #[cfg(feature = "std")]
        // Relaxed, as below: read in a forked child, which has one thread. Zero if the record was taken for a section.
        if record.holder.load(Ordering::Relaxed) != 0 {
            self.rarely(|rare| {
                rare.holders.remove(&record.index);
            });
            record.holder.store(0, Ordering::Relaxed);
        }
        record.entered.depth.set(0);
        self.records.give_back(record);
    }

    // ── Time ──

    pub(super) fn tells_time_by(&self) -> DomainClock {
        if self.hot.tsc {
            DomainClock::Tsc
        } else {
            DomainClock::Coarse
        }
    }

    /// The time, not before earlier loads.
    #[inline(always)]
    fn clock(&self) -> u64 {
        if self.hot.tsc {
            self.environment.stamp()
        } else {
            // Acquire: later reads are not done before this one.
            self.hot.tick.load(Ordering::Acquire)
        }
    }

    /// A stamp for what the caller has unlinked.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        // The unlinking is visible to everyone before the clock is read: pairs with the barrier of the
        // section that reads the clock later, see the module.
        fence(Ordering::SeqCst);
        self.clock()
    }

    /// Whether the clock still shows this stamp, so that it has to move on before that is quiescent.
    pub(super) fn is_current(&self, stamp: u64) -> bool {
        // Relaxed: who is wrong tries again.
        !self.hot.tsc && self.hot.tick.load(Ordering::Relaxed) <= stamp
    }

    fn margin(&self) -> u64 {
        if self.hot.tsc { MARGIN } else { 0 }
    }

    /// Moves the coarse clock beyond `stamp`, unless it is there. Sections that begin from now on are
    /// not in the way of what was stamped `stamp`.
    pub(super) fn advance(&self, stamp: u64) {
        if self.is_current(stamp) {
            // AcqRel: a section that reads the new tick (Acquire) sees what happened before; failure
            // means that somebody else has moved it on.
            let _ = self.hot.tick.compare_exchange(
                stamp,
                stamp + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    // ── Quiescence ──

    /// Up to where all sections are known to have ended. One load.
    pub(super) fn known(&self) -> u64 {
        // Acquire pairs with the Release in `scan`.
        self.quiescent.load(Ordering::Acquire)
    }

    /// Looks at the threads to find out whether everything stamped `stamp` is quiescent. `own` is the
    /// record of the caller, if it has one. On success returns a bound greater than `stamp`, and the
    /// number of records looked at.
    ///
    /// Wait-free: reads one line of each active thread at most.
    pub(super) fn scan(&self, own: Option<&Record>, stamp: u64) -> Result<u64, Obstacle> {
        let optimizations = &self.options.optimizations;
        // First of all: see the module.
        let began = if self.hot.tsc {
            // No word is read ahead of the stamp: neither fence nor system call would keep a counter that
            // is only read from being late.
            self.environment.stamp_first()
        } else {
            self.clock()
        };
        let began = began.saturating_sub(self.margin());
        // Pairs with the fence in `unpark`: whose bit is not seen below reads links after this.
        fence(Ordering::SeqCst);
        // Pairs with the light barrier in `begin`. Who is alone needs none.
        let alone = |record: &Record| own.is_some_and(|own| own.index == record.index);
        if !self.records.active_from(0).all(alone) && !barrier::heavy(self.hot.mode) {
            return Err(Obstacle::NoBarrier);
        }
        let start = match own {
            Some(own) if optimizations.spread_scans => own.index + 1,
            _ => 0,
        };
        let idle = Cell::new(0);
        let lines = Cell::new(0);
        let look = || {
            let mut bound = began;
            for record in self.records.active_from(start) {
                let clear = self.records.clear(record);
                if optimizations.remember_threads {
                    // Acquire pairs with the Release below.
                    let clear = clear.load(Ordering::Acquire);
                    if clear > stamp {
                        bound = bound.min(clear);
                        continue;
                    }
                }
                // Acquire pairs with the Release in `end`, and with that in `begin`.
                let word = record.entered.word.load(Ordering::Acquire);
                lines.set(lines.get() + 1);
                let left = if is_inside(word) {
                    stamp_of(word).saturating_sub(self.margin())
                } else {
                    if self.is_idle(word, began) {
                        idle.set(idle.get() + 1);
                    }
                    began
                };
                // Release pairs with the Acquire above: who relies on it has the record's exit behind it.
                clear.fetch_max(left, Ordering::Release);
                if left <= stamp {
                    return Err(Obstacle::Section(record.index, word));
                }
                bound = bound.min(left);
            }
            // A clock that has not moved on since.
            if bound <= stamp {
                return Err(Obstacle::NoBarrier);
            }
            // Release pairs with the Acquire in `known`.
            self.quiescent.fetch_max(bound, Ordering::Release);
            Ok(bound)
        };
        let found = look();
        if let Some(own) = own {
            let counts = &own.private.counts;
            add(&counts.scans, 1);
            add(&counts.lines_read, lines.get());
            add(&counts.failed_scans, u64::from(found.is_err()));
        }
        if idle.get() >= super::parking::CROWD {
            self.park(began);
        }
        found
    }

    /// Whether everything stamped `stamp` is quiescent, now.
    pub(super) fn is_quiescent(&self, own: Option<&Record>, stamp: u64) -> Result<(), Obstacle> {
        if stamp < self.known() {
            return Ok(());
        }
        self.advance(stamp);
        let found = self.scan(own, stamp).map(drop);
        if let Err(obstacle) = found {
            self.note(obstacle);
        }
        found
    }

    // ── Whoever is in the way ──

    /// Remembers what a scan has met, so that it can be told for how long it has been in the way.
    pub(super) fn note(&self, obstacle: Obstacle) {
        #[cfg(feature = "std")]
        if let Obstacle::Section(index, word) = obstacle {
            self.try_rarely(|rare| {
                if !matches!(rare.met, Some((i, w, _)) if (i, w) == (index, word)) {
                    rare.met = Some((index, word, std::time::Instant::now()));
                }
            });
        }
        #[cfg(not(feature = "std"))]
        let _ = obstacle;
    }

    /// The section that the last failed scan met, if it is still there.
    #[cfg(all(feature = "std", not(percolog_loom)))]
    pub(super) fn stalled(&self) -> Option<StalledSection> {
        self.rarely(|rare| {
            let (index, word, since) = rare.met?;
            let record = self.records.all().nth(index)?;
            // Relaxed: only to see whether anything has changed.
            if record.entered.word.load(Ordering::Relaxed) != word {
                return None;
            }
            let holder = rare.holders.get(&index);
            Some(StalledSection {
                thread: holder.map(std::thread::Thread::id),
                name: holder.and_then(|thread| thread.name().map(Into::into)),
                at_least: since.elapsed(),
                record: index,
            })
        })
    }

    // ── Fork ──

    /// In a forked child: threads that do not exist here are in no section, and what they had retired
    /// is lost, because they may have been anywhere.
    #[cold]
    fn repair(&self, generation: u64) {
        #[cfg(not(percolog_loom))]
        self.rarely(|_| {
            // Relaxed, all of them: under the lock.
            if self.generation.load(Ordering::Relaxed) == generation {
                return;
            }
            let survivor = crate::cpu::process::survivor();
            for record in self.records.all() {
                let holder = record.holder.load(Ordering::Relaxed);
                if holder != 0
                    && holder != survivor
                    && record.generation.load(Ordering::Relaxed) < generation
                {
                    let word = &record.entered.word;
                    word.store(outside(word.load(Ordering::Relaxed)), Ordering::Release);
                }
            }
            self.generation.store(generation, Ordering::Release);
        });
        #[cfg(percolog_loom)]
        let _ = generation;
    }

    /// Sees to it that the records are right for this process.
    #[inline]
    pub(super) fn ensure_process(&self) {
        let generation = generation();
        // Acquire pairs with the Release in `repair`.
        if self.generation.load(Ordering::Acquire) != generation {
            self.repair(generation);
        }
    }
}

#[cfg(not(percolog_loom))]
pub(super) fn generation() -> u64 {
    crate::cpu::process::generation()
}

#[cfg(percolog_loom)]
pub(super) fn generation() -> u64 {
    0
}
