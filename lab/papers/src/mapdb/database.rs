//! The database: what gives pages.

use super::back_end::BackEnd;
use super::error::{Lack, MapError, Refused};
use super::frames::Frame;
use super::page::{Name, Page, Pause, State};
use super::removal::Removal;
use super::{MapUnmap, Mapping, Mappings, Space};
use percolog::namespace::{self, Id, InsertReason, Namespace};
use percolog::reclaim::{Domain, Section};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often something is tried that finds no ids: for the first failure to be over, for what it has given back, and for what was
/// waiting with that.
const ATTEMPTS: usize = 3;

/// An address space.
pub(super) struct SpaceNode<'d, B: BackEnd> {
    pub(super) pages: Namespace<'d, Page>,
    pub(super) tables: B::Space,
    /// It is given nothing any more.
    closed: AtomicBool,
}

/// A mapping database without locks on the way to a mapping, and with one in each. See the [module](super).
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`grant`](MapUnmap::grant), [`reserve`](Mappings::reserve) | as [`Namespace::insert`] for one page, [`Namespace::insert_extent`] for several | the same |
/// | [`alias`](Mappings::alias) | blocking, while others alias from the same page | ... and that of each source |
/// | [`release`](MapUnmap::release), [`revoke`](Mappings::revoke) | blocking, while others remove what lies below | that of each mapping that goes, and of its neighbours in its parent's list |
/// | [`terminate`](Mappings::terminate) | blocking, until all sections have ended that are open now | the same |
///
/// And whatever the back-end moves.
///
/// **Memory**: 88 bytes for each page and 24 for each frame, in the namespaces.
pub struct MappingDatabase<'d, B: BackEnd> {
    pub(super) domain: &'d Domain,
    pub(super) spaces: Namespace<'d, SpaceNode<'d, B>>,
    pub(super) frames: Namespace<'d, Frame>,
    pub(super) back_end: B,
    pages: u32,
}

impl<'d, B: BackEnd> MappingDatabase<'d, B> {
    /// A database of the back-end's frames; each address space has so many pages.
    ///
    /// The domain's [grace period](percolog::reclaim::GracePeriod) is when the back-end has forgotten what was unmapped: with [`SoftwareTables`](super::SoftwareTables),
    /// their [`Tlbs`](super::Tlbs). Where unmapping is finished when it returns, a domain needs none.
    #[must_use]
    pub fn new(domain: &'d Domain, back_end: B, pages: u32) -> Self {
        Self {
            domain,
            spaces: Namespace::new(domain),
            frames: namespace::NamespaceBuilder::new()
                .max_ids(back_end.frames())
                .build(domain),
            back_end,
            pages,
        }
    }

    /// No more address spaces than so many.
    #[must_use]
    pub fn max_spaces(mut self, most: u32) -> Self {
        self.spaces = namespace::NamespaceBuilder::new()
            .max_ids(most)
            .build(self.domain);
        self
    }

    /// What the pages are mapped with.
    #[must_use]
    pub fn back_end(&self) -> &B {
        &self.back_end
    }

    /// Does something with what the back-end has for an address space.
    ///
    /// # Errors
    /// If that does not exist (any more).
    ///
    /// The closure runs in a section of the domain: it cannot [terminate](Mappings::terminate) anything.
    pub fn with_space<R>(
        &self,
        space: Space,
        f: impl FnOnce(&B::Space) -> R,
    ) -> Result<R, MapError> {
        let section = self.domain.enter();
        let node = self.space(&section, space)?;
        Ok(f(&node.tables))
    }

    /// Makes everything usable again that nobody can see any more: for moments at which there is time.
    pub fn collect(&self) {
        self.frames.collect();
        self.spaces.collect();
        let section = self.domain.enter();
        for (_, node) in self.spaces.iter(&section) {
            node.pages.collect();
        }
    }

    /// Does something that takes ids, in a section; if there are none, again in a new one: what is removed in a section, as by an
    /// attempt that has failed half-way, can be used when that has ended, and not before.
    fn in_section<R>(
        &self,
        mut attempt: impl FnMut(&Section<'d>) -> Result<R, MapError>,
    ) -> Result<R, MapError> {
        let mut left = ATTEMPTS;
        loop {
            let result = attempt(&self.domain.enter());
            left -= 1;
            match result {
                Err(MapError::Exhausted { .. }) if left > 0 => self.frames.collect(),
                result => return result,
            };
        }
    }

    pub(super) fn space<'s>(
        &'s self,
        section: &'s Section<'_>,
        space: Space,
    ) -> Result<&'s SpaceNode<'d, B>, MapError> {
        Id::from_bits(space.0)
            .and_then(|id| self.spaces.get(section, id).ok())
            .ok_or(MapError::NoSuchSpace)
    }

    /// An address space that can be given something.
    fn open_space<'s>(
        &'s self,
        section: &'s Section<'_>,
        space: Space,
    ) -> Result<&'s SpaceNode<'d, B>, MapError> {
        let node = self.space(section, space)?;
        // Acquire pairs with the Release in `terminate`. It need not be the latest news: who closes a space waits until all
        // sections have ended that may not have heard of it.
        if node.closed.load(Ordering::Acquire) {
            return Err(MapError::NoSuchSpace);
        }
        Ok(node)
    }

    pub(super) fn page<'s>(
        section: &'s Section<'_>,
        node: &'s SpaceNode<'d, B>,
        name: u64,
    ) -> Option<&'s Page> {
        node.pages.get(section, Id::from_bits(name)?).ok()
    }

    /// What a link leads to, which is there for as long as the link is.
    pub(super) fn follow<'s>(
        &'s self,
        section: &'s Section<'_>,
        name: Name,
    ) -> Option<(&'s SpaceNode<'d, B>, &'s Page)> {
        let node = self.space(section, Space(name.space)).ok()?;
        Some((node, Self::page(section, node, name.page)?))
    }

    /// Addresses beside each other.
    fn addresses(
        node: &SpaceNode<'d, B>,
        space: Space,
        pages: u32,
        state: State,
    ) -> Result<Mapping, MapError> {
        let lack = |reason: &InsertReason| MapError::Exhausted {
            what: Lack::Addresses,
            why: reason.to_string(),
        };
        let first = match pages {
            0 => return Err(MapError::Length { pages }),
            1 => {
                let inserted = node.pages.insert(Page::new(state));
                inserted.map_err(|exhausted| lack(&exhausted.reason))?
            }
            _ => {
                let inserted = node.pages.insert_extent(pages, |_| Page::new(state));
                inserted.map_err(|reason| lack(&reason))?.first()
            }
        };
        Ok(Mapping {
            space,
            first: first.to_bits(),
            pages,
        })
    }

    /// The pages of a mapping that belongs to the caller, in order: all of them are there.
    fn own<'s>(
        section: &'s Section<'_>,
        node: &'s SpaceNode<'d, B>,
        mapping: Mapping,
    ) -> impl Iterator<Item = (u64, &'s Page)> {
        let pages = mapping.names();
        pages.filter_map(|name| Some((name, Self::page(section, node, name)?)))
    }

    /// What a filling has come to: the pages are live, or gone. From here on, others can take them away.
    fn filled(
        &self,
        section: &Section<'_>,
        node: &SpaceNode<'d, B>,
        mapping: Mapping,
        result: Result<(), MapError>,
    ) -> Result<(), MapError> {
        let state = match result {
            Ok(()) => State::Live,
            Err(_) => State::Failed,
        };
        for (_, page) in Self::own(section, node, mapping) {
            page.set_state(state);
        }
        if result.is_err() {
            // A page that is in its parent's list can have been taken away by now.
            let _ = Removal::new(self, section).release(node, mapping);
        }
        result
    }

    /// Takes frames for pages that are being filled, as many beside each other as there are, and maps them.
    fn fill_with_frames(
        &self,
        section: &Section<'_>,
        node: &SpaceNode<'d, B>,
        mapping: Mapping,
    ) -> Result<(), MapError> {
        let mut filled = 0;
        let mut at_once = mapping.pages;
        while filled < mapping.pages {
            let count = at_once.min(mapping.pages - filled);
            let taken = match count {
                1 => match self.frames.insert(Frame::default()) {
                    Ok(first) => Ok(first),
                    Err(exhausted) => Err(exhausted.reason),
                },
                _ => self
                    .frames
                    .insert_extent(count, |_| Frame::default())
                    .map(namespace::Extent::first),
            };
            let first = match taken {
                Ok(first) => first,
                // There may be as many that do not lie beside each other.
                Err(_) if count > 1 => {
                    at_once = count / 2;
                    continue;
                }
                Err(reason) => {
                    return Err(MapError::Exhausted {
                        what: Lack::Frames,
                        why: reason.to_string(),
                    });
                }
            };
            let part = Mapping {
                first: mapping.first + (u64::from(filled) << 32),
                pages: count,
                ..mapping
            };
            if let Err(refused) = self.map_frames(section, node, part, first) {
                for frame in member_ids(first, count) {
                    let _ = self.frames.remove(frame);
                }
                return Err(refused.into());
            }
            filled += count;
        }
        Ok(())
    }

    fn map_frames(
        &self,
        section: &Section<'_>,
        node: &SpaceNode<'d, B>,
        mapping: Mapping,
        first: Id<Frame>,
    ) -> Result<(), Refused> {
        let Self {
            back_end, frames, ..
        } = self;
        // A frame that is used for the first time is full of zeros. (All members of an extent have the generation of the one that has
        // been used most.)
        if first.generation() > 1 {
            back_end.clear(first.index(), mapping.pages)?;
        }
        let page = mapping.first_page();
        back_end.map(&node.tables, page, first.index(), mapping.pages)?;
        let pages = Self::own(section, node, mapping);
        for ((name, page), id) in pages.zip(member_ids(first, mapping.pages)) {
            page.set_frame(id.to_bits());
            if let Ok(frame) = frames.get(section, id) {
                frame.owner.set(Some(Name {
                    space: mapping.space.0,
                    page: name,
                }));
            }
        }
        Ok(())
    }

    /// Fills pages with what the others show.
    fn fill_with_aliases(
        &self,
        section: &Section<'_>,
        from: Mapping,
        node: &SpaceNode<'d, B>,
        to: Mapping,
    ) -> Result<(), MapError> {
        let linked = self.link_all(section, from, node, to);
        if linked.is_err() {
            // What was not mapped is not to be unmapped.
            for (_, page) in Self::own(section, node, to) {
                page.set_frame(0);
            }
        }
        linked?;
        Ok(self.map_aliases(section, node, to)?)
    }

    fn link_all(
        &self,
        section: &Section<'_>,
        from: Mapping,
        node: &SpaceNode<'d, B>,
        to: Mapping,
    ) -> Result<(), MapError> {
        let source = self.open_space(section, from.space)?;
        let pages = Self::own(section, node, to);
        for (offset, (name, (own, page))) in (0..).zip(from.names().zip(pages)) {
            let parent = Self::page(section, source, name).ok_or(MapError::NotMapped { offset })?;
            let own = Name {
                space: to.space.0,
                page: own,
            };
            let name = Name {
                space: from.space.0,
                page: name,
            };
            self.link(section, (name, parent), (own, page), offset)?;
        }
        Ok(())
    }

    /// Makes a page that is being filled a child.
    fn link(
        &self,
        section: &Section<'_>,
        (parent_name, parent): (Name, &Page),
        (name, page): (Name, &Page),
        offset: u32,
    ) -> Result<(), MapError> {
        let guard = parent.lock().ok_or(MapError::Revoked { offset })?;
        if parent.state() != State::Live || parent.frame() == 0 {
            return Err(MapError::NotMapped { offset });
        }
        page.set_frame(parent.frame());
        page.parent.set(Some(parent_name));
        let next = parent.first_child.get();
        page.next.set(next);
        if let Some((_, next)) = next.and_then(|next| self.follow(section, next)) {
            next.before.set(Some(name));
        }
        parent.first_child.set(Some(name));
        drop(guard);
        Ok(())
    }

    /// Maps what pages have been given frames for, neighbours at once.
    fn map_aliases(
        &self,
        section: &Section<'_>,
        node: &SpaceNode<'d, B>,
        to: Mapping,
    ) -> Result<(), Refused> {
        let mut run: Option<(u32, u32, u32)> = None;
        let mut mapped = 0;
        let mut map = |(page, frame, count): (u32, u32, u32)| {
            self.back_end.map(&node.tables, page, frame, count)?;
            mapped += count;
            Ok(())
        };
        let result = (|| {
            for (name, page) in Self::own(section, node, to) {
                let index = (name >> 32) as u32;
                let frame = (page.frame() >> 32) as u32;
                run = match run {
                    Some((first, base, count)) if frame == base + count => {
                        Some((first, base, count + 1))
                    }
                    other => {
                        other.map_or(Ok(()), &mut map)?;
                        Some((index, frame, 1))
                    }
                };
            }
            run.map_or(Ok(()), &mut map)
        })();
        if result.is_err() {
            // What was not mapped is not to be unmapped.
            for (_, page) in Self::own(section, node, to).skip(mapped as usize) {
                page.set_frame(0);
            }
        }
        result
    }
}

/// The ids of an extent's members.
fn member_ids<T>(first: Id<T>, count: u32) -> impl Iterator<Item = Id<T>> {
    (0..u64::from(count)).filter_map(move |offset| Id::from_bits(first.to_bits() + (offset << 32)))
}

impl<B: BackEnd> MapUnmap for MappingDatabase<'_, B> {
    fn create(&self) -> Result<Space, MapError> {
        let node = SpaceNode {
            pages: namespace::NamespaceBuilder::new()
                .max_ids(self.pages)
                .build(self.domain),
            tables: self.back_end.create(self.pages)?,
            closed: AtomicBool::new(false),
        };
        match self.spaces.insert(node) {
            Ok(id) => Ok(Space(id.to_bits())),
            Err(exhausted) => Err(MapError::Exhausted {
                what: Lack::Spaces,
                why: exhausted.reason.to_string(),
            }),
        }
    }

    fn grant(&self, space: Space, pages: u32) -> Result<Mapping, MapError> {
        self.in_section(|section| {
            let node = self.open_space(section, space)?;
            let mapping = Self::addresses(node, space, pages, State::Filling)?;
            let result = self.fill_with_frames(section, node, mapping);
            self.filled(section, node, mapping, result)?;
            Ok(mapping)
        })
    }

    fn release(&self, mapping: Mapping) -> Result<u64, MapError> {
        let section = self.domain.enter();
        let node = self.space(&section, mapping.space)?;
        Removal::new(self, &section).release(node, mapping)
    }
}

impl<B: BackEnd> Mappings for MappingDatabase<'_, B> {
    fn reserve(&self, space: Space, pages: u32) -> Result<Mapping, MapError> {
        self.in_section(|section| {
            let node = self.open_space(section, space)?;
            Self::addresses(node, space, pages, State::Reserved)
        })
    }

    fn alias(&self, from: Mapping, to: Space) -> Result<Mapping, MapError> {
        self.in_section(|section| {
            let node = self.open_space(section, to)?;
            let mapping = Self::addresses(node, to, from.pages, State::Filling)?;
            let result = self.fill_with_aliases(section, from, node, mapping);
            self.filled(section, node, mapping, result)?;
            Ok(mapping)
        })
    }

    fn alias_into(&self, from: Mapping, to: Mapping) -> Result<(), MapError> {
        if from.pages != to.pages {
            return Err(MapError::Length { pages: to.pages });
        }
        let section = self.domain.enter();
        let node = self.open_space(&section, to.space)?;
        for (offset, name) in (0..).zip(to.names()) {
            let claimed = Self::page(&section, node, name).is_some_and(|page| {
                let guard = page.lock();
                let is_ours = guard.is_some() && page.state() == State::Reserved;
                if is_ours {
                    page.set_state(State::Filling);
                }
                is_ours
            });
            if !claimed {
                // Those before are ours, and have not been used yet.
                for (_, page) in Self::own(&section, node, to).take(offset as usize) {
                    page.set_state(State::Reserved);
                }
                return Err(MapError::NotMapped { offset });
            }
        }
        let result = self.fill_with_aliases(&section, from, node, to);
        self.filled(&section, node, to, result)
    }

    fn revoke(&self, mapping: Mapping) -> Result<u64, MapError> {
        let section = self.domain.enter();
        let node = self.space(&section, mapping.space)?;
        Removal::new(self, &section).revoke(node, mapping)
    }

    fn terminate(&self, space: Space) -> Result<u64, MapError> {
        {
            let section = self.domain.enter();
            let node = self.space(&section, space)?;
            // Release pairs with the Acquire in `open_space`. One closes it.
            if node.closed.swap(true, Ordering::AcqRel) {
                return Err(MapError::NoSuchSpace);
            }
        }
        // Whoever is still giving it something is in a section.
        self.domain.synchronize();
        let section = self.domain.enter();
        let node = self.space(&section, space)?;
        let mut removal = Removal::new(self, &section);
        let removed = removal.release_all(node, space);
        // Others may be in the middle of taking away some of its pages, and need its name for that.
        let mut pause = Pause::default();
        while !node.pages.is_empty() {
            pause.wait();
        }
        if let Some(id) = Id::from_bits(space.0) {
            let _ = self.spaces.remove(id);
        }
        Ok(removed)
    }

    fn frame(&self, mapping: Mapping, offset: u32) -> Option<u32> {
        let section = self.domain.enter();
        let node = self.space(&section, mapping.space).ok()?;
        let page = mapping.part(offset..offset.checked_add(1)?)?;
        Self::page(&section, node, page.first)?;
        self.back_end.frame_at(&node.tables, page.first_page())
    }
}

impl<B: BackEnd> fmt::Debug for MappingDatabase<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappingDatabase")
            .field("spaces", &self.spaces.len())
            .field("frames", &self.frames.len())
            .finish_non_exhaustive()
    }
}
