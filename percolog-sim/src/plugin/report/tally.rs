//! What has happened: of the whole process, of its region, of each core and of each line.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::model::{Core, Counts, Event, LineCounts, Outcome, Ticks};

/// What has happened so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(super) whole: Counts,
    pub(super) cores: Vec<CoreTally>,
    /// What happened to each line that went from core to core: of the region alone as soon as there has been one.
    pub(super) lines: HashMap<u64, LineCounts, BuildHasherDefault<LineHasher>>,
    /// How many of them are followed byte by byte.
    pub(super) watched: usize,
    pub(super) region: RegionTally,
    pub(super) threads: Vec<ThreadTally>,
    /// When the last thread that has ended did so.
    pub(super) last: Ticks,
    pub(super) labels: BTreeMap<u64, (u64, String)>,
}

#[derive(Debug, Default)]
pub(super) struct CoreTally {
    pub(super) busy: Ticks,
    pub(super) counts: Counts,
}

#[derive(Debug, Default)]
pub(super) struct RegionTally {
    pub(super) entered: u64,
    pub(super) operations: u64,
    pub(super) threads: u64,
    pub(super) busy: Ticks,
    pub(super) counts: Counts,
    pub(super) first_begin: Ticks,
    pub(super) last_end: Ticks,
    /// Marks of an end without a beginning.
    pub(super) stray_ends: u64,
    /// Threads that ended inside.
    pub(super) never_ended: u64,
}

/// What one thread is doing.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadTally {
    /// The core it has, and the time up to which its work there has been added up.
    pub(super) on: Option<(Core, Ticks)>,
    /// How many beginnings of the region have no end yet.
    pub(super) depth: u32,
    /// Whether it has ever been in the region.
    pub(super) entered: bool,
    /// By how much it would be ahead of its clock.
    pub(super) lead: Ticks,
}

impl Tally {
    /// Nothing has happened yet, on as many cores.
    pub(crate) fn new(cores: usize) -> Self {
        let mut tally = Self::default();
        tally.cores.resize_with(cores, CoreTally::default);
        tally
    }

    /// An access that was not a hit: by the instruction at `pc`, on `core`, at `now`.
    /// `line` is the address divided by the size of a line.
    #[allow(
        clippy::too_many_arguments,
        reason = "one access; called often, so nothing is built for it"
    )]
    pub(crate) fn record(
        &mut self,
        core: Core,
        line: u64,
        pc: u64,
        is_write: bool,
        outcome: &Outcome,
        now: Ticks,
        in_region: bool,
    ) {
        if outcome.event == Event::Hit {
            return;
        }
        self.whole.record(outcome, now);
        self.core(core).counts.record(outcome, now);
        if in_region {
            self.region.counts.record(outcome, now);
        }
        // What comes from memory is no contention, and there are many such lines.
        let counts = match outcome.event {
            Event::Cold => false,
            Event::Memory => self.lines.contains_key(&line),
            _ => true,
        };
        if counts && self.counts_lines(in_region) {
            let counts = self.lines.entry(line).or_default();
            counts.record(core, pc, is_write, outcome, now);
        }
    }

    /// `thread` gets `core` at `now`.
    pub(crate) fn on(&mut self, thread: usize, core: Core, now: Ticks) {
        self.thread(thread).on = Some((core, now));
    }

    /// `thread` leaves its core at `now`.
    pub(crate) fn off(&mut self, thread: usize, now: Ticks) {
        self.settle(thread, now);
        self.thread(thread).on = None;
    }

    /// Adds up what `thread` has worked until `now`.
    pub(crate) fn settle(&mut self, thread: usize, now: Ticks) {
        let state = self.thread(thread);
        let inside = state.depth > 0;
        let Some((core, since)) = &mut state.on else {
            return;
        };
        let (core, worked) = (*core, now.saturating_sub(*since));
        *since = now.max(*since);
        self.core(core).busy += worked;
        if inside {
            self.region.busy += worked;
        }
    }

    /// `thread` would be ahead of its clock by so much: what it does counts as done then.
    pub(crate) fn lead(&mut self, thread: usize, lead: Ticks) {
        self.thread(thread).lead = lead;
    }

    /// `thread` has ended at `now`.
    pub(crate) fn gone(&mut self, thread: usize, now: Ticks) {
        self.off(thread, now);
        let state = self.thread(thread);
        let (inside, ahead) = (state.depth > 0, now.saturating_sub(state.lead));
        self.last = self.last.max(ahead);
        if inside {
            self.region.never_ended += 1;
            self.region.last_end = self.region.last_end.max(ahead);
        }
        *self.thread(thread) = ThreadTally::default();
    }

    /// `thread` enters the region at `now`. Regions nest: the outermost counts.
    pub(crate) fn begin(&mut self, thread: usize, now: Ticks) {
        self.settle(thread, now);
        let state = self.thread(thread);
        state.depth += 1;
        if state.depth > 1 {
            return;
        }
        let first_of_thread = !std::mem::replace(&mut state.entered, true);
        let now = now.saturating_sub(state.lead);
        self.region.threads += u64::from(first_of_thread);
        if self.region.entered == 0 {
            // What led here is not what is asked about.
            self.lines.clear();
            self.watched = 0;
            self.region.first_begin = now;
        }
        self.region.entered += 1;
        self.region.first_begin = self.region.first_begin.min(now);
    }

    /// `thread` was forked by `maker` at `now`, and is in the region if that is.
    pub(crate) fn inherit(&mut self, maker: usize, thread: usize, now: Ticks) {
        for _ in 0..self.thread(maker).depth {
            self.begin(thread, now);
        }
    }

    /// `thread` leaves the region at `now`, having done `operations` in it.
    pub(crate) fn end(&mut self, thread: usize, operations: u64, now: Ticks) {
        self.settle(thread, now);
        let state = self.thread(thread);
        if state.depth == 0 {
            self.region.stray_ends += 1;
            return;
        }
        state.depth -= 1;
        if state.depth == 0 {
            let ahead = now.saturating_sub(state.lead);
            self.region.last_end = self.region.last_end.max(ahead);
        }
        self.region.operations = self.region.operations.saturating_add(operations);
    }

    /// What counts begins at `now`, as if the program had begun there. Threads in the region have just entered it.
    pub(crate) fn restart(&mut self, now: Ticks) {
        self.whole = Counts::default();
        self.lines.clear();
        for core in &mut self.cores {
            *core = CoreTally::default();
        }
        let mut inside = 0;
        for thread in &mut self.threads {
            if let Some((_, since)) = &mut thread.on {
                *since = now.max(*since);
            }
            thread.entered = thread.depth > 0;
            inside += u64::from(thread.entered);
        }
        self.region = RegionTally {
            entered: inside,
            threads: inside,
            first_begin: now,
            ..RegionTally::default()
        };
    }

    /// When the last thread that has ended did so, or would have done.
    pub(crate) fn last(&self) -> Ticks {
        self.last
    }

    /// Whether there has been a region.
    pub(crate) fn has_region(&self) -> bool {
        self.region.entered > 0
    }

    /// Whether `thread` is in the region.
    pub(crate) fn inside(&self, thread: usize) -> bool {
        self.threads
            .get(thread)
            .is_some_and(|state| state.depth > 0)
    }

    /// The program calls these bytes `name`.
    pub(crate) fn label(&mut self, address: u64, length: u64, name: String) {
        self.labels.insert(address, (length.max(1), name));
    }

    /// What the program has given names to, a bounded number of them: first byte, size and name.
    pub(super) fn labels(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        const MOST: usize = 4096;
        self.labels
            .iter()
            .map(|(address, (length, name))| (*address, *length, name.as_str()))
            .take(MOST)
    }

    /// The names of what lies in the bytes from `start`.
    pub(super) fn labels_in(&self, start: u64, size: u64) -> Option<String> {
        let behind = start.saturating_add(size);
        let names: Vec<&str> = self
            .labels
            .range(..behind)
            .filter(|(address, (length, _))| address.saturating_add(*length) > start)
            .map(|(_, (_, name))| name.as_str())
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn core(&mut self, core: Core) -> &mut CoreTally {
        let core = usize::from(core);
        if core >= self.cores.len() {
            self.cores.resize_with(core + 1, CoreTally::default);
        }
        &mut self.cores[core]
    }

    fn thread(&mut self, thread: usize) -> &mut ThreadTally {
        if thread >= self.threads.len() {
            self.threads.resize(thread + 1, ThreadTally::default());
        }
        &mut self.threads[thread]
    }
}

/// Lines are numbers: one multiplication spreads them well enough.
#[derive(Debug, Default)]
pub(crate) struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
