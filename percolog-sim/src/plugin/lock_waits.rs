//! What a program would gain if nobody ever held a lock that another wants, as if each thread had a lock of its own.
//!
//! The threads take turns as they would anyway, and wait for the lock as they would, so that the program does what it did. What a thread
//! would have been spared is noted beside its clock: its *lead*, the difference between its clock and the one that it would
//! have. Regions end, and the program does, by the latter.
//!
//! *Waiting.* A thread that comes back to a word of a [free](crate::plugin::free) line at the same instruction, and used no such line in
//! between, did not get the lock: whatever lies between (a loop that reads, pauses, yields, or sleeps) was waiting. Who gets a
//! lock uses it next at the instruction that releases it. So was what lies between two uses of a word if the thread has slept
//! in the kernel for that word.
//!
//! *Limits.* A lock of several words (a lock for readers and writers) is spared the waiting for each of them, and not what lies
//! between a use of one and a use of another. An event, a flag that is read at one place until it is set, would be taken for a lock
//! if it lay in a line of one.
//!
//! *Dependences.* Who is woken by another thread, or reads in a circle until another writes, could not have gone on before that one did what
//! it waited for: it leads by no more than that one.

use crate::model::{Bytes, Ticks};
use crate::plugin::access::{Site, by_line};
use crate::plugin::simulator::Simulator;

/// A use of a free line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    line: u64,
    bytes: Bytes,
    place: u64,
    /// Whether the thread has waited in the kernel since, for that word.
    has_slept: bool,
    /// When, by the clock that the thread would have.
    ahead: Ticks,
}

impl Use {
    fn is_of(&self, line: u64, bytes: Bytes) -> bool {
        let ends = |bytes: Bytes| bytes.offset.saturating_add(bytes.size);
        self.line == line && self.bytes.offset < ends(bytes) && bytes.offset < ends(self.bytes)
    }
}

impl Simulator {
    /// Whether waiting for this line is not to count.
    pub(crate) fn spares_waiting(&self, line: u64) -> bool {
        self.settings.free_waits && self.free.has(line)
    }

    /// The thread that has the turn is about to use a line at `now`.
    pub(crate) fn use_for_lock(&mut self, line: u64, bytes: Bytes, site: &Site, now: Ticks) {
        if !self.spares_waiting(line) {
            return;
        }
        let me = self.current();
        let thread = &mut self.threads[me];
        let last = thread.used_lock.filter(|last| last.is_of(line, bytes));
        if let Some(last) = last
            && (last.has_slept || last.place == site.place)
        {
            thread.lead = now.saturating_sub(last.ahead);
        }
        thread.used_lock = Some(Use {
            line,
            bytes,
            place: site.place,
            has_slept: false,
            ahead: now.saturating_sub(thread.lead),
        });
        self.tally.lead(me, self.threads[me].lead);
    }

    /// The thread that has the turn is about to wait in the kernel for the word at an address. Who waits for a lock has tried to
    /// get it just before; who waits for a condition has let its lock go since it looked.
    pub(crate) fn sleep_for_lock(&mut self, address: u64) {
        let Some((number, word)) = by_line(address, 4).next() else {
            return;
        };
        let (line, me) = (self.line(number), self.current());
        if let Some(last) = &mut self.threads[me].used_lock
            && last.is_of(line, word)
        {
            last.has_slept = true;
        }
    }

    /// A thread goes on at `now` because the thread that has the turn has done something at that time.
    pub(crate) fn depends(&mut self, thread: usize, asleep: Ticks, now: Ticks) {
        let waker = self.threads[self.current()].lead;
        let lead = &mut self.threads[thread].lead;
        if *lead == 0 && waker == 0 {
            return;
        }
        let alone = asleep.saturating_sub(*lead);
        let ahead = alone.max(now.saturating_sub(waker));
        *lead = now.saturating_sub(ahead);
        self.tally.lead(thread, *lead);
    }
}
