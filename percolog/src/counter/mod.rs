//! Counters that any number of threads add to without moving a cache line between them.
//!
//! For what programs count all the time and read now and then: requests, bytes, allocations, events
//! of every kind. Start here if you have a `static` [`AtomicU64`](core::sync::atomic::AtomicU64) that
//! many threads increment.
//!
//! | what is counted | what to use |
//! |---|---|
//! | events and amounts, added all the time, read now and then | `Counter`: the cheapest add there is; a sum counts every add that finished before it, and those under way each for itself |
//! | things in use, acquired and mostly released on the same thread; other code counts in the same word; now and then it has to be known exactly how many there are, at one moment | `SloppyCounter` |
//! | what is read as often as it is changed, or decides something at every change (a limit, a reference count that frees at zero at once) | an `AtomicI64` |
//!
//! # How it works
//!
//! A counter is *cold*, and then one atomic word; or *hot*, and then it has shares as well.
//!
//! *Invariant:* a cold counter's value is in its word. A hot counter's value is that of its word, which does not change, and the sum of
//! its shares, one a *row*; and each row is either written by one thread at a time with plain loads and stores, or by any number of threads with
//! atomic updates, never by both.
//!
//! A thread leases a row when it first adds to any counter, and gives it back when it exits: whoever
//! leases it next continues where it stopped, so that a thread's exit costs nothing and loses nothing.
//! Threads beyond the 512 leases, and destructors of thread-local values that run after the lease has
//! been given back, use one of 64 other rows, with atomic updates. Without the `std` feature a row
//! belongs to a slot ([`current`](crate::cpu::current)), and an add runs under the platform's
//! `without_preemption`.
//!
//! A row holds the shares of *all* counters, 16 bytes each, and shares its lines with no other row. So
//! a counter costs 16 bytes, and while it is hot 16 more, and 16 for each thread that adds to it — not a line for each
//! processor that might, which would make a million counters unaffordable.
//!
//! # When a counter is hot
//!
//! *It becomes hot* when it is added to 80 times between two sums, where an add by another thread than the last one counts for 8; and when
//! its value leaves −2²⁹ … 2²⁹. (Sums leave up to 16 adds to the next one, so that they need not write. One that is added to fewer than 64 times
//! between two sums stays cold.) The add that finds so gives it a place in the rows. Adds that come to the word late, because they thought it
//! cold, are counted there.
//!
//! *It becomes cold* when three sums in a row found what the sum before them had found, on Linux, where adds need no fence for this
//! ([`barrier::mode`](crate::cpu::barrier::mode) is `Membarrier`); elsewhere a hot counter stays hot. A counter that
//! nobody sums changes back never, and one that is added to between sums does not. The sum that
//! finds it quiet takes the shares back, and their place is another counter's. So that nothing is lost:
//!
//! 1. the counter is *draining*: adds that come now go to the word;
//! 2. a [heavy barrier](crate::cpu::barrier), and a look at every row: each add says in its row that it is
//!    under way before it looks where the shares are. If one stays under way, the counter stays hot;
//! 3. now the shares do not change. Their sum is added to the word, which says so in the same exchange: a sum that finds that counts no
//!    shares;
//! 4. the *generation* of their place ends, and they are cleared. A sum that is still walking over them finds that, and begins again. Only then
//!    does the word stop saying that they were added.
//!
//! There is hysteresis in both directions: becoming hot takes 80 adds without a sum, and becoming cold takes four sums
//! without an add. A gauge that is raised and lowered all the time can be found the same so often by chance: whenever a counter becomes hot again
//! before a sum has found it cold and quiet, it takes twice as many quiet sums the next time, 3072 at the most.
//!
//! This is the counter queue of S. Boyd-Wickizer, *Optimizing Communication Bottlenecks in
//! Multiprocessor Operating System Kernels*, §6.2 and Figure 6-3 (operations are executed on a per-core
//! value at once instead of being logged), with shares that stay where they are when read. The
//! estimate is a relative of the sloppy counters in S. Boyd-Wickizer et al., *An Analysis of Linux
//! Scalability to Many Cores*, §4.3: a central value, and a bound on what may be missing from it.
//! Those themselves are here as well: `SloppyCounter`, whose spares lie in rows of the same kind.

// Under the model checker only the models use what is here.
#![cfg_attr(percolog_loom, allow(dead_code))]

mod bank;
mod center;
mod ids;
pub(crate) mod memory;
#[cfg(all(test, percolog_loom))]
mod models;
mod rows;
mod sloppy;
mod tally;
#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests;
mod word;

#[cfg(not(percolog_loom))]
pub use global::Counter;
#[cfg(not(percolog_loom))]
pub use sloppy::SloppyCounter;

/// Runs `f` with the number of a leased row that nobody else writes meanwhile, if there is one.
#[cfg(all(feature = "std", not(percolog_loom)))]
#[inline(always)]
fn as_single_writer<R>(f: impl FnOnce(Option<usize>) -> R) -> R {
    f(crate::cpu::lease::mine())
}

/// Runs `f` with the number of a leased row that nobody else writes meanwhile, if there is one:
/// the slot's, since nothing else can run on it. Slots beyond the leases share rows.
#[cfg(all(not(feature = "std"), not(percolog_loom)))]
#[inline(always)]
fn as_single_writer<R>(f: impl FnOnce(Option<usize>) -> R) -> R {
    crate::cpu::without_preemption(|| {
        let slot = crate::cpu::current().index();
        f((slot < crate::cpu::lease::LEASES).then_some(slot))
    })
}

/// The counters of the process. Statics cannot hold the model checker's types, so models work on
/// banks of their own.
#[cfg(not(percolog_loom))]
mod global {
    use super::as_single_writer;
    use super::bank::{Added, Bank};
    use super::tally::Tally;
    use crate::cpu;
    use crate::cpu::process::{AroundForks, around_forks};
    use core::fmt;

    static BANK: Bank = Bank::new();

    /// Whoever makes a counter hot or cold is [waited for](crate::cpu::undivided). Adds are not.
    static AROUND_FORKS: AroundForks = AroundForks {
        before: || (),
        after: |is_child| {
            if is_child {
                BANK.go_on_in_a_child();
            }
        },
    };

    /// A counter that any number of threads add to without contention, with an exact sum.
    ///
    /// Before: each increment fetches the counter's line from whichever processor incremented last.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicI64, Ordering};
    ///
    /// static HITS: AtomicI64 = AtomicI64::new(0);
    ///
    /// HITS.fetch_add(1, Ordering::Relaxed);
    /// assert_eq!(HITS.load(Ordering::Relaxed), 1);
    /// ```
    ///
    /// After: each thread adds to a share of its own, and who reads adds them up.
    ///
    /// ```
    /// use percolog::counter::Counter;
    ///
    /// static HITS: Counter = Counter::new();
    ///
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| {
    ///             for _ in 0..1000 {
    ///                 HITS.increment();
    ///             }
    ///         });
    ///     }
    /// });
    /// assert_eq!(HITS.sum(), 4000);
    /// ```
    ///
    /// # Contract
    ///
    /// * [`sum`](Self::sum) counts every add that finished before it — earlier on the same thread, or
    ///   on another one that has synchronized with this one since — and of the adds that are under way
    ///   it counts each or not, independently of the others.
    /// * [`estimate`](Self::estimate) looks at no thread's memory and states how far off it can be.
    /// * Arithmetic wraps around at the ends of `i64`, in adds and in sums.
    /// * Counting publishes nothing: whoever sees an add does not thereby see what its thread wrote
    ///   before.
    /// * There is no reset: adds that race with one could be neither kept nor dropped exactly. Take a
    ///   [`sum`](Self::sum) and subtract it from later ones.
    ///
    /// # Cost
    ///
    /// *Time:* an add to a cold counter is one `fetch_add`, as that to an `AtomicI64` (and some loads where another thread added last, or the amount is more
    /// than 256). An add to a [hot](crate::counter#when-a-counter-is-hot)
    /// one is a handful of plain instructions; no atomic update, no line shared with
    /// another thread. What a thread adds moves a line then only
    /// * when its share exceeds the batch, 65,536 unless [`with_batch`](Self::with_batch) said
    ///   otherwise: one atomic update of a line that only such updates, sums and estimates look at;
    /// * when somebody summed since the thread's last add: one transfer, for its share.
    ///
    /// The line of the counter itself does not change while it is hot, so that threads which add do not notice how often it
    /// is summed, beyond that one transfer.
    ///
    /// *Memory:* 16 bytes for the counter, and nothing else while it is cold. While it is hot, 16 more for what sums and estimates need, and
    /// 16 for each thread that adds. A thread that adds to any hot counter has a row of
    /// 384 bytes;
    /// in it each counter it adds to has 16 bytes, allocated in chunks: the first has 64 shares, each
    /// further one is twice as large. Counters are numbered when they become hot, smallest free number
    /// first, so a thread that adds to *n* counters out of *n* allocates less than 32 · *n* + 1 KiB for
    /// their shares, and whoever makes them hot as much again, once for all threads. Large chunks are asked for as zeroed memory, of which systems with virtual memory
    /// provide the pages that are touched. Rows are kept for the threads that come later: what is
    /// allocated depends on how many threads lived at once, not on how many there ever were.
    /// The shares of a counter that is dropped, or becomes cold, go to the next one that becomes hot, for 8 bytes of
    /// bookkeeping.
    ///
    /// *Sustained ceiling:* none from the structure for adds: each thread goes at the speed of its
    /// own processor. With reads, each sum has to fetch one line from each thread that added since the
    /// last one, so a counter that is summed after every few adds is slower than an `AtomicU64`.
    ///
    /// # Progress
    ///
    /// An add to a hot counter is wait-free on a thread that has a lease and has added to the counter before; the first
    /// add of a thread to a hot counter, and the one that makes it hot, may allocate and take a lock: for a few instructions, or
    /// while another counter is made cold, which is for one barrier. Without a
    /// lease it is lock-free. A sum is lock-free: it begins again if the counter becomes cold and hot meanwhile.
    /// So is an estimate.
    ///
    /// # Signals, allocators and `fork`
    ///
    /// A signal handler that adds to a counter can find the thread in an allocation, or with a lock. Count
    /// with an atomic there. The program's global allocator must not add to a counter either, because
    /// adding may allocate.
    ///
    /// A forked child has every add that finished before the `fork`, and of those that threads were in the middle of each or not.
    /// It adds and sums as any process does, and waits for none of them. To its [estimate](Self::estimate) the threads
    /// that are not there are in the middle of their adds for ever. `fork` waits while a counter becomes hot or cold.
    pub struct Counter {
        tally: Tally,
    }

    impl Counter {
        /// What a thread may keep to itself before it tells the [estimate](Self::estimate), unless
        /// [`with_batch`](Self::with_batch) says otherwise.
        pub const DEFAULT_BATCH: u64 = 65_536;

        /// Creates a counter at zero. Allocates nothing.
        #[must_use]
        pub const fn new() -> Self {
            Self::with_batch(Self::DEFAULT_BATCH)
        }

        /// Creates a counter at zero whose [estimate](Self::estimate) is tighter or looser than usual.
        ///
        /// `batch` is the amount (of what is added, not the number of adds) that a row may keep to
        /// itself in either direction. An add that exceeds it moves the counter's line to its processor:
        /// with 0 each add does, and the counter is as slow as an `AtomicI64`, but the estimate misses
        /// no finished add. More than 2³² − 1 is taken for that.
        #[must_use]
        pub const fn with_batch(batch: u64) -> Self {
            Self {
                tally: Tally::new(batch),
            }
        }

        /// Adds `amount`, which may be negative. Wraps around.
        ///
        /// *Progress:* wait-free; see [the type](Self#progress) for first adds, cold counters and threads without a
        /// lease. *Cost:* no transfer and no allocation in steady state; see [the type](Self#cost).
        #[inline(always)]
        pub fn add(&self, amount: i64) {
            match self.try_add(amount) {
                Added::Done => {}
                Added::Full => BANK.heat_up(&self.tally),
                Added::Not => self.add_slowly(amount),
            }
        }

        #[inline(always)]
        fn try_add(&self, amount: i64) -> Added {
            as_single_writer(|lease| match lease {
                Some(lease) => BANK.add_leased(&self.tally, lease, amount),
                None => Added::Not,
            })
        }

        #[cold]
        fn add_slowly(&self, amount: i64) {
            // Rounds follow one another only where the counter becomes hot or cold meanwhile, or the platform moves the
            // caller to a slot that has never been here.
            loop {
                around_forks(&AROUND_FORKS);
                // Allocating is not for the inside of `as_single_writer`.
                let lease = as_single_writer(|lease| lease);
                let Some(lease) = lease.filter(|lease| !BANK.is_adding(*lease)) else {
                    let number = cpu::current().place();
                    return BANK.add_common(&self.tally, number, amount);
                };
                if BANK.add_slowly(&self.tally, lease, amount) {
                    return;
                }
                match self.try_add(amount) {
                    Added::Done => return,
                    Added::Full => return BANK.heat_up(&self.tally),
                    Added::Not => {}
                }
            }
        }

        /// Adds one. See [`add`](Self::add).
        #[inline]
        pub fn increment(&self) {
            self.add(1);
        }

        /// Subtracts one. See [`add`](Self::add).
        #[inline]
        pub fn decrement(&self) {
            self.add(-1);
        }

        /// The exact sum of every add that finished before the call, and of some of those under way.
        ///
        /// Adds that overlap the call are counted or not, each for itself. For a counter that only goes
        /// up this means that sums which follow one another never go back. For one that goes up and
        /// down it means that a sum can count a decrement on one thread and miss the increment on
        /// another that came before it, if neither had finished when the call began; a gauge of things
        /// in use can thus be seen below zero for a moment.
        ///
        /// Also brings the [estimate](Self::estimate) up to date.
        ///
        /// *Progress:* lock-free. *Cost:* two loads if the counter is cold, and an atomic update of its word if there were more than 16 adds since the last one. If it is hot, a walk over every row, at most 576: two or three
        /// loads each, and one
        /// transfer for each thread that added to this counter (or to its neighbours in the row) since
        /// the last walk. Writes one more line, which other sums of the counter write as well, until repeated sums without adds have made it
        /// cold: the last of these
        /// pays for a [heavy barrier](crate::cpu::barrier), and then they write nothing.
        #[inline]
        #[must_use]
        pub fn sum(&self) -> i64 {
            Bank::sum_if_cold(&self.tally).unwrap_or_else(|| BANK.sum(&self.tally))
        }

        /// About what [`sum`](Self::sum) would return, without looking at any thread's memory.
        ///
        /// Off by at most *batch* · (2*R* + *U*) from a value that `sum` could have returned at the
        /// same time. *R* is the number of rows in which the counter was ever added to: no more than the
        /// most threads that ever lived at once, limited to 512, and 64 more where threads without a
        /// lease came by. *U* is the number of threads without a lease that are in the middle of an
        /// add, usually 0. A program of 8 threads with the default batch is thus off by at most
        /// 2 · 8 · 65,536, about a million.
        ///
        /// While the counter is cold it is exact. Right after a `sum` it is exact as well, if no add came in between and neither an add nor another sum
        /// overlapped that sum (and if what threads kept to themselves was less than 2³¹, which batches of up to 2²¹ make sure of).
        ///
        /// *Progress:* lock-free: it begins again if the counter becomes cold meanwhile, for which it takes three sums that find nothing new.
        /// *Cost:* two loads of the counter's own line if it is cold. If it is hot, eight loads, of which three are of a line that is written once
        /// per batch and thread, and by sums.
        #[inline]
        #[must_use]
        pub fn estimate(&self) -> i64 {
            BANK.estimate(&self.tally)
        }
    }

    impl Default for Counter {
        fn default() -> Self {
            Self::new()
        }
    }

    impl From<i64> for Counter {
        /// A counter that begins at `value`, in its sum and in its estimate.
        fn from(value: i64) -> Self {
            let mut counter = Self::new();
            BANK.begin_with(&mut counter.tally, value);
            counter
        }
    }

    /// Shows the [estimate](Counter::estimate), and calls it that: an exact sum would walk over every
    /// row, which no log line should do by accident.
    impl fmt::Debug for Counter {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Counter")
                .field("estimate", &self.estimate())
                .field("batch", &self.tally.batch())
                .finish_non_exhaustive()
        }
    }

    impl Drop for Counter {
        /// *Cost:* as a [`sum`](Counter::sum), and the counter's shares are cleared.
        fn drop(&mut self) {
            BANK.clear(&mut self.tally);
        }
    }
}
