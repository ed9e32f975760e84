//! What happened, counted.

use super::{Bytes, Core, CoreSet, Event, Outcome, Rights, Shared, Spans, Ticks, Watch};

/// What accesses to lines led to. Hits are not counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines fetched from memory that no core had ever held.
    pub cold: u64,
    /// Lines fetched from memory that cores had held, but none did any more.
    pub memory: u64,
    /// Lines fetched to read while other cores held them.
    pub reads: u64,
    /// Lines fetched with the right to write while other cores held them.
    pub writes: u64,
    /// Rights to write acquired for lines that the core already held to read.
    pub upgrades: u64,
    /// Copies that other cores lost.
    pub invalidations: u64,
    /// Time that cores waited, cold misses apart.
    pub stall: Ticks,
    /// The part of `stall` that was waiting for one's turn, not for the line to come.
    pub queued: Ticks,
    /// Time that cores waited for cold misses.
    pub cold_stall: Ticks,
}

impl Counts {
    /// Counts what an access made at `now` led to.
    pub fn record(&mut self, outcome: &Outcome, now: Ticks) {
        let waited = outcome.finished.saturating_sub(now);
        self.invalidations += u64::from(outcome.invalidated);
        match outcome.event {
            Event::Hit => {}
            Event::Cold => {
                self.cold += 1;
                self.cold_stall += waited;
                return;
            }
            Event::Memory => self.memory += 1,
            Event::Read => self.reads += 1,
            Event::Write => self.writes += 1,
            Event::Upgrade => self.upgrades += 1,
        }
        self.stall += waited;
        self.queued += outcome.queued.min(waited);
    }

    /// Adds `other`'s counts.
    pub fn add(&mut self, other: &Counts) {
        let Counts {
            cold,
            memory,
            reads,
            writes,
            upgrades,
            invalidations,
            stall,
            queued,
            cold_stall,
        } = *other;
        self.cold += cold;
        self.memory += memory;
        self.reads += reads;
        self.writes += writes;
        self.upgrades += upgrades;
        self.invalidations += invalidations;
        self.stall += stall;
        self.queued += queued;
        self.cold_stall += cold_stall;
    }

    /// How many lines moved from core to core.
    pub fn transfers(&self) -> u64 {
        self.reads + self.writes
    }
}

/// What one instruction did to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The instruction's address.
    pub pc: u64,
    /// Whether it writes.
    pub write: bool,
    /// How many of its accesses were not hits.
    pub events: u64,
    /// How long cores waited in them, cold misses included.
    pub stall: Ticks,
}

/// What one core had to do with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfCore {
    /// Which core.
    pub core: Core,
    /// How many of its accesses were not hits.
    pub events: u64,
    /// How long it waited in them, cold misses included.
    pub stall: Ticks,
}

/// What happened to one line, who took part, and where in the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// The sums.
    pub counts: Counts,
    /// Cores that fetched the line to read it.
    pub readers: CoreSet,
    /// Cores that acquired the right to write it by writing it.
    pub writers: CoreSet,
    /// The first [`LineCounts::PLACES`] instructions that did, in the order of their first event.
    pub places: Vec<Place>,
    /// The events of all other instructions.
    pub elsewhere: u64,
    /// The cores that took part, in ascending order.
    pub by_core: Vec<OfCore>,
    /// Which of its bytes were used.
    pub spans: Spans,
    /// Follows its bytes, once it has moved often.
    pub watch: Option<Box<Watch>>,
}

impl LineCounts {
    /// How many instructions a line remembers.
    pub const PLACES: usize = 16;

    /// How often a line has to come to a core before its bytes are followed. Most lines never do.
    pub const MOVES: u64 = 8;

    /// Counts what an access by `core`, by the instruction at `pc`, led to. Hits leave no trace.
    pub fn record(&mut self, core: Core, pc: u64, write: bool, outcome: &Outcome, now: Ticks) {
        if outcome.event == Event::Hit {
            return;
        }
        self.counts.record(outcome, now);
        let cores = if write {
            &mut self.writers
        } else {
            &mut self.readers
        };
        cores.insert(core);
        let stall = outcome.finished.saturating_sub(now);
        self.of_core(core, stall);
        let known = self
            .places
            .iter()
            .position(|place| place.pc == pc && place.write == write);
        match known {
            Some(index) => {
                self.places[index].events += 1;
                self.places[index].stall += stall;
            }
            None if self.places.len() < Self::PLACES => self.places.push(Place {
                pc,
                write,
                events: 1,
                stall,
            }),
            None => self.elsewhere += 1,
        }
    }

    /// An event of `core`, which waited for `stall`.
    fn of_core(&mut self, core: Core, stall: Ticks) {
        match self.by_core.binary_search_by_key(&core, |of| of.core) {
            Ok(index) => {
                self.by_core[index].events += 1;
                self.by_core[index].stall += stall;
            }
            Err(index) => self.by_core.insert(
                index,
                OfCore {
                    core,
                    events: 1,
                    stall,
                },
            ),
        }
    }

    /// The line has come to `core`, or the right to write it, for these bytes, or for none that are used at once; `lost` says who
    /// gave it up. `line_size` is given if it may begin to be followed. Returns whether further uses of the line by the core are to
    /// be told of.
    #[allow(
        clippy::too_many_arguments,
        reason = "one access; called often, so nothing is built for it"
    )]
    pub fn come(
        &mut self,
        core: Core,
        bytes: Option<Bytes>,
        write: bool,
        outcome: &Outcome,
        lost: &[(Core, Rights)],
        line_size: Option<u64>,
        count: bool,
    ) -> bool {
        if let (true, Some(bytes)) = (count, bytes) {
            self.spans.record(core, bytes, write, true);
        }
        if let (None, Some(line_size)) = (&self.watch, line_size)
            && self.counts.transfers() + self.counts.upgrades >= Self::MOVES
        {
            self.watch = Some(Box::new(Watch::new(line_size)));
        }
        let Some(watch) = &mut self.watch else {
            return false;
        };
        watch.lose(lost);
        let upgrade = outcome.event == Event::Upgrade;
        watch.come(core, outcome.granted, upgrade, count);
        bytes.is_some_and(|bytes| watch.used(core, bytes, write))
    }

    /// `core`, which has the line, uses these bytes. Returns whether its further uses are to be told of.
    pub fn used(&mut self, core: Core, bytes: Bytes, write: bool, count: bool) -> bool {
        let Some(watch) = &mut self.watch else {
            return false;
        };
        if count {
            self.spans.record(core, bytes, write, false);
        }
        watch.used(core, bytes, write)
    }

    /// How often it came for what others had written, as far as it was followed.
    pub fn shared(&self) -> Shared {
        self.watch
            .as_ref()
            .map_or_else(Shared::default, |watch| watch.shared())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(event: Event, finished: Ticks, queued: Ticks, invalidated: u32) -> Outcome {
        Outcome {
            finished,
            takes: 0,
            granted: Rights::Write,
            event,
            invalidated,
            queued,
        }
    }

    #[test]
    fn each_event_has_its_count() {
        let mut counts = Counts::default();
        for (event, times) in [
            (Event::Hit, 7),
            (Event::Cold, 1),
            (Event::Memory, 2),
            (Event::Read, 3),
            (Event::Write, 4),
            (Event::Upgrade, 5),
        ] {
            for _ in 0..times {
                let finished = if event == Event::Hit { 100 } else { 110 };
                counts.record(&outcome(event, finished, 4, 0), 100);
            }
        }
        let expected = Counts {
            cold: 1,
            memory: 2,
            reads: 3,
            writes: 4,
            upgrades: 5,
            invalidations: 0,
            stall: 140,
            queued: 56,
            cold_stall: 10,
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.transfers(), 7);
        let mut twice = counts;
        twice.add(&counts);
        assert_eq!(
            (twice.cold, twice.memory, twice.reads, twice.writes),
            (2, 4, 6, 8)
        );
        assert_eq!(
            (twice.upgrades, twice.stall, twice.queued, twice.cold_stall),
            (10, 280, 112, 20)
        );
    }

    #[test]
    fn invalidations_add_up() {
        let mut counts = Counts::default();
        counts.record(&outcome(Event::Upgrade, 5, 0, 47), 0);
        counts.record(&outcome(Event::Write, 5, 0, 1), 0);
        assert_eq!(counts.invalidations, 48);
        let mut sum = Counts::default();
        sum.add(&counts);
        assert_eq!(sum, counts);
    }

    #[test]
    fn lines_remember_who_and_where() {
        let mut line = LineCounts::default();
        line.record(3, 0x10, false, &outcome(Event::Read, 20, 0, 0), 0);
        line.record(4, 0x20, true, &outcome(Event::Write, 50, 10, 1), 10);
        line.record(4, 0x20, true, &outcome(Event::Write, 30, 0, 1), 10);
        line.record(9, 0x30, true, &outcome(Event::Hit, 10, 0, 0), 10);
        assert_eq!(line.readers, CoreSet::only(3));
        assert_eq!(line.writers, CoreSet::only(4));
        assert_eq!(
            line.places,
            [
                Place {
                    pc: 0x10,
                    write: false,
                    events: 1,
                    stall: 20
                },
                Place {
                    pc: 0x20,
                    write: true,
                    events: 2,
                    stall: 60
                }
            ]
        );
        let of = |core, events, stall| OfCore {
            core,
            events,
            stall,
        };
        assert_eq!(line.by_core, [of(3, 1, 20), of(4, 2, 60)]);
        for pc in 0..LineCounts::PLACES as u64 {
            line.record(1, 0x1000 + pc, false, &outcome(Event::Read, 1, 0, 0), 0);
        }
        assert_eq!((line.places.len(), line.elsewhere), (LineCounts::PLACES, 2));
        assert_eq!(line.counts.reads, 1 + LineCounts::PLACES as u64);
        assert_eq!(line.by_core[0], of(1, 16, 16));
    }
}
