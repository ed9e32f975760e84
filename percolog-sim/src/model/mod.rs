//! The model: what a shared-memory machine does with cache lines, and how long it takes.
//!
//! Pure: no threads, no clock, no input or output. Whoever drives it says which core touches which
//! line at which simulated time, and is told when that core goes on and who lost the line. It uses
//! the standard library only, because it is compiled twice: into the `percolog-sim` library, and
//! into the plugin that runs inside the emulator.
//!
//! # What is modelled
//!
//! * **Who holds a line.** [`Directory`] keeps, for each line ever touched, its MESI or MOESI
//!   state, its owner and its sharers, for up to [`MAX_CORES`] cores. A line read first by one core
//!   is exclusive to it and is written later without asking anybody.
//! * **How long a request takes.** By distance: the larger of the distance from the requester to
//!   the line's home and to the cache that supplies the line, or to the furthest cache that must
//!   drop it. Each further sharer adds to an invalidation.
//! * **Queueing.** A line's home serves one request for that line at a time, and stays busy for a
//!   stated share of each request's latency. On a machine with one snooping bus every request, for
//!   whatever line, also occupies the bus.
//! * **When a line is given up.** Cores that hold a line go on with it until the probe of a request that takes it has
//!   reached them, a stated share of the request's latency after its service has begun ([`Machine::probe`]). So a core
//!   for whose line others queue can still use it more than once: a compare-and-exchange that has failed succeeds when
//!   it is repeated at once. The request itself counts as made when its probe arrives, not before.
//! * **Where memory is.** A page's home is the chip of the core that touches it first.
//! * **Instructions by class**, in [`Costs`]. The model only carries them: whoever drives it
//!   charges them.
//! * **Stores.** A store that misses blocks its core until the line arrives ([`Stores::Blocking`],
//!   the default), as if each core had no store buffer. The bias: code whose only contended
//!   accesses are plain stores (an unlock, a flag, a log's length) looks slower than it is, by up
//!   to one transfer a store; atomic read-modify-writes wait on real machines too. With
//!   [`Stores::Buffered`] a core goes on after a store that misses until its buffer is full, or
//!   until the next locked instruction or fence. Stores that hit are never held up behind stores
//!   that missed, so this errs in the other direction.
//!
//! * **What lines are shared for.** [`Watch`] follows the bytes of a line that moves often, and says
//!   how often it came for bytes that others had written. It changes nothing of the above.
//!
//! # What is not modelled
//!
//! * **Capacity.** A cache never evicts: a line leaves it only because another core writes it, or
//!   because it is flushed. Programs limited by cache size look better than they are.
//! * **Bandwidth**, but for the one bus and, [if the machine says it](Machine::memory_occupancy), each
//!   chip's memory: homes and links carry any number of different lines at once. (The first fetch of a line from memory does not even occupy the bus: it is counted, and
//!   makes nobody else wait.)
//! * **Simultaneous multithreading**: a core is a core.
//! * **Reordering and overlap**: a core has one miss outstanding (buffered stores apart), and
//!   nothing is prefetched but, [if the machine does so](Machine::adjacent_line_prefetch), the other
//!   line of a pair. When that arrives is not looked at: who uses it next finds it there.
//! * **The kernel**: a system call has a cost and touches no lines. With
//!   [a cost of interrupts](Costs::interrupt), those that send some also cost the other cores, whether
//!   or not they have used the memory in question.
//! * **TLBs, instruction fetches, other prefetchers, frequency changes.**
//!
//! A page is taken to keep its home as long as it is mapped, and a clean shared line is supplied by
//! whichever is nearer, memory or a cache that has it: the textbook's MESI asks memory, Intel's
//! variant appoints one cache to answer.

#[cfg(test)]
mod capacity_tests;
mod coreset;
mod counts;
mod directory;
#[cfg(test)]
mod directory_tests;
mod lines;
mod machine;
#[cfg(test)]
mod memory_tests;
mod plan;
#[cfg(test)]
mod prefetch_tests;
#[cfg(test)]
mod random_tests;
mod table;
mod uses;

pub use coreset::CoreSet;
pub use counts::{Counts, LineCounts, OfCore, Place};
pub use directory::{Access, Directory, Event, Left, Outcome, Rights};
pub use machine::{Coherence, Costs, Machine, Occupancy, Protocol, Stores, Units};
pub use uses::{Bytes, Shared, Span, Spans, Watch};

/// Simulated time: sixteenths of a cycle of the described machine, so that fractions of a cycle add
/// up exactly.
pub type Ticks = u64;

/// How many [`Ticks`] a cycle has.
pub const TICKS_PER_CYCLE: u64 = 16;

/// A core of the described machine, from 0.
pub type Core = u16;

/// The number of a hardware thread, which Linux calls a processor.
pub type Processor = u16;

/// The core that a processor belongs to, on a machine of so many cores. The first hardware threads of all cores come first, then the
/// second ones, as firmware numbers them.
pub fn core_of(processor: Processor, cores: usize) -> Core {
    processor % cores as Processor
}

/// The most cores a machine may have.
pub const MAX_CORES: usize = 1024;

/// `cycles` in [`Ticks`].
pub const fn ticks(cycles: u64) -> Ticks {
    cycles * TICKS_PER_CYCLE
}
