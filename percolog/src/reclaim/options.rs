//! How a domain does its work.

use core::fmt;

use super::grace::GracePeriod;
use super::stalled::{StalledSection, Verdict};

/// The clock of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DomainClock {
    /// A number of the domain that moves on when somebody wants to reclaim: at most once for every 128
    /// objects that a thread retires.
    ///
    /// Entering a section reads one line that all threads share and that hardly ever changes.
    #[default]
    Coarse,
    /// The processor's time stamp counter, where it is [trusted](crate::cpu::clock): see [`DomainOptions::tsc`].
    ///
    /// Entering a section reads nothing that is shared, and takes as long as reading the counter does:
    /// some 10 ns. Wang, Stamler and Parmer's choice (§3.2).
    Tsc,
}

impl fmt::Display for DomainClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Coarse => "coarse",
            Self::Tsc => "time stamp counter",
        })
    }
}

/// The optimizations of Wang, Stamler and Parmer's §3.3, each of which can be turned off to see what
/// it is worth. All are on by default, and nothing but speed depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Optimizations {
    /// 1. Leaving a section reads no clock.
    pub exit_without_clock: bool,
    /// 2. What another thread has found out about quiescence is used.
    pub borrow_quiescence: bool,
    /// 3. A thread that is known to have left its sections in time is not looked at again.
    pub remember_threads: bool,
    /// 4. Each thread begins its scans with another one.
    pub spread_scans: bool,
}

impl Optimizations {
    /// All of them.
    pub const ALL: Self = Self {
        exit_without_clock: true,
        borrow_quiescence: true,
        remember_threads: true,
        spread_scans: true,
    };
}

impl Default for Optimizations {
    fn default() -> Self {
        Self::ALL
    }
}

/// The policy of a domain at its cap.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// [`try_retire`](super::Domain::try_retire) hands the object back;
    /// [`retire`](super::Domain::retire), which has nobody to hand it to, goes beyond the cap, and
    /// counts that in [`DomainStats::beyond_cap`](super::DomainStats::beyond_cap).
    #[default]
    Refuse,
    /// The thread waits until there is room: until sections have ended, and whatever else takes up the
    /// room was destroyed by the threads that retired it. A thread that is in a section of the domain
    /// itself, or in a destructor that the domain has called, does not wait, since it could wait for
    /// itself: it is refused. (That takes the `std` feature; without it a domain does not know which
    /// sections are the caller's.)
    Block,
    /// The program decides, knowing which thread holds reclamation up and for how long it has; it is
    /// asked again as long as it says [`Verdict::Wait`]. In a destructor that the domain has called,
    /// that is taken for [`Verdict::Refuse`]. If no section is in the way, and there is no room all the
    /// same, because what takes it up lies with other threads or waits for a
    /// [`GracePeriod`], the thread waits a little, and then is refused.
    Ask(fn(&StalledSection) -> Verdict),
}

/// Options of a [`Domain`](super::Domain), for [`Domain::with`](super::Domain::with).
///
/// ```
/// use percolog::reclaim::{Domain, DomainOptions, WhenFull};
///
/// static NODES: Domain = Domain::with(
///     DomainOptions::new().fenced().cap(64 << 20, WhenFull::Block),
/// );
/// drop(NODES.enter());
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct DomainOptions {
    pub(super) clock: DomainClock,
    pub(super) fenced: bool,
    pub(super) optimizations: Optimizations,
    pub(super) cap: usize,
    pub(super) when_full: WhenFull,
    pub(super) grace: Option<&'static dyn GracePeriod>,
}

impl DomainOptions {
    /// The defaults: the coarse clock, the cheapest barrier that the system has, no cap.
    pub const fn new() -> Self {
        Self {
            clock: DomainClock::Coarse,
            fenced: false,
            optimizations: Optimizations::ALL,
            cap: usize::MAX,
            when_full: WhenFull::Refuse,
            grace: None,
        }
    }

    /// Tells the time by the processor's counter, where it is [trusted](crate::cpu::clock) when the domain is first used;
    /// elsewhere by the coarse clock. [`DomainStats::clock`](super::DomainStats::clock) says which.
    ///
    /// # Safety
    /// From the domain's first use until it is dropped, [stamps](crate::cpu::clock::stamp) increase along causality, or fall short
    /// of that by less than 2<sup>15</sup> ticks: a thread that has seen what another did after taking a stamp takes no stamp that
    /// is smaller by more. Otherwise an object is destroyed while a section reads it.
    ///
    /// * With the `std` feature that is so while the counters of all processors are synchronized. Trust rests on what CPUID and the
    ///   kernel say once. It does not notice a kernel that gives its clock source up later, a virtual machine that moves to a host
    ///   with another counter, or firmware that sets the counter of one processor.
    ///   [`clock::verify`](crate::cpu::clock::verify) measures.
    /// * Without it, the program's [`Platform`](crate::cpu::Platform) promises that.
    pub const unsafe fn tsc(mut self) -> Self {
        self.clock = DomainClock::Tsc;
        self
    }

    /// Every section executes a fence, also where the kernel would spare it that.
    ///
    /// For domains in which objects are retired about as often as sections are entered: without this, a
    /// scan asks the kernel to run a barrier on every processor that runs a thread of the process
    /// ([`cpu::barrier`](crate::cpu::barrier)), so scans are made for every 1024 objects instead of every 128, and more memory
    /// is in flight. On two processors, with one update for each read, fenced was 1.5 times as fast; with one
    /// for nine reads it was 0.7 times as fast. And for programs whose frees must not interrupt other processors.
    pub const fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// Which of the paper's optimizations are used. For measurements.
    pub const fn optimizations(mut self, optimizations: Optimizations) -> Self {
        self.optimizations = optimizations;
        self
    }

    /// How many bytes may be retired and not destroyed, and what to do at that point.
    ///
    /// Counted are the objects themselves, not what they own. A thread looks at the sum after every
    /// 1/256 of the cap that it retires, so each can be that much late to notice.
    pub const fn cap(mut self, bytes: usize, when_full: WhenFull) -> Self {
        self.cap = bytes;
        self.when_full = when_full;
        self
    }

    /// What has to have happened, besides that sections have ended, before an object is destroyed.
    pub const fn grace(mut self, grace: &'static dyn GracePeriod) -> Self {
        self.grace = Some(grace);
        self
    }
}

impl Default for DomainOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DomainOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainOptions")
            .field("clock", &self.clock)
            .field("fenced", &self.fenced)
            .field("optimizations", &self.optimizations)
            .field("cap", &self.cap)
            .field("when_full", &self.when_full)
            .field("grace", &self.grace.is_some())
            .finish()
    }
}
