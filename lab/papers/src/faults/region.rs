//! Regions: what part of a file is seen where, and a count of the faults under way.
//!
//! The two kinds differ in how faults are counted, and in nothing else. K42 gives each representative of the distributed one a count of its
//! own, and has it use the first one's code; here the count itself is distributed, so one representative does.

use super::error::{FaultError, MapError};
use super::objects::{Attachment, FileCache, PageManager, Region, Target, Translation, View};
use percolog::clustered::{ObjectRef, ObjectSection};
use percolog::requests::Requests;
use std::sync::atomic::{AtomicU64, Ordering};

/// A region, with faults counted by a `C`.
pub(super) struct CountedRegion<C> {
    faults: C,
    view: View,
    file: ObjectRef<dyn FileCache>,
    /// Pages that can be faulted for; changed while no fault is under way.
    pages: AtomicU64,
    /// Who knows the file, if it goes with the region.
    owned: Option<(ObjectRef<dyn PageManager>, Attachment)>,
}

impl<C: Requests> CountedRegion<C> {
    /// The region that shows this view of the file. The file is closed with the region if the region [owns](Self::owned) it.
    pub(super) fn new(
        faults: C,
        view: View,
        file: ObjectRef<dyn FileCache>,
        owned: Option<(ObjectRef<dyn PageManager>, Attachment)>,
    ) -> Self {
        Self {
            faults,
            view,
            file,
            pages: AtomicU64::new(view.pages),
            owned,
        }
    }

    fn first_page(&self) -> u64 {
        self.view.origin.wrapping_add(self.view.first)
    }

    fn translation(&self) -> ObjectRef<dyn Translation> {
        self.view.translation
    }
}

impl<C: Requests + Send> Region for CountedRegion<C> {
    fn fault(&self, section: &ObjectSection, page: u64) -> Result<(), FaultError> {
        let no_region = FaultError::NoRegion { page };
        let _pass = self.faults.enter().map_err(|_| no_region)?;
        let at = page.wrapping_sub(self.first_page());
        // Relaxed: changed while nobody has a pass, which orders it.
        if at >= self.pages.load(Ordering::Relaxed) {
            return Err(no_region);
        }
        let file = self.file.get(section).map_err(|_| no_region)?;
        let target = Target {
            translation: self.translation(),
            page,
        };
        file.fault(section, self.view.first + at, target)
    }

    fn truncate(&self, section: &ObjectSection, pages: u64) -> Result<(), MapError> {
        self.faults.blocked(|| {
            // Relaxed: as in `fault`.
            let before = self.pages.load(Ordering::Relaxed);
            let after = before.min(pages);
            self.pages.store(after, Ordering::Relaxed);
            let first = self.first_page();
            if let Ok(translation) = self.translation().get(section) {
                translation.unmap(first + after..first + before);
            }
        })?;
        Ok(())
    }

    fn unmap(&self, section: &ObjectSection) -> Result<(), MapError> {
        self.faults.refuse()?;
        // Nobody is inside, nor gets in: nothing is mapped from here on.
        let first = self.first_page();
        if let Ok(translation) = self.translation().get(section) {
            translation.unmap(first..first + self.view.pages);
        }
        let Ok(file) = self.file.get(section) else {
            return Ok(());
        };
        file.detach(self.view);
        if let Some((manager, attachment)) = self.owned {
            if let Ok(manager) = manager.get(section) {
                manager.detach(attachment);
            }
            // It was visible here only.
            let _ = file.close(section);
            let _ = self.file.destroy();
        }
        Ok(())
    }
}
