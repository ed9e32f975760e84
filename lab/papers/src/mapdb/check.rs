//! Looking whether everything fits together.

use super::back_end::BackEnd;
use super::database::MappingDatabase;
use super::page::{Name, State};
use std::collections::HashSet;

/// What a database has, which [fits together](MappingDatabase::check).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// Address spaces.
    pub spaces: usize,
    /// Frames that are mapped.
    pub frames: usize,
    /// Pages that show one.
    pub pages: usize,
    /// Pages that are reserved.
    pub reserved: usize,
}

impl<B: BackEnd> MappingDatabase<'_, B> {
    /// Looks whether everything fits together, if nobody changes anything meanwhile.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<Check, String> {
        let section = self.domain.enter();
        let mut check = Check::default();
        // From the roots: every tree, each page once.
        let mut reached = HashSet::new();
        for (id, frame) in self.frames.iter(&section) {
            check.frames += 1;
            let owner = frame
                .owner
                .get()
                .ok_or_else(|| format!("{id:?} has no owner"))?;
            let mut found = vec![(owner, None)];
            while let Some((name, parent)) = found.pop() {
                if !reached.insert(name) {
                    return Err(format!("{name:?} is in the trees twice"));
                }
                let (_, page) = self
                    .follow(&section, name)
                    .ok_or_else(|| format!("{name:?} is in a tree and not there"))?;
                if page.parent.get() != parent {
                    return Err(format!("{name:?} has another parent than {parent:?}"));
                }
                if page.frame() != id.to_bits() {
                    return Err(format!("{name:?} has another frame than its parent"));
                }
                let (mut before, mut next) = (None, page.first_child.get());
                while let Some(child) = next {
                    found.push((child, Some(name)));
                    let (_, page) = self
                        .follow(&section, child)
                        .ok_or_else(|| format!("{child:?} is in a list and not there"))?;
                    if page.before.get() != before {
                        return Err(format!("{child:?} does not know what is before it"));
                    }
                    (before, next) = (Some(child), page.next.get());
                }
            }
        }
        // From the address spaces: nothing else is there, and the back-end agrees.
        for (id, node) in self.spaces.iter(&section) {
            check.spaces += 1;
            for (page_id, page) in node.pages.iter(&section) {
                let name = Name {
                    space: id.to_bits(),
                    page: page_id.to_bits(),
                };
                let shown = self.back_end.frame_at(&node.tables, page_id.index());
                match page.state() {
                    State::Reserved if shown.is_none() => check.reserved += 1,
                    State::Live
                        if reached.contains(&name)
                            && !page.lock.is_freed()
                            && shown == Some((page.frame() >> 32) as u32) =>
                    {
                        check.pages += 1;
                    }
                    state => {
                        return Err(format!(
                            "{name:?} is {state:?}, freed: {}, in a tree: {}; of frame {:x} it shows {shown:?}",
                            page.lock.is_freed(),
                            reached.contains(&name),
                            page.frame(),
                        ));
                    }
                }
            }
        }
        if check.pages == reached.len() {
            Ok(check)
        } else {
            Err("a tree has pages of address spaces that do not exist".into())
        }
    }
}
