//! What sections and retired objects belong to.

use core::fmt;
use core::mem;
use core::ptr;
#[cfg(feature = "std")]
use core::time::Duration;
#[cfg(feature = "std")]
use std::time::Instant;

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::collector::Collector;
use super::frees::contain;
use super::grace::Period;
use super::link::{DomainFull, Memory, Unlinked};
use super::open::Mark;
use super::options::DomainOptions;
use super::queue::Retired;
use super::records::{Record, add};
use super::section::{OwnedSection, Section};
#[cfg(feature = "std")]
use super::stalled::TimedOut;
use super::stats::DomainStats;
use crate::cpu::{Native, barrier, clock};
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicPtr, Ordering};

/// An instant of a [`Domain`].
///
/// Stamps of one domain are ordered as the calls of [`now`](Domain::now) were, except that calls close to each
/// other may return the same one. Those of different domains have nothing to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

/// A reclamation domain: what sections and retired objects belong to.
///
/// See the [module](super) for the idea and an example.
///
/// # Progress and cost
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`enter`](Self::enter), and dropping the section | wait-free but for first use | none; the tick's line when it has moved |
/// | [`retire`](Self::retire) without a cap | wait-free but for the allocator | none for 63 of 64 calls; then one line, or, at most once for every max(128, 16 × threads) calls (1024 where that takes a `membarrier`), one of each active thread |
/// | [`retire`](Self::retire) at the cap | what [`WhenFull`](super::WhenFull) says | one line of each thread there has been |
/// | [`quiescent`](Self::quiescent) | wait-free | one, or one of each active thread |
/// | [`synchronize`](Self::synchronize) | blocking: waits for the sections that are open | the same, again and again |
/// | [`collect`](Self::collect) | wait-free but for the destructors | one of each active thread |
///
/// Where the barrier is [`Membarrier`](barrier::BarrierMode::Membarrier), every look at other threads is also
/// a system call that interrupts the processors which run threads of this process.
///
/// Memory: 512 bytes for each thread that uses the domain at the same time as others (in powers of two,
/// from 16 threads on), 2 KiB for each 64 retired objects.
///
/// # Destructors
///
/// They run in calls of `retire`, `try_retire` and `collect` of any thread (two for each object
/// retired, eight when very many have gathered), and when the domain is dropped. They may enter sections, and retire objects.
/// If one panics the panic goes no further (with the `std` feature; it is reported by the panic hook as
/// always): the object is gone, the others are not affected, and [`DomainStats::panics`] counts it.
///
/// # Threads that end
///
/// What a thread has retired and not destroyed when it ends is taken over by the next thread that
/// retires a block's worth of objects, or [`collect`](Self::collect)s.
///
/// # Signals
///
/// A signal handler must not use a domain that it may have interrupted on its thread: a section that it enters while the thread is
/// entering one protects nothing.
///
/// # Fork
///
/// In a child process, threads of the parent other than the one that forked do not exist: their
/// sections have ended there, and what they had retired is leaked. So the child may not use references
/// that sections of other threads have lent to its thread. Owned sections stay open. That takes `fork`;
/// the bare system call tells nobody.
pub struct Domain {
    /// Made at first use, so that a domain can stand in a static; an `Arc`'s pointer.
    collector: AtomicPtr<Collector<Native>>,
    options: DomainOptions,
}

// SAFETY: a collector can be used by any thread; the pointer stands for a reference to one.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

impl Domain {
    /// Creates a domain with the default [`DomainOptions`]. Allocates nothing before it is used.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(DomainOptions::new())
    }

    /// A domain that works as told.
    #[must_use]
    pub const fn with(options: DomainOptions) -> Self {
        Self {
            collector: AtomicPtr::new(ptr::null_mut()),
            options,
        }
    }

    #[inline(always)]
    fn collector(&self) -> &Collector<Native> {
        // Acquire pairs with the Release in `start`.
        let collector = self.collector.load(Ordering::Acquire);
        // SAFETY: published by `start`; lives until the domain is dropped.
        match unsafe { collector.as_ref() } {
            Some(collector) => collector,
            None => self.start(),
        }
    }

    #[cold]
    fn start(&self) -> &Collector<Native> {
        let trusted = clock::health().source != clock::ClockSource::SharedCounter;
        let fresh = Collector::new(self.options, Native, barrier::mode(), trusted).shared();
        let fresh = Arc::into_raw(fresh).cast_mut();
        // Release publishes the collector to the Acquire in `collector`; on failure Acquire does that
        // for the one that won.
        match self.collector.compare_exchange(
            ptr::null_mut(),
            fresh,
            Ordering::Release,
            Ordering::Acquire,
        ) {
            // SAFETY: just published.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: `fresh` came from `Arc::into_raw` and was not published; the winner is.
                unsafe {
                    drop(Arc::from_raw(fresh));
                    &*winner
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn is_made_of(&self, collector: &Collector<Native>) -> bool {
        // Relaxed: only compared. A section's domain has been started, and the section knows of it.
        ptr::eq(self.collector.load(Ordering::Relaxed), collector)
    }

    // ── Sections ──

    /// Enters a section: nothing that can be found in the domain's structures from now on is destroyed
    /// before the section is dropped.
    ///
    /// # Panics
    /// If millions of sections are open at once.
    #[inline(always)]
    pub fn enter(&self) -> Section<'_> {
        let collector = self.collector();
        match record(collector) {
            Some(record) => Section::enter(collector, record),
            None => Section::enter_without_record(collector),
        }
    }

    /// Enters a section that can be sent to another thread.
    ///
    /// # Panics
    /// If millions of sections are open at once.
    pub fn enter_owned(&self) -> OwnedSection<'_> {
        OwnedSection::enter(self.collector())
    }

    // ── Frees ──

    /// Gives up an object that was unlinked: it is destroyed when every section that can have seen it
    /// has ended. Never waits, unless the domain has a cap and its policy says so.
    ///
    /// # Safety
    /// No section of this domain that begins from now on can find the object, and whoever still has a
    /// reference to it, found it in a section of this domain. It is retired once.
    ///
    /// An object that was taken out of the only link that led to it fulfils this if everybody reads
    /// that link in sections of this domain; [`Replaceable`](super::Replaceable) sees to both itself.
    #[inline]
    pub unsafe fn retire<T: Send + 'static, M: Memory>(&self, unlinked: Unlinked<T, M>) {
        // SAFETY: by contract; an `Unlinked` lies in its kind of memory, and `T` may be dropped anywhere.
        let retired = unsafe {
            Retired::new(
                unlinked.into_raw().cast().as_ptr(),
                destroy::<T, M>,
                mem::size_of::<T>(),
            )
        };
        self.retire_or_exceed(retired);
    }

    /// The same for an object that is no box: `reclaim` is called with the pointer, on any thread,
    /// when no section can have a reference to the object any more.
    ///
    /// # Safety
    /// As for [`retire`](Self::retire), and `reclaim(pointer)` may be called once on any thread, at any later time.
    #[inline]
    pub unsafe fn retire_with<T>(&self, pointer: *mut T, reclaim: unsafe fn(*mut T)) {
        // SAFETY: by contract. Functions that differ in what their argument points to, which has a
        // size, are called alike.
        let retired = unsafe {
            let reclaim = mem::transmute::<unsafe fn(*mut T), unsafe fn(*mut ())>(reclaim);
            Retired::new(pointer.cast(), reclaim, mem::size_of::<T>())
        };
        self.retire_or_exceed(retired);
    }

    #[inline]
    fn retire_or_exceed(&self, retired: Retired) {
        self.with_record(|collector, record| {
            if !collector.make_room(record, retired.bytes()) {
                add(&record.private.counts.beyond_cap, 1);
            }
            collector.retire(record, retired);
        });
    }

    /// As [`retire`](Self::retire), but hands the object back where the cap and its policy say so.
    ///
    /// # Safety
    /// As for [`retire`](Self::retire).
    ///
    /// # Errors
    /// If the domain is full: the object, unchanged, and which section is in the way.
    pub unsafe fn try_retire<T: Send + 'static, M: Memory>(
        &self,
        unlinked: Unlinked<T, M>,
    ) -> Result<(), DomainFull<T, M>> {
        self.with_record(|collector, record| {
            if !collector.make_room(record, mem::size_of::<T>()) {
                add(&record.private.counts.refused, 1);
                return Err(DomainFull {
                    unlinked,
                    unreclaimed_bytes: collector.unreclaimed_bytes(),
                    #[cfg(feature = "std")]
                    stalled: collector.stalled(),
                    #[cfg(not(feature = "std"))]
                    stalled: None,
                });
            }
            // SAFETY: as in `retire`.
            let retired = unsafe {
                Retired::new(
                    unlinked.into_raw().cast().as_ptr(),
                    destroy::<T, M>,
                    mem::size_of::<T>(),
                )
            };
            collector.retire(record, retired);
            Ok(())
        })
    }

    /// Runs `f` with a record that the caller holds.
    #[inline]
    fn with_record<R>(&self, f: impl FnOnce(&Collector<Native>, &Record) -> R) -> R {
        let collector = self.collector();
        match record(collector) {
            Some(record) => f(collector, record),
            None => Self::with_other_record(collector, f),
        }
    }

    #[cold]
    fn with_other_record<R>(
        collector: &Collector<Native>,
        f: impl FnOnce(&Collector<Native>, &Record) -> R,
    ) -> R {
        /// Also when `f` panics.
        struct GiveBack<'a>(&'a Collector<Native>, &'a Record);
        impl Drop for GiveBack<'_> {
            fn drop(&mut self) {
                // A thread on its way out has no later call. Without threads the next call at this
                // place goes on where this one stopped, if it finds the same record.
                if cfg!(feature = "std") || self.1.index != hint() {
                    self.0.abandon(self.1);
                }
                self.0.records.give_back(self.1);
            }
        }
        let record = collector.take_record(hint());
        let _give_back = GiveBack(collector, record);
        f(collector, record)
    }

    // ── Quiescence ──

    /// The present instant: later than everything the calling thread has done.
    ///
    /// *Progress:* wait-free. *Cost:* a fence, and a look at the clock.
    #[must_use]
    pub fn now(&self) -> Stamp {
        Stamp(self.collector().now())
    }

    /// Returns whether every section that was open at that instant has ended, that of the caller included.
    ///
    /// With this a program can manage objects of its own: unlink, take [`now`](Self::now), and reuse
    /// the object when this says so. Once `true` it stays so.
    ///
    /// *Progress:* wait-free; see the table above.
    #[must_use]
    pub fn quiescent(&self, stamp: Stamp) -> bool {
        let collector = self.collector();
        collector.ensure_process();
        collector.is_quiescent(existing(collector), stamp.0).is_ok()
    }

    /// What objects wait for that the caller has unlinked, and that are kept elsewhere. Runs code of the user's: the custom grace
    /// period.
    pub(crate) fn begin_period(&self) -> Period {
        let collector = self.collector();
        // In this order, as where objects are retired.
        let ticket = self.options.grace.map_or(0, |grace| grace.begin());
        Period {
            stamp: collector.now(),
            ticket,
        }
    }

    /// Whether such objects may be destroyed; with a look at all threads, or as far as others have found out. Runs code of the
    /// user's, too.
    pub(crate) fn is_over(&self, period: Period, look: bool) -> bool {
        let collector = self.collector();
        collector.ensure_process();
        let sections_are = if look {
            collector
                .is_quiescent(existing(collector), period.stamp)
                .is_ok()
        } else {
            period.stamp < collector.known()
        };
        sections_are
            && self
                .options
                .grace
                .is_none_or(|grace| grace.elapsed(period.ticket))
    }

    /// The sections that are open. One that is not among them sees whatever the caller has done before. `None` if the kernel did not execute
    /// the barrier that this takes.
    pub(crate) fn open_sections(&self) -> Option<Vec<Mark>> {
        self.collector().open_sections()
    }

    /// Whether a section has ended that was open, and its thread is in no other one that looks the same.
    pub(crate) fn has_ended(&self, open: Mark) -> bool {
        self.collector().has_ended(open)
    }

    /// How many objects should have gathered, so that a look at all threads costs little for each.
    pub(crate) fn worth_a_look(&self) -> usize {
        let collector = self.collector();
        collector.worth_a_look(existing(collector))
    }

    /// Waits until every section that is open now has ended.
    ///
    /// What was unlinked before the call is seen by nobody after it. Custom grace periods are not
    /// waited for.
    ///
    /// # Panics
    /// If the calling thread is in a section of the domain: it would wait for itself. (Without the `std`
    /// feature it does.)
    pub fn synchronize(&self) {
        let stamp = self.now_outside();
        let mut backoff = Backoff::new();
        while !self.quiescent(stamp) {
            backoff.wait();
        }
    }

    /// Waits until every section that is open now has ended, but not for longer than `timeout`.
    ///
    /// # Errors
    /// If sections are still open: one of them.
    ///
    /// # Panics
    /// If the calling thread is in a section of the domain: it would wait for itself.
    #[cfg(feature = "std")]
    pub fn synchronize_for(&self, timeout: Duration) -> Result<(), TimedOut> {
        let began = Instant::now();
        let stamp = self.now_outside();
        let mut backoff = Backoff::new();
        while !self.quiescent(stamp) {
            if began.elapsed() >= timeout {
                return Err(TimedOut {
                    stalled: self.collector().stalled(),
                });
            }
            backoff.wait();
        }
        Ok(())
    }

    /// Whether the calling thread is in a section, as far as that is known: without the `std` feature it is not.
    pub(crate) fn caller_is_inside(&self) -> bool {
        existing(self.collector()).is_some_and(|record| record.entered.nested() != 0)
    }

    fn now_outside(&self) -> Stamp {
        assert!(
            !self.caller_is_inside(),
            "a thread in a section waits for sections to end, and so for itself"
        );
        self.now()
    }

    /// Destroys whatever the calling thread has retired, or taken over from threads that have ended,
    /// and is quiescent; returns how many objects.
    ///
    /// For threads that retire objects and then go idle, and for moments at which there is time. If
    /// the calling thread is in a section itself, little will be quiescent; and with
    /// [`DomainClock::Tsc`](super::DomainClock::Tsc) nothing is that was retired in the last 10 µs or so.
    pub fn collect(&self) -> usize {
        self.with_record(|collector, record| collector.collect(record))
    }

    /// Returns statistics: what reclaiming has cost, and what it has not done yet.
    #[must_use]
    pub fn stats(&self) -> DomainStats {
        let collector = self.collector();
        let destroyed = collector.total(|counts| &counts.destroyed);
        let unreclaimed_bytes = collector.unreclaimed_bytes();
        let retired = collector.total(|counts| &counts.retired);
        DomainStats {
            unreclaimed: retired.saturating_sub(destroyed),
            unreclaimed_bytes,
            retired,
            destroyed,
            scans: collector.total(|counts| &counts.scans),
            failed_scans: collector.total(|counts| &counts.failed_scans),
            lines_read: collector.total(|counts| &counts.lines_read),
            borrowed: collector.total(|counts| &counts.borrowed),
            panics: collector.total(|counts| &counts.panics),
            refused: collector.total(|counts| &counts.refused),
            beyond_cap: collector.total(|counts| &counts.beyond_cap),
            active: collector.records.active_count(),
            clock: collector.tells_time_by(),
            barrier: collector.hot.mode,
            #[cfg(feature = "std")]
            stalled: collector.stalled(),
            #[cfg(not(feature = "std"))]
            stalled: None,
        }
    }
}

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for Domain {
    /// Destroys everything that is still retired. Nothing can be open: sections borrow the domain.
    fn drop(&mut self) {
        let collector = *self.collector.get_mut();
        if collector.is_null() {
            return;
        }
        // SAFETY: made by `Arc::into_raw` in `start`, and given up here.
        let collector = unsafe { Arc::from_raw(collector) };
        // SAFETY: nobody can use the domain any more.
        let mut rest = unsafe { collector.close() };
        contain(|| {
            for retired in &mut rest {
                // SAFETY: no section is open.
                unsafe { retired.destroy() };
            }
        });
    }
}

/// Destroys what was an [`Owned`](super::Owned).
///
/// # Safety
/// The pointer comes from an `Unlinked<T, M>`, and is not used again.
unsafe fn destroy<T, M: Memory>(pointer: *mut ()) {
    if let Some(object) = ptr::NonNull::new(pointer.cast::<T>()) {
        // SAFETY: by contract.
        unsafe { M::destroy(object) };
    }
}

/// The calling thread's record; `None` if it cannot have one.
#[cfg(feature = "std")]
#[inline(always)]
fn record(collector: &Collector<Native>) -> Option<&Record> {
    super::threads::record(collector)
}

/// Without threads, records are taken for single sections and calls.
#[cfg(not(feature = "std"))]
#[inline(always)]
fn record(_collector: &Collector<Native>) -> Option<&Record> {
    None
}

/// The calling thread's record, where it would have one.
fn existing(collector: &Collector<Native>) -> Option<&Record> {
    record(collector)
}

/// Which record to try first where one is taken for a short time.
#[cfg(feature = "std")]
fn hint() -> usize {
    0
}

/// One of the slot: nobody else is likely to use it now, and what is queued there is continued.
#[cfg(not(feature = "std"))]
fn hint() -> usize {
    2 * crate::cpu::current().index()
}

/// Which record to try first for a section: not the one that retiring in the section will look for.
pub(super) fn hint_for_section() -> usize {
    hint() + 1
}
