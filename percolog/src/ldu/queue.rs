//! A slot's log: entries that have something to be looked at.

use super::container::Container;
use super::node::{Chain, Due, Swept, Ticket};
use crate::engine::{Absorbed, Limits, Queue};
use core::panic::Location;

/// The published "per-core queue". It holds no operations, only which entries have changed; what is to be
/// done about one is decided when it is looked at.
pub(super) struct Log<T> {
    chain: Chain<T>,
}

impl<T> Log<T> {
    /// Everything of a list before what is here.
    pub(super) fn prepend(&mut self, list: Chain<T>) {
        self.chain.prepend(list);
    }
}

impl<C: Container> Queue<C> for Log<C::Item> {
    type Operation = Ticket<C::Item>;
    type Scratch = ();
    type Swept = Swept<C::Item>;

    /// The order of updates of one entry is that of the changes of its word; no other is kept.
    const STAMPED: bool = false;

    fn new(_limits: Limits) -> Self {
        Self {
            chain: Chain::new(),
        }
    }

    #[inline]
    fn append(
        &mut self,
        ticket: Ticket<C::Item>,
        _stamp: u64,
        _origin: Option<&'static Location<'static>>,
    ) -> Absorbed<Ticket<C::Item>> {
        self.chain.push(ticket);
        Absorbed::Nothing
    }

    /// What came and went since the last merge: the published logs leave it to whoever synchronizes, for whom each such entry is a
    /// line of another core.
    fn sweep(&mut self) -> Swept<C::Item> {
        self.chain.sweep()
    }

    fn len(&self) -> usize {
        self.chain.len()
    }

    /// Entries bring their links along.
    fn memory(&self) -> usize {
        0
    }

    fn apply(queues: &mut [Self], container: &mut C, budget: usize, _scratch: &mut ()) -> usize {
        let mut settled = 0;
        for queue in queues {
            settled += settle(&mut queue.chain, container, budget - settled);
        }
        settled
    }
}

/// Looks at up to `budget` entries of a log, and does to the container what is due. Each entry has left the
/// log before anything is done about it: if that panics, all others stay.
pub(super) fn settle<C: Container>(
    chain: &mut Chain<C::Item>,
    container: &mut C,
    budget: usize,
) -> usize {
    for settled in 0..budget {
        let Some(ticket) = chain.pop() else {
            return settled;
        };
        match ticket.settle() {
            Due::Insert(member) => container.insert(member),
            Due::Keep(entry, record) => container.keep(&entry, entry.node().position(record)),
            Due::Remove(entry, record) => {
                // The entry outlives the member, and is dropped behind it.
                let position = entry.node().position(record);
                drop(container.remove(&entry, position));
            }
            Due::Nothing(entry) => drop(entry),
        }
    }
    budget
}
