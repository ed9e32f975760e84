//! The tables that the locked databases are made of, and what is done to them: the caller has the locks.

use super::runs::Runs;
use crate::mapdb::back_end::BackEnd;
use crate::mapdb::{Lack, MapError, Mapping, Space};

/// The index that a name stands for.
pub(super) fn index(name: u64) -> usize {
    (name >> 32) as usize
}

/// A page by the names of its space and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) space: u64,
    pub(super) page: u64,
}

/// A page, or the place of one.
#[derive(Debug, Default)]
struct Place {
    /// How many pages have been here.
    generation: u32,
    page: Option<Page>,
}

#[derive(Debug)]
struct Page {
    /// Nothing, if it is reserved.
    frame: Option<u32>,
    parent: Option<Name>,
    children: Vec<Name>,
}

/// An address space.
#[derive(Debug)]
pub(super) struct Table<S> {
    /// Its own name.
    pub(super) space: Space,
    pub(super) back: S,
    addresses: Runs,
    places: Vec<Place>,
}

/// Where the tables are that the caller has locked.
pub(super) trait Locked<S> {
    /// The table at an index; `None` if there is none, or if it is not locked.
    fn table(&mut self, index: usize) -> Option<&mut Table<S>>;

    /// The one that an address space is, if it is there.
    fn named(&mut self, space: Space) -> Result<&mut Table<S>, MapError> {
        match self.table(index(space.0)) {
            Some(table) if table.space == space => Ok(table),
            _ => Err(MapError::NoSuchSpace),
        }
    }
}

/// Where frames come from.
pub(super) trait Frames {
    fn take(&mut self, count: u32) -> Option<u32>;
    fn put(&mut self, start: u32, count: u32);
}

impl Frames for Runs {
    fn take(&mut self, count: u32) -> Option<u32> {
        Runs::take(self, count)
    }

    fn put(&mut self, start: u32, count: u32) {
        Runs::put(self, start, count);
    }
}

impl<S> Table<S> {
    pub(super) fn new(space: Space, back: S, pages: u32) -> Self {
        Self {
            space,
            back,
            addresses: Runs::new(pages),
            places: Vec::new(),
        }
    }

    fn page(&self, name: u64) -> Option<&Page> {
        let place = self.places.get(index(name))?;
        let page = place.page.as_ref()?;
        (place.generation == name as u32).then_some(page)
    }

    fn page_mut(&mut self, name: u64) -> Option<&mut Page> {
        let place = self.places.get_mut(index(name))?;
        let page = place.page.as_mut()?;
        (place.generation == name as u32).then_some(page)
    }

    /// Addresses beside each other, reserved.
    pub(super) fn reserve(&mut self, count: u32) -> Result<Mapping, MapError> {
        if count == 0 {
            return Err(MapError::Length { pages: count });
        }
        let first = self
            .addresses
            .take(count)
            .ok_or_else(|| MapError::Exhausted {
                what: Lack::Addresses,
                why: "not so many are free beside each other".into(),
            })?;
        let range = first as usize..(first + count) as usize;
        if self.places.len() < range.end {
            self.places.resize_with(range.end, Place::default);
        }
        let places = &mut self.places[range];
        // As of the members of an extent: all have the same.
        let generation = 1 + places
            .iter()
            .map(|place| place.generation)
            .max()
            .unwrap_or(0);
        for place in places {
            place.generation = generation;
            place.page = Some(Page {
                frame: None,
                parent: None,
                children: Vec::new(),
            });
        }
        Ok(Mapping {
            space: self.space,
            first: u64::from(first) << 32 | u64::from(generation),
            pages: count,
        })
    }

    /// The frame of each page.
    pub(super) fn frames(&self, mapping: Mapping) -> Result<Vec<u32>, MapError> {
        let frames = (0..).zip(mapping.names()).map(|(offset, name)| {
            let frame = self.page(name).and_then(|page| page.frame);
            frame.ok_or(MapError::NotMapped { offset })
        });
        frames.collect()
    }

    fn forget(&mut self, name: u64) {
        self.places[index(name)].page = None;
        self.addresses.put((name >> 32) as u32, 1);
    }
}

/// Gives up addresses that were reserved.
pub(super) fn unreserve<S>(table: &mut Table<S>, mapping: Mapping) {
    for name in mapping.names() {
        table.places[index(name)].page = None;
    }
    table.addresses.put(mapping.first_page(), mapping.pages);
}

/// Fresh pages.
pub(super) fn grant<B: BackEnd>(
    back: &B,
    table: &mut Table<B::Space>,
    frames: &mut impl Frames,
    count: u32,
) -> Result<Mapping, MapError> {
    let mapping = table.reserve(count)?;
    let mut taken: Vec<(u32, u32)> = Vec::new();
    let mut filled = 0;
    let mut at_once = count;
    let result = loop {
        if filled == count {
            break Ok(());
        }
        let part = at_once.min(count - filled);
        let Some(first) = frames.take(part) else {
            if part > 1 {
                at_once = part / 2;
                continue;
            }
            break Err(MapError::Exhausted {
                what: Lack::Frames,
                why: "all are mapped".into(),
            });
        };
        taken.push((first, part));
        let page = mapping.first_page() + filled;
        let mapped = back
            .clear(first, part)
            .and_then(|()| back.map(&table.back, page, first, part));
        if let Err(refused) = mapped {
            break Err(refused.into());
        }
        filled += part;
    };
    if let Err(error) = result {
        back.unmap(&table.back, mapping.first_page(), filled);
        for (first, part) in taken {
            frames.put(first, part);
        }
        unreserve(table, mapping);
        return Err(error);
    }
    let frames = taken
        .into_iter()
        .flat_map(|(first, part)| first..first + part);
    for (name, frame) in mapping.names().zip(frames) {
        if let Some(page) = table.page_mut(name) {
            page.frame = Some(frame);
        }
    }
    Ok(mapping)
}

/// Makes reserved pages show what others do. All tables are locked.
pub(super) fn alias<B: BackEnd>(
    back: &B,
    tables: &mut impl Locked<B::Space>,
    from: Mapping,
    to: Mapping,
) -> Result<(), MapError> {
    let frames = tables.named(from.space)?.frames(from)?;
    let table = tables.named(to.space)?;
    let mut mapped = 0;
    while mapped < frames.len() {
        let first = frames[mapped];
        let count = (0..)
            .zip(&frames[mapped..])
            .take_while(|(offset, frame)| first + offset == **frame)
            .count();
        let page = to.first_page() + mapped as u32;
        if let Err(refused) = back.map(&table.back, page, first, count as u32) {
            back.unmap(&table.back, to.first_page(), mapped as u32);
            return Err(refused.into());
        }
        mapped += count;
    }
    for ((name, parent), frame) in to.names().zip(from.names()).zip(frames) {
        if let Some(page) = tables.named(to.space)?.page_mut(name) {
            page.frame = Some(frame);
            page.parent = Some(Name {
                space: from.space.0,
                page: parent,
            });
        }
        if let Some(page) = tables.named(from.space)?.page_mut(parent) {
            page.children.push(Name {
                space: to.space.0,
                page: name,
            });
        }
    }
    Ok(())
}

/// Whether all of them are reserved.
pub(super) fn is_reserved<S>(table: &Table<S>, mapping: Mapping) -> Result<(), MapError> {
    for (offset, name) in (0..).zip(mapping.names()) {
        if table.page(name).is_none_or(|page| page.frame.is_some()) {
            return Err(MapError::NotMapped { offset });
        }
    }
    Ok(())
}

/// What a walk has come to.
pub(super) enum Walk {
    /// All pages below, parents before children; with those at the top, if they are meant too.
    Found(Vec<Name>),
    /// The table at this index must be locked as well.
    Unlocked(usize),
}

/// The pages below some, and with `tops` these themselves. Changes nothing.
pub(super) fn walk<S>(
    tables: &mut impl Locked<S>,
    roots: impl Iterator<Item = Name>,
    tops: bool,
) -> Walk {
    let mut found = Vec::new();
    for root in roots {
        let Some(page) = tables
            .table(index(root.space))
            .and_then(|table| table.page(root.page))
        else {
            continue;
        };
        if tops {
            found.push(root);
        } else {
            found.extend(&page.children);
        }
    }
    let mut at = 0;
    while let Some(&name) = found.get(at) {
        let Some(table) = tables.table(index(name.space)) else {
            return Walk::Unlocked(index(name.space));
        };
        if let Some(page) = table.page(name.page) {
            found.extend(&page.children);
        }
        at += 1;
    }
    Walk::Found(found)
}

/// Of which tables the parents must be locked.
pub(super) fn unlocked_parent<S>(tables: &mut impl Locked<S>, found: &[Name]) -> Option<usize> {
    found.iter().find_map(|name| {
        let page = tables.table(index(name.space))?.page(name.page)?;
        let parent = index(page.parent?.space);
        tables.table(parent).is_none().then_some(parent)
    })
}

/// Takes away what a [walk](walk) has found. Says how many mappings that were.
pub(super) fn remove<B: BackEnd>(
    back: &B,
    tables: &mut impl Locked<B::Space>,
    frames: &mut impl Frames,
    mut found: Vec<Name>,
) -> u64 {
    // Neighbours are unmapped at once.
    found.sort_unstable();
    found.dedup();
    let mut removed = 0;
    let mut run: Option<(u64, u32, u32)> = None;
    let mut free: Option<(u32, u32)> = None;
    for name in found {
        let Some(table) = tables.table(index(name.space)) else {
            continue;
        };
        let Some(page) = table.page_mut(name.page) else {
            continue;
        };
        let (frame, parent) = (page.frame, page.parent);
        table.forget(name.page);
        let Some(frame) = frame else {
            continue;
        };
        removed += 1;
        let number = (name.page >> 32) as u32;
        run = match run {
            Some((space, first, count)) if space == name.space && number == first + count => {
                Some((space, first, count + 1))
            }
            other => {
                unmap(back, tables, other);
                Some((name.space, number, 1))
            }
        };
        match parent {
            None => {
                free = match free {
                    Some((first, count)) if frame == first + count => Some((first, count + 1)),
                    other => {
                        if let Some((first, count)) = other {
                            frames.put(first, count);
                        }
                        Some((frame, 1))
                    }
                }
            }
            Some(parent) => {
                if let Some(page) = tables
                    .table(index(parent.space))
                    .and_then(|table| table.page_mut(parent.page))
                {
                    page.children.retain(|child| *child != name);
                }
            }
        }
    }
    unmap(back, tables, run);
    if let Some((first, count)) = free {
        frames.put(first, count);
    }
    removed
}

fn unmap<B: BackEnd>(back: &B, tables: &mut impl Locked<B::Space>, run: Option<(u64, u32, u32)>) {
    if let Some((space, first, count)) = run
        && let Some(table) = tables.table(index(space))
    {
        back.unmap(&table.back, first, count);
    }
}

/// The names of all pages.
pub(super) fn everything<S>(table: &Table<S>) -> Vec<Name> {
    let places = (0_u64..).zip(&table.places);
    let pages = places.filter(|(_, place)| place.page.is_some());
    pages
        .map(|(number, place)| Name {
            space: table.space.0,
            page: number << 32 | u64::from(place.generation),
        })
        .collect()
}

/// The single pages of a mapping.
pub(super) fn pages_of(mapping: Mapping) -> impl Iterator<Item = Name> {
    mapping.names().map(move |page| Name {
        space: mapping.space.0,
        page,
    })
}

/// Which frame a page shows, as the back-end has it.
pub(super) fn frame<B: BackEnd>(back: &B, table: &Table<B::Space>, page: Mapping) -> Option<u32> {
    table.page(page.first)?;
    back.frame_at(&table.back, page.first_page())
}

/// Whether a page is there, mapped or reserved.
pub(super) fn is_there<S>(tables: &mut impl Locked<S>, name: Name) -> bool {
    let table = tables.table(index(name.space));
    table.is_some_and(|table| table.page(name.page).is_some())
}

/// Whether a page is mapped.
pub(super) fn is_live<S>(tables: &mut impl Locked<S>, name: Name) -> bool {
    let table = tables.table(index(name.space));
    let page = table.and_then(|table| table.page(name.page));
    page.is_some_and(|page| page.frame.is_some())
}
