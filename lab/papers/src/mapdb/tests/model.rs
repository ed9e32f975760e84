//! What a mapping database should do, as plainly as can be: a list of all pages there have ever been.

/// Pages in a row, by their numbers.
pub(super) type Pages = Vec<usize>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Now {
    Reserved,
    Mapped,
    Gone,
}

#[derive(Debug)]
struct Page {
    space: usize,
    now: Now,
    parent: Option<usize>,
    /// The page that was granted.
    root: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Whether each is there.
    spaces: Vec<bool>,
    pages: Vec<Page>,
}

impl Model {
    pub(super) fn create(&mut self) -> usize {
        self.spaces.push(true);
        self.spaces.len() - 1
    }

    fn fresh(&mut self, space: usize, count: u32, now: Now) -> Option<Pages> {
        if !self.spaces[space] || count == 0 {
            return None;
        }
        let first = self.pages.len();
        for number in first..first + count as usize {
            self.pages.push(Page {
                space,
                now,
                parent: None,
                root: number,
            });
        }
        Some((first..self.pages.len()).collect())
    }

    pub(super) fn grant(&mut self, space: usize, count: u32) -> Option<Pages> {
        self.fresh(space, count, Now::Mapped)
    }

    pub(super) fn reserve(&mut self, space: usize, count: u32) -> Option<Pages> {
        self.fresh(space, count, Now::Reserved)
    }

    fn can_be_aliased(&self, from: &[usize]) -> bool {
        from.iter().all(|page| self.pages[*page].now == Now::Mapped)
    }

    pub(super) fn alias(&mut self, from: &[usize], to: usize) -> Option<Pages> {
        if !self.can_be_aliased(from) {
            return None;
        }
        let pages = self.reserve(to, from.len() as u32)?;
        self.connect(from, &pages);
        Some(pages)
    }

    pub(super) fn alias_into(&mut self, from: &[usize], to: &[usize]) -> Option<()> {
        let is_reserved = |page: &usize| self.pages[*page].now == Now::Reserved;
        if from.len() != to.len() || !to.iter().all(is_reserved) {
            return None;
        }
        if !self.can_be_aliased(from) {
            for page in to {
                self.pages[*page].now = Now::Gone;
            }
            return None;
        }
        self.connect(from, to);
        Some(())
    }

    fn connect(&mut self, from: &[usize], to: &[usize]) {
        for (parent, page) in from.iter().zip(to) {
            let root = self.pages[*parent].root;
            let page = &mut self.pages[*page];
            (page.now, page.parent, page.root) = (Now::Mapped, Some(*parent), root);
        }
    }

    /// Takes away what is below a page.
    fn revoke_one(&mut self, page: usize) -> u64 {
        let below = (0..self.pages.len()).filter(|child| self.pages[*child].parent == Some(page));
        let below: Vec<usize> = below.collect();
        below.into_iter().map(|child| self.release_one(child)).sum()
    }

    fn release_one(&mut self, page: usize) -> u64 {
        let removed = self.revoke_one(page);
        let now = std::mem::replace(&mut self.pages[page].now, Now::Gone);
        removed + u64::from(now == Now::Mapped)
    }

    pub(super) fn revoke(&mut self, pages: &[usize]) -> Option<u64> {
        let there = |page: &&usize| self.pages[**page].now == Now::Mapped;
        let there: Pages = pages.iter().filter(there).copied().collect();
        let removed = there.iter().map(|page| self.revoke_one(*page)).sum();
        (!there.is_empty()).then_some(removed)
    }

    pub(super) fn release(&mut self, pages: &[usize]) -> Option<u64> {
        let there = |page: &&usize| self.pages[**page].now != Now::Gone;
        let there: Pages = pages.iter().filter(there).copied().collect();
        let removed = there.iter().map(|page| self.release_one(*page)).sum();
        (!there.is_empty()).then_some(removed)
    }

    pub(super) fn terminate(&mut self, space: usize) -> Option<u64> {
        if !std::mem::replace(&mut self.spaces[space], false) {
            return None;
        }
        let own = (0..self.pages.len()).filter(|page| self.pages[*page].space == space);
        let own: Pages = own.collect();
        Some(own.into_iter().map(|page| self.release_one(page)).sum())
    }

    /// The granted page that a page shows the frame of, if it shows one.
    pub(super) fn root(&self, page: usize) -> Option<usize> {
        let page = &self.pages[page];
        (page.now == Now::Mapped).then_some(page.root)
    }
}
