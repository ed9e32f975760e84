//! What a program would gain if nobody ever held a lock that another wants, as if each thread had a lock of its own.
//!
//! The threads take turns as they would anyway, and wait for the lock as they would, so that the program does what it did. What a thread
//! would have been spared is noted beside its clock: its *lead*, the difference between its clock and the one that it would
//! have. Regions end, and the program does, by the latter.
//!
//! *Waiting.* A thread that comes back to a word of a [free](crate::plugin::free) line at the same instruction, and used no such line in
//! between, did not get the lock: whatever lies between (a loop that reads, pauses, yields, or sleeps) was waiting. Who gets a
//! lock uses it next at the instruction that releases it. So was what lies between two uses of a line if the thread has slept
//! in the kernel for the word that it used first, or read in a circle until the line was taken: it may go on at another word of the lock.
//!
//! *What the lock guards* costs nothing, either, from the use that gets it to the one that releases it. Which one that is, those show who
//! wait: when one of them has got the lock, the last write to its word by another thread was the release.
//!
//! *Other lines* are asked for at the time that it would be, so that threads which the lock kept apart meet there.
//!
//! *Limits.* Who tries again for a lock of several words (a lock for readers and writers) is spared what lies between two uses of one of
//! them, and not what lies between a use of one and a use of another. Who comes to such a lock is taken for whoever releases it, now and
//! then: then what is done under it is not free, or what is done without it is. An event, a flag that is read at one place until it is set,
//! would be taken for a lock if it lay in a line of one.
//!
//! *Dependences.* Who is woken by another thread, or reads in a circle until another writes, could not have gone on before that one did what
//! it waited for: it leads by no more than that one.

use crate::model::{Bytes, Ticks};
use crate::plugin::access::{Site, by_line};
use crate::plugin::simulator::Simulator;

/// How much rarer than the commonest release another one may be.
const RARELY: u64 = 16;

/// The last writes to a line, by two threads.
#[derive(Debug, Default)]
pub(crate) struct Writes([Option<(usize, Bytes, u64)>; 2]);

impl Writes {
    fn note(&mut self, thread: usize, bytes: Bytes, place: u64) {
        let new = Some((thread, bytes, place));
        if self.0[0].is_some_and(|(last, ..)| last != thread) {
            self.0[1] = self.0[0];
        }
        self.0[0] = new;
    }

    fn by_another(&self, thread: usize, bytes: Bytes) -> Option<u64> {
        let other = self.0.iter().flatten().find(|(other, ..)| *other != thread);
        other
            .filter(|(_, written, _)| overlap(*written, bytes))
            .map(|(_, _, place)| *place)
    }
}

fn overlap(one: Bytes, other: Bytes) -> bool {
    let ends = |bytes: Bytes| bytes.offset.saturating_add(bytes.size);
    one.offset < ends(other) && other.offset < ends(one)
}

/// A use of a free line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    line: u64,
    bytes: Bytes,
    place: u64,
    /// Whether the thread has waited in the kernel since, for that word.
    has_slept: bool,
    /// If it was not the first try to get the lock: the instruction of the last write by another thread before it.
    behind: Option<u64>,
    /// When, by the clock that the thread would have.
    ahead: Ticks,
}

impl Use {
    fn is_of(&self, line: u64, bytes: Bytes) -> bool {
        self.line == line && overlap(self.bytes, bytes)
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
        let writes = self.lock_writes.entry(line).or_default();
        let thread = &mut self.threads[me];
        let last = thread.used_lock.filter(|last| last.line == line);
        let again = last
            .filter(|last| last.has_slept || (last.place == site.place && last.is_of(line, bytes)));
        if let Some(last) = again {
            thread.lead = now.saturating_sub(last.ahead);
        } else if let Some(place) = thread.used_lock.and_then(|last| last.behind) {
            // It had got the lock.
            *self.releases.entry(place).or_default() += 1;
        }
        let behind = again.and_then(|last| writes.by_another(me, last.bytes));
        if site.writes() {
            writes.note(me, bytes, site.place);
        }
        thread.used_lock = Some(Use {
            line,
            bytes,
            place: site.place,
            behind,
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

    /// Whether the thread that has the turn has a lock that is free, as far as that is known.
    pub(crate) fn has_lock(&self) -> bool {
        let Some(last) = self.threads[self.current()].used_lock else {
            return false;
        };
        // Another instruction may have been taken for a release, now and then.
        let most = self.releases.values().max().copied().unwrap_or(0);
        let count = self.releases.get(&last.place).copied().unwrap_or(0);
        most > 0 && count < most.div_ceil(RARELY)
    }

    /// A thread that read in a circle from `from` on, because nobody wrote to this line, goes on at `now`.
    pub(crate) fn has_spun(&mut self, thread: usize, line: u64, from: Ticks, now: Ticks) {
        if !self.spares_waiting(line) {
            return self.depends(thread, from, now);
        }
        let lead = &mut self.threads[thread].lead;
        *lead = (*lead + now).saturating_sub(from);
        self.tally.lead(thread, *lead);
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
