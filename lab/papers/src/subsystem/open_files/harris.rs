//! The list as Harris' lock-free list.

use super::table::sorted;
use crate::subsystem::harris_list::{List, Node};
use crate::subsystem::{Entry, SharedObject};
use crossbeam_epoch::{Owned, pin};

/// A lock-free list of open files.
///
/// Opening and closing are linearizable; a walk meets what is there all the time, and what comes or goes
/// meanwhile or not. Opening is one exchange at the head; closing walks over the files that were opened later.
#[derive(Debug, Default)]
pub struct Harris {
    files: List<Entry>,
}

impl SharedObject for Harris {
    /// The node: in a kernel, a part of the open file's own memory.
    type Arrival = Owned<Node<Entry>>;
    type Departure = u32;
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Self::Arrival, u32) {
        (List::node(file.identity, file), file.identity)
    }

    fn enter(&self, file: Self::Arrival) {
        self.files.push(file);
    }

    fn leave(&self, identity: u32) {
        self.files.remove(identity);
    }

    fn read(&self, _: u64) -> Vec<Entry> {
        self.view()
    }

    fn view(&self) -> Vec<Entry> {
        let guard = pin();
        sorted(self.files.iter(&guard).map(|node| *node.value()))
    }

    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }
}
