//! Hostile interleavings: threads are held back just before or just after they touch what others touch too.
//!
//! Each thread has a clock of its own, so to be held back is to have time added to it: the others then do in the meantime
//! what they would do on a machine that had interrupted this thread there. Nothing else changes: a run is one of those that
//! the program must be prepared for anyway, and the same seed gives the same run.
//!
//! *Where.* Between two accesses to memory that only one thread uses, it makes no difference when others run. So threads
//! are held back at accesses to lines that one thread takes from another to write, and at accesses for which a line has to
//! come from another core's cache. In other words: an access that nobody else could notice never takes time.
//!
//! *For how long.* How many steps others have to make for a mistake to show is not known, so lengths are drawn evenly
//! over their logarithm, from a few instructions to a time slice; a few are longer, so that others may even sleep for some
//! milliseconds meanwhile. They are bounded, each and in sum: who waits for a thread that is held back waits longer, but
//! not for ever.
//!
//! *How often.* Most mistakes need one, two or three threads at particular places, and everybody else out of the way. Many
//! interruptions hide what few of them show, and the other way round, so that the runs differ: see [`Strategy`]. That few
//! changes among fixed priorities suffice for most mistakes is a result of Burckhardt, Kothari, Musuvathi and Nagarakatte
//! (A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010).

use std::collections::HashMap;

use crate::model::{TICKS_PER_CYCLE, Ticks};
use crate::plugin::random::Random;

/// The shortest delay takes at least two to this power of cycles: some instructions.
const SHORTEST: u32 = 3;
/// Delays below two to this power of cycles need not be counted: they cost nobody much.
const SHORT: u32 = 8;
/// Delays of a run take together at most so many time slices. Threads that wait meanwhile without sleeping have to be simulated.
const BUDGET: Ticks = 64;
/// One of so many of the delays that may be as long as a time slice is longer than that.
const LONGER_ONE_IN: u64 = 8;
/// By a factor of up to two to this power.
const LONGER: u32 = 5;
/// The bound for those that may.
const UNBOUNDED: u32 = u32::MAX;
/// Lines that a thread is known to have read since it wrote one of them.
const READ: usize = 4;
/// Points among which priorities change: two to this power.
const CHANGES_WITHIN: u64 = 12;
/// No line has this number.
const NO_LINE: u64 = u64::MAX;

/// What a run does. The seeds take turns, so that few runs try all.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Strategy {
    /// Any thread may be held back anywhere.
    Delays {
        /// At one point of so many.
        one_in: u64,
        /// For at most two to this power of cycles.
        most: u32,
    },
    /// Threads differ in speed; at a few points a thread becomes the slowest.
    Priorities {
        /// At which points, counted over all threads.
        changes: Vec<u64>,
    },
    /// A thread that has read a line is held back right before it writes to it, while all others go on undisturbed: what
    /// it has read is out of date by then, or, worse, the same again.
    HoldsBeforeWrites {
        /// One of so many times.
        one_in: u64,
    },
    /// A thread is held back right after it has written to a shared line, which may be a lock, while all others go on.
    HoldsAfterWrites {
        /// One of so many times.
        one_in: u64,
    },
}

/// What is known of a thread.
#[derive(Clone, Debug)]
struct Guest {
    /// It is delayed by about two to this power of cycles at each point; none if it is not.
    pace: Option<u32>,
    /// Lines that it has read, and not written since.
    read: [u64; READ],
    next: usize,
    /// Reads of shared lines, and their places, since it was told anything new or told anything itself.
    known: [(u64, u64); READ],
    next_known: usize,
}

/// Who has fetched a line from another core's cache.
#[derive(Clone, Copy, Debug)]
struct Users {
    first: usize,
    several: bool,
    shared: bool,
}

/// Decides where threads are held back, and for how long.
#[derive(Debug)]
pub(crate) struct Chaos {
    random: Random,
    strategy: Strategy,
    /// The longest delay but for few is two to this power of cycles.
    longest: u32,
    /// What delays may still take in sum.
    budget: Ticks,
    lines: HashMap<u64, Users>,
    guests: Vec<Option<Guest>>,
    told: Interleaving,
}

/// What has become of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interleaving {
    /// Accesses at which a thread could have been held back.
    pub(crate) points: u64,
    /// How often one was.
    pub(crate) delays: u64,
    /// A number that stands for the order in which the threads came to the points.
    pub(crate) order: u64,
}

impl Chaos {
    /// What the run with this seed does, on a machine with such time slices.
    pub(crate) fn new(seed: u64, slice: Ticks) -> Self {
        // Not the numbers that the guest gets from the same seed.
        let mut random = Random::new(seed).split();
        let longest = (slice / TICKS_PER_CYCLE)
            .checked_ilog2()
            .unwrap_or(0)
            .clamp(SHORT + 1, 40);
        let strategy = match seed % 5 {
            0 => Strategy::Delays {
                one_in: 1 << (1 + random.next() % 7),
                most: match random.next() % 2 {
                    0 => UNBOUNDED,
                    _ => SHORTEST + 1 + below(&mut random, longest - SHORTEST),
                },
            },
            1 | 4 => Strategy::HoldsBeforeWrites {
                one_in: 1 << (random.next() % 7),
            },
            2 => Strategy::Priorities {
                changes: (0..1 + random.next() % 4)
                    .map(|_| {
                        let power = random.next() % CHANGES_WITHIN;
                        (1 << power) + random.next() % (1 << power)
                    })
                    .collect(),
            },
            _ => Strategy::HoldsAfterWrites {
                one_in: 1 << (2 + random.next() % 5),
            },
        };
        Chaos {
            random,
            strategy,
            longest,
            budget: slice.saturating_mul(BUDGET),
            lines: HashMap::new(),
            guests: Vec::new(),
            told: Interleaving::default(),
        }
    }

    /// What has become of the run so far.
    pub(crate) fn interleaving(&self) -> Interleaving {
        self.told
    }

    /// Whether a line is one that a thread has taken from another to write: every access to it is a point.
    pub(crate) fn is_shared(&self, line: u64) -> bool {
        self.lines.get(&line).is_some_and(|users| users.shared)
    }

    /// Whether a thread that reads here reads only what it knows: it has been here, and no line of those that it has read since
    /// has changed, nor has it changed any. Such a thread waits in a loop for the others, and to hold it back is of no use.
    pub(crate) fn knows(&self, thread: usize, line: u64, place: u64) -> bool {
        matches!(self.guests.get(thread), Some(Some(guest)) if guest.known.contains(&(line, place)))
    }

    /// A thread has fetched a line from another core's cache. Returns whether the line is shared from now on.
    ///
    /// Threads are counted, not cores: a thread that moves to another core takes its own lines along.
    pub(crate) fn fetched(&mut self, thread: usize, line: u64, to_write: bool) -> bool {
        let users = self.lines.entry(line).or_insert(Users {
            first: thread,
            several: false,
            shared: false,
        });
        users.several |= users.first != thread;
        let newly = users.several && to_write && !users.shared;
        users.shared |= newly;
        newly
    }

    /// How long a new thread waits before it begins.
    pub(crate) fn birth(&mut self, thread: usize) -> Ticks {
        let pace = match &self.strategy {
            // Half of the threads run at full speed.
            Strategy::Priorities { .. } => match self.random.next() % 6 {
                number @ 0..3 => Some((8 + 4 * number as u32).min(self.longest - 4)),
                _ => None,
            },
            _ => None,
        };
        if self.guests.len() <= thread {
            self.guests.resize(thread + 1, None);
        }
        self.guests[thread] = Some(Guest {
            pace,
            read: [NO_LINE; READ],
            next: 0,
            known: [(NO_LINE, 0); READ],
            next_known: 0,
        });
        if self.random.next().is_multiple_of(2) {
            // No longer: threads that never meet do each other no harm.
            self.delay(SHORTEST, self.longest)
        } else {
            0
        }
    }

    /// How long a thread is held back before it touches a line.
    pub(crate) fn before(&mut self, thread: usize, line: u64, writes: bool) -> Ticks {
        match self.strategy {
            Strategy::Delays { one_in, most } => self.sometimes(one_in, SHORTEST, most),
            Strategy::Priorities { .. } => {
                let pace = self.guests.get(thread).and_then(Option::as_ref);
                match pace.and_then(|guest| guest.pace) {
                    Some(pace) => self.delay(pace, pace + 1),
                    None => 0,
                }
            }
            Strategy::HoldsBeforeWrites { one_in } if writes && self.has_read(thread, line) => {
                self.sometimes(one_in, SHORT, self.longest)
            }
            // Threads that all do the same at the same speed would otherwise go in step.
            Strategy::HoldsBeforeWrites { .. } | Strategy::HoldsAfterWrites { .. } => {
                self.sometimes(16, SHORTEST, SHORT)
            }
        }
    }

    /// How long a thread is held back within an instruction that reads a line, computes, and writes it, and is not atomic.
    pub(crate) fn between(&mut self, thread: usize, line: u64) -> Ticks {
        match self.strategy {
            Strategy::HoldsBeforeWrites { one_in } => self.sometimes(one_in, SHORT, self.longest),
            _ => self.before(thread, line, true),
        }
    }

    /// A thread touches a line, in its turn, which has come from another core's cache if `moved`. How long is it held back then?
    pub(crate) fn after(
        &mut self,
        thread: usize,
        line: u64,
        writes: bool,
        moved: bool,
        place: u64,
    ) -> Ticks {
        self.told.points += 1;
        let step = place ^ ((thread as u64) << 48);
        self.told.order = (self.told.order ^ step)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
        if let Some(Some(guest)) = self.guests.get_mut(thread) {
            if writes || moved {
                guest.known = [(NO_LINE, 0); READ];
            }
            if !writes {
                guest.known[guest.next_known % READ] = (line, place);
                guest.next_known += 1;
            }
            if writes {
                guest.read = guest
                    .read
                    .map(|read| if read == line { NO_LINE } else { read });
            } else if !guest.read.contains(&line) {
                guest.read[guest.next % READ] = line;
                guest.next += 1;
            }
        }
        let longest = self.longest;
        match &self.strategy {
            Strategy::Delays { one_in, most } => {
                let (one_in, most) = (*one_in, *most);
                self.sometimes(one_in, SHORTEST, most)
            }
            Strategy::Priorities { changes } if changes.contains(&self.told.points) => {
                if let Some(Some(guest)) = self.guests.get_mut(thread) {
                    guest.pace = Some(longest - 2);
                }
                self.delay(longest - 1, longest)
            }
            Strategy::HoldsAfterWrites { one_in } if writes => {
                let one_in = *one_in;
                self.sometimes(one_in, SHORT, UNBOUNDED)
            }
            _ => 0,
        }
    }

    fn has_read(&self, thread: usize, line: u64) -> bool {
        matches!(self.guests.get(thread), Some(Some(guest)) if guest.read.contains(&line))
    }

    /// One time in so many a delay.
    fn sometimes(&mut self, one_in: u64, least: u32, most: u32) -> Ticks {
        if self.random.next().is_multiple_of(one_in) {
            self.delay(least, most)
        } else {
            0
        }
    }

    /// A delay between two powers of two of cycles: each power is as likely as any other.
    fn delay(&mut self, least: u32, most: u32) -> Ticks {
        let may_be_longer = most > self.longest;
        let most = most.min(self.longest);
        let least = least.min(most.saturating_sub(1));
        let power = if may_be_longer && self.random.next().is_multiple_of(LONGER_ONE_IN) {
            self.longest + below(&mut self.random, LONGER)
        } else {
            least + below(&mut self.random, most - least)
        };
        let cycles = (1_u64 << power) + self.random.next() % (1_u64 << power);
        let ticks = cycles * TICKS_PER_CYCLE;
        if power >= SHORT {
            match self.budget.checked_sub(ticks) {
                Some(left) => self.budget = left,
                None => return 0,
            }
        }
        self.told.delays += 1;
        ticks
    }
}

/// A number below `bound`, or 0.
fn below(random: &mut Random, bound: u32) -> u32 {
    (random.next() % u64::from(bound.max(1))) as u32
}

#[cfg(test)]
mod tests;
