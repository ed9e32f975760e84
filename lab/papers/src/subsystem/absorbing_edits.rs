//! [Edits](super::edits) of which the two halves of a life can cancel each other in a log.
//!
//! They carry the two tokens of an identity, which cannot be copied: an entry comes once and goes at most
//! once, so cancelling is always right.

use super::edits::Plain;
use super::{Entry, Key};
use percolog::oplog::{Absorb, AddToken, Operation, RemoveToken, token_pair};

/// One half of an entry's life, and the right to it.
#[derive(Debug)]
pub(super) enum AbsorbingEdit {
    Enter(AddToken, Entry),
    Leave(RemoveToken, Key),
}

impl AbsorbingEdit {
    /// Both rights to a life.
    pub(super) fn life(entry: Entry) -> ((AddToken, Entry), (RemoveToken, Key)) {
        let (birth, death) = token_pair();
        ((birth, entry), (death, entry.key()))
    }
}

impl<S: Plain> Operation<S> for AbsorbingEdit {
    const ABSORBS: bool = true;

    fn exec(self, plain: &mut S) {
        match self {
            AbsorbingEdit::Enter(_, entry) => plain.enter(entry),
            AbsorbingEdit::Leave(_, key) => plain.leave(key),
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            AbsorbingEdit::Enter(birth, _) => Absorb::Add(birth),
            AbsorbingEdit::Leave(death, _) => Absorb::Remove(death),
        }
    }
}
