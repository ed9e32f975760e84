//! Page tables in memory, and processors that remember what they have read in them.

use super::{BackEnd, Refused};
use percolog::reclaim::GracePeriod;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Entries in a leaf.
const LEAF: u32 = 512;

/// How many processors there can be.
const MOST_PROCESSORS: usize = 64;

/// When each processor has flushed its TLB: the grace period of frames and addresses.
///
/// What was unmapped may be used again when every processor has flushed its TLB since. Whoever runs the processors has each of
/// them [flush](SoftwareTables::flush) now and then, on a tick of the clock: nobody has to interrupt anybody. With
/// no processors there is nothing to wait for.
#[derive(Debug)]
pub struct Tlbs {
    flushes: [AtomicU64; MOST_PROCESSORS],
    processors: usize,
}

impl Tlbs {
    /// So many processors, which have flushed nothing yet.
    ///
    /// # Panics
    /// If they are more than 64.
    #[must_use]
    pub const fn new(processors: usize) -> Self {
        assert!(processors <= MOST_PROCESSORS, "more than 64 processors");
        Self {
            flushes: [const { AtomicU64::new(0) }; MOST_PROCESSORS],
            processors,
        }
    }

    /// How many processors there are.
    #[must_use]
    pub fn processors(&self) -> usize {
        self.processors
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        // Acquire pairs with the Release in `flushed`: what is used again is so after the flush.
        self.flushes[..self.processors]
            .iter()
            .map(|flushes| flushes.load(Ordering::Acquire))
    }

    /// The caller keeps the processor from using its TLB.
    fn flushed(&self, processor: usize) {
        // Beyond all others, not one more than its own: who flushes seldom is up to date with all others when he has flushed once.
        let most = self.counts().max().unwrap_or(0);
        // Release pairs with the Acquire in `counts`. A plain store: nobody else counts this processor's flushes.
        self.flushes[processor].store(most + 1, Ordering::Release);
        // With the one in `begin`: a period that began without having seen this flush began with all tables as they are read from here on.
        fence(Ordering::SeqCst);
    }
}

impl GracePeriod for Tlbs {
    fn begin(&self) -> u64 {
        // With the one in `flushed`: what has been unmapped is seen by every flush that this does not see.
        fence(Ordering::SeqCst);
        self.counts().max().unwrap_or(0)
    }

    fn elapsed(&self, ticket: u64) -> bool {
        // Each has flushed since: what it had counted before was no more than that.
        self.counts().min().is_none_or(|least| least > ticket)
    }
}

/// What a processor remembers: which frame which page of which table shows.
type Translations = HashMap<(u64, u32), u32>;

/// Page tables in memory, frames of one word each, and simulated processors with a TLB each, in which a translation stays until
/// it is flushed.
///
/// ```
/// use percolog_papers::mapdb::{BackEnd, SoftwareTables, Tlbs};
///
/// static TLBS: Tlbs = Tlbs::new(1);
/// let tables = SoftwareTables::new(&TLBS, 8);
/// let space = tables.create(16)?;
/// tables.map(&space, 3, 5, 1)?;
/// assert!(tables.write(0, &space, 3, 42));
/// tables.unmap(&space, 3, 1);
/// assert_eq!(tables.read(0, &space, 3), Some(42), "this processor remembers");
/// tables.flush(0);
/// assert_eq!(tables.read(0, &space, 3), None);
/// # Ok::<(), percolog_papers::mapdb::Refused>(())
/// ```
#[derive(Debug)]
pub struct SoftwareTables {
    tlbs: &'static Tlbs,
    /// One for each processor.
    remembered: Box<[Mutex<Translations>]>,
    memory: Box<[AtomicU64]>,
    tables: AtomicU64,
}

/// The page table of an address space: a radix tree of two levels.
#[derive(Debug)]
pub struct PageTable {
    /// Tells it from all others there ever are: TLBs are tagged with it.
    number: u64,
    leaves: Box<[OnceLock<Box<[AtomicU32]>>]>,
}

impl SoftwareTables {
    /// So many frames, and as many processors as there are TLBs.
    #[must_use]
    pub fn new(tlbs: &'static Tlbs, frames: u32) -> Self {
        Self {
            tlbs,
            remembered: (0..tlbs.processors).map(|_| Mutex::default()).collect(),
            memory: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            tables: AtomicU64::new(0),
        }
    }

    /// How many processors there are.
    #[must_use]
    pub fn processors(&self) -> usize {
        self.remembered.len()
    }

    /// What a processor finds at a page, by its TLB or else by the table; `None` for a page fault.
    ///
    /// # Panics
    /// If there is no such processor.
    #[must_use]
    pub fn read(&self, processor: usize, space: &PageTable, page: u32) -> Option<u64> {
        self.access(processor, space, page, |word| {
            // Relaxed: simulated memory, whose order is a matter of who uses it.
            word.load(Ordering::Relaxed)
        })
    }

    /// A processor writes to a page; `false` for a page fault.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn write(&self, processor: usize, space: &PageTable, page: u32, value: u64) -> bool {
        let written = self.access(processor, space, page, |word| {
            // Relaxed: as in `read`.
            word.store(value, Ordering::Relaxed);
        });
        written.is_some()
    }

    /// A processor's access to memory, which is over before that flushes its TLB; `None` for a page fault.
    fn access<R>(
        &self,
        processor: usize,
        space: &PageTable,
        page: u32,
        access: impl FnOnce(&AtomicU64) -> R,
    ) -> Option<R> {
        let mut remembered = self.remembered[processor]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let frame = match remembered.entry((space.number, page)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => *unknown.insert(self.frame_at(space, page)?),
        };
        Some(access(&self.memory[frame as usize]))
    }

    /// A processor's tick: it forgets everything, and says so.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn flush(&self, processor: usize) {
        let mut remembered = self.remembered[processor]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        remembered.clear();
        self.tlbs.flushed(processor);
    }

    /// How many frames hold something else than zero.
    #[must_use]
    pub fn written(&self) -> usize {
        // Relaxed: as in `read`.
        let words = self.memory.iter().map(|word| word.load(Ordering::Relaxed));
        words.filter(|word| *word != 0).count()
    }
}

impl PageTable {
    fn entry(&self, page: u32) -> Option<&AtomicU32> {
        let leaf = self.leaves.get((page / LEAF) as usize)?.get()?;
        leaf.get((page % LEAF) as usize)
    }

    fn entry_or_make(&self, page: u32) -> Option<&AtomicU32> {
        let leaf = self.leaves.get((page / LEAF) as usize)?;
        let leaf = leaf.get_or_init(|| (0..LEAF).map(|_| AtomicU32::new(0)).collect());
        leaf.get((page % LEAF) as usize)
    }
}

impl BackEnd for SoftwareTables {
    type Space = PageTable;

    fn frames(&self) -> u32 {
        u32::try_from(self.memory.len()).unwrap_or(u32::MAX)
    }

    fn create(&self, pages: u32) -> Result<PageTable, Refused> {
        Ok(PageTable {
            // Relaxed: a number that nobody else has.
            number: self.tables.fetch_add(1, Ordering::Relaxed),
            leaves: (0..pages.div_ceil(LEAF)).map(|_| OnceLock::new()).collect(),
        })
    }

    fn clear(&self, frame: u32, count: u32) -> Result<(), Refused> {
        for word in &self.memory[frame as usize..(frame + count) as usize] {
            // Relaxed: whoever finds the frame in a table sees this by the Release there.
            word.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn map(&self, space: &PageTable, page: u32, frame: u32, count: u32) -> Result<(), Refused> {
        for offset in 0..count {
            match space.entry_or_make(page + offset) {
                // Release pairs with the Acquire in `frame_at`: the frame was cleared before.
                Some(entry) => entry.store(frame + offset + 1, Ordering::Release),
                None => {
                    self.unmap(space, page, offset);
                    return Err(Refused::Other("there is no such page"));
                }
            }
        }
        Ok(())
    }

    fn unmap(&self, space: &PageTable, page: u32, count: u32) {
        for offset in 0..count {
            if let Some(entry) = space.entry(page + offset) {
                // Relaxed: it publishes nothing. That it is seen before the frame is used again is the grace period's matter.
                entry.store(0, Ordering::Relaxed);
            }
        }
    }

    fn frame_at(&self, space: &PageTable, page: u32) -> Option<u32> {
        // Acquire pairs with the Release in `map`.
        space.entry(page)?.load(Ordering::Acquire).checked_sub(1)
    }
}
