//! The paper's programs: threads that fault.
//!
//! All are run in the same steps: each thread [warms up](Workload::warm_up), each thread [prepares](Workload::prepare), each thread
//! [approaches](Workload::approach), and when all have done so, each thread [runs](Workload::run), which is what counts. Afterwards
//! [`Workload::end`] takes everything away, and looks whether all memory has come home.

use super::memory::{Frame, Memory};
use super::{AddressSpace, Choice, FaultError, File, MapError, System};
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// What is run on many threads. Threads have numbers from 0 on, and a slot each.
pub trait Workload: Sync {
    /// A thread brings to its slot what a slot has that has been in use for a while: free frames that it has written before, and tables.
    ///
    /// # Errors
    /// If a page cannot be mapped.
    fn warm_up(&self, thread: usize) -> Result<(), WorkloadError>;

    /// How often all prepare, approach and run.
    fn rounds(&self) -> u64 {
        1
    }

    /// When all have warmed up, or have ended a round: makes what is to be measured.
    ///
    /// # Errors
    /// If a region cannot be mapped.
    fn prepare(&self, thread: usize) -> Result<(), WorkloadError>;

    /// When all have prepared: touches a page that is not measured, so that the slot knows the way.
    ///
    /// # Errors
    /// If a page cannot be mapped.
    fn approach(&self, thread: usize) -> Result<(), WorkloadError>;

    /// Whether a thread has anything to run.
    fn runs(&self, thread: usize) -> bool {
        let _ = thread;
        true
    }

    /// What is measured; says how many faults it made.
    ///
    /// # Errors
    /// If a page cannot be mapped.
    fn run(&self, thread: usize) -> Result<u64, WorkloadError>;

    /// Ends all processes, and closes all files.
    ///
    /// # Errors
    /// If the workload has not done what it should have done.
    fn end(self) -> Result<(), WorkloadError>
    where
        Self: Sized;
}

/// Why a workload failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A page was not mapped.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A region was not.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Not all frames have come home.
    #[error("{missing} frames are in use at the end")]
    Frames {
        /// How many have not.
        missing: usize,
    },
    /// Not as many pages were there as were touched.
    #[error("{found} pages were there, not {expected}")]
    Pages {
        /// How many were there.
        found: usize,
        /// How many should have been there.
        expected: usize,
    },
}

/// Pages of a thread's part of an address space: more than any workload needs, and apart from others' page tables.
const APART: u64 = 1 << 24;

/// Where thread 0's own region lies while it warms up.
const WARM: u64 = 1 << 40;

/// A system with room for so many pages of each thread, and for what is on its way.
///
/// # Errors
/// If it cannot be made.
pub fn system(choice: Choice, threads: usize, pages: u64) -> Result<System, WorkloadError> {
    let each = pages + 64;
    let frames = u32::try_from(threads as u64 * each + 64).unwrap_or(u32::MAX);
    Ok(System::new(choice, frames, 2 * each as usize)?)
}

/// *memclone*: one process, whose threads touch each page of fresh memory: each of a region of its own, or, *modified*, each of its part of one
/// region.
#[derive(Debug)]
pub struct Memclone<'s> {
    system: &'s System,
    space: AddressSpace<'s>,
    threads: usize,
    pages: u64,
    one_region: bool,
}

impl<'s> Memclone<'s> {
    /// Threads with a region each, of so many pages.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub fn new(system: &'s System, threads: usize, pages: u64) -> Result<Self, WorkloadError> {
        Ok(Self {
            system,
            space: system.start()?,
            threads,
            pages,
            one_region: false,
        })
    }

    /// Threads with so many pages each of one region.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub fn modified(system: &'s System, threads: usize, pages: u64) -> Result<Self, WorkloadError> {
        let own = Self::new(system, threads, pages)?;
        Ok(Self {
            one_region: true,
            ..own
        })
    }

    /// Pages from one thread's first to the next one's. In one region they lie side by side, one beyond what is measured of each.
    fn distance(&self) -> u64 {
        if self.one_region {
            segment(self.pages)
        } else {
            APART
        }
    }

    fn first(&self, thread: usize) -> u64 {
        thread as u64 * self.distance()
    }
}

/// Pages from one thread's part of the region to the next one's: a power of two, so that a shift tells parts apart.
#[must_use]
pub const fn segment(pages: u64) -> u64 {
    (pages + 1).next_power_of_two()
}

impl Workload for Memclone<'_> {
    fn warm_up(&self, thread: usize) -> Result<(), WorkloadError> {
        let first = WARM + thread as u64 * APART;
        self.space.map(first, self.pages + 1)?;
        for page in first..=first + self.pages {
            self.space.fault(page)?;
        }
        self.space.unmap(first)?;
        Ok(())
    }

    fn prepare(&self, thread: usize) -> Result<(), WorkloadError> {
        if !self.one_region {
            self.space.map(self.first(thread), self.pages + 1)?;
        } else if thread == 0 {
            let pages = self.threads as u64 * self.distance();
            self.space.map(0, pages)?;
        }
        Ok(())
    }

    fn approach(&self, thread: usize) -> Result<(), WorkloadError> {
        Ok(self.space.fault(self.first(thread) + self.pages)?)
    }

    fn run(&self, thread: usize) -> Result<u64, WorkloadError> {
        let first = self.first(thread);
        for page in first..first + self.pages {
            self.space.fault(page)?;
        }
        Ok(self.pages)
    }

    fn end(self) -> Result<(), WorkloadError> {
        let expected = self.threads * (self.pages as usize + 1);
        let found = self.system.frames() - self.system.free();
        self.space.exit()?;
        if found != expected {
            return Err(WorkloadError::Pages { found, expected });
        }
        all_home(self.system)
    }
}

/// *grep*: processes of one thread each, that read the same file, which is in memory and has been read on each slot before: faults map
/// pages again.
#[derive(Debug)]
pub struct Grep<'s> {
    system: &'s System,
    file: File<'s>,
    spaces: Vec<AddressSpace<'s>>,
    pages: u64,
}

impl<'s> Grep<'s> {
    /// So many processes, and a file of so many pages.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub fn new(system: &'s System, threads: usize, pages: u64) -> Result<Self, WorkloadError> {
        let spaces = (0..threads).map(|_| system.start());
        Ok(Self {
            system,
            file: system.open()?,
            spaces: spaces.collect::<Result<_, _>>()?,
            pages,
        })
    }
}

impl Workload for Grep<'_> {
    fn warm_up(&self, thread: usize) -> Result<(), WorkloadError> {
        self.spaces[thread].map_file(0, self.pages + 1, &self.file, 0)?;
        Ok(())
    }

    fn prepare(&self, thread: usize) -> Result<(), WorkloadError> {
        for page in 0..=self.pages {
            self.spaces[thread].fault(page)?;
        }
        Ok(())
    }

    fn approach(&self, thread: usize) -> Result<(), WorkloadError> {
        // When all pages are there: whoever came while one was being filled has not seen that it is.
        for page in 0..=self.pages {
            self.spaces[thread].fault(page)?;
        }
        Ok(())
    }

    fn run(&self, thread: usize) -> Result<u64, WorkloadError> {
        let space = &self.spaces[thread];
        for page in 0..self.pages {
            space.fault(page)?;
        }
        Ok(self.pages)
    }

    fn end(self) -> Result<(), WorkloadError> {
        let (found, expected) = (self.file.resident(), self.pages as usize + 1);
        for space in self.spaces {
            space.exit()?;
        }
        drop(self.file);
        if found != expected {
            return Err(WorkloadError::Pages { found, expected });
        }
        all_home(self.system)
    }
}

/// What is measured of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They are mapped.
    Map,
    /// They are unmapped, and no thread has touched them.
    Unmap,
    /// They are unmapped, and each thread has.
    UnmapTouched,
}

/// Regions: thread 0 maps or unmaps one of a page in each round, of a process that all threads have faulted in. (Several in a row would share
/// the way to other slots' tables, which only the first of them pays for.)
#[derive(Debug)]
pub struct Regions<'s> {
    system: &'s System,
    space: AddressSpace<'s>,
    change: Change,
    rounds: u64,
}

/// The page of [`Regions`].
const REGION: u64 = 0;

impl<'s> Regions<'s> {
    /// So many rounds.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub fn new(system: &'s System, change: Change, rounds: u64) -> Result<Self, WorkloadError> {
        Ok(Self {
            system,
            space: system.start()?,
            change,
            rounds,
        })
    }
}

impl Workload for Regions<'_> {
    fn warm_up(&self, thread: usize) -> Result<(), WorkloadError> {
        let first = WARM + thread as u64 * APART;
        self.space.map(first, 1)?;
        self.space.fault(first)?;
        self.space.unmap(first)?;
        Ok(())
    }

    fn rounds(&self) -> u64 {
        self.rounds
    }

    fn prepare(&self, thread: usize) -> Result<(), WorkloadError> {
        if thread == 0 {
            match self.change {
                // That of the round before.
                Change::Map => match self.space.unmap(REGION) {
                    Ok(()) | Err(MapError::NoRegion { .. }) => {}
                    Err(error) => return Err(error.into()),
                },
                Change::Unmap | Change::UnmapTouched => {
                    self.space.map(REGION, 1)?;
                }
            }
        }
        Ok(())
    }

    fn approach(&self, _: usize) -> Result<(), WorkloadError> {
        if self.change == Change::UnmapTouched {
            self.space.fault(REGION)?;
        }
        Ok(())
    }

    fn runs(&self, thread: usize) -> bool {
        thread == 0
    }

    /// Says how many regions it has mapped or unmapped.
    fn run(&self, _: usize) -> Result<u64, WorkloadError> {
        match self.change {
            Change::Map => {
                self.space.map(REGION, 1)?;
            }
            Change::Unmap | Change::UnmapTouched => self.space.unmap(REGION)?,
        }
        Ok(1)
    }

    fn end(self) -> Result<(), WorkloadError> {
        self.space.exit()?;
        all_home(self.system)
    }
}

fn all_home(system: &System) -> Result<(), WorkloadError> {
    match system.frames() - system.free() {
        0 => Ok(()),
        missing => Err(WorkloadError::Frames { missing }),
    }
}

/// The bound: the same pages are filled with zeros, in frames that each thread has from the beginning. No object is asked for anything.
#[derive(Debug)]
pub struct ZeroFill {
    memory: Memory,
    /// Each thread's.
    frames: Vec<Mutex<Vec<Frame>>>,
}

impl ZeroFill {
    /// So many pages for each thread.
    #[must_use]
    pub fn new(threads: usize, pages: u64) -> Self {
        let frames = u32::try_from(threads as u64 * pages).unwrap_or(u32::MAX);
        let (memory, mut free) = Memory::new(frames);
        let own = |_| Mutex::new(free.split_off(free.len() - pages as usize));
        Self {
            memory,
            frames: (0..threads).map(own).collect(),
        }
    }

    fn fill(&self, thread: usize) -> u64 {
        let frames = self.frames[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for frame in &*frames {
            self.memory.fill(frame, 0);
        }
        frames.len() as u64
    }
}

impl Workload for ZeroFill {
    fn warm_up(&self, thread: usize) -> Result<(), WorkloadError> {
        self.fill(thread);
        Ok(())
    }

    fn prepare(&self, _: usize) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn approach(&self, _: usize) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn run(&self, thread: usize) -> Result<u64, WorkloadError> {
        Ok(self.fill(thread))
    }

    fn end(self) -> Result<(), WorkloadError> {
        Ok(())
    }
}
