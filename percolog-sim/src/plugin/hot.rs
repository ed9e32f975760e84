//! The words that translated code and the first lines of each callback look at.
//!
//! Only the thread that has the turn runs guest code, so these words need no atomic read-modify-write; `limit` and
//! `holder` are atomics because other host threads may change or read them at any time.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::model::Ticks;
use crate::plugin::common::Common;

/// Places of a table of rights.
pub(crate) const PLACES: usize = 8192;
/// The core may read the line.
pub(crate) const READ: u64 = 1;
/// The core may write the line (with [`READ`]: it may do both).
pub(crate) const WRITE: u64 = 2;
/// How far [`READ`] and [`WRITE`] are shifted in an entry of a line whose uses are looked at: translated code does not find
/// them there, and what it asks then does.
pub(crate) const WATCHED: u32 = 2;
/// How far a line's number is shifted in an entry.
pub(crate) const SHIFT: u32 = 4;

/// What a core may do to the lines that it used last: a direct-mapped cache over the directory's knowledge.
#[derive(Debug)]
pub(crate) struct Table(Box<[u64; PLACES]>);

impl Table {
    /// A table of a core that has no line.
    pub(crate) fn new() -> Self {
        // No line has the number whose entry is all ones.
        Table(
            vec![u64::MAX; PLACES]
                .try_into()
                .expect("as many as there are places"),
        )
    }

    /// Notes that the core may do this to the line.
    pub(crate) fn set(&mut self, line: u64, rights: u64) {
        self.0[line as usize % PLACES] = (line << SHIFT) | rights;
    }

    /// The core's further uses of the line are not looked at.
    pub(crate) fn trust(&mut self, line: u64) {
        let entry = &mut self.0[line as usize % PLACES];
        if *entry >> SHIFT == line {
            let rights = (*entry >> WATCHED) & (READ | WRITE);
            *entry |= rights;
        }
    }

    /// Whether it may do any of this to the line, looked at or not.
    pub(crate) fn has(&self, line: u64, rights: u64) -> bool {
        let entry = self.0[line as usize % PLACES];
        entry >> SHIFT == line && entry & (rights | rights << WATCHED) != 0
    }

    /// Forgets what the core may do to the line.
    pub(crate) fn forget(&mut self, line: u64) {
        let entry = &mut self.0[line as usize % PLACES];
        if *entry >> SHIFT == line {
            *entry = u64::MAX;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.0.fill(u64::MAX);
    }

    /// What the core may do to the line.
    #[cfg(test)]
    pub(crate) fn rights(&self, line: u64) -> u64 {
        let entry = self.0[line as usize % PLACES];
        if entry >> SHIFT == line {
            entry & (READ | WRITE)
        } else {
            0
        }
    }

    pub(crate) fn first(&self) -> *const u64 {
        self.0.as_ptr()
    }
}

/// Nobody has the turn.
pub(crate) const NOBODY: u32 = u32::MAX;

/// See the module.
pub(crate) struct Hot {
    /// The time of the thread that has the turn; translated code adds to it.
    cycles: UnsafeCell<Ticks>,
    /// Instructions of all threads; translated code adds to it.
    instructions: UnsafeCell<u64>,
    /// The rights of the core that has the turn.
    rights: UnsafeCell<*const u64>,
    /// The time from which on an access has to be looked at closely.
    limit: AtomicU64,
    /// The thread that has the turn.
    holder: AtomicU32,
    /// Whether there is such a part, and it has not ended.
    skipping: AtomicBool,
    /// How far an address is shifted to make a line.
    line_shift: AtomicU32,
}

// SAFETY: the cells are used by the thread that has the turn only; passing the turn orders these uses. (A thread that
// is let go without the turn may add to `cycles` and `instructions` through translated code: the sum may then be off by
// the cost of a block; reports count such threads.)
unsafe impl Sync for Hot {}

/// The one instance.
pub(crate) static HOT: Common<Hot> = Common::new(Hot {
    cycles: UnsafeCell::new(0),
    instructions: UnsafeCell::new(0),
    rights: UnsafeCell::new(std::ptr::null()),
    limit: AtomicU64::new(0),
    holder: AtomicU32::new(NOBODY),
    skipping: AtomicBool::new(false),
    line_shift: AtomicU32::new(6),
});

/// As many threads as one process may have under the simulator, and as many as one machine.
pub(crate) const THREADS: usize = 16_384;
/// There is no thread of this number.
const NONE: u32 = u32::MAX - 1;
/// The numbers that the threads of this process have among all of the machine, by QEMU's.
static NUMBERS: [AtomicU32; THREADS] = [const { AtomicU32::new(NONE) }; THREADS];

/// The thread of this process that has taken the turn, as QEMU calls it. The process's own: no access to what all processes have tells
/// so cheaply which of the threads of this one it is.
static TURN: AtomicU32 = AtomicU32::new(NOBODY);

/// Notes which thread of this process has taken the turn; nobody when it passes it on.
pub(crate) fn set_turn(vcpu: u32) {
    // Relaxed: see `has_turn`. Passing the turn from thread to thread orders these stores.
    TURN.store(vcpu, Ordering::Relaxed);
}

/// The number that the thread which QEMU calls `vcpu` has.
pub(crate) fn thread_of(vcpu: u32) -> u32 {
    // Relaxed: set before the thread runs.
    NUMBERS[vcpu as usize % THREADS].load(Ordering::Relaxed)
}

/// The same, if it has one.
pub(crate) fn number_of(vcpu: u32) -> Option<u32> {
    if vcpu as usize >= THREADS {
        crate::plugin::fatal(&format!(
            "the program has more than {THREADS} threads, which the simulator has no room for"
        ));
    }
    Some(thread_of(vcpu)).filter(|&number| number != NONE)
}

/// Gives a thread of this process a number.
pub(crate) fn set_number(vcpu: u32, number: u32) {
    // Relaxed: see `thread_of`.
    NUMBERS[vcpu as usize % THREADS].store(number, Ordering::Relaxed);
}

/// The threads that this process has had.
pub(crate) fn own_threads() -> impl Iterator<Item = usize> {
    // Relaxed: see `thread_of`.
    let numbers = NUMBERS.iter().map(|number| number.load(Ordering::Relaxed));
    numbers
        .filter(|&number| number != NONE)
        .map(|number| number as usize)
}

/// This is a forked process: the threads of its parent are not here.
pub(crate) fn forget_numbers() {
    for number in &NUMBERS {
        // Relaxed: see `thread_of`.
        number.store(NONE, Ordering::Relaxed);
    }
}

impl Hot {
    /// Whether the thread that QEMU calls `vcpu` has taken the turn.
    #[inline]
    pub(crate) fn has_turn(&self, vcpu: u32) -> bool {
        // Relaxed: only the thread's own taking of the turn makes this its number.
        TURN.load(Ordering::Relaxed) == vcpu
    }

    /// The time of the thread that has the turn.
    #[inline]
    pub(crate) fn cycles(&self) -> Ticks {
        // SAFETY: the caller has the turn.
        unsafe { *self.cycles.get() }
    }

    /// Sets the time of the thread that has the turn.
    pub(crate) fn set_cycles(&self, cycles: Ticks) {
        // SAFETY: the caller has the turn.
        unsafe { *self.cycles.get() = cycles }
    }

    /// The word for translated code.
    pub(crate) fn cycles_word(&self) -> *mut u64 {
        self.cycles.get()
    }

    /// The word for translated code.
    pub(crate) fn instructions_word(&self) -> *mut u64 {
        self.instructions.get()
    }

    /// One more instruction was run than translated code has counted.
    pub(crate) fn count_instruction(&self) {
        // SAFETY: the caller has the turn.
        unsafe { *self.instructions.get() += 1 }
    }

    /// Instructions that were run.
    pub(crate) fn instructions(&self) -> u64 {
        // SAFETY: the caller has the turn.
        unsafe { *self.instructions.get() }
    }

    /// The rights of the core that has the turn from now on.
    pub(crate) fn set_rights(&self, table: &Table) {
        // SAFETY: the caller has the turn. Tables live as long as the simulation.
        unsafe { *self.rights.get() = table.first() }
    }

    /// The thread that has the turn.
    pub(crate) fn holder(&self) -> u32 {
        // Relaxed: a thread compares it with its own number, which only its own taking of the turn (an acquire) and
        // its own passing it on make appear and vanish.
        self.holder.load(Ordering::Relaxed)
    }

    /// Says who has the turn.
    pub(crate) fn set_holder(&self, holder: u32) {
        // Relaxed: see `holder`. Whoever has the turn, or has just lost it, is the only one to say so.
        self.holder.store(holder, Ordering::Relaxed);
    }

    /// Says whether a part of the program is being skipped.
    pub(crate) fn set_skipping(&self, skipping: bool) {
        // Relaxed: who has the turn says so, and passing the turn tells the others.
        self.skipping.store(skipping, Ordering::Relaxed);
    }

    /// Whether this thread may go on with a block of the part that is skipped: it has the turn and is not far ahead.
    #[inline]
    pub(crate) fn may_skip(&self, vcpu: u32) -> bool {
        // Relaxed: see `set_skipping`.
        self.has_turn(vcpu)
            && self.skipping.load(Ordering::Relaxed)
            && self.cycles() <= self.limit()
    }

    /// From which time on accesses are looked at.
    pub(crate) fn limit(&self) -> Ticks {
        // Relaxed: a hint; whoever lowers it leaves a message under a lock as well.
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets that time.
    pub(crate) fn set_limit(&self, limit: Ticks) {
        // Relaxed: see `limit`.
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Sets the size of a line.
    pub(crate) fn set_line_size(&self, size: u64) {
        // Relaxed: set before the first guest instruction.
        self.line_shift
            .store(size.trailing_zeros(), Ordering::Relaxed);
    }

    /// How far an address is shifted to make a line.
    #[inline]
    pub(crate) fn line_shift(&self) -> u32 {
        // Relaxed: set before the first guest instruction.
        self.line_shift.load(Ordering::Relaxed)
    }

    /// Whether this thread may go on with this access at once: it has the turn, is not far ahead, and its core has
    /// the rights that the access needs on the one line that it touches.
    #[inline]
    pub(crate) fn may_go_on(&self, vcpu: u32, address: u64, size: u64, need: u64) -> bool {
        let shift = self.line_shift();
        let line = address >> shift;
        if !self.has_turn(vcpu) || self.cycles() > self.limit() {
            return false;
        }
        // SAFETY: the caller has the turn, so the table is that of its core; the index is below the number of places.
        let entry = unsafe { *(*self.rights.get()).add(line as usize % PLACES) };
        entry & need == need && entry >> SHIFT == line && (address + size - 1) >> shift == line
    }
}

#[cfg(test)]
mod tests {
    use super::{PLACES, READ, SHIFT, Table, WATCHED, WRITE};

    fn entry(table: &Table, line: u64) -> u64 {
        table.0[line as usize % PLACES]
    }

    #[test]
    fn a_new_table_grants_nothing() {
        let table = Table::new();
        for line in [0, 1, u64::MAX >> 12] {
            assert_ne!(entry(&table, line) >> SHIFT, line);
        }
    }

    #[test]
    fn a_line_that_is_watched_grants_nothing_until_it_is_trusted() {
        let mut table = Table::new();
        let (line, other) = (5, 5 + PLACES as u64);
        table.set(line, (READ | WRITE) << WATCHED);
        assert_eq!(entry(&table, line) & (READ | WRITE), 0);
        table.trust(other);
        assert_eq!(entry(&table, line) & (READ | WRITE), 0);
        table.trust(line);
        assert_eq!(entry(&table, line) & (READ | WRITE), READ | WRITE);
        assert_eq!(entry(&table, line) >> SHIFT, line);
        table.set(line, READ << WATCHED);
        table.trust(line);
        assert_eq!(entry(&table, line) & (READ | WRITE), READ);
    }

    #[test]
    fn a_line_in_the_same_place_takes_it_and_is_not_mistaken() {
        let mut table = Table::new();
        let (line, other) = (5, 5 + PLACES as u64);
        table.set(line, READ | WRITE);
        assert_eq!(entry(&table, line), (line << SHIFT) | READ | WRITE);
        table.set(other, READ);
        assert_ne!(entry(&table, line) >> SHIFT, line);
        table.forget(line);
        assert_eq!(
            entry(&table, other) >> SHIFT,
            other,
            "another's entry stays"
        );
        table.forget(other);
        assert_ne!(entry(&table, other) >> SHIFT, other);
    }
}
