//! Who holds each line, and how long it takes to get it.

use super::plan::Plan;
use super::table::{Line, NumberMap, Private, State, Table, Unpacked};
use super::{Coherence, Core, Machine, Occupancy, Protocol, Stores, Ticks, ticks};
use std::collections::VecDeque;
use std::fmt;

mod capacity;
mod served;

use capacity::Capacity;
pub use capacity::Left;
use served::Served;

/// What a core wants to do with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A load.
    Read,
    /// A read-modify-write, or a store that its core waits for.
    Write,
    /// A plain store. Differs from [`Access::Write`] only on machines with [`Stores::Buffered`],
    /// where the core does not wait for it.
    Store,
}

/// What a core may do with a line without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rights {
    /// Nothing.
    None,
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

/// What an access turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The core had the rights.
    Hit,
    /// The line came from memory, and no core had ever held it.
    Cold,
    /// The line came from memory because no core held it any more.
    Memory,
    /// The line was transferred for reading while others held it.
    Read,
    /// The line was transferred with the right to write it while others held it.
    Write,
    /// The core held the line for reading; the other copies were invalidated.
    Upgrade,
}

/// How an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the core goes on.
    pub finished: Ticks,
    /// From when on no other core's access can come before this one: whoever makes the access makes it not before.
    pub takes: Ticks,
    /// What it may do with the line from now on.
    pub granted: Rights,
    /// What the access was.
    pub event: Event,
    /// How many other cores lost their copy.
    pub invalidated: u32,
    /// How much of the time until `finished` was waiting for one's turn at the line's home, or for
    /// the bus.
    pub queued: Ticks,
}

/// All lines of a machine.
///
/// Accesses are given in about the order of simulated time; an access that comes late (its `now`
/// before that of an earlier call) is served after the earlier ones. The same calls in the same
/// order have the same outcomes.
pub struct Directory {
    machine: Machine,
    table: Table,
    /// The home chip of each page that was touched.
    homes: NumberMap<u16>,
    /// A line's page is `line >> page_shift`.
    page_shift: u32,
    /// Until when the one bus is taken.
    bus_busy: Ticks,
    memories: Memories,
    capacity: Capacity,
    /// Lines that cost nothing.
    free: NumberMap<()>,
    /// Whether all lines do, for now.
    all_free: bool,
    /// Where requests may come in any order: when each line is being served.
    served: Option<NumberMap<Served>>,
    /// When each core's buffered stores complete, oldest first.
    buffers: Vec<VecDeque<Ticks>>,
    /// What each core may still do with lines that others have asked for, because their probes are on the way.
    kept: Vec<Vec<Kept>>,
}

/// What comes from memory, one line after the other.
struct Memories {
    /// Until when each chip's memory is taken.
    busy: Vec<Ticks>,
    /// For how long a line takes it.
    occupancy: Ticks,
}

impl Memories {
    /// When the memory of chip `home` begins to serve a request that comes at `now`.
    fn serve(&mut self, home: usize, now: Ticks) -> Ticks {
        if self.occupancy == 0 {
            return now;
        }
        let busy = &mut self.busy[home];
        let start = now.max(*busy);
        *busy = start + self.occupancy;
        start
    }
}

/// A line that a core has as good as lost.
#[derive(Clone, Copy, Debug)]
struct Kept {
    line: u64,
    rights: Rights,
    until: Ticks,
}

impl Outcome {
    /// The same at a later time.
    pub fn later_by(self, ticks: Ticks) -> Outcome {
        Outcome {
            finished: self.finished + ticks,
            takes: self.takes + ticks,
            ..self
        }
    }
}

impl Directory {
    /// No line touched yet. `machine` must pass [`Machine::check`].
    pub fn new(machine: Machine) -> Self {
        let lines_per_page = (machine.page_size / machine.line_size).max(1);
        let buffers = match machine.stores {
            Stores::Blocking => Vec::new(),
            Stores::Buffered(_) => vec![VecDeque::new(); machine.cores],
        };
        Directory {
            table: Table::default(),
            homes: NumberMap::default(),
            page_shift: lines_per_page.ilog2(),
            bus_busy: 0,
            memories: Memories {
                busy: vec![0; machine.chips],
                occupancy: ticks(machine.memory_occupancy.into()),
            },
            capacity: Capacity::new(&machine),
            free: NumberMap::default(),
            all_free: false,
            served: None,
            buffers,
            kept: vec![Vec::new(); machine.cores],
            machine,
        }
    }

    /// From now on, accesses to `line` take no time and keep nobody else waiting. Who holds it, and who
    /// loses it, is as before: so it shows what the line costs a program.
    pub fn set_free(&mut self, line: u64) {
        self.free.insert(line, ());
    }

    /// Whether all accesses take no time, until this is said again.
    pub fn set_all_free(&mut self, all_free: bool) {
        self.all_free = all_free;
    }

    /// Accesses may come in any order of their times from now on: each is served when its line is first free.
    pub fn allow_any_order(&mut self) {
        self.served = Some(NumberMap::default());
    }

    fn is_free(&self, line: u64) -> bool {
        self.all_free || self.free.contains_key(&line)
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What `core` may do with `line` (an address divided by the line size) without asking.
    pub fn rights(&self, core: Core, line: u64) -> Rights {
        match self.table.get(line).map(|word| word.unpack()) {
            None => Rights::None,
            Some(Unpacked::Private(private)) if private.core == core => Rights::Write,
            Some(Unpacked::Private(_) | Unpacked::Nobody(_)) => Rights::None,
            Some(Unpacked::Shared(index)) => rights(self.table.shared(index), core),
        }
    }

    /// What `core` may do with `line` at `now` without asking: as [`Directory::rights`] says, or more, as long as the
    /// probe of a request that takes them has not arrived.
    pub fn rights_at(&self, core: Core, line: u64, now: Ticks) -> Rights {
        let kept = self.kept_at(core, line, now).map(|kept| kept.rights);
        kept.fold(self.rights(core, line), Rights::max)
    }

    /// Until when `core` may go on with `line`, which it has lost to a request whose probe has not arrived at `now`. Nobody else writes
    /// it before.
    pub fn kept_until(&self, core: Core, line: u64, now: Ticks) -> Option<Ticks> {
        let kept = self.kept_at(core, line, now);
        kept.map(|kept| kept.until).max()
    }

    /// What is left to `core` of `line` at `now` by requests whose probes have not arrived.
    fn kept_at(&self, core: Core, line: u64, now: Ticks) -> impl Iterator<Item = &Kept> {
        let kept = self.kept[usize::from(core)].iter();
        kept.filter(move |kept| kept.line == line && now < kept.until)
    }

    /// Whether no core has ever accessed `line`: an access to it concerns nobody.
    pub fn is_untouched(&self, line: u64) -> bool {
        self.table.get(line).is_none()
    }

    /// When `line` was last written, as far as the directory was told: writes by a core that
    /// already had the right, and was not asked to call [`Directory::access`] for them, are not
    /// known here until another core asks for the line.
    pub fn last_write(&self, line: u64) -> Ticks {
        match self.table.get(line).map(|word| word.unpack()) {
            None => 0,
            Some(Unpacked::Private(private)) => private.written,
            Some(Unpacked::Nobody(written)) => written,
            Some(Unpacked::Shared(index)) => self.table.shared(index).written,
        }
    }

    /// `core` accesses `line` at `now`. `lost(core, rights)` is called, in ascending order, for
    /// each other core whose rights shrink, with those that are left to it once the request's probe has
    /// arrived, at [`Outcome::takes`]. Until then they have what [`Directory::rights_at`] says.
    ///
    /// Telling of hits is not required. Writes that hit are remembered by [`Directory::last_write`],
    /// and make a line modified that was exclusive: the directory takes an exclusive line whose
    /// writes it was not told of for a clean one, so that under MOESI its first reader finds it
    /// shared, not owned. The core must be one of the machine's.
    pub fn access(
        &mut self,
        core: Core,
        line: u64,
        access: Access,
        now: Ticks,
        lost: impl FnMut(Core, Rights),
    ) -> Outcome {
        let Stores::Buffered(room) = self.machine.stores else {
            return self.request(core, line, access, now, lost);
        };
        match access {
            Access::Read => self.request(core, line, access, now, lost),
            // A locked instruction waits until the buffer is empty.
            Access::Write => {
                let begin = self.fence(core, now);
                self.request(core, line, access, begin, lost)
            }
            Access::Store if room == 0 || self.rights_at(core, line, now) == Rights::Write => {
                self.request(core, line, access, now, lost)
            }
            Access::Store => {
                let begin = self.reserve(core, now, room as usize);
                let outcome = self.request(core, line, access, begin, lost);
                let buffer = &mut self.buffers[usize::from(core)];
                // Stores become visible in the order of the program.
                let done = outcome.finished.max(buffer.back().copied().unwrap_or(0));
                buffer.push_back(done);
                // The core does not wait for what it has buffered.
                Outcome {
                    finished: begin,
                    takes: now,
                    queued: 0,
                    ..outcome
                }
            }
        }
    }

    /// What the prefetcher of `core` does at `now`, when the core has asked for `line` and had nothing of it: it fetches the other
    /// line of the pair, to read it, as [`Directory::access`] does. Nobody waits for that, so the outcome is finished at once.
    ///
    /// Nothing where the machine has [no such prefetcher](Machine::adjacent_line_prefetch), the core has that line, or either
    /// line is [free](Directory::set_free).
    pub fn prefetch(
        &mut self,
        core: Core,
        line: u64,
        now: Ticks,
        lost: impl FnMut(Core, Rights),
    ) -> Option<(u64, Outcome)> {
        let pair = line ^ 1;
        let wanted = self.machine.adjacent_line_prefetch
            && self.rights_at(core, pair, now) == Rights::None
            && ![line, pair].iter().any(|line| self.is_free(*line));
        wanted.then(|| {
            let outcome = self.request(core, pair, Access::Read, now, lost);
            let nobody_waits = Outcome {
                finished: now,
                queued: 0,
                ..outcome
            };
            (pair, nobody_waits)
        })
    }

    /// When `core`'s buffered stores are complete: a fence executed at `now` ends no earlier.
    /// `now`, where stores block.
    pub fn fence(&mut self, core: Core, now: Ticks) -> Ticks {
        match self.buffers.get_mut(usize::from(core)) {
            Some(buffer) => {
                let last = buffer.back().copied().unwrap_or(0);
                buffer.clear();
                last.max(now)
            }
            None => now,
        }
    }

    /// When there is room in `core`'s store buffer.
    fn reserve(&mut self, core: Core, now: Ticks, room: usize) -> Ticks {
        let buffer = &mut self.buffers[usize::from(core)];
        while buffer.front().is_some_and(|&done| done <= now) {
            buffer.pop_front();
        }
        if buffer.len() < room {
            return now;
        }
        buffer.pop_front().unwrap_or(now).max(now)
    }

    /// Takes `line` out of every cache, as `clflush` does. It stays with its home and does not
    /// become cold again.
    pub fn flush(&mut self, line: u64, mut lost: impl FnMut(Core, Rights)) {
        let index = match self.table.get(line).map(|word| word.unpack()) {
            None | Some(Unpacked::Nobody(_)) => return,
            Some(Unpacked::Private(private)) => self.table.share(line, private),
            Some(Unpacked::Shared(index)) => index,
        };
        let entry = self.table.shared_mut(index);
        entry
            .holders
            .iter()
            .for_each(|core| lost(core, Rights::None));
        entry.holders.clear();
        entry.state = State::Idle;
        self.forget_kept(line..line + 1);
    }

    fn forget_kept(&mut self, lines: std::ops::Range<u64>) {
        for kept in &mut self.kept {
            kept.retain(|kept| !lines.contains(&kept.line));
        }
    }

    /// Forgets `lines`, because their memory is gone: what is there next is cold, and has no home
    /// yet. Pages that lie only partly in the range keep their home. `lost(line, core)` is called
    /// for each copy.
    pub fn discard(&mut self, lines: std::ops::Range<u64>, lost: impl FnMut(u64, Core)) {
        let shift = self.page_shift;
        let pages = (lines.start + ((1 << shift) - 1)) >> shift..lines.end >> shift;
        if pages.end.saturating_sub(pages.start) <= self.homes.len() as u64 {
            for page in pages {
                self.homes.remove(&page);
            }
        } else {
            self.homes.retain(|page, _| !pages.contains(page));
        }
        self.forget_kept(lines.clone());
        self.table.remove(lines, lost);
    }

    /// How many lines were touched.
    pub fn lines(&self) -> usize {
        self.table.len()
    }

    /// About how many bytes the directory takes: 17 a place in a hash table for a line that only
    /// one core has touched, 40 more and an eighth of a byte a core above 64 for the others, 17
    /// a place for each page, and 8 for each line that the caches of a chip hold, where that is limited.
    pub fn bytes(&self) -> usize {
        self.capacity.bytes()
            + self.table.bytes()
            + self.homes.capacity() * (size_of::<(u64, u16)>() + 1)
    }

    /// The chip that `line`'s page is on; `core`'s, if this is the page's first touch.
    fn home(&mut self, core: Core, line: u64) -> usize {
        let first = self.machine.chip_of(core) as u16;
        usize::from(*self.homes.entry(line >> self.page_shift).or_insert(first))
    }

    fn request(
        &mut self,
        core: Core,
        line: u64,
        access: Access,
        now: Ticks,
        mut lost: impl FnMut(Core, Rights),
    ) -> Outcome {
        let writes = access != Access::Read;
        let wanted = if writes { Rights::Write } else { Rights::Read };
        let index = match self.table.get(line).map(|word| word.unpack()) {
            None => return self.cold(core, line, writes, now),
            Some(Unpacked::Nobody(written)) => {
                return self.fetch_again(core, line, writes, written, now);
            }
            Some(Unpacked::Private(private)) if private.core == core => {
                if writes {
                    let written = private.written.max(now);
                    self.table.set_private(
                        line,
                        Private {
                            core,
                            modified: true,
                            written,
                        },
                    );
                }
                self.used(core, line);
                return hit(Rights::Write, now);
            }
            Some(Unpacked::Private(private)) => self.table.share(line, private),
            Some(Unpacked::Shared(index)) => {
                let entry = self.table.shared_mut(index);
                let held = rights(entry, core);
                if held == Rights::Write && writes {
                    entry.state = State::Modified;
                    entry.written = entry.written.max(now);
                }
                if held >= wanted || self.rights_at(core, line, now) >= wanted {
                    self.used(core, line);
                    return hit(held, now);
                }
                index
            }
        };
        let home = self.home(core, line);
        let plan = Plan::new(&self.machine, self.table.shared(index), core, home, writes);
        let free = self.is_free(line);
        let entry = self.table.shared_mut(index);
        let occupied = plan.latency * Ticks::from(plan.occupancy) / Ticks::from(Occupancy::FULL);
        let in_order = self.served.is_none();
        let mut start = match &mut self.served {
            _ if free => now,
            Some(served) => served.entry(line).or_default().serve(now, occupied),
            None => now.max(entry.busy),
        };
        if self.machine.coherence == Coherence::Bus && !free && in_order {
            start = start.max(self.bus_busy);
            self.bus_busy = start + ticks(self.machine.bus.into());
        }
        if plan.from_memory && !free {
            start = self.memories.serve(home, start);
        }
        let latency = if free { 0 } else { plan.latency };
        entry.busy = if free { start } else { start + occupied };
        // Where homes go on before a request is complete, the line may not have reached the core
        // that it is now wanted from.
        let finished = if free {
            start
        } else if in_order {
            (start + latency).max(entry.written)
        } else {
            start + latency
        };
        let arrives = if in_order { entry.written } else { now };
        // A line that is on its way to a core is not taken from it before it has arrived.
        let takes = (start + plan.probe).max(arrives).min(finished);
        let kept = &mut self.kept;
        let mut has_losers = false;
        let mut lose = |other: Core, had: Rights, left: Rights| {
            has_losers = true;
            let kept = &mut kept[usize::from(other)];
            kept.retain(|kept| now < kept.until);
            if now < takes {
                kept.push(Kept {
                    line,
                    rights: had,
                    until: takes,
                });
            }
            lost(other, left);
        };
        let mut invalidated = 0;
        let granted = if writes {
            for other in entry.holders.iter().filter(|&other| other != core) {
                lose(other, rights(entry, other), Rights::None);
                invalidated += 1;
            }
            entry.holders.clear();
            entry.owner = core;
            entry.state = State::Modified;
            entry.written = finished;
            Rights::Write
        } else {
            read(entry, core, self.machine.protocol, |other| {
                lose(other, Rights::Write, Rights::Read);
            })
        };
        // Until then whoever had the line may have written it.
        entry.written = entry.written.max(if has_losers { takes } else { 0 });
        let takes = if has_losers {
            takes
        } else {
            // It takes nothing from anybody, and comes behind the last write.
            now.max(arrives).min(finished)
        };
        entry.holders.insert(core);
        self.make_room(core, line, now);
        Outcome {
            finished,
            takes,
            granted,
            event: plan.event,
            invalidated,
            queued: start - now,
        }
    }

    /// The first touch of a line: from memory. Nobody waits for the line, and it keeps nobody else
    /// waiting, but for the memory: it does not occupy the bus.
    fn cold(&mut self, core: Core, line: u64, writes: bool, now: Ticks) -> Outcome {
        let home = self.home(core, line);
        let (hops, bus_free) = match self.machine.coherence {
            Coherence::Directory => (self.machine.distance(self.machine.chip_of(core), home), 0),
            Coherence::Bus => (0, self.bus_busy),
        };
        let (start, finished) = if self.is_free(line) {
            (now, now)
        } else {
            let start = self.memories.serve(home, now.max(bus_free));
            (start, start + ticks(self.machine.memory[hops].into()))
        };
        let written = if writes { finished } else { 0 };
        self.table.set_private(
            line,
            Private {
                core,
                modified: writes,
                written,
            },
        );
        self.make_room(core, line, now);
        Outcome {
            finished,
            takes: now,
            granted: Rights::Write,
            event: Event::Cold,
            invalidated: 0,
            queued: start - now,
        }
    }
}

fn hit(granted: Rights, now: Ticks) -> Outcome {
    Outcome {
        finished: now,
        takes: now,
        granted,
        event: Event::Hit,
        invalidated: 0,
        queued: 0,
    }
}

/// What `core` may do with a line in the slab.
fn rights(line: &Line, core: Core) -> Rights {
    match line.state {
        State::Exclusive | State::Modified if line.owner == core => Rights::Write,
        _ if line.holders.contains(core) => Rights::Read,
        _ => Rights::None,
    }
}

/// The change of state when `core`, which does not hold the line, reads it; adding it to the
/// holders is left to the caller.
fn read(
    line: &mut Line,
    core: Core,
    protocol: Protocol,
    mut loses_writing: impl FnMut(Core),
) -> Rights {
    line.state = match (line.state, protocol) {
        (State::Idle, _) => {
            line.owner = core;
            line.state = State::Exclusive;
            return Rights::Write;
        }
        (State::Exclusive, _) | (State::Modified, Protocol::Mesi) => {
            loses_writing(line.owner);
            State::Shared
        }
        (State::Modified, Protocol::Moesi) => {
            loses_writing(line.owner);
            State::Owned
        }
        (State::Owned | State::Shared, _) => line.state,
    };
    Rights::Read
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory")
            .field("machine", &self.machine.name)
            .field("lines", &self.lines())
            .finish_non_exhaustive()
    }
}
