//! Counts of things in use, of which each slot keeps a few spares.
//!
//! One idea in three parts: [`spares`] is the algorithm; here is what users see of it, and its contract.

#[cfg(all(test, percolog_loom))]
mod models;
mod spares;
#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests;

#[cfg(not(percolog_loom))]
pub use global::SloppyCounter;

/// The counters of the process. Statics cannot hold the model checker's types, so models work on banks of their own.
#[cfg(not(percolog_loom))]
mod global {
    use super::spares::{Account, Bank, give_centrally, take_centrally};
    use crate::counter::as_single_writer;
    use crate::cpu::barrier;
    use crate::cpu::biased_lock::Refused;
    use crate::cpu::process::{AroundForks, around_forks};
    use crate::sync::atomic::{AtomicI64, Ordering};
    use core::borrow::Borrow;
    use core::fmt;

    static BANK: Bank = Bank::new();

    /// See [`spares`](super::spares).
    static AROUND_FORKS: AroundForks = AroundForks {
        before: || BANK.wait_before_a_fork(as_single_writer(|lease| lease), barrier::mode()),
        after: |_| (),
    };

    /// A counter of things in use, with spare units for each thread beside a central `AtomicI64`.
    ///
    /// What is in use — references, connections, bytes of a pool — is acquired and released. A slot that releases keeps what
    /// it released as *spares*, up to a threshold, and acquires from them again; only where it has too few or too many
    /// does it change the *central* counter. So
    ///
    /// > central = in use + the sum of all spares,
    ///
    /// at every moment, and a pair of acquire and release on one thread touches nothing shared. The central counter is an
    /// ordinary [`AtomicI64`]: uses of it that are no bottleneck stay as they are.
    ///
    /// Before: each use of the thing fetches the line twice.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicI64, Ordering};
    ///
    /// static USERS: AtomicI64 = AtomicI64::new(0);
    ///
    /// USERS.fetch_add(1, Ordering::AcqRel);
    /// assert_eq!(USERS.load(Ordering::Acquire), 1);
    /// USERS.fetch_sub(1, Ordering::AcqRel);
    /// ```
    ///
    /// After:
    ///
    /// ```
    /// use percolog::counter::SloppyCounter;
    /// use std::sync::atomic::{AtomicI64, Ordering};
    ///
    /// // What a program has had all along.
    /// static USERS: AtomicI64 = AtomicI64::new(0);
    /// // Where it is hot, it goes through this.
    /// static SLOPPY: SloppyCounter<&AtomicI64> = SloppyCounter::beside(&USERS, 8);
    ///
    /// SLOPPY.acquire(1);
    /// USERS.fetch_add(1, Ordering::AcqRel); // elsewhere, as before
    /// assert_eq!((SLOPPY.central(), SLOPPY.in_use()), (2, 2));
    ///
    /// SLOPPY.release(1); // now a spare of this thread
    /// assert_eq!((SLOPPY.central(), SLOPPY.in_use()), (2, 1));
    /// SLOPPY.acquire(1); // taken from there: the central counter stays what it is
    /// assert_eq!((SLOPPY.central(), SLOPPY.in_use()), (2, 2));
    /// # SLOPPY.release(1);
    ///
    /// // Before something is decided, all spares are given back.
    /// assert_eq!(SLOPPY.reconcile(), 1);
    /// assert_eq!(USERS.load(Ordering::Acquire), 1);
    /// ```
    ///
    /// These are the sloppy counters of S. Boyd-Wickizer et al., *An Analysis of Linux Scalability to Many Cores*
    /// (OSDI 2010), §4.3. Theirs belong to processors, and reconcile while nobody else does anything; these are exact
    /// beside others that acquire and release.
    ///
    /// # Contract
    ///
    /// * `acquire(n)` takes `n` spares of the calling thread's slot if there are as many; otherwise all `n` are added to the
    ///   central counter, and the spares stay.
    /// * `release(n)` puts `n` spares there. If that makes more than the threshold, those above half of it are subtracted
    ///   from them and from the central counter. (The paper leaves open how many; half lets the slot go on in either
    ///   direction without coming back at once.) With a threshold below 1 no spares are ever kept.
    /// * [`in_use`](Self::in_use) and [`reconcile`](Self::reconcile) are linearizable with `acquire`, `release` and atomic
    ///   updates of the central counter: they look at one moment.
    /// * [`central`](Self::central) is never below what is in use, and above it by at most the threshold for each thread.
    /// * Whoever finds something in use, or not in use any more, through `in_use`, `reconcile` or a load of the central
    ///   counter that acquires, also sees what came before the acquires and releases that made it so.
    ///
    /// *Code that uses the central counter itself* ([`central_atomic`](Self::central_atomic)) acquires and releases
    /// with any atomic update that is relative to what is there: `fetch_add`, `fetch_sub`, a compare-and-swap. Such
    /// references and those of `acquire` are the same: what was acquired on one way can be released on the other. A
    /// `store` or `swap` declares that the value is in use *and spare* at this moment; what is in use is then that value
    /// less the spares. A load sees at least what is in use, so who finds 0 knows that nothing is; but it may
    /// never be 0 before somebody reconciles. Updates should at least release, or what they caused may be seen earlier
    /// than they.
    ///
    /// *Negative values.* What is in use is whatever was acquired less whatever was released: more releases than acquires
    /// make it negative, and nothing is checked. Such a release puts spares down like any other.
    ///
    /// *Overflow.* All arithmetic is modulo 2⁶⁴; the central counter and what is in use are shown in `i64`. Amounts from 2⁶³
    /// on are thus the same as negative ones for what is in use. Spares are never more than the threshold.
    ///
    /// *When it is dropped*, the spares are given back: a central counter that lives longer is exact again.
    ///
    /// # Cost
    ///
    /// *Time:* an acquire from spares, or a release into them, is a dozen plain instructions on a line of the thread's own. One
    /// that has too few or too many spares updates the central counter's line, as does a thread that finds its spares being
    /// looked at, and one without a lease (more than 512 threads, or in its last destructors). Each acquire and release
    /// *reads* the counter's own line. With [`new`](Self::new) the central counter lies there; where others update that all
    /// the time, put it elsewhere and use [`beside`](Self::beside).
    ///
    /// *Memory:* 24 bytes for the counter. Each thread that kept spares has 16 more, in rows of its own that
    /// all sloppy counters share, allocated like those of a [`Counter`](crate::counter::Counter): no line for each counter
    /// and thread, so there can be one for each of many objects.
    ///
    /// *Sustained ceiling:* none for acquires and releases that balance on each thread within the threshold. What one thread
    /// acquires and another one releases goes to the central counter: every acquire, and one release in about half a
    /// threshold.
    ///
    /// # Progress
    ///
    /// `acquire` and `release` are wait-free, but for a thread's first release, which may allocate and take a lock for a few
    /// instructions; a thread whose spares are being looked at goes to the central counter instead of waiting. `in_use`
    /// and `reconcile` wait for each other, and for threads that are in the middle of an acquire or a release.
    ///
    /// # Signals, allocators and `fork`
    ///
    /// A signal handler may acquire and release, on a thread that has released before: in the middle of an acquire or a release of the
    /// same thread it uses the central counter. It must not look (`in_use`, `reconcile`). The global allocator must not
    /// release, because that may allocate.
    ///
    /// A forked child finds each acquire, release and reconcile of the parent's threads made or not, as if all had happened one
    /// after the other, and goes on from there; the spares of threads that are not there can be reconciled. `fork` waits for who
    /// looks, and for a release that gives spares back. A plain central counter that is changed by code of the program's own is
    /// copied as `fork` finds it.
    pub struct SloppyCounter<C: Borrow<AtomicI64> = AtomicI64> {
        account: Account,
        central: C,
    }

    impl SloppyCounter {
        /// Creates a counter of which nothing is in use, with a central counter of its own. Allocates nothing.
        ///
        /// `threshold` is how many spares a thread keeps at the most.
        #[must_use]
        pub const fn new(threshold: u64) -> Self {
            Self::beside(AtomicI64::new(0), threshold)
        }
    }

    impl<C: Borrow<AtomicI64>> SloppyCounter<C> {
        /// A counter whose central counter there is already: `&AtomicI64`, `Arc<AtomicI64>`, or an `AtomicI64` to begin
        /// with. What it holds is in use. Allocates nothing.
        ///
        /// `C` must borrow the same word each time. Several sloppy counters beside one word are one count: each has
        /// spares of its own, so that only their `central` is exact, and only once all are reconciled.
        #[must_use]
        pub const fn beside(central: C, threshold: u64) -> Self {
            Self {
                account: Account::new(threshold),
                central,
            }
        }

        /// Acquires `n`.
        ///
        /// *Progress:* wait-free. *Cost:* no transfer if the calling thread has as many spares; else an atomic update of
        /// the central counter. Never allocates.
        #[inline]
        pub fn acquire(&self, n: u64) {
            let mode = barrier::mode();
            let taken = as_single_writer(|lease| {
                // SAFETY: `as_single_writer` hands out the lease that this thread, or slot, holds until it returns.
                lease.is_some_and(|lease| unsafe { BANK.take(&self.account, lease, n, mode) })
            });
            if !taken {
                take_centrally(self.central.borrow(), n);
            }
        }

        /// Releases `n`.
        ///
        /// *Progress:* wait-free, but for the thread's first release. *Cost:* no transfer if the calling thread may keep as many;
        /// else an atomic update of the central counter. The thread's first release may allocate.
        #[inline]
        pub fn release(&self, n: u64) {
            if !self.keep(n) {
                self.release_slowly(n);
            }
        }

        #[inline(always)]
        fn keep(&self, n: u64) -> bool {
            let mode = barrier::mode();
            let central = self.central.borrow();
            as_single_writer(|lease| {
                // SAFETY: as in `acquire`.
                lease.is_some_and(|lease| unsafe {
                    BANK.keep(&self.account, central, lease, n, mode)
                })
            })
        }

        #[cold]
        fn release_slowly(&self, n: u64) {
            // Allocating is not for the inside of `as_single_writer`.
            if self.account.threshold() != 0
                && let Some(lease) = as_single_writer(|lease| lease)
            {
                around_forks(&AROUND_FORKS);
                BANK.prepare(&self.account, lease);
                if self.keep(n) {
                    return;
                }
            }
            give_centrally(self.central.borrow(), n);
        }

        /// The central counter: what is in use, and the spares.
        ///
        /// *Progress:* wait-free. *Cost:* one load.
        #[inline]
        #[must_use]
        pub fn central(&self) -> i64 {
            // Acquire pairs with the Release of every update.
            self.central.borrow().load(Ordering::Acquire)
        }

        /// The central counter itself, for code that counts there. See [the type](Self#contract) for what that may do.
        #[inline]
        #[must_use]
        pub fn central_atomic(&self) -> &AtomicI64 {
            self.central.borrow()
        }

        /// How many spares a thread keeps at the most.
        #[inline]
        #[must_use]
        pub fn threshold(&self) -> u64 {
            self.account.threshold()
        }

        /// What is in use at one moment during the call, exactly.
        ///
        /// *Progress:* blocking: waits for threads that are in the middle of an acquire or a release, and for others
        /// that look; nobody who acquires or releases waits for it. *Cost:* a [heavy barrier](crate::cpu::barrier), some microseconds
        /// where other threads run; and a transfer for each thread that ever kept spares of this counter or of its neighbours, twice.
        /// Allocates a list of them. Nothing of this before the first release.
        ///
        /// # Panics
        /// Where the kernel refuses the barrier that it had offered before: a filter of system calls that was installed
        /// meanwhile. Install it first, or set `PERCOLOG_BARRIER=fence`.
        #[must_use]
        pub fn in_use(&self) -> i64 {
            let central = self.central.borrow();
            unless_refused(BANK.in_use(&self.account, central, barrier::mode()))
        }

        /// Gives all spares back, and returns what is in use: at that moment the central counter is exactly that.
        ///
        /// It stays so until somebody releases: before something is decided that a zero decides (whether an object
        /// can be freed), see to it that nobody acquires from nothing.
        ///
        /// *Progress, cost:* as [`in_use`](Self::in_use), and an update of the central counter.
        ///
        /// # Panics
        /// As [`in_use`](Self::in_use).
        pub fn reconcile(&self) -> i64 {
            let central = self.central.borrow();
            unless_refused(BANK.reconcile(&self.account, central, barrier::mode()))
        }
    }

    fn unless_refused(value: Result<i64, Refused>) -> i64 {
        value.expect(
            "the kernel refused a membarrier that it had offered; set PERCOLOG_BARRIER=fence",
        )
    }

    impl<C: Borrow<AtomicI64>> Drop for SloppyCounter<C> {
        /// *Cost:* a walk over the threads' spares, without a barrier.
        fn drop(&mut self) {
            BANK.close(&mut self.account, self.central.borrow());
        }
    }

    /// Shows the central counter, and calls it that: what is in use takes a barrier, which no log line should cost by
    /// accident.
    impl<C: Borrow<AtomicI64>> fmt::Debug for SloppyCounter<C> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("SloppyCounter")
                .field("central", &self.central())
                .field("threshold", &self.threshold())
                .finish_non_exhaustive()
        }
    }
}
