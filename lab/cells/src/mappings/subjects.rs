//! Who is asked for pages, and the threads that ask.

use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use percolog::reclaim::{Domain, DomainOptions};
#[cfg(target_os = "linux")]
use percolog_papers::mapdb::{Anonymous, Kernel, MemoryFile};
use percolog_papers::mapdb::{
    MapError, MapUnmap, Mapping, MappingDatabase, OneLock, SoftwareTables, Space, SpaceLocks, Tlbs,
};
use percolog_validation::clock;
use percolog_validation::crew::{self, Shift};

use super::cell::{Cell, Times};

/// A database and its back-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ours,
    OneLock,
    SpaceLocks,
    OursOnMemory,
    OneLockOnMemory,
    Kernel,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Ours,
        Self::OneLock,
        Self::SpaceLocks,
        Self::OursOnMemory,
        Self::OneLockOnMemory,
        Self::Kernel,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "percolog",
            Self::OneLock => "one-lock",
            Self::SpaceLocks => "space-locks",
            Self::OursOnMemory => "percolog-memory",
            Self::OneLockOnMemory => "one-lock-memory",
            Self::Kernel => "kernel",
        }
    }

    pub(super) fn has_spaces(self) -> bool {
        self != Self::Kernel
    }
}

/// Cycles from one flush of a processor's TLB to the next: a tick that is as far from the lengths of calls as the paper's 10 ms are
/// from its calls', and often enough that a run sees several.
const TICK: u64 = 100_000;

/// For how long a call waits at most.
const WAIT: Duration = Duration::from_secs(5);

/// Pages that a thread may have in an address space, and frames; what waits included.
const ROOM: u32 = 1 << 13;

/// What pages are asked of.
trait Subject: Sync {
    type Mapped: Send;
    fn map(&self, thread: usize, pages: u32) -> Result<Self::Mapped, Box<dyn Error>>;
    fn unmap(&self, mapped: Self::Mapped) -> Result<(), Box<dyn Error>>;
    /// The thread's processor has come to a tick of its clock.
    fn tick(&self, _thread: usize) {}
}

/// A database, one of whose spaces is each thread's.
struct Database<M, F> {
    database: M,
    spaces: Vec<Space>,
    /// What a program does with its pages, or a processor with its TLB.
    extra: F,
}

/// What goes beyond the calls.
trait Extra<M>: Sync {
    fn touch(&self, _database: &M, _mapping: Mapping) -> Result<(), Box<dyn Error>> {
        Ok(())
    }
    fn tick(&self, _database: &M, _thread: usize) {}
    /// Whether a call waits, and is timed waiting, where all there is was used and nobody knows yet that nobody sees it any more: a thread that
    /// loses its processor in the middle of a call keeps that from being known for some milliseconds.
    fn waits(&self) -> bool {
        false
    }
}

/// Page tables in memory.
struct InSoftware;

/// Real memory, which is touched: pages have frames only then.
struct Touched;

impl<M: Sync> Extra<M> for InSoftware {}

/// The same with processors that flush their TLBs.
struct WithTlbs {
    /// A thread's tick is its own processor's. Otherwise it is all processors': where threads lose theirs to other programs, ticks go on.
    own: bool,
}

impl Extra<MappingDatabase<'_, SoftwareTables>> for WithTlbs {
    fn tick(&self, database: &MappingDatabase<'_, SoftwareTables>, thread: usize) {
        let back_end = database.back_end();
        if self.own {
            back_end.flush(thread);
        } else {
            (0..back_end.processors()).for_each(|processor| back_end.flush(processor));
        }
    }

    fn waits(&self) -> bool {
        !self.own
    }
}

#[cfg(target_os = "linux")]
impl Extra<MappingDatabase<'_, MemoryFile>> for Touched {
    fn waits(&self) -> bool {
        true
    }

    fn touch(
        &self,
        database: &MappingDatabase<'_, MemoryFile>,
        mapping: Mapping,
    ) -> Result<(), Box<dyn Error>> {
        Ok(database.with_space(mapping.space(), |range| {
            for offset in 0..mapping.len() {
                // SAFETY: mapped by the caller, who has not unmapped it, and nobody else's.
                unsafe {
                    range
                        .address(mapping.first_page() + offset)
                        .write_volatile(1);
                }
            }
        })?)
    }
}

#[cfg(target_os = "linux")]
impl Extra<OneLock<MemoryFile>> for Touched {
    fn touch(
        &self,
        database: &OneLock<MemoryFile>,
        mapping: Mapping,
    ) -> Result<(), Box<dyn Error>> {
        Ok(database
            .with_space(mapping.space(), |range| range.address(mapping.first_page()))
            .map(|start| {
                for offset in 0..mapping.len() as usize {
                    // SAFETY: as above; the lock is not held, as it would not be by a program.
                    unsafe { start.add(offset * PAGE_SIZE).write_volatile(1) };
                }
            })?)
    }
}

#[cfg(target_os = "linux")]
const PAGE_SIZE: usize = 4096;

impl<M: MapUnmap, F: Extra<M>> Subject for Database<M, F> {
    type Mapped = Mapping;

    fn map(&self, thread: usize, pages: u32) -> Result<Mapping, Box<dyn Error>> {
        let space = self.spaces[thread % self.spaces.len()];
        let mut since = None;
        let mapping = loop {
            match self.database.grant(space, pages) {
                Err(MapError::Exhausted { .. })
                    if self.extra.waits()
                        && since.get_or_insert_with(Instant::now).elapsed() < WAIT =>
                {
                    self.extra.tick(&self.database, thread);
                    std::thread::yield_now();
                }
                result => break result?,
            }
        };
        self.extra.touch(&self.database, mapping)?;
        Ok(mapping)
    }

    fn unmap(&self, mapped: Mapping) -> Result<(), Box<dyn Error>> {
        self.database.release(mapped)?;
        Ok(())
    }

    fn tick(&self, thread: usize) {
        self.extra.tick(&self.database, thread);
    }
}

#[cfg(target_os = "linux")]
impl Subject for Kernel {
    type Mapped = Anonymous;

    fn map(&self, _thread: usize, pages: u32) -> Result<Anonymous, Box<dyn Error>> {
        Ok(Kernel::map(*self, pages)?)
    }

    fn unmap(&self, mapped: Anonymous) -> Result<(), Box<dyn Error>> {
        drop(mapped);
        Ok(())
    }
}

/// Something that was refused although there was room.
#[derive(Debug)]
struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Failed {}

/// Runs one cell: each thread goes through the requests, then gives everything back, and begins again. Says how far it has drifted, too.
pub(super) fn run(
    kind: Kind,
    own: bool,
    simulated: bool,
    requests: &[u32],
    shift: Shift,
) -> Result<(Cell, Option<f64>), Box<dyn Error>> {
    static NO_TLBS: Tlbs = Tlbs::new(0);
    let spaces = if own { shift.threads } else { 1 };
    // What a thread has at most, three times over; all of it can be in one address space.
    let held = requests.iter().sum::<u32>().next_power_of_two();
    let room = (4 * held).max(ROOM) * shift.threads.next_power_of_two() as u32;
    let tables = |tlbs| SoftwareTables::new(tlbs, room);
    match kind {
        Kind::Ours => {
            // As many processors as threads: others would never flush. The process lives as long as its one cell.
            let tlbs: &'static Tlbs = Box::leak(Box::new(Tlbs::new(shift.threads)));
            let domain = Domain::with(DomainOptions::new().grace(tlbs));
            let database = MappingDatabase::new(&domain, tables(tlbs), room);
            on(
                database,
                WithTlbs { own: simulated },
                spaces,
                requests,
                shift,
            )
        }
        Kind::OneLock => on(
            OneLock::new(tables(&NO_TLBS), room),
            InSoftware,
            spaces,
            requests,
            shift,
        ),
        Kind::SpaceLocks => {
            let database = SpaceLocks::new(tables(&NO_TLBS), room, spaces as u32);
            on(database, InSoftware, spaces, requests, shift)
        }
        #[cfg(target_os = "linux")]
        Kind::OursOnMemory => {
            let domain = Domain::new();
            let database = MappingDatabase::new(&domain, MemoryFile::new(room)?, room);
            on(database, Touched, spaces, requests, shift)
        }
        #[cfg(target_os = "linux")]
        Kind::OneLockOnMemory => {
            let database = OneLock::new(MemoryFile::new(room)?, room);
            on(database, Touched, spaces, requests, shift)
        }
        #[cfg(target_os = "linux")]
        Kind::Kernel => drive(&Kernel::new(), requests, shift),
        #[cfg(not(target_os = "linux"))]
        _ => Err(Failed("for Linux only".into()).into()),
    }
}

fn on<M: MapUnmap, F: Extra<M>>(
    database: M,
    extra: F,
    spaces: usize,
    requests: &[u32],
    shift: Shift,
) -> Result<(Cell, Option<f64>), Box<dyn Error>> {
    let spaces: Result<Vec<Space>, MapError> = (0..spaces).map(|_| database.create()).collect();
    let subject = Database {
        database,
        spaces: spaces?,
        extra,
    };
    drive(&subject, requests, shift)
}

fn drive<S: Subject>(
    subject: &S,
    requests: &[u32],
    shift: Shift,
) -> Result<(Cell, Option<f64>), Box<dyn Error>> {
    let all = Mutex::new(Times::new());
    let failed = Mutex::new(None);
    let work = crew::run(shift, |thread| {
        let mut asker = Asker {
            subject,
            thread,
            requests,
            held: Vec::with_capacity(requests.len()),
            unmapping: false,
            next_tick: 0,
            counted: None,
            times: Times::new(),
            all: &all,
            failed: &failed,
        };
        // The first call is made before all threads are there, and time begins with the second.
        let mut first = true;
        move || {
            let now = clock::cycles();
            if !first && asker.counted.is_none() {
                asker.counted = Some(now + shift.warm_up);
            }
            first = false;
            asker.ask(now);
        }
    })?;
    if let Some(why) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(Failed(why).into());
    }
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((all.cell(), work.drift()))
}

/// One thread.
struct Asker<'a, S: Subject> {
    subject: &'a S,
    thread: usize,
    requests: &'a [u32],
    /// What it has, in the order in which it was mapped.
    held: Vec<(S::Mapped, u32)>,
    unmapping: bool,
    next_tick: u64,
    /// When calls begin to count.
    counted: Option<u64>,
    times: Times,
    all: &'a Mutex<Times>,
    failed: &'a Mutex<Option<String>>,
}

impl<S: Subject> Asker<'_, S> {
    /// The next call.
    fn ask(&mut self, now: u64) {
        if now >= self.next_tick {
            self.subject.tick(self.thread);
            self.next_tick = clock::cycles() + TICK;
        }
        if self.held.is_empty() {
            self.unmapping = false;
        } else if self.held.len() == self.requests.len() {
            self.unmapping = true;
        }
        let started = clock::cycles();
        let (pages, result) = if self.unmapping {
            let Some((mapped, pages)) = self.held.pop() else {
                return;
            };
            (pages, self.subject.unmap(mapped))
        } else {
            let pages = self.requests[self.held.len()];
            let mapped = self.subject.map(self.thread, pages);
            (pages, mapped.map(|mapped| self.held.push((mapped, pages))))
        };
        let ended = clock::cycles();
        if let Err(error) = result {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        }
        if self.counted.is_some_and(|counted| now >= counted) {
            self.times.record(self.unmapping, pages, ended - started);
        }
    }
}

impl<S: Subject> Drop for Asker<'_, S> {
    fn drop(&mut self) {
        for (mapped, _) in self.held.drain(..) {
            let _ = self.subject.unmap(mapped);
        }
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(&self.times);
    }
}
