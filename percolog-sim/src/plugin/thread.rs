//! What is known of a thread of the guest.

use crate::model::{Core, CoreSet, Outcome, Processor, Rights, Ticks};
use crate::plugin::access::Site;
use crate::plugin::lock_waits::Use;
use crate::plugin::registers::MOST as REGISTERS;
use crate::plugin::syscalls::After;

/// Why a thread is not on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// It waits for a futex at this address.
    Futex(u64),
    /// It waits for simulated time to pass.
    Time,
    /// It waits until a child of its process ends.
    Child,
    /// It is in this system call of the host.
    Host(i64),
}

/// Why a sleep ended.
#[allow(
    clippy::enum_variant_names,
    reason = "a sleeper is woken by another, by its deadline, or for QEMU"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Another thread woke it.
    Woken,
    /// Its deadline came.
    Deadline,
    /// QEMU needs the thread: it has to go back to the guest as if it had been interrupted.
    Drained,
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has a core, and runs or waits for its turn at this time.
    Ready(Ticks),
    /// It has a core on which it reads the same lines until one of them changes.
    Spinning,
    /// It wants a core.
    Waiting,
    /// It is in a system call that the simulator makes for it.
    Sleeping(Sleep),
    /// It is in a system call of the host.
    Host(i64),
    /// It has ended.
    Gone,
}

/// A loop that does nothing but read: it comes back to the same place with the same registers.
#[derive(Debug)]
pub(crate) struct Observation {
    /// The access with which the loop was noticed.
    pub(crate) place: u64,
    /// The registers before that access.
    pub(crate) registers: [u64; REGISTERS],
    /// When that was.
    pub(crate) at: Ticks,
    /// The lines that were read since.
    pub(crate) lines: Vec<u64>,
    /// How many accesses there were since.
    pub(crate) steps: u32,
    /// How often the registers differed.
    pub(crate) tries: u32,
}

/// A thread that spins: it will do what it does every `period` until one of the lines is taken from its core.
#[derive(Debug)]
pub(crate) struct Spin {
    /// When it made the access with which a round begins.
    pub(crate) at: Ticks,
    /// When it was about to make that access again.
    pub(crate) now: Ticks,
    /// How long a round takes.
    pub(crate) period: Ticks,
    /// What it reads.
    pub(crate) lines: Vec<u64>,
}

/// A request that a thread makes as soon as no other can make an earlier one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// The access.
    pub(crate) site: &'static Site,
    /// The line.
    pub(crate) line: u64,
}

/// A thread of the guest.
#[derive(Debug)]
pub(crate) struct Thread {
    /// The process that it belongs to.
    pub(crate) process: usize,
    /// The thread's number, in the host and in the guest.
    pub(crate) tid: i32,
    /// The processor that it has, or had last.
    pub(crate) processor: Option<Processor>,
    /// Its clock.
    pub(crate) time: Ticks,
    /// Where it stands.
    pub(crate) state: State,
    /// When it has to leave its core if others wait for one.
    pub(crate) slice_end: Ticks,
    /// The cores on which it may run; all of them if none are named.
    pub(crate) affinity: Option<CoreSet>,
    /// Whether it has to leave its core as soon as it has the turn: it may run there no longer.
    pub(crate) evicted: bool,
    /// The word that is set to zero when it ends, and woken (`CLONE_CHILD_CLEARTID`).
    pub(crate) clear_tid: u64,
    /// What is to be done after the system call under way.
    pub(crate) after: After,
    /// Whether it is between `syscall` and the block that follows, or has yet to run its first block.
    pub(crate) in_call: bool,
    /// How its last sleep ended.
    pub(crate) woken: Woken,
    /// When its sleep ends by itself.
    pub(crate) deadline: Option<Ticks>,
    /// The line that it will ask the directory for when it has its turn.
    pub(crate) pending: Option<u64>,
    /// What it asks the directory for when it is the first; whoever has the turn then asks for it.
    pub(crate) ask: Option<Ask>,
    /// What its request turned out to be. It makes its access when it has the turn next.
    pub(crate) answer: Option<Outcome>,
    /// The cores that lose a line by its last request, and what is left to them.
    pub(crate) losers: Vec<(Core, Rights)>,
    /// The line that it was let use last although others may have asked for it by then.
    pub(crate) uses: Option<u64>,
    /// The line that its core has, and that it will use when it has its turn: it asks for it only if its core loses it before.
    pub(crate) kept: Option<u64>,
    /// Whether it is about to be let go unsimulated, to the end of its block.
    pub(crate) forced: bool,
    /// Whether its next read may be the beginning of a spin.
    pub(crate) suspect: bool,
    /// The access at which it spun last.
    pub(crate) spun_at: u64,
    /// A loop that may be a spin.
    pub(crate) observation: Option<Box<Observation>>,
    /// The spin that it is in.
    pub(crate) spin: Option<Box<Spin>>,
    /// The place in the program of its last access or system call.
    pub(crate) place: u64,
    /// The instruction whose result is to be replaced by the simulator's.
    pub(crate) fix: Fix,
    /// What interrupts have cost it since it had the turn last.
    pub(crate) interrupted: Ticks,
    /// How long it had a core, up to the last time it left one.
    pub(crate) busy: Ticks,
    /// When it was last given a core.
    pub(crate) since: Ticks,
    /// By how much it would be ahead of its clock, had it not waited for a lock that is free.
    pub(crate) lead: Ticks,
    /// Its last use of such a lock.
    pub(crate) used_lock: Option<Use>,
}

/// A result of the processor that the simulator has to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// None.
    Nothing,
    /// Time, in `rax` and `rdx`; and the core in `rcx`.
    Clock {
        /// Whether the core is asked for too.
        core: bool,
    },
    /// What the processor says of itself.
    Identity {
        /// `eax` before the instruction.
        leaf: u32,
        /// `ecx` before the instruction.
        subleaf: u32,
    },
}

impl Thread {
    /// Whether it sleeps until a child of its process ends.
    pub(crate) fn waits_for_child(&self) -> bool {
        self.state == State::Sleeping(Sleep::Child)
    }

    /// A thread of a process that begins at this time.
    pub(crate) fn new(time: Ticks, process: usize) -> Self {
        Thread {
            process,
            tid: 0,
            processor: None,
            time,
            state: State::Waiting,
            slice_end: Ticks::MAX,
            affinity: None,
            evicted: false,
            clear_tid: 0,
            after: After::default(),
            in_call: true,
            woken: Woken::Woken,
            deadline: None,
            pending: None,
            ask: None,
            answer: None,
            losers: Vec::new(),
            uses: None,
            kept: None,
            forced: false,
            suspect: false,
            spun_at: 0,
            observation: None,
            spin: None,
            place: 0,
            fix: Fix::Nothing,
            interrupted: 0,
            busy: 0,
            since: time,
            lead: 0,
            used_lock: None,
        }
    }
}
