//! The map as Harris' lock-free list, as the thesis has it in section 4.1.

use super::ReverseMap;
use super::cut::Cuttable;
use crate::subsystem::Entry;
use crate::subsystem::harris_list::{List, Node};
use crossbeam_epoch::{Owned, pin};

/// A lock-free list of mappings.
///
/// *Guarantees.* As those of the [skip list](super::LockFree), read with "from the mapping that came last to the one
/// that came first" for "from the lowest offset to the highest".
///
/// *Cost.* Adding is one exchange at the head. Removing walks over the mappings that came later; `truncate` and
/// `at` walk over all. The answers are sorted when they are complete.
#[derive(Debug, Default)]
pub struct Harris {
    list: List<Cuttable>,
}

impl Harris {
    fn select(&self, mut take: impl FnMut(&Cuttable) -> bool) -> Vec<Entry> {
        let guard = pin();
        let mut found: Vec<Entry> = self
            .list
            .iter(&guard)
            .map(Node::value)
            .filter(|mapping| take(mapping))
            .map(Cuttable::now)
            .collect();
        found.sort_unstable();
        found
    }
}

impl ReverseMap for Harris {
    /// The node: in a kernel, a part of the mapping's own memory.
    type Addition = Owned<Node<Cuttable>>;
    type Removal = u32;

    fn identity(mapping: Entry) -> (Self::Addition, u32) {
        let node = List::node(mapping.identity, Cuttable::new(mapping));
        (node, mapping.identity)
    }

    fn add(&self, node: Self::Addition) {
        if !node.value().is_empty() {
            self.list.push(node);
        }
    }

    fn remove(&self, identity: u32) {
        self.list.remove(identity);
    }

    fn truncate(&self, length: u64) -> Vec<Entry> {
        let guard = pin();
        let mut cut = Vec::new();
        let mut marked = false;
        for node in self.list.iter(&guard) {
            let mapping = node.value();
            if !mapping.begins_beyond(length) {
                cut.extend(mapping.cut(length));
            } else if node.mark(&guard) {
                marked = true;
                cut.push(mapping.now());
            }
        }
        if marked {
            self.list.sweep(&guard);
        }
        cut.sort_unstable();
        cut
    }

    fn at(&self, offset: u64) -> Vec<Entry> {
        self.select(|mapping| mapping.has(offset))
    }

    fn mappings(&self) -> Vec<Entry> {
        self.select(|_| true)
    }
}
