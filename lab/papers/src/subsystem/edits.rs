//! What is queued to a plain structure that keeps entries: that one comes, that one goes.

use super::{Entry, Key};
use percolog::oplog::Operation;

/// A structure that knows nothing of threads and keeps entries.
pub(super) trait Plain {
    /// An entry comes.
    fn enter(&mut self, entry: Entry);

    /// The entry under `key` goes, if it is there.
    fn leave(&mut self, key: Key);
}

/// One half of an entry's life.
#[derive(Debug)]
pub(super) enum Edit {
    Enter(Entry),
    Leave(Key),
}

impl<S: Plain> Operation<S> for Edit {
    fn exec(self, plain: &mut S) {
        match self {
            Edit::Enter(entry) => plain.enter(entry),
            Edit::Leave(key) => plain.leave(key),
        }
    }
}
