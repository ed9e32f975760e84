//! The way of pages out of the database.
//!
//! Whoever condemns a page is its *remover*. A removal has some pages at the top, and what lies below them; where it comes to a page that
//! somebody else has condemned, it leaves that to him, and waits at the end until it is gone. Page for page:
//!
//! 1. *Condemn*: release its lock as freed. From here on nobody can become its child, and the list of its children is its remover's.
//! 2. Do the same with its children.
//! 3. *Unmap* it.
//! 4. When all that is below it is gone, *remove its name*. A page at the top first leaves its parent's list, under the parent's lock. If
//!    the parent was condemned meanwhile, that list is another remover's, who waits for this page: he is told that it is *done*, and
//!    removes its name.
//!
//! Last, when all its own pages are gone and nobody waits for it any more, a removal waits for those pages that it was to take away
//! and that others had condemned before.
//!
//! Why nobody waits in a circle: waiting for pages of others, a removal waits only for their being done, and holds nothing up that does not lie above
//! them; each of its own pages at the top goes as soon as all below is gone, whatever the others wait for. A page that is being filled
//! is waited for at any time: who fills it waits for no removal.

use super::back_end::BackEnd;
use super::database::{MappingDatabase, SpaceNode};
use super::error::MapError;
use super::page::{Name, Page, Pause, State};
use super::{Mapping, Space};
use percolog::namespace::Id;
use percolog::reclaim::Section;

/// One call's pages that are to go.
pub(super) struct Removal<'s, 'd, B: BackEnd> {
    database: &'s MappingDatabase<'d, B>,
    section: &'s Section<'s>,
    /// All that this removal has condemned: those at the top, and then what is below, parents before children.
    condemned: Vec<Condemned<'s, 'd, B>>,
    tops: Vec<Top>,
    /// Pages below that others have condemned.
    foreign: Vec<Foreign<'s, 'd, B>>,
    /// Pages that were to be at the top, and that others had condemned before. They take them out of lists that they need a lock for,
    /// which this removal has not got.
    others: Vec<(&'s SpaceNode<'d, B>, u64)>,
}

struct Condemned<'s, 'd, B: BackEnd> {
    name: Name,
    node: &'s SpaceNode<'d, B>,
    page: &'s Page,
    /// Which one it is below of, or is.
    top: usize,
    /// The one below the same top that was condemned before it.
    previous: Option<usize>,
}

/// A page at the top.
#[derive(Clone, Copy, Default)]
struct Top {
    /// For how many pages of others it waits.
    waits: usize,
    /// The one below it that was condemned last.
    last: Option<usize>,
}

/// A page that another removal is to bring to an end.
struct Foreign<'s, 'd, B: BackEnd> {
    name: u64,
    node: &'s SpaceNode<'d, B>,
    page: &'s Page,
    top: usize,
}

impl<'s, 'd, B: BackEnd> Removal<'s, 'd, B> {
    pub(super) fn new(database: &'s MappingDatabase<'d, B>, section: &'s Section<'_>) -> Self {
        Self {
            database,
            section,
            condemned: Vec::new(),
            tops: Vec::new(),
            foreign: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Takes away pages and all that is below them.
    pub(super) fn release(
        &mut self,
        node: &'s SpaceNode<'d, B>,
        mapping: Mapping,
    ) -> Result<u64, MapError> {
        let mut revoked = None;
        for (offset, name) in (0..).zip(mapping.names()) {
            let Some(page) = MappingDatabase::page(self.section, node, name) else {
                continue;
            };
            let name = Name {
                space: mapping.space.0,
                page: name,
            };
            if !self.condemn_top(name, node, page) {
                revoked = revoked.or(Some(MapError::Revoked { offset }));
            }
        }
        if self.tops.is_empty() {
            return Err(revoked.unwrap_or(MapError::NotMapped { offset: 0 }));
        }
        let removed = self.carry_out();
        self.wait_for_names();
        Ok(removed)
    }

    /// Takes away everything in an address space that is given nothing any more.
    pub(super) fn release_all(&mut self, node: &'s SpaceNode<'d, B>, space: Space) -> u64 {
        for (id, page) in node.pages.iter(self.section) {
            let name = Name {
                space: space.0,
                page: id.to_bits(),
            };
            self.condemn_top(name, node, page);
        }
        self.carry_out()
    }

    /// Takes away all that is below pages.
    pub(super) fn revoke(
        &mut self,
        node: &'s SpaceNode<'d, B>,
        mapping: Mapping,
    ) -> Result<u64, MapError> {
        let mut revoked = None;
        let mut found = false;
        let mut children = Vec::new();
        for (offset, name) in (0..).zip(mapping.names()) {
            let Some(page) = MappingDatabase::page(self.section, node, name) else {
                continue;
            };
            let Some(guard) = page.lock() else {
                revoked = revoked.or(Some(MapError::Revoked { offset }));
                self.others.push((node, name));
                continue;
            };
            if page.state() == State::Live {
                found = true;
                self.list(page, &mut children);
            }
            drop(guard);
        }
        if !found {
            return Err(revoked.unwrap_or(MapError::NotMapped { offset: 0 }));
        }
        for name in children {
            if let Some((node, page)) = self.database.follow(self.section, name) {
                self.condemn_top(name, node, page);
            }
        }
        let removed = self.carry_out();
        self.wait_for_names();
        Ok(removed)
    }

    /// The children of a page, whose list nobody changes meanwhile.
    fn list(&self, page: &Page, children: &mut Vec<Name>) {
        let mut next = page.first_child.get();
        while let Some(name) = next {
            children.push(name);
            next = match self.database.follow(self.section, name) {
                Some((_, child)) => child.next.get(),
                None => None,
            };
        }
    }

    /// Condemns a page, unless somebody else has; when it has been filled, if it is just being so.
    fn condemn(page: &Page) -> bool {
        let mut pause = Pause::default();
        while let Some(guard) = page.lock() {
            // Under its lock no page begins to be filled.
            if page.state() != State::Filling {
                let _ = guard.release_as_freed();
                return true;
            }
            drop(guard);
            // Who fills a page waits for nothing but locks and the back-end.
            pause.wait();
        }
        false
    }

    /// Says whether it is this removal that has condemned it.
    fn condemn_top(&mut self, name: Name, node: &'s SpaceNode<'d, B>, page: &'s Page) -> bool {
        let is_ours = Self::condemn(page);
        if is_ours {
            self.condemned.push(Condemned {
                name,
                node,
                page,
                top: self.tops.len(),
                previous: None,
            });
            self.tops.push(Top::default());
        } else {
            self.others.push((node, name.page));
        }
        is_ours
    }

    /// Says how many mappings went.
    fn carry_out(&mut self) -> u64 {
        self.descend();
        self.unmap();
        for top in 0..self.tops.len() {
            if self.tops[top].waits == 0 {
                self.remove_top(top);
            }
        }
        self.wait_for_others();
        let mapped = self.condemned.iter().filter(|own| own.page.frame() != 0);
        mapped.count() as u64
    }

    /// Condemns all that is below.
    fn descend(&mut self) {
        let mut at = 0;
        let mut children = Vec::new();
        while let Some(&Condemned { page, top, .. }) = self.condemned.get(at) {
            self.list(page, &mut children);
            for name in children.drain(..) {
                let Some((node, page)) = self.database.follow(self.section, name) else {
                    continue;
                };
                if Self::condemn(page) {
                    let last = self.tops[top].last.replace(self.condemned.len());
                    self.condemned.push(Condemned {
                        name,
                        node,
                        page,
                        top,
                        previous: last,
                    });
                } else {
                    self.tops[top].waits += 1;
                    self.foreign.push(Foreign {
                        name: name.page,
                        node,
                        page,
                        top,
                    });
                }
            }
            at += 1;
        }
    }

    /// Neighbours at once.
    fn unmap(&self) {
        let mut run: Option<(&SpaceNode<'d, B>, u32, u32)> = None;
        let unmap = |(node, first, count): (&SpaceNode<'d, B>, u32, u32)| {
            self.database.back_end.unmap(&node.tables, first, count);
        };
        for own in self.condemned.iter().filter(|own| own.page.frame() != 0) {
            let index = (own.name.page >> 32) as u32;
            run = match run {
                Some((node, first, count))
                    if std::ptr::eq(node, own.node) && index == first + count =>
                {
                    Some((node, first, count + 1))
                }
                other => {
                    other.map(unmap);
                    Some((own.node, index, 1))
                }
            };
        }
        run.map(unmap);
    }

    /// Everything below this page is gone but for names.
    fn remove_top(&self, top: usize) {
        // Children before their parents.
        let mut last = self.tops[top].last;
        while let Some(at) = last {
            let own = &self.condemned[at];
            remove_name(own.node, own.name.page);
            last = own.previous;
        }
        // Those at the top stand first, each with its own number.
        let Condemned {
            name, node, page, ..
        } = self.condemned[top];
        let Some(parent) = page.parent.get() else {
            if let Some(frame) = Id::from_bits(page.frame()) {
                let _ = self.database.frames.remove(frame);
            }
            remove_name(node, name.page);
            return;
        };
        // It is there: whoever condemns it waits for this page.
        let Some((_, parent)) = self.database.follow(self.section, parent) else {
            return;
        };
        let Some(guard) = parent.lock() else {
            page.set_done();
            return;
        };
        let (before, next) = (page.before.get(), page.next.get());
        match before.and_then(|before| self.database.follow(self.section, before)) {
            Some((_, before)) => before.next.set(next),
            None => parent.first_child.set(next),
        }
        if let Some((_, next)) = next.and_then(|next| self.database.follow(self.section, next)) {
            next.before.set(before);
        }
        drop(guard);
        remove_name(node, name.page);
    }

    /// Until all is gone that others have condemned below.
    fn wait_for_others(&mut self) {
        let mut pause = Pause::default();
        while !self.foreign.is_empty() {
            let mut at = 0;
            while let Some(foreign) = self.foreign.get(at) {
                if !foreign.page.is_done() {
                    at += 1;
                    continue;
                }
                let Foreign {
                    name, node, top, ..
                } = self.foreign.swap_remove(at);
                remove_name(node, name);
                self.tops[top].waits -= 1;
                if self.tops[top].waits == 0 {
                    self.remove_top(top);
                }
            }
            pause.wait();
        }
    }

    /// Until those are gone that others have condemned instead of this removal: all below them has gone before them.
    fn wait_for_names(&mut self) {
        let mut pause = Pause::default();
        for (node, name) in self.others.drain(..) {
            while MappingDatabase::page(self.section, node, name).is_some() {
                pause.wait();
            }
        }
    }
}

/// From here on the name names nothing; its address is used again when nobody can see what was there.
fn remove_name<B: BackEnd>(node: &SpaceNode<'_, B>, name: u64) {
    if let Some(id) = Id::from_bits(name) {
        // Only its remover removes it.
        let _ = node.pages.remove(id);
    }
}
