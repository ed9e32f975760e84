//! The file cache over a table whose elements are locked when they are found: a `DHash`, of whose elements each thread has replicas, or a
//! `Partitioned`, whose parts have a lock each.
//!
//! As in K42, the table takes the place of the shared one's hash table, and everything else stays as it is, but for what the one lock did:
//!
//! * *A page is filled once.* Threads can have replicas of one element locked at the same time. The frame lies in the part that they share,
//!   under a lock that is taken until there is a frame, and never again.
//! * *A page that is taken away is mapped nowhere.* Who takes it away first marks it as gone, then removes its element, and then unmaps it; who
//!   maps it asks, while the slot's page tables are locked, whether the element was removed. If it was not, the page is unmapped after it was
//!   mapped; if it was, it is not mapped, and the fault begins again, with another element.

use super::{Backing, Views};
use crate::faults::error::{CloseError, FaultError, MapError};
use crate::faults::lock;
use crate::faults::memory::{Frame, FrameNumber};
use crate::faults::objects::{FileCache, Target, View};
use percolog::clustered::ObjectSection;
use percolog::dhash::{DHash, ElementTable, LockedElement, Partitioned};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// The file cache.
pub(in crate::faults) struct TableFile<T> {
    backing: Backing,
    pages: T,
    views: Mutex<Views>,
}

/// A page, as all threads see it.
pub(in crate::faults) struct Page {
    /// 1 and the number of its frame; 0 as long as it has none. For those who find it: they write nothing here.
    number: AtomicU32,
    frame: Mutex<State>,
}

enum State {
    /// Whoever has the lock fills a frame.
    Absent,
    Resident(Frame),
    /// It was taken away: the element is being removed.
    Gone,
}

/// A table of pages.
pub(in crate::faults) trait PageTable: Send + Sync + 'static {
    /// What a page is found by.
    type Key;
    /// The table itself.
    type Table: ElementTable<Self::Key, Page>;

    fn table(&self) -> &Self::Table;
    fn key(&self, offset: u64) -> Self::Key;
    /// Shows `f` all pages. It must not use the table.
    fn for_each(&self, f: &mut dyn FnMut(u64, &Page));
}

/// The table with replicas for each thread.
pub(in crate::faults) struct Hashed(DHash<u64, Page>);

/// The table in parts, each of which has runs of the file's pages.
pub(in crate::faults) struct Parts {
    pages: Partitioned<Offset, Page>,
    /// Pages with the same number above so many bits are in the same part.
    shift: u32,
}

/// A page's number, and that of its run.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in crate::faults) struct Offset {
    page: u64,
    run: u64,
}

impl Hashed {
    pub(in crate::faults) fn new() -> Self {
        Self(DHash::new(|_, _| ()))
    }
}

impl Parts {
    pub(in crate::faults) fn new(masters: usize, shift: u32) -> Self {
        Self {
            pages: Partitioned::new(masters, |offset: &Offset| offset.run),
            shift,
        }
    }
}

impl PageTable for Hashed {
    type Key = u64;
    type Table = DHash<u64, Page>;

    fn table(&self) -> &Self::Table {
        &self.0
    }

    fn key(&self, offset: u64) -> u64 {
        offset
    }

    fn for_each(&self, f: &mut dyn FnMut(u64, &Page)) {
        let visited = self.0.for_each(|offset, page| {
            f(*offset, page);
            ControlFlow::Continue(())
        });
        visited.expect(NOT_REENTERED);
    }
}

impl PageTable for Parts {
    type Key = Offset;
    type Table = Partitioned<Offset, Page>;

    fn table(&self) -> &Self::Table {
        &self.pages
    }

    fn key(&self, page: u64) -> Offset {
        let run = page.checked_shr(self.shift).unwrap_or(0);
        Offset { page, run }
    }

    fn for_each(&self, f: &mut dyn FnMut(u64, &Page)) {
        let visited = self.pages.for_each(|offset, page| f(offset.page, page));
        visited.expect(NOT_REENTERED);
    }
}

/// A thread has one page locked at a time, and calls no table from a table.
const NOT_REENTERED: &str = "this thread has no page locked";

impl Page {
    pub(super) fn new() -> Self {
        Self {
            number: AtomicU32::new(0),
            frame: Mutex::new(State::Absent),
        }
    }

    fn number(&self) -> Option<FrameNumber> {
        // Acquire pairs with the Release in `fill`: what is in the frame is seen.
        let number = self.number.load(Ordering::Acquire);
        number.checked_sub(1).map(FrameNumber::from_index)
    }

    /// Its frame, filled if it has none; `None` if the page was taken away.
    #[cold]
    fn fill(
        &self,
        fill: impl FnOnce() -> Result<Frame, FaultError>,
    ) -> Result<Option<FrameNumber>, FaultError> {
        let mut state = lock(&self.frame);
        Ok(match &*state {
            State::Gone => None,
            State::Resident(frame) => Some(frame.number()),
            State::Absent => {
                let frame = fill()?;
                let number = frame.number();
                *state = State::Resident(frame);
                // Release pairs with the Acquire in `number`.
                self.number
                    .store(number.index() as u32 + 1, Ordering::Release);
                Some(number)
            }
        })
    }

    /// The frame, for who takes the page away: nobody else gets it, nor fills another one.
    fn take(&self) -> Option<Frame> {
        let mut state = lock(&self.frame);
        let State::Resident(frame) = std::mem::replace(&mut *state, State::Gone) else {
            return None;
        };
        // Relaxed: who has read the number before it may map it; whether it does, the element's removal decides.
        self.number.store(0, Ordering::Relaxed);
        Some(frame)
    }
}

impl<T: PageTable> TableFile<T> {
    pub(in crate::faults) fn new(backing: Backing, pages: T) -> Self {
        Self {
            backing,
            pages,
            views: Mutex::default(),
        }
    }

    /// Pages that have a frame, up to so many.
    fn some_resident(&self, most: usize) -> Vec<u64> {
        let mut found = Vec::new();
        self.pages.for_each(&mut |offset, page| {
            if found.len() < most && page.number().is_some() {
                found.push(offset);
            }
        });
        found
    }

    /// Takes a page away: its frame, if it has one.
    fn take(&self, section: &ObjectSection, offset: u64) -> Option<Frame> {
        let element = self
            .pages
            .table()
            .find_and_lock(&self.pages.key(offset))
            .expect(NOT_REENTERED)?;
        let frame = element.shared().take();
        element.empty().expect(NOT_REENTERED);
        // After the removal: whoever maps the page now finds out in time.
        lock(&self.views).unmap(section, offset);
        frame
    }
}

impl<T: PageTable> FileCache for TableFile<T> {
    fn fault(
        &self,
        section: &ObjectSection,
        offset: u64,
        target: Target,
    ) -> Result<(), FaultError> {
        let key = self.pages.key(offset);
        loop {
            let element = self
                .pages
                .table()
                .find_or_allocate_and_lock(&key, |_| Page::new())
                .expect(NOT_REENTERED);
            let page = element.shared();
            let found = match page.number() {
                None => page.fill(|| Ok(self.backing.fill(section, offset)?))?,
                found => found,
            };
            // If not, the page was taken away, and will be another one when it is found again.
            if let Some(number) = found
                && self
                    .backing
                    .map(section, number, target, &|| !element.is_emptied())?
            {
                return Ok(());
            }
            drop(element);
            thread::yield_now();
        }
    }

    fn attach(&self, view: View) -> Result<(), MapError> {
        lock(&self.views).attach(view)
    }

    fn detach(&self, view: View) {
        lock(&self.views).detach(view);
    }

    fn reclaim(&self, section: &ObjectSection, wanted: usize) -> usize {
        if !self.backing.can_be_reclaimed() {
            return 0;
        }
        let chosen = self.some_resident(wanted).into_iter();
        let taken = chosen.filter_map(|offset| self.take(section, offset));
        let give_back = |frame| self.backing.give_back(section, frame);
        taken.map(give_back).count()
    }

    fn close(&self, section: &ObjectSection) -> Result<usize, CloseError> {
        lock(&self.views).close()?;
        // Nobody sees a page: nothing is filled any more.
        let all = self.some_resident(usize::MAX).into_iter();
        let taken = all.filter_map(|offset| self.take(section, offset));
        let give_back = |frame| self.backing.give_back(section, frame);
        Ok(taken.map(give_back).count())
    }

    fn resident(&self) -> usize {
        self.some_resident(usize::MAX).len()
    }
}
