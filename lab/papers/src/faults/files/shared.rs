//! The file cache that is not distributed: one lock.

use super::{Backing, Views};
use crate::faults::error::{CloseError, FaultError, MapError};
use crate::faults::lock;
use crate::faults::memory::Frame;
use crate::faults::objects::{FileCache, Target, View};
use percolog::clustered::ObjectSection;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;

/// Everything under one lock, the filling of pages included.
pub(in crate::faults) struct LockedFile {
    backing: Backing,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pages: HashMap<u64, Frame>,
    views: Views,
}

impl LockedFile {
    pub(in crate::faults) fn new(backing: Backing) -> Self {
        Self {
            backing,
            state: Mutex::default(),
        }
    }
}

impl FileCache for LockedFile {
    fn fault(
        &self,
        section: &ObjectSection,
        offset: u64,
        target: Target,
    ) -> Result<(), FaultError> {
        let mut state = lock(&self.state);
        let frame = match state.pages.entry(offset) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => place.insert(self.backing.fill(section, offset)?),
        };
        // Under the lock, so that it is not taken away in between.
        let number = frame.number();
        self.backing.map(section, number, target, &|| true)?;
        Ok(())
    }

    fn attach(&self, view: View) -> Result<(), MapError> {
        lock(&self.state).views.attach(view)
    }

    fn detach(&self, view: View) {
        lock(&self.state).views.detach(view);
    }

    fn reclaim(&self, section: &ObjectSection, wanted: usize) -> usize {
        if !self.backing.can_be_reclaimed() {
            return 0;
        }
        let mut state = lock(&self.state);
        let State { pages, views } = &mut *state;
        let chosen: Vec<u64> = pages.keys().copied().take(wanted).collect();
        let taken = chosen.iter().filter_map(|offset| {
            views.unmap(section, *offset);
            pages.remove(offset)
        });
        let give_back = |frame| self.backing.give_back(section, frame);
        taken.map(give_back).count()
    }

    fn close(&self, section: &ObjectSection) -> Result<usize, CloseError> {
        let mut state = lock(&self.state);
        state.views.close()?;
        let pages = std::mem::take(&mut state.pages);
        let give_back = |frame| self.backing.give_back(section, frame);
        Ok(pages.into_values().map(give_back).count())
    }

    fn resident(&self) -> usize {
        lock(&self.state).pages.len()
    }
}
