//! A list whose elements are numbers, with nodes of its own: what a log is put around whose entries are to be small.
//!
//! An operation says which element it means with a number, and nothing else: no memory of the thread that adds goes to the one that
//! merges, and the nodes stay with those who merge. Linked in both directions, so that removing visits no other element but the
//! neighbours.

/// An element: a small number.
pub type Element = u32;

/// The neighbours of an element, or of the list's ends.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    before: Element,
    behind: Element,
}

/// A list without any order; each element is in it once at most.
#[derive(Debug)]
pub struct NumberedList {
    /// By number; one more at the end, which is before the first element and behind the last. An element that is not in the list has
    /// itself as its neighbours.
    links: Vec<Neighbours>,
}

impl NumberedList {
    /// An empty list for elements below `elements`.
    #[must_use]
    pub fn new(elements: Element) -> Self {
        let alone = |element| Neighbours {
            before: element,
            behind: element,
        };
        Self {
            links: (0..=elements).map(alone).collect(),
        }
    }

    /// Where the list begins and ends.
    fn ends(&self) -> Element {
        (self.links.len() - 1) as Element
    }

    /// Puts an element in front of the others. Says whether it was not there.
    pub fn add(&mut self, element: Element) -> bool {
        let ends = self.ends();
        let at = element as usize;
        if self.links[at].behind != element {
            return false;
        }
        let first = self.links[ends as usize].behind;
        self.links[at] = Neighbours {
            before: ends,
            behind: first,
        };
        self.links[first as usize].before = element;
        self.links[ends as usize].behind = element;
        true
    }

    /// Takes an element out. Says whether it was there.
    pub fn remove(&mut self, element: Element) -> bool {
        let Neighbours { before, behind } = self.links[element as usize];
        if behind == element {
            return false;
        }
        self.links[before as usize].behind = behind;
        self.links[behind as usize].before = before;
        self.links[element as usize] = Neighbours {
            before: element,
            behind: element,
        };
        true
    }

    /// The elements, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = Element> {
        let ends = self.ends();
        let next = move |element: Element| self.links[element as usize].behind;
        std::iter::successors(Some(next(ends)), move |element| Some(next(*element)))
            .take_while(move |element| *element != ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_and_go() {
        let mut list = NumberedList::new(5);
        assert_eq!(list.iter().next(), None);
        assert!((0..5).all(|element| list.add(element)));
        assert!(!list.add(3));
        assert!(list.iter().eq([4, 3, 2, 1, 0]));
        // One in the middle, the first and the last.
        assert!([2, 4, 0].into_iter().all(|element| list.remove(element)));
        assert!(!list.remove(2));
        assert!(list.iter().eq([3, 1]));
        assert!(list.add(2) && list.iter().eq([2, 3, 1]));
        assert!([1, 2, 3].into_iter().all(|element| list.remove(element)));
        assert_eq!(list.iter().next(), None);
    }
}
