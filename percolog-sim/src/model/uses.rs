//! Which bytes of a line are used, by whom, and whether the line comes to a core for what others have written to it.
//!
//! A core *has* a line from when it fetches it until it loses it. It fetched it because of another core's write if the
//! line was written since the core last had it. It shares it *truly* if, while it has it, it uses bytes that others
//! have written since then, and *falsely* if it uses only others: that is known when it loses the line again.
//!
//! Whoever drives the model tells of accesses that miss, and, of lines that move often, also of those that hit, up to
//! [`Watch::USES`] each time that a core has the line. Beyond these, bytes may be used unseen: what is then not known
//! to be true is not called false.

use super::{Core, CoreSet, Rights};

/// Bytes that an instruction accesses together, within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes {
    /// The first, counted from the beginning of the line.
    pub offset: u32,
    /// How many.
    pub size: u32,
}

/// Who used some bytes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which bytes.
    pub bytes: Bytes,
    /// Cores that read them.
    pub readers: CoreSet,
    /// Cores that wrote them.
    pub writers: CoreSet,
    /// How many of these accesses were not hits.
    pub events: u64,
}

/// The bytes of a line that were used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<Span>);

impl Spans {
    /// How many different spans a line remembers: the first ones.
    pub const MOST: usize = 64;

    /// Notes an access by `core`.
    pub fn record(&mut self, core: Core, bytes: Bytes, write: bool, event: bool) {
        let known = self.0.iter().position(|span| span.bytes == bytes);
        let index = match known {
            Some(index) => index,
            None if self.0.len() < Self::MOST => {
                self.0.push(Span {
                    bytes,
                    readers: CoreSet::default(),
                    writers: CoreSet::default(),
                    events: 0,
                });
                self.0.len() - 1
            }
            None => return,
        };
        let span = &mut self.0[index];
        let cores = if write {
            &mut span.writers
        } else {
            &mut span.readers
        };
        cores.insert(core);
        span.events += u64::from(event);
    }

    /// The spans, in ascending order.
    pub fn sorted(&self) -> Vec<&Span> {
        let mut spans: Vec<&Span> = self.0.iter().collect();
        spans.sort_by_key(|span| span.bytes);
        spans
    }
}

/// How often a line came to a core because of another core's write, by what it then was used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// For bytes that others had written.
    pub truly: u64,
    /// For other bytes only.
    pub falsely: u64,
    /// For what, was not seen.
    pub undecided: u64,
}

/// Follows a line that moves often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Counts the times at which cores have lost the line. Begins at 1.
    clock: u32,
    bytes: Vec<Byte>,
    holders: Vec<Holder>,
    /// The last time at which bytes may have been written unseen, or 0.
    unseen: u32,
    shared: Shared,
}

/// Who wrote a byte last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Byte {
    at: u32,
    by: Core,
}

/// What is known of a core that has the line or had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holder {
    /// When it lost the line last; 0 if that was before it was watched.
    lost: u32,
    /// Whether it has the line because another wrote to it, and that is to be counted.
    asked: bool,
    /// Whether it has used what others have written.
    truly: bool,
    /// Whether it may write it without asking.
    owns: bool,
    /// How often it was seen to use the line since it has it, or since it got the right to write it.
    uses: u32,
    /// Whether it may have used the line unseen since it has it.
    blind: bool,
}

impl Watch {
    /// How many uses are looked at each time that a core has the line. A use that is looked at costs the simulator about ten
    /// times as much as another, a move of the line some hundred times.
    pub const USES: u32 = 256;

    /// Begins to watch a line of so many bytes.
    pub fn new(line_size: u64) -> Self {
        Self {
            clock: 1,
            bytes: vec![Byte::default(); usize::try_from(line_size).unwrap_or(0)],
            holders: Vec::new(),
            unseen: 0,
            shared: Shared::default(),
        }
    }

    /// Cores have lost the line, or the right to write it.
    pub fn lose(&mut self, lost: &[(Core, Rights)]) {
        let mut gone = false;
        for &(core, left) in lost {
            let holder = *self.holder(core);
            if holder.owns && holder.uses >= Self::USES {
                self.unseen = self.clock;
            }
            if left == Rights::None {
                self.decide(&holder);
                gone = true;
                let lost = self.clock;
                *self.holder(core) = Holder {
                    lost,
                    ..Holder::default()
                };
            } else {
                self.holder(core).owns = false;
            }
        }
        if gone {
            self.clock = self.clock.saturating_add(1);
        }
    }

    /// The line has come to `core`, or the right to write it. `count` says whether this is to be counted.
    pub fn come(&mut self, core: Core, granted: Rights, upgrade: bool, count: bool) {
        let clock = self.clock;
        let holder = self.holder(core);
        holder.owns = granted == Rights::Write;
        if !upgrade {
            // If it never had the line before, it came because it was not there, and not because of what others did.
            holder.asked = count && holder.lost > 0 && clock > holder.lost;
            holder.truly = false;
            holder.blind = false;
        }
        holder.uses = 0;
    }

    /// `core`, which has the line, uses these bytes of it. Returns whether its further uses are to be looked at.
    pub fn used(&mut self, core: Core, bytes: Bytes, write: bool) -> bool {
        let clock = self.clock;
        let mut holder = *self.holder(core);
        let first = bytes.offset as usize;
        let behind = first.saturating_add(bytes.size as usize);
        let length = self.bytes.len();
        for byte in &mut self.bytes[first.min(length)..behind.min(length)] {
            holder.truly |= byte.by != core && byte.at > holder.lost;
            if write {
                *byte = Byte {
                    at: clock,
                    by: core,
                };
            }
        }
        holder.uses = holder.uses.saturating_add(1);
        holder.blind |= holder.uses >= Self::USES;
        *self.holder(core) = holder;
        holder.uses < Self::USES
    }

    /// What it came to so far: what cores are doing with the line at present included.
    pub fn shared(&self) -> Shared {
        let mut all = self.clone();
        for holder in &self.holders {
            all.decide(holder);
        }
        all.shared
    }

    fn decide(&mut self, holder: &Holder) {
        let Shared {
            truly,
            falsely,
            undecided,
        } = &mut self.shared;
        let unsure = holder.blind || self.unseen > holder.lost;
        match (holder.asked, holder.truly, unsure) {
            (false, ..) => {}
            (true, true, _) => *truly += 1,
            (true, false, true) => *undecided += 1,
            (true, false, false) => *falsely += 1,
        }
    }

    fn holder(&mut self, core: Core) -> &mut Holder {
        let core = usize::from(core);
        if core >= self.holders.len() {
            self.holders.resize(core + 1, Holder::default());
        }
        &mut self.holders[core]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: u32 = 8;

    /// A watched line, with the rights that a directory would give.
    struct Line {
        watch: Watch,
        holders: Vec<(Core, Rights)>,
    }

    impl Line {
        fn new() -> Self {
            Line {
                watch: Watch::new(64),
                holders: Vec::new(),
            }
        }

        /// An access to a word; returns whether it missed.
        fn access(&mut self, core: Core, word: u32, write: bool) -> bool {
            let wants = if write { Rights::Write } else { Rights::Read };
            let held = self
                .holders
                .iter()
                .find(|holder| holder.0 == core)
                .map_or(Rights::None, |holder| holder.1);
            let missed = held < wants;
            if missed {
                let left = if write { Rights::None } else { Rights::Read };
                let lost: Vec<(Core, Rights)> = self
                    .holders
                    .iter()
                    .filter(|(other, rights)| *other != core && *rights > left)
                    .map(|(other, _)| (*other, left))
                    .collect();
                self.watch.lose(&lost);
                self.holders
                    .retain(|(other, _)| *other != core && left == Rights::Read);
                for holder in &mut self.holders {
                    holder.1 = left;
                }
                self.holders.push((core, wants));
                self.watch.come(core, wants, held == Rights::Read, true);
            }
            let bytes = Bytes {
                offset: word * WORD,
                size: WORD,
            };
            self.watch.used(core, bytes, write);
            missed
        }

        fn shared(&self) -> (u64, u64, u64) {
            let Shared {
                truly,
                falsely,
                undecided,
            } = self.watch.shared();
            (truly, falsely, undecided)
        }
    }

    #[test]
    fn a_counter_is_shared_truly() {
        let mut line = Line::new();
        for _ in 0..5 {
            for core in 0..4 {
                line.access(core, 0, true);
            }
        }
        assert_eq!(
            line.shared(),
            (16, 0, 0),
            "each core's first time is not counted"
        );
    }

    #[test]
    fn counters_of_different_cores_are_shared_falsely() {
        let mut line = Line::new();
        for _ in 0..5 {
            for core in 0..4 {
                line.access(core, core.into(), true);
                // It finds again what it wrote itself.
                line.access(core, core.into(), false);
            }
        }
        assert_eq!(line.shared(), (0, 16, 0));
    }

    #[test]
    fn a_word_that_nobody_writes_is_shared_falsely_beside_a_counter() {
        let mut line = Line::new();
        for _ in 0..10 {
            line.access(0, 0, true);
            for core in 1..4 {
                line.access(core, 7, false);
            }
        }
        assert_eq!(
            line.shared(),
            (0, 27, 0),
            "the writer never lost it, but its right to write"
        );
    }

    #[test]
    fn what_is_used_later_decides_too() {
        let mut line = Line::new();
        for round in 0..6 {
            // The lock word is its own line's neighbour: who spins looks at a flag first.
            line.access(0, 1, true);
            line.access(0, 2, true);
            line.access(1, 3, false);
            if round % 2 == 1 {
                line.access(1, 2, false);
            }
        }
        assert_eq!(line.shared(), (3, 2, 0));
    }

    #[test]
    fn bytes_that_were_read_before_they_were_written_are_no_reason() {
        let mut line = Line::new();
        line.access(0, 0, true);
        line.access(1, 0, false);
        line.access(0, 1, true);
        line.access(1, 0, false);
        assert_eq!(
            line.shared(),
            (0, 1, 0),
            "word 0 was written before the core lost the line"
        );
        line.access(1, 1, false);
        assert_eq!(line.shared(), (1, 0, 0));
    }

    #[test]
    fn what_may_have_happened_unseen_is_not_called_false() {
        let mut line = Line::new();
        line.access(1, 5, false);
        line.access(0, 0, true);
        for _ in 0..Watch::USES {
            line.access(0, 0, true);
        }
        line.access(1, 5, false);
        assert_eq!(line.shared(), (0, 0, 1), "word 5 may have been written");
        line.access(0, 0, true);
        line.access(1, 5, false);
        assert_eq!(line.shared(), (0, 1, 1));
    }

    #[test]
    fn spans_keep_who_reads_and_who_writes_apart() {
        let mut spans = Spans::default();
        let at = |offset| Bytes { offset, size: 4 };
        spans.record(3, at(8), true, true);
        spans.record(2, at(0), false, true);
        spans.record(2, at(0), false, false);
        spans.record(5, at(8), false, true);
        let sorted = spans.sorted();
        assert_eq!(
            sorted.iter().map(|span| span.bytes).collect::<Vec<_>>(),
            [at(0), at(8)]
        );
        assert_eq!(
            (sorted[0].events, &sorted[0].readers),
            (1, &CoreSet::only(2))
        );
        assert!(sorted[0].writers.is_empty());
        assert_eq!(
            (sorted[1].events, &sorted[1].readers, &sorted[1].writers),
            (2, &CoreSet::only(5), &CoreSet::only(3))
        );
        for offset in 100..300 {
            spans.record(0, at(offset), false, true);
        }
        assert_eq!(spans.sorted().len(), Spans::MOST);
    }
}
