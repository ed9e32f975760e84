//! The library's registry, in whose logs a file's opening and closing cancel each other.
//!
//! Most files are open for a moment only, on one core: their closing finds the opening in the core's own log,
//! and the shared table never hears of them.

use super::table::sorted;
use crate::subsystem::{Entry, SharedObject};
use percolog::collections::Registry;
use percolog::oplog::{AddToken, LogStats, RemoveToken, token_pair};

/// A [`Registry`] of the open files. Who closes a file has no place for a handle, and keeps half of its identity
/// instead.
#[derive(Debug, Default)]
pub struct AbsorbingFiles {
    files: Registry<Entry>,
}

impl SharedObject for AbsorbingFiles {
    type Arrival = (AddToken, Entry);
    type Departure = RemoveToken;
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Self::Arrival, RemoveToken) {
        let (birth, death) = token_pair();
        ((birth, file), death)
    }

    fn enter(&self, (birth, file): Self::Arrival) {
        self.files.register_as(birth, file);
    }

    fn leave(&self, death: RemoveToken) {
        self.files.unregister(death);
    }

    fn read(&self, _: u64) -> Vec<Entry> {
        self.view()
    }

    fn view(&self) -> Vec<Entry> {
        sorted(self.files.list().iter().map(|(_, file)| *file))
    }

    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }

    fn statistics(&self) -> Option<LogStats> {
        Some(self.files.stats())
    }
}
