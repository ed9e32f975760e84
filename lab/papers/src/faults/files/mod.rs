//! File cache managers: which frame has which page of a file.
//!
//! | | [shared](LockedFile) | [hashed](Hashed) | [partitioned](Parts) |
//! |---|---|---|---|
//! | a page that the thread has found before | one lock, a hash table | the thread's own replica of it | the lock of a part, and the page's |
//! | a page that is there | the same | a lock of the master table, and a new replica | the same |
//! | a page that is not | the one lock, until the frame is filled | a lock of the master table; the page's, until the frame is filled | the page's, until the frame is filled |
//! | is for | files of one thread | what many threads read again and again | what each thread has a part of |

mod shared;
mod table;

pub(super) use shared::LockedFile;
pub(super) use table::{Hashed, Parts, TableFile};

use super::error::{CloseError, FaultError, MapError, OutOfMemory};
use super::memory::{Frame, FrameNumber, Memory};
use super::objects::{PageManager, Target, View};
use percolog::clustered::{ObjectRef, ObjectSection};
use std::sync::Arc;

/// What is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// Zeros, until somebody writes. There is nowhere to write such a page to, so its frame cannot be asked back.
    Anonymous,
    /// Each word of a page is the page's number, and is only read: it can be read again.
    Numbered,
}

/// What every file cache knows.
pub(super) struct Backing {
    pub(super) memory: Arc<Memory>,
    pub(super) manager: ObjectRef<dyn PageManager>,
    pub(super) contents: Contents,
}

impl Backing {
    /// A frame that has the page. Nobody else knows it yet.
    fn fill(&self, section: &ObjectSection, offset: u64) -> Result<Frame, OutOfMemory> {
        let manager = self.manager.get(section).map_err(|_| OutOfMemory)?;
        let frame = manager.allocate(section)?;
        let word = match self.contents {
            Contents::Anonymous => 0,
            Contents::Numbered => offset,
        };
        self.memory.fill(&frame, word);
        Ok(frame)
    }

    fn give_back(&self, section: &ObjectSection, frame: Frame) {
        // A manager is destroyed after all that have frames of it.
        if let Ok(manager) = self.manager.get(section) {
            manager.give_back(section, frame);
        }
    }

    fn can_be_reclaimed(&self) -> bool {
        self.contents != Contents::Anonymous
    }

    /// Maps a frame, unless `still` says no.
    fn map(
        &self,
        section: &ObjectSection,
        frame: FrameNumber,
        target: Target,
        still: &dyn Fn() -> bool,
    ) -> Result<bool, FaultError> {
        let no_region = |_| FaultError::NoRegion { page: target.page };
        let translation = target.translation.get(section).map_err(no_region)?;
        let write = self.contents == Contents::Anonymous;
        Ok(translation.map(target.page, frame, write, still))
    }
}

/// Where a file is visible, and whether it can become so.
#[derive(Default)]
struct Views {
    views: Vec<View>,
    closed: bool,
}

impl Views {
    fn attach(&mut self, view: View) -> Result<(), MapError> {
        if self.closed {
            return Err(MapError::Closed);
        }
        self.views.push(view);
        Ok(())
    }

    fn detach(&mut self, view: View) {
        if let Some(at) = self.views.iter().position(|other| *other == view) {
            self.views.swap_remove(at);
        }
    }

    fn close(&mut self) -> Result<(), CloseError> {
        if self.closed {
            return Err(CloseError::Closed);
        }
        if !self.views.is_empty() {
            return Err(CloseError::Mapped {
                regions: self.views.len(),
            });
        }
        self.closed = true;
        Ok(())
    }

    /// Takes a page of the file away from all who see it.
    fn unmap(&self, section: &ObjectSection, offset: u64) {
        for view in &self.views {
            let seen = (view.first..view.first + view.pages).contains(&offset);
            // The tables go with their process: who has ended maps nothing.
            if let (true, Ok(translation)) = (seen, view.translation.get(section)) {
                let page = view.origin.wrapping_add(offset);
                translation.unmap(page..page + 1);
            }
        }
    }
}
