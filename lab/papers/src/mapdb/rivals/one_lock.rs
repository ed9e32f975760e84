//! One lock.

use super::runs::Runs;
use super::tables::{self, Locked, Table, Walk};
use crate::mapdb::back_end::BackEnd;
use crate::mapdb::{Lack, MapError, MapUnmap, Mapping, Mappings, Space};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mapping database behind one lock.
///
/// Addresses and frames are used again at once: what a TLB may remember is not its matter.
pub struct OneLock<B: BackEnd> {
    back_end: B,
    pages: u32,
    inside: Mutex<Inside<B::Space>>,
}

struct Inside<S> {
    spaces: Spaces<S>,
    frames: Runs,
    created: u32,
}

struct Spaces<S>(Vec<Option<Table<S>>>);

impl<S> Locked<S> for Spaces<S> {
    fn table(&mut self, index: usize) -> Option<&mut Table<S>> {
        self.0.get_mut(index)?.as_mut()
    }
}

impl<B: BackEnd> OneLock<B> {
    /// A database of the back-end's frames; each address space has so many pages.
    #[must_use]
    pub fn new(back_end: B, pages: u32) -> Self {
        Self {
            pages,
            inside: Mutex::new(Inside {
                spaces: Spaces(Vec::new()),
                frames: Runs::new(back_end.frames()),
                created: 0,
            }),
            back_end,
        }
    }

    /// Does something with what the back-end has for an address space, under the lock.
    ///
    /// # Errors
    /// If that does not exist (any more).
    pub fn with_space<R>(
        &self,
        space: Space,
        f: impl FnOnce(&B::Space) -> R,
    ) -> Result<R, MapError> {
        let mut inside = self.inside();
        Ok(f(&inside.spaces.named(space)?.back))
    }

    fn inside(&self) -> MutexGuard<'_, Inside<B::Space>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_away(&self, mapping: Mapping, tops: bool) -> Result<u64, MapError> {
        let mut inside = self.inside();
        let Inside { spaces, frames, .. } = &mut *inside;
        spaces.named(mapping.space)?;
        if !tops && tables::pages_of(mapping).all(|page| !tables::is_live(spaces, page))
            || tops && tables::pages_of(mapping).all(|page| !tables::is_there(spaces, page))
        {
            return Err(MapError::NotMapped { offset: 0 });
        }
        match tables::walk(spaces, tables::pages_of(mapping), tops) {
            Walk::Found(found) => Ok(tables::remove(&self.back_end, spaces, frames, found)),
            Walk::Unlocked(_) => unreachable!("there is one lock"),
        }
    }
}

impl<B: BackEnd> MapUnmap for OneLock<B> {
    fn create(&self) -> Result<Space, MapError> {
        let back = self.back_end.create(self.pages)?;
        let mut inside = self.inside();
        let Inside {
            spaces, created, ..
        } = &mut *inside;
        let at = spaces.0.iter().position(Option::is_none);
        let at = at.unwrap_or_else(|| {
            spaces.0.push(None);
            spaces.0.len() - 1
        });
        *created = created.checked_add(1).ok_or_else(|| MapError::Exhausted {
            what: Lack::Spaces,
            why: "all names have been used".into(),
        })?;
        let space = Space((at as u64) << 32 | u64::from(*created));
        spaces.0[at] = Some(Table::new(space, back, self.pages));
        Ok(space)
    }

    fn grant(&self, space: Space, pages: u32) -> Result<Mapping, MapError> {
        let mut inside = self.inside();
        let Inside { spaces, frames, .. } = &mut *inside;
        tables::grant(&self.back_end, spaces.named(space)?, frames, pages)
    }

    fn release(&self, mapping: Mapping) -> Result<u64, MapError> {
        self.take_away(mapping, true)
    }
}

impl<B: BackEnd> Mappings for OneLock<B> {
    fn reserve(&self, space: Space, pages: u32) -> Result<Mapping, MapError> {
        self.inside().spaces.named(space)?.reserve(pages)
    }

    fn alias(&self, from: Mapping, to: Space) -> Result<Mapping, MapError> {
        let spaces = &mut self.inside().spaces;
        let mapping = spaces.named(to)?.reserve(from.pages)?;
        let result = tables::alias(&self.back_end, spaces, from, mapping);
        if result.is_err() {
            tables::unreserve(spaces.named(to)?, mapping);
        }
        result.map(|()| mapping)
    }

    fn alias_into(&self, from: Mapping, to: Mapping) -> Result<(), MapError> {
        if from.pages != to.pages {
            return Err(MapError::Length { pages: to.pages });
        }
        let spaces = &mut self.inside().spaces;
        tables::is_reserved(spaces.named(to.space)?, to)?;
        let result = tables::alias(&self.back_end, spaces, from, to);
        if result.is_err() {
            tables::unreserve(spaces.named(to.space)?, to);
        }
        result
    }

    fn revoke(&self, mapping: Mapping) -> Result<u64, MapError> {
        self.take_away(mapping, false)
    }

    fn terminate(&self, space: Space) -> Result<u64, MapError> {
        let mut inside = self.inside();
        let Inside { spaces, frames, .. } = &mut *inside;
        let all = tables::everything(spaces.named(space)?);
        match tables::walk(spaces, all.into_iter(), true) {
            Walk::Found(found) => {
                let removed = tables::remove(&self.back_end, spaces, frames, found);
                spaces.0[tables::index(space.0)] = None;
                Ok(removed)
            }
            Walk::Unlocked(_) => unreachable!("there is one lock"),
        }
    }

    fn frame(&self, mapping: Mapping, offset: u32) -> Option<u32> {
        let page = mapping.part(offset..offset.checked_add(1)?)?;
        let spaces = &mut self.inside().spaces;
        tables::frame(&self.back_end, spaces.named(mapping.space).ok()?, page)
    }
}

impl<B: BackEnd> fmt::Debug for OneLock<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneLock").finish_non_exhaustive()
    }
}
