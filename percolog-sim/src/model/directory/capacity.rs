//! How many lines the caches of a chip hold, and which of them leave when another one comes.
//!
//! All caches of a chip are one here, of [`WAYS`] ways, and what leaves it leaves every core of the chip, as with a
//! last-level cache that includes the others. Which line of a set leaves, two hands decide that go round (the clock algorithm):
//! the first forgets that a line was used, and the second, half a set behind, takes the first line that was not used since.
//!
//! Uses by cores that have the right to them are not told to the directory. So the first hand asks to be told
//! ([`Left::Watched`]): whoever goes on using the line is heard of.

use super::{Coherence, Directory, Event, Outcome, Private, State, Table, Unpacked, ticks};
use crate::model::{Core, Machine, Ticks};
use std::collections::VecDeque;

/// Lines in a set.
const WAYS: usize = 16;

/// What became of a line on a chip, for which room was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The core has lost it.
    Evicted(Core, u64),
    /// The core keeps it, and the directory has to be told when it uses it next, by [`Directory::used`].
    Watched(Core, u64),
}

/// What each chip's caches hold.
pub(super) struct Capacity {
    /// Sets of a chip; none where there is no limit.
    sets: usize,
    /// What is in them, chip by chip, once anything is.
    chips: Vec<Option<Sets>>,
    /// What has left, or is watched, and was not told yet.
    pub(super) left: VecDeque<Left>,
}

struct Sets {
    ways: Vec<Way>,
    /// Where the second hand of each set is.
    hands: Vec<u8>,
}

/// A line and whether it was used since the first hand came by.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way(u64);

impl Way {
    const EMPTY: Way = Way(0);

    fn new(line: u64) -> Way {
        Way((line + 1) << 1)
    }

    fn line(self) -> Option<u64> {
        (self.0 >> 1).checked_sub(1)
    }

    fn with(self, used: bool) -> Way {
        Way(self.0 & !1 | u64::from(used))
    }

    fn is_used(self) -> bool {
        self.0 & 1 != 0
    }
}

impl Sets {
    fn new(sets: usize) -> Sets {
        Sets {
            ways: vec![Way::EMPTY; sets * WAYS],
            hands: vec![0; sets],
        }
    }

    /// The set of a line, and its hand.
    fn of(&mut self, line: u64) -> (&mut [Way], &mut u8) {
        // Neighbours go to sets of their own; the upper bits are mixed in, since programs like powers of two.
        let mixed = (line ^ line >> 20).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let set = (mixed as usize) % self.hands.len();
        (&mut self.ways[set * WAYS..][..WAYS], &mut self.hands[set])
    }
}

impl Capacity {
    pub(super) fn new(machine: &Machine) -> Capacity {
        let lines = (machine.last_level_cache / machine.line_size) as usize;
        Capacity {
            sets: lines / WAYS,
            chips: (0..machine.chips).map(|_| None).collect(),
            left: VecDeque::new(),
        }
    }

    fn is_limited(&self) -> bool {
        self.sets > 0
    }

    /// About how many bytes it takes to know.
    pub(super) fn bytes(&self) -> usize {
        let there = self.chips.iter().flatten();
        there
            .map(|sets| sets.ways.capacity() * size_of::<Way>() + sets.hands.capacity())
            .sum()
    }
}

impl Directory {
    /// A core has used a line that [it was to be heard of](Left::Watched).
    pub fn used(&mut self, core: Core, line: u64) {
        if !self.capacity.is_limited() {
            return;
        }
        let chip = self.machine.chip_of(core);
        if let Some(sets) = &mut self.capacity.chips[chip] {
            let (ways, _) = sets.of(line);
            if let Some(way) = ways.iter_mut().find(|way| way.line() == Some(line)) {
                *way = way.with(true);
            }
        }
    }

    /// What became of other lines by the last accesses; each is told once.
    pub fn next_left(&mut self) -> Option<Left> {
        self.capacity.left.pop_front()
    }

    /// The chip of `core` has got `line`, for which there must be room. Called when the holders are noted.
    pub(super) fn make_room(&mut self, core: Core, line: u64, now: Ticks) {
        if !self.capacity.is_limited() {
            return;
        }
        let chip = self.machine.chip_of(core);
        let sets = self.capacity.sets;
        let sets = self.capacity.chips[chip].get_or_insert_with(|| Sets::new(sets));
        let (ways, hand) = sets.of(line);
        if let Some(way) = ways.iter_mut().find(|way| way.line() == Some(line)) {
            *way = way.with(true);
            return;
        }
        // Who has room to spare is not asked to tell of uses: that would only change in which order cores come.
        let empty = ways.iter().filter(|way| **way == Way::EMPTY).count();
        let is_filling = empty <= WAYS / 2;
        let victim = loop {
            let at = usize::from(*hand);
            *hand = ((at + 1) % WAYS) as u8;
            // Places of lines that others have taken, or that were unmapped, are as good as empty.
            let there = |way: Way| {
                way.line()
                    .filter(|&line| has_holder(&self.table, &self.machine, chip, line))
            };
            let ahead = &mut ways[(at + WAYS / 2) % WAYS];
            if is_filling && ahead.is_used() {
                *ahead = ahead.with(false);
                if let Some(passed) = there(*ahead) {
                    let left = &mut self.capacity.left;
                    on_chip(&self.table, &self.machine, chip, passed, |core| {
                        left.push_back(Left::Watched(core, passed));
                    });
                }
            }
            let old = ways[at];
            match there(old) {
                Some(_) if old.is_used() => {}
                victim => {
                    ways[at] = Way::new(line).with(true);
                    break victim;
                }
            }
        };
        if let Some(victim) = victim {
            self.evict(chip, victim, now);
        }
    }

    /// The line leaves the caches of a chip: it is written back if it is newer than memory.
    fn evict(&mut self, chip: usize, line: u64, now: Ticks) {
        let Directory {
            table,
            machine,
            capacity,
            ..
        } = self;
        on_chip(table, machine, chip, line, |core| {
            capacity.left.push_back(Left::Evicted(core, line))
        });
        let is_written_back = match table.get(line).map(|word| word.unpack()) {
            None | Some(Unpacked::Nobody(_)) => false,
            Some(Unpacked::Private(private)) => {
                table.set_nobody(line, private.written);
                private.modified
            }
            Some(Unpacked::Shared(index)) => {
                let entry = table.shared_mut(index);
                let here: Vec<Core> = entry
                    .holders
                    .iter()
                    .filter(|&core| machine.chip_of(core) == chip)
                    .collect();
                for &core in &here {
                    entry.holders.remove(core);
                }
                let was = entry.state;
                let owner_left = here.contains(&entry.owner);
                if entry.holders.is_empty() {
                    entry.state = State::Idle;
                } else if was == State::Owned && owner_left {
                    entry.state = State::Shared;
                }
                owner_left && matches!(was, State::Modified | State::Owned)
            }
        };
        if is_written_back && !self.is_free(line) {
            let core = (chip * self.machine.cores_per_chip) as Core;
            let home = self.home(core, line);
            // Nobody waits for it.
            let _ = self.memories.serve(home, now);
        }
    }

    /// A line is fetched again that has left the caches of the only core that used it.
    pub(super) fn fetch_again(
        &mut self,
        core: Core,
        line: u64,
        writes: bool,
        written: Ticks,
        now: Ticks,
    ) -> Outcome {
        if self.machine.coherence == Coherence::Bus && !self.is_free(line) {
            self.bus_busy = now.max(self.bus_busy) + ticks(self.machine.bus.into());
        }
        let outcome = self.cold(core, line, writes, now);
        // It is not there before it was written.
        let finished = outcome.finished.max(written);
        self.table.set_private(
            line,
            Private {
                core,
                modified: writes,
                written: if writes { finished } else { written },
            },
        );
        Outcome {
            finished,
            takes: now.max(written),
            event: Event::Memory,
            ..outcome
        }
    }
}

/// Calls `f` for each core of a chip that holds a line, in ascending order.
fn on_chip(table: &Table, machine: &Machine, chip: usize, line: u64, mut f: impl FnMut(Core)) {
    let mut look = |core| {
        if machine.chip_of(core) == chip {
            f(core);
        }
    };
    match table.get(line).map(|word| word.unpack()) {
        None | Some(Unpacked::Nobody(_)) => {}
        Some(Unpacked::Private(private)) => look(private.core),
        Some(Unpacked::Shared(index)) => table.shared(index).holders.iter().for_each(look),
    }
}

fn has_holder(table: &Table, machine: &Machine, chip: usize, line: u64) -> bool {
    let mut has = false;
    on_chip(table, machine, chip, line, |_| has = true);
    has
}
