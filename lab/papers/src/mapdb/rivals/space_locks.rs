//! A lock for each address space.

use super::runs::Runs;
use super::tables::{self, Frames, Locked, Name, Table, Walk};
use crate::mapdb::back_end::BackEnd;
use crate::mapdb::{Lack, MapError, MapUnmap, Mapping, Mappings, Space};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many frames an address space takes at once, to have some for itself.
const BATCH: u32 = 64;

/// A mapping database behind a lock for each address space.
///
/// A call takes the locks of all address spaces that it has to do with, in the order of their numbers. Which these are is known for an
/// alias; whoever takes away a tree finds out on the way, and each time begins again with one more. Frames have a lock of their own; an
/// address space keeps some, so that single pages seldom need it.
///
/// Addresses and frames are used again at once: what a TLB may remember is not its matter.
pub struct SpaceLocks<B: BackEnd> {
    back_end: B,
    pages: u32,
    spaces: Box<[Line<B::Space>]>,
    frames: Mutex<Runs>,
    created: Mutex<u32>,
}

/// Address spaces that are used by different processors share no line.
#[repr(align(128))]
struct Line<S>(Mutex<Option<Own<S>>>);

struct Own<S> {
    table: Table<S>,
    /// Frames that it has taken and not used.
    spare: Vec<u32>,
}

/// The address spaces that a call has locked.
struct Held<'a, S>(BTreeMap<usize, MutexGuard<'a, Option<Own<S>>>>);

impl<S> Locked<S> for Held<'_, S> {
    fn table(&mut self, index: usize) -> Option<&mut Table<S>> {
        Some(&mut self.0.get_mut(&index)?.as_mut()?.table)
    }
}

/// Frames for an address space, or from one that goes.
struct Supply<'a> {
    common: &'a Mutex<Runs>,
    spare: &'a mut Vec<u32>,
}

impl Supply<'_> {
    fn common(&self) -> MutexGuard<'_, Runs> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Frames for Supply<'_> {
    fn take(&mut self, count: u32) -> Option<u32> {
        if count > 1 {
            return self.common().take(count);
        }
        if self.spare.is_empty() {
            let mut common = self.common();
            let some: Vec<u32> = (0..BATCH).map_while(|_| common.take(1)).collect();
            drop(common);
            self.spare.extend(some);
        }
        self.spare.pop()
    }

    fn put(&mut self, start: u32, count: u32) {
        if count > 1 {
            return self.common().put(start, count);
        }
        self.spare.push(start);
        if self.spare.len() >= 2 * BATCH as usize {
            let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
            for frame in self.spare.drain(BATCH as usize..) {
                common.put(frame, 1);
            }
        }
    }
}

impl<B: BackEnd> SpaceLocks<B> {
    /// A database of the back-end's frames; each of so many address spaces at most has so many pages.
    #[must_use]
    pub fn new(back_end: B, pages: u32, spaces: u32) -> Self {
        Self {
            pages,
            spaces: (0..spaces).map(|_| Line(Mutex::new(None))).collect(),
            frames: Mutex::new(Runs::new(back_end.frames())),
            created: Mutex::new(0),
            back_end,
        }
    }

    fn lock(&self, index: usize) -> Result<MutexGuard<'_, Option<Own<B::Space>>>, MapError> {
        let line = self.spaces.get(index).ok_or(MapError::NoSuchSpace)?;
        Ok(line.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock_all(
        &self,
        indices: impl IntoIterator<Item = usize>,
    ) -> Result<Held<'_, B::Space>, MapError> {
        let mut indices: Vec<usize> = indices.into_iter().collect();
        indices.sort_unstable();
        indices.dedup();
        let held: Result<_, MapError> = indices
            .into_iter()
            .map(|index| Ok((index, self.lock(index)?)))
            .collect();
        Ok(Held(held?))
    }

    /// Takes away trees; `roots` says of the locked address space which.
    fn take_away(
        &self,
        space: Space,
        tops: bool,
        roots: impl Fn(&mut Held<'_, B::Space>) -> Result<Vec<Name>, MapError>,
        end: bool,
    ) -> Result<u64, MapError> {
        let mut needed = vec![tables::index(space.0)];
        loop {
            let mut held = self.lock_all(needed.iter().copied())?;
            held.named(space)?;
            let roots = roots(&mut held)?;
            let more = match tables::walk(&mut held, roots.into_iter(), tops) {
                Walk::Unlocked(index) => index,
                Walk::Found(found) => match tables::unlocked_parent(&mut held, &found) {
                    Some(index) => index,
                    None => return Ok(self.remove(space, held, found, end)),
                },
            };
            needed.push(more);
        }
    }

    fn remove(
        &self,
        space: Space,
        mut held: Held<'_, B::Space>,
        found: Vec<Name>,
        end: bool,
    ) -> u64 {
        let at = tables::index(space.0);
        // Taken out, since the tables are used meanwhile.
        let own = held.0.get_mut(&at).and_then(|own| own.as_mut());
        let mut spare = own.map_or_else(Vec::new, |own| std::mem::take(&mut own.spare));
        let mut supply = Supply {
            common: &self.frames,
            spare: &mut spare,
        };
        let removed = tables::remove(&self.back_end, &mut held, &mut supply, found);
        if let Some(guard) = held.0.get_mut(&at) {
            if end {
                let mut common = supply.common();
                for frame in supply.spare.iter() {
                    common.put(*frame, 1);
                }
                **guard = None;
            } else if let Some(own) = guard.as_mut() {
                own.spare = spare;
            }
        }
        removed
    }
}

impl<B: BackEnd> MapUnmap for SpaceLocks<B> {
    fn create(&self) -> Result<Space, MapError> {
        let back = self.back_end.create(self.pages)?;
        let exhausted = |why: &str| MapError::Exhausted {
            what: Lack::Spaces,
            why: why.into(),
        };
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        *created = created
            .checked_add(1)
            .ok_or_else(|| exhausted("all names have been used"))?;
        for at in 0..self.spaces.len() {
            let mut place = self.lock(at)?;
            if place.is_none() {
                let space = Space((at as u64) << 32 | u64::from(*created));
                *place = Some(Own {
                    table: Table::new(space, back, self.pages),
                    spare: Vec::new(),
                });
                return Ok(space);
            }
        }
        Err(exhausted("all are in use"))
    }

    fn grant(&self, space: Space, pages: u32) -> Result<Mapping, MapError> {
        let mut guard = self.lock(tables::index(space.0))?;
        let own = guard.as_mut().filter(|own| own.table.space == space);
        let Own { table, spare } = own.ok_or(MapError::NoSuchSpace)?;
        let mut supply = Supply {
            common: &self.frames,
            spare,
        };
        tables::grant(&self.back_end, table, &mut supply, pages)
    }

    fn release(&self, mapping: Mapping) -> Result<u64, MapError> {
        let roots = |held: &mut Held<'_, B::Space>| {
            let roots: Vec<Name> = tables::pages_of(mapping)
                .filter(|page| tables::is_there(held, *page))
                .collect();
            if roots.is_empty() {
                return Err(MapError::NotMapped { offset: 0 });
            }
            Ok(roots)
        };
        self.take_away(mapping.space, true, roots, false)
    }
}

impl<B: BackEnd> Mappings for SpaceLocks<B> {
    fn reserve(&self, space: Space, pages: u32) -> Result<Mapping, MapError> {
        let mut held = self.lock_all([tables::index(space.0)])?;
        held.named(space)?.reserve(pages)
    }

    fn alias(&self, from: Mapping, to: Space) -> Result<Mapping, MapError> {
        let mut held = self.lock_all([tables::index(from.space.0), tables::index(to.0)])?;
        let mapping = held.named(to)?.reserve(from.pages)?;
        let result = tables::alias(&self.back_end, &mut held, from, mapping);
        if result.is_err() {
            tables::unreserve(held.named(to)?, mapping);
        }
        result.map(|()| mapping)
    }

    fn alias_into(&self, from: Mapping, to: Mapping) -> Result<(), MapError> {
        if from.pages != to.pages {
            return Err(MapError::Length { pages: to.pages });
        }
        let mut held = self.lock_all([tables::index(from.space.0), tables::index(to.space.0)])?;
        tables::is_reserved(held.named(to.space)?, to)?;
        let result = tables::alias(&self.back_end, &mut held, from, to);
        if result.is_err() {
            tables::unreserve(held.named(to.space)?, to);
        }
        result
    }

    fn revoke(&self, mapping: Mapping) -> Result<u64, MapError> {
        let roots = |held: &mut Held<'_, B::Space>| {
            let roots: Vec<Name> = tables::pages_of(mapping)
                .filter(|page| tables::is_live(held, *page))
                .collect();
            if roots.is_empty() {
                return Err(MapError::NotMapped { offset: 0 });
            }
            Ok(roots)
        };
        self.take_away(mapping.space, false, roots, false)
    }

    fn terminate(&self, space: Space) -> Result<u64, MapError> {
        let roots = |held: &mut Held<'_, B::Space>| Ok(tables::everything(held.named(space)?));
        self.take_away(space, true, roots, true)
    }

    fn frame(&self, mapping: Mapping, offset: u32) -> Option<u32> {
        let page = mapping.part(offset..offset.checked_add(1)?)?;
        let mut held = self.lock_all([tables::index(mapping.space.0)]).ok()?;
        tables::frame(&self.back_end, held.named(mapping.space).ok()?, page)
    }
}

impl<B: BackEnd> fmt::Debug for SpaceLocks<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpaceLocks").finish_non_exhaustive()
    }
}
