//! The library's registry, in whose logs a file's opening and closing cancel each other.
//!
//! Most files are open for a moment only, on one core: their closing finds the opening in the core's own log,
//! and the shared table never hears of them.

use super::table::sorted;
use crate::subsystem::{Entry, SharedObject};
use percolog::collections::Registry;
use percolog::oplog::{Birth, Death, Stats, unique};

/// A [`Registry`] of the open files. Who closes a file has no place for a handle, and keeps half of its identity
/// instead.
#[derive(Debug, Default)]
pub struct AbsorbingFiles {
    files: Registry<Entry>,
}

impl SharedObject for AbsorbingFiles {
    type Arrival = (Birth, Entry);
    type Departure = Death;
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Self::Arrival, Death) {
        let (birth, death) = unique();
        ((birth, file), death)
    }

    fn enter(&self, (birth, file): Self::Arrival) {
        self.files.register_as(birth, file);
    }

    fn leave(&self, death: Death) {
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

    fn statistics(&self) -> Option<Stats> {
        Some(self.files.stats())
    }
}
