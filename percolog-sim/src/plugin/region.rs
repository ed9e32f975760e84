//! The part of the program that counts: from where on, for how long, and the region within it.
//!
//! What is skipped runs in a translation of its own, without callbacks for accesses ([`kind`]); calls and returns of
//! functions, system calls and what the processor says of itself are looked at as ever. A thread keeps the turn for long,
//! and with it goes on until it is far ahead of the others. Where that translation is not to be had, and in what runs before
//! the first system call, every access has its callback, which lets it pass: no line is looked up in the directory. What is
//! skipped leaves behind what there would be if the program had begun where it ends, with nothing in any cache.
//!
//! The part that counts begins for all threads when one of them says so, which is where a system call is made that marks
//! it, where a function begins, or at the beginning of a block. A thread that waits for its turn meanwhile goes
//! over to the translation that counts when it has it next, at the end of its block.

use crate::model::{Machine, TICKS_PER_CYCLE, Ticks};
use crate::plugin::hot::{self, HOT};
use crate::plugin::kind::{self, Kind};
use crate::plugin::report::Ending;
use crate::plugin::settings::Settings;
use crate::plugin::simulator::{Gate, Simulator};

/// How far a thread may be ahead of the others in a part that is skipped, and how often its end is looked for.
const TURN: Ticks = 200_000 * TICKS_PER_CYCLE;

/// How much of the program is not simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// Nothing.
    Nothing,
    /// So many nanoseconds.
    Time(u64),
    /// So many instructions of all threads.
    Instructions(u64),
    /// What comes before the first region.
    Region,
}

/// Which part of the program counts.
#[derive(Debug)]
pub(crate) struct Part {
    /// What is being skipped.
    skip: Skip,
    /// When that ends, if a time was said.
    skip_ends: Option<Ticks>,
    /// How long the part takes that counts, if that was said.
    lasts: Option<Ticks>,
    /// When it ends.
    ends: Option<Ticks>,
    /// When it began.
    pub(crate) began: Ticks,
    /// Instructions before that.
    pub(crate) skipped: u64,
    /// Accesses among them that were looked at all the same.
    pub(crate) looked_at: u64,
}

impl Part {
    /// What the settings say.
    pub(crate) fn new(settings: &Settings) -> Self {
        let lasts = settings
            .lasts
            .map(|nanoseconds| ticks(&settings.machine, nanoseconds));
        let at_once = settings.skip == Skip::Nothing && settings.region_functions.is_empty();
        Part {
            skip: settings.skip,
            skip_ends: match settings.skip {
                Skip::Time(nanoseconds) => Some(ticks(&settings.machine, nanoseconds)),
                _ => None,
            },
            lasts,
            ends: lasts.filter(|_| at_once),
            began: 0,
            skipped: 0,
            looked_at: 0,
        }
    }

    /// Has what is skipped translated without callbacks for accesses, unless somebody needs them.
    pub(crate) fn prepare(settings: &Settings) {
        if settings.skip == Skip::Nothing || settings.verify || settings.chaos {
            return;
        }
        HOT.set_skipping(true);
        // Nobody has to look how much time or how many instructions a single thread takes on its way to the region.
        kind::offer(match settings.skip {
            Skip::Region => Kind::Alone,
            _ => Kind::Skipped,
        });
    }

    /// Whether nothing is simulated yet.
    pub(crate) fn is_skipping(&self) -> bool {
        self.skip != Skip::Nothing
    }

    /// When somebody has to look at it.
    pub(crate) fn limit(&self, now: Ticks) -> Ticks {
        let skipping = if self.is_skipping() {
            let turn = now.saturating_add(TURN);
            // Once the time has come, whoever runs next says so.
            self.skip_ends
                .filter(|ends| *ends > now)
                .map_or(turn, |ends| turn.min(ends))
        } else {
            Ticks::MAX
        };
        skipping.min(self.ends.unwrap_or(Ticks::MAX))
    }
}

fn ticks(machine: &Machine, nanoseconds: u64) -> Ticks {
    let cycles = u128::from(nanoseconds) * u128::from(machine.megahertz) / 1000;
    u64::try_from(cycles * u128::from(TICKS_PER_CYCLE)).unwrap_or(Ticks::MAX)
}

impl Simulator {
    /// `thread` enters the region, by a mark or by calling a function, at `now`.
    pub(crate) fn enter_region(&mut self, thread: usize, now: Ticks) {
        if self.part.skip == Skip::Region {
            self.end_skipping(now);
        }
        if !self.tally.has_region() && !self.part.is_skipping() {
            // What led here is not what is asked about.
            self.witness.forget_lines();
            self.part.ends = self.part.lasts.map(|lasts| now.saturating_add(lasts));
            self.update_limit();
        }
        self.tally.begin(thread, now);
    }

    /// How far a thread may be ahead of the others, if it may by so much.
    pub(crate) fn lead(&self, wanted: Ticks) -> Ticks {
        if self.part.is_skipping() {
            wanted.max(TURN)
        } else {
            wanted
        }
    }

    /// Looks at `now` whether the part that counts begins or is over. Does not return if it is over.
    pub(crate) fn look_at_part(&mut self, now: Ticks) {
        let over = match self.part.skip {
            Skip::Nothing | Skip::Region => false,
            Skip::Time(_) => self.part.skip_ends.is_some_and(|ends| now >= ends),
            Skip::Instructions(instructions) => HOT.instructions() >= instructions,
        };
        if over {
            self.end_skipping(now);
        }
        self.end_at(now);
    }

    /// Ends the program if it has been measured for as long as was asked for.
    pub(crate) fn end_at(&mut self, now: Ticks) {
        if self.part.ends.is_some_and(|ends| now >= ends) {
            self.finish(Ending::Stopped);
            self.end_all(0);
        }
    }

    fn end_skipping(&mut self, now: Ticks) {
        self.part.skip = Skip::Nothing;
        kind::want(Kind::Whole);
        HOT.set_skipping(false);
        self.part.began = now;
        self.part.skipped = HOT.instructions();
        if self.settings.region_functions.is_empty() || self.tally.has_region() {
            self.part.ends = self.part.lasts.map(|lasts| now.saturating_add(lasts));
        }
        self.tables.clear();
        self.tally.restart(now);
        self.witness.forget_lines();
        self.update_limit();
    }

    /// An access in a part that is skipped: it is made at once, unless the thread has been running for long.
    /// Nothing if it has to be looked at again.
    pub(crate) fn skip_access(&mut self, line: u64, now: Ticks, state: *const u64) -> Option<Gate> {
        let others = self.schedule.horizon();
        if others.is_none_or(|(time, _)| now <= time.saturating_add(TURN)) {
            let process = self.process();
            let rights = hot::READ | hot::WRITE;
            if let Some(processor) = self.threads[self.current()].processor {
                self.tables
                    .set(&self.spaces, processor, process, line, rights);
            }
            self.part.looked_at += 1;
            self.update_limit();
            return Some(Gate::Open);
        }
        match self.wait_until(now, state) {
            Gate::Open => None,
            Gate::LetGo => Some(Gate::LetGo),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_machines() {
        let mut machine = Machine::flat("test", 1);
        machine.megahertz = 2400;
        assert_eq!(ticks(&machine, 1000), 2400 * TICKS_PER_CYCLE);
        assert_eq!(ticks(&machine, u64::MAX), Ticks::MAX);
    }
}
