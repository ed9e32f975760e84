//! What users of the objects see: a system with its memory, address spaces, and files.

use super::Alone;
use super::choice::{Choice, FileKind, Kind};
use super::error::{CloseError, FaultError, MapError};
use super::files::{Backing, Contents, Hashed, LockedFile, Parts, TableFile};
use super::memory::{FrameNumber, Memory, WORDS};
use super::objects::{
    Attachment, FileCache, Member, PageManager, Placed, Process, Region, Translation, View,
};
use super::pages::{DistributedPool, Pool, Redirects};
use super::process::{DistributedProcess, SharedProcess};
use super::region::CountedRegion;
use super::translation::Tables;
use percolog::clustered::{self, ObjectRef, ObjectSection, Shared};
use percolog::requests::{RequestCounter, Requests, SharedRequestCounter};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames that are asked for when there are none.
const RECLAIMED: usize = 32;

/// How often a fault asks for frames before it fails: others can be faster in taking them.
const ATTEMPTS: usize = 8;

/// A machine's memory, and who has it. See the [module](super).
pub struct System {
    memory: Arc<Memory>,
    pages: ObjectRef<dyn PageManager>,
    choice: Choice,
}

impl System {
    /// A system of so many frames, all of them free. Where free frames are kept for each slot, a slot keeps up to `most` of them.
    ///
    /// *Cost:* the memory is allocated, and touched, here.
    ///
    /// # Errors
    /// If there is no room for another object.
    pub fn new(choice: Choice, frames: u32, most: usize) -> Result<Self, MapError> {
        let (memory, free) = Memory::new(frames);
        let pages = match choice.pages {
            Kind::Shared => {
                clustered::try_create(Shared::new(Pool::new(free), |it| it as &dyn PageManager))?
            }
            Kind::Distributed => clustered::try_create(DistributedPool::new(free, most))?,
        };
        Ok(Self {
            memory: Arc::new(memory),
            pages,
            choice,
        })
    }

    /// An address space in which nothing is mapped, of a new process.
    ///
    /// # Errors
    /// If there is no room for another object.
    pub fn start(&self) -> Result<AddressSpace<'_>, MapError> {
        let process = match self.choice.process {
            Kind::Shared => {
                let process = SharedProcess::default();
                clustered::try_create(Shared::new(process, |it| it as &dyn Process))?
            }
            Kind::Distributed => clustered::try_create(DistributedProcess::default())?,
        };
        let translation = clustered::try_create(Tables).inspect_err(|_| {
            let _ = process.destroy();
        })?;
        let manager = clustered::try_create(Redirects { to: self.pages }).inspect_err(|_| {
            let _ = process.destroy();
            let _ = translation.destroy();
        })?;
        let member = Member::Manager(manager);
        let attachment = self.pages.call(|pages| pages.attach(member))?;
        Ok(AddressSpace {
            system: self,
            process,
            translation,
            manager,
            attachment,
            ended: false,
        })
    }

    /// A file with endless contents: each word of a page is the page's number. It is only read.
    ///
    /// # Errors
    /// If there is no room for another object.
    pub fn open(&self) -> Result<File<'_>, MapError> {
        let cache = self.cache(self.pages, Contents::Numbered)?;
        let member = Member::File(cache);
        let attachment = self.pages.call(|pages| pages.attach(member))?;
        Ok(File {
            system: self,
            cache,
            attachment,
        })
    }

    /// How its objects are made.
    #[must_use]
    pub fn choice(&self) -> Choice {
        self.choice
    }

    /// Who has the frames, for who wants some for something else.
    #[must_use]
    pub fn page_manager(&self) -> ObjectRef<dyn PageManager> {
        self.pages
    }

    /// How many frames there are.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.memory.frames()
    }

    /// How many of them nobody uses.
    #[must_use]
    pub fn free(&self) -> usize {
        self.pages.call(|pages| pages.free()).unwrap_or(0)
    }

    /// Files and processes that can be asked for frames.
    #[must_use]
    pub fn members(&self) -> usize {
        self.pages.call(|pages| pages.members()).unwrap_or(0)
    }

    /// Asks files for so many frames; says how many they have given back. Pages that only memory has stay.
    pub fn reclaim(&self, wanted: usize) -> usize {
        let section = clustered::enter();
        self.reclaim_in(&section, wanted)
    }

    fn reclaim_in(&self, section: &ObjectSection, wanted: usize) -> usize {
        let pages = self.pages.get(section);
        pages.map_or(0, |pages| pages.reclaim(section, wanted))
    }

    fn cache(
        &self,
        manager: ObjectRef<dyn PageManager>,
        contents: Contents,
    ) -> Result<ObjectRef<dyn FileCache>, MapError> {
        let backing = Backing {
            memory: self.memory.clone(),
            manager,
            contents,
        };
        match self.choice.file {
            FileKind::Shared => make_cache(LockedFile::new(backing)),
            FileKind::Hashed => make_cache(TableFile::new(backing, Hashed::new())),
            FileKind::Partitioned { masters, shift } => {
                make_cache(TableFile::new(backing, Parts::new(masters as usize, shift)))
            }
        }
    }
}

fn make_cache<C: FileCache + Send + 'static>(
    cache: C,
) -> Result<ObjectRef<dyn FileCache>, MapError> {
    // Apart from what whoever opens it allocates next to it.
    let cache = Shared::new(Alone(cache), |it| &it.0 as &dyn FileCache);
    Ok(clustered::try_create(cache)?)
}

impl Drop for System {
    fn drop(&mut self) {
        // Address spaces and files borrow the system: nobody uses it.
        let _ = self.pages.destroy();
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System")
            .field("choice", &self.choice)
            .field("frames", &self.frames())
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

/// A file. Dropping it [closes](Self::close) it, if it is mapped nowhere; if it is, its pages stay in memory until they are reclaimed.
#[must_use = "dropping a file closes it"]
pub struct File<'s> {
    system: &'s System,
    cache: ObjectRef<dyn FileCache>,
    attachment: Attachment,
}

impl<'s> File<'s> {
    /// How many of its pages are in memory.
    #[must_use]
    pub fn resident(&self) -> usize {
        self.cache.call(|cache| cache.resident()).unwrap_or(0)
    }

    /// Gives back all its frames; says how many.
    ///
    /// # Errors
    /// If it is mapped somewhere: then it comes back, as it was.
    pub fn close(self) -> Result<usize, NotClosed<'s>> {
        self.try_close()
            .map_err(|reason| NotClosed { file: self, reason })
    }

    fn try_close(&self) -> Result<usize, CloseError> {
        let section = clustered::enter();
        let cache = self.cache.get(&section).map_err(|_| CloseError::Closed)?;
        let frames = cache.close(&section)?;
        if let Ok(pages) = self.system.pages.get(&section) {
            pages.detach(self.attachment);
        }
        let _ = self.cache.destroy();
        Ok(frames)
    }
}

impl Drop for File<'_> {
    fn drop(&mut self) {
        // Closed already, or mapped.
        let _ = self.try_close();
    }
}

impl fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("resident", &self.resident())
            .finish_non_exhaustive()
    }
}

/// A file that was not closed.
#[derive(Debug)]
pub struct NotClosed<'s> {
    /// The file, as it was.
    pub file: File<'s>,
    /// Why.
    pub reason: CloseError,
}

impl fmt::Display for NotClosed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for NotClosed<'_> {}

/// The address space of a process, for its threads: pages by their numbers. Dropping it ends the process.
#[must_use = "dropping an address space ends its process"]
pub struct AddressSpace<'s> {
    system: &'s System,
    process: ObjectRef<dyn Process>,
    translation: ObjectRef<dyn Translation>,
    manager: ObjectRef<dyn PageManager>,
    attachment: Attachment,
    ended: bool,
}

impl AddressSpace<'_> {
    /// Maps fresh pages: each is zero when it is touched first. Returns the region's name, which is none any more when the region is
    /// [unmapped](Self::unmap).
    ///
    /// # Errors
    /// If there is a region already, or no room for another object.
    pub fn map(&self, first: u64, pages: u64) -> Result<ObjectRef<dyn Region>, MapError> {
        check(first, pages)?;
        let file = self.system.cache(self.manager, Contents::Anonymous)?;
        let view = View {
            translation: self.translation,
            origin: first,
            first: 0,
            pages,
        };
        let member = Member::File(file);
        let attachment = self.manager.call(|manager| manager.attach(member))?;
        self.map_view(view, file, Some((self.manager, attachment)))
    }

    /// Maps pages of a file, from `offset` on.
    ///
    /// # Errors
    /// If there is a region already, or no room for another object.
    pub fn map_file(
        &self,
        first: u64,
        pages: u64,
        file: &File<'_>,
        offset: u64,
    ) -> Result<ObjectRef<dyn Region>, MapError> {
        check(first, pages)?;
        check(offset, pages)?;
        let view = View {
            translation: self.translation,
            origin: first.wrapping_sub(offset),
            first: offset,
            pages,
        };
        self.map_view(view, file.cache, None)
    }

    fn map_view(
        &self,
        view: View,
        file: ObjectRef<dyn FileCache>,
        owned: Option<(ObjectRef<dyn PageManager>, Attachment)>,
    ) -> Result<ObjectRef<dyn Region>, MapError> {
        file.call(|file| file.attach(view))??;
        let region = match self.system.choice.region {
            Kind::Shared => make_region(SharedRequestCounter::new(), view, file, owned)?,
            Kind::Distributed => make_region(RequestCounter::new(), view, file, owned)?,
        };
        let placed = Placed {
            first: view.origin.wrapping_add(view.first),
            pages: view.pages,
            region,
        };
        let attached = self.process.call(|process| process.attach(placed))?;
        if let Err(error) = attached {
            // Nobody else knows it: it gives back what it has.
            let section = clustered::enter();
            region.get(&section)?.unmap(&section)?;
            let _ = region.destroy();
            return Err(error);
        }
        Ok(region)
    }

    /// Takes away the region that begins at this page. When this returns no slot maps a page of it, and the frames of fresh pages are free.
    ///
    /// *Progress:* blocking: waits for faults in the region.
    ///
    /// # Errors
    /// If no region begins there, or somebody is unmapping it.
    pub fn unmap(&self, first: u64) -> Result<(), MapError> {
        let section = clustered::enter();
        self.process.get(&section)?.unmap(&section, first)
    }

    /// A page fault: finds or makes the page, and maps it on the calling slot.
    ///
    /// # Errors
    /// If no region has the page, or there is no frame for it.
    #[inline]
    pub fn fault(&self, page: u64) -> Result<(), FaultError> {
        let section = clustered::enter();
        self.fault_in(&section, page)
    }

    fn fault_in(&self, section: &ObjectSection, page: u64) -> Result<(), FaultError> {
        let no_region = |_| FaultError::NoRegion { page };
        let mut attempts = 0;
        loop {
            let found = self.process.get(section).map_err(no_region)?;
            match found.fault(section, page) {
                // Here nobody has a lock that who is asked might want.
                Err(FaultError::OutOfMemory(_))
                    if attempts < ATTEMPTS && self.system.reclaim_in(section, RECLAIMED) > 0 =>
                {
                    attempts += 1;
                }
                other => return other,
            }
        }
    }

    /// A word of a page, as a thread of the process reads it: with a fault, if its slot does not map the page.
    ///
    /// # Errors
    /// As [`fault`](Self::fault).
    ///
    /// # Panics
    /// If pages have no such word: see [`WORDS`].
    pub fn read(&self, page: u64, word: usize) -> Result<u64, FaultError> {
        assert!(word < WORDS, "a page has no word {word}");
        let mut read = 0;
        self.access(
            page,
            &mut |cell, _| {
                // Relaxed: what threads of a program write to their memory orders nothing here.
                read = cell.load(Ordering::Relaxed);
                Ok(())
            },
            word,
        )?;
        Ok(read)
    }

    /// Writes a word of a page, as a thread of the process does.
    ///
    /// # Errors
    /// As [`fault`](Self::fault); and if the page is a file's, which is only read.
    ///
    /// # Panics
    /// If pages have no such word: see [`WORDS`].
    pub fn write(&self, page: u64, word: usize, value: u64) -> Result<(), FaultError> {
        assert!(word < WORDS, "a page has no word {word}");
        self.access(
            page,
            &mut |cell, write| {
                if !write {
                    return Err(FaultError::ReadOnly { page });
                }
                // Relaxed: as in `read`.
                cell.store(value, Ordering::Relaxed);
                Ok(())
            },
            word,
        )
    }

    fn access(
        &self,
        page: u64,
        f: &mut dyn FnMut(&AtomicU64, bool) -> Result<(), FaultError>,
        word: usize,
    ) -> Result<(), FaultError> {
        let no_region = |_| FaultError::NoRegion { page };
        let section = clustered::enter();
        loop {
            let mut result = Ok(());
            let translation = self.translation.get(&section).map_err(no_region)?;
            let mut on = |frame: FrameNumber, write| {
                result = f(self.system.memory.word(frame, word), write);
            };
            if translation.access(page, &mut on) {
                return result;
            }
            // The page can be taken away again before it is accessed, or the thread can migrate: then there is another fault.
            self.fault_in(&section, page)?;
        }
    }

    /// How many pages are mapped, on all slots together.
    #[must_use]
    pub fn mapped(&self) -> usize {
        self.translation.call(|it| it.mapped()).unwrap_or(0)
    }

    /// Ends the process: unmaps everything.
    ///
    /// # Errors
    /// If faults in a region could not be held off. Other regions are gone.
    pub fn exit(mut self) -> Result<(), MapError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), MapError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let regions = self.process.call(|process| process.end())?;
        let unmapped = regions.into_iter().map(|first| self.unmap(first));
        let result = unmapped.fold(Ok(()), Result::and);
        let _ = self
            .system
            .pages
            .call(|pages| pages.detach(self.attachment));
        let _ = self.process.destroy();
        let _ = self.manager.destroy();
        let _ = self.translation.destroy();
        result
    }
}

impl Drop for AddressSpace<'_> {
    fn drop(&mut self) {
        // Who wants to know calls `exit`.
        let _ = self.end();
    }
}

impl fmt::Debug for AddressSpace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressSpace")
            .field("mapped", &self.mapped())
            .finish_non_exhaustive()
    }
}

/// A region whose faults are counted like this. If there is no room for it, what it shows is given back.
fn make_region<C: Requests + Send + 'static>(
    faults: C,
    view: View,
    file: ObjectRef<dyn FileCache>,
    owned: Option<(ObjectRef<dyn PageManager>, Attachment)>,
) -> Result<ObjectRef<dyn Region>, MapError> {
    let region = Alone(CountedRegion::new(faults, view, file, owned));
    clustered::try_create(Shared::new(region, |it| &it.0 as &dyn Region)).or_else(|full| {
        full.root.value().0.unmap(&clustered::enter())?;
        Err(MapError::Full)
    })
}

/// Whether so many pages from this one on can be a region.
fn check(first: u64, pages: u64) -> Result<(), MapError> {
    match first.checked_add(pages) {
        Some(_) if pages > 0 => Ok(()),
        _ => Err(MapError::Length { first, pages }),
    }
}
