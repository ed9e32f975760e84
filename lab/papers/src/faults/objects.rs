//! The interfaces of the objects: all that one of them knows of the others.
//!
//! Calls are made in a section of whoever begins the fault, so that a fault opens one, and not one for each object.

use super::error::{CloseError, FaultError, MapError, OutOfMemory};
use super::memory::{Frame, FrameNumber};
use percolog::clustered::{ObjectRef, ObjectSection};
use std::ops::Range;

/// A process: which region is where in its address space.
pub trait Process: Sync {
    /// Finds the region that has the page, and has it map the page on the calling slot.
    ///
    /// # Errors
    /// If there is no region, or no memory.
    fn fault(&self, section: &ObjectSection, page: u64) -> Result<(), FaultError>;

    /// Puts a region into the address space.
    ///
    /// # Errors
    /// If another one is there, or the process has ended.
    fn attach(&self, placed: Placed) -> Result<(), MapError>;

    /// Takes away the region that begins at this page, and destroys it. When this returns no slot maps a page of it. Frames that nobody
    /// else can name are free.
    ///
    /// # Errors
    /// If there is no such region, or another call is taking it away.
    fn unmap(&self, section: &ObjectSection, first: u64) -> Result<(), MapError>;

    /// Lets no region be attached any more; returns where those begin that are there.
    fn end(&self) -> Vec<u64>;
}

/// A region, and its place in an address space.
#[derive(Debug, Clone, Copy)]
pub struct Placed {
    /// The first page.
    pub first: u64,
    /// How many pages.
    pub pages: u64,
    /// What is there.
    pub region: ObjectRef<dyn Region>,
}

/// A part of an address space, and the part of a file that it shows.
pub trait Region: Sync {
    /// Has the file map the page on the calling slot.
    ///
    /// # Errors
    /// If the region is being unmapped, or ends before the page; or there is no memory.
    fn fault(&self, section: &ObjectSection, page: u64) -> Result<(), FaultError>;

    /// Keeps its first pages only. When this returns, no slot maps the others.
    ///
    /// # Errors
    /// If it is being unmapped.
    fn truncate(&self, section: &ObjectSection, pages: u64) -> Result<(), MapError>;

    /// Lets no fault in any more, waits for those inside, and takes all pages away.
    ///
    /// # Errors
    /// If faults cannot be held off.
    fn unmap(&self, section: &ObjectSection) -> Result<(), MapError>;
}

/// Where a page of a file is to be mapped.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// In which tables.
    pub translation: ObjectRef<dyn Translation>,
    /// At which page.
    pub page: u64,
}

/// Where a file is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// In which tables.
    pub translation: ObjectRef<dyn Translation>,
    /// The page of the address space at which the file's page 0 would be.
    pub origin: u64,
    /// The first page that is seen.
    pub first: u64,
    /// How many pages.
    pub pages: u64,
}

/// A file cache manager: the pages of one file that are in memory.
pub trait FileCache: Sync {
    /// Maps a page of the file, which is found, or filled.
    ///
    /// # Errors
    /// If a page is needed and there is none.
    fn fault(&self, section: &ObjectSection, offset: u64, target: Target)
    -> Result<(), FaultError>;

    /// The file becomes visible there.
    ///
    /// # Errors
    /// If it has been closed.
    fn attach(&self, view: View) -> Result<(), MapError>;

    /// The file is not visible there any more; its pages are mapped nowhere in the view.
    fn detach(&self, view: View);

    /// Gives up to so many frames back that can be filled again; says how many.
    fn reclaim(&self, section: &ObjectSection, wanted: usize) -> usize;

    /// Gives all frames back; says how many.
    ///
    /// # Errors
    /// If it is visible somewhere, or closed.
    fn close(&self, section: &ObjectSection) -> Result<usize, CloseError>;

    /// How many of its pages are in memory.
    fn resident(&self) -> usize;
}

/// Who has frames: that of all, or one below it, of a process.
pub trait PageManager: Sync {
    /// A frame, with whatever is in it.
    ///
    /// # Errors
    /// If there is none. (One that another thread is about to give back, or that is on its way from slot to slot, may be missed.)
    fn allocate(&self, section: &ObjectSection) -> Result<Frame, OutOfMemory>;

    /// Takes a frame back.
    fn give_back(&self, section: &ObjectSection, frame: Frame);

    /// Notes who can be asked for frames.
    fn attach(&self, member: Member) -> Attachment;

    /// Forgets it. The attachment is this manager's.
    fn detach(&self, attachment: Attachment);

    /// Asks members for so many frames; says how many were given back.
    fn reclaim(&self, section: &ObjectSection, wanted: usize) -> usize;

    /// How many frames nobody uses.
    fn free(&self) -> usize;

    /// How many members there are.
    fn members(&self) -> usize;
}

/// Who can be asked for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// A file.
    File(ObjectRef<dyn FileCache>),
    /// The manager of a process.
    Manager(ObjectRef<dyn PageManager>),
}

/// Where a page manager has noted a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// The number of the representative that knows it: its home.
    pub home: usize,
    /// What was noted.
    pub member: Member,
}

/// What hardware does: page tables and TLBs, of one address space, on each slot.
pub trait Translation: Sync {
    /// Maps a page on the calling slot, if `still` says so; which is asked while nobody unmaps or accesses a page of this slot.
    fn map(&self, page: u64, frame: FrameNumber, write: bool, still: &dyn Fn() -> bool) -> bool;

    /// Accesses a page, if it is mapped on the calling slot: with its frame, and whether it may be written. Nobody unmaps it meanwhile.
    fn access(&self, page: u64, f: &mut dyn FnMut(FrameNumber, bool)) -> bool;

    /// Unmaps pages on all slots.
    fn unmap(&self, pages: Range<u64>);

    /// How many pages are mapped, on all slots together.
    fn mapped(&self) -> usize;
}
