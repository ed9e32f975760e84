//! The table behind a log for each core, in which a file's opening and closing cancel each other.
//!
//! Most files are open for a moment only, on one core: their closing finds the opening in the core's own log,
//! and the shared table never hears of them.

use super::FileTable;
use crate::subsystem::absorbing_edits::AbsorbingEdit;
use crate::subsystem::{Entry, Key, SharedObject};
use percolog::oplog::{Birth, Death, Logged, Stats};

/// A [`FileTable`] behind [`Logged`], with absorption in each log and across logs.
#[derive(Debug)]
pub struct AbsorbingFiles {
    files: Logged<FileTable, AbsorbingEdit>,
}

impl Default for AbsorbingFiles {
    fn default() -> AbsorbingFiles {
        AbsorbingFiles {
            files: Logged::<FileTable, AbsorbingEdit>::builder()
                .absorb_while_merging(true)
                .build(FileTable::default()),
        }
    }
}

impl SharedObject for AbsorbingFiles {
    type Arrival = (Birth, Entry);
    type Departure = (Death, Key);
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Self::Arrival, Self::Departure) {
        AbsorbingEdit::life(file)
    }

    fn enter(&self, (birth, file): Self::Arrival) {
        self.files.queue(AbsorbingEdit::Enter(birth, file));
    }

    fn leave(&self, (death, key): Self::Departure) {
        self.files.queue(AbsorbingEdit::Leave(death, key));
    }

    fn read(&self, _: u64) -> Vec<Entry> {
        self.view()
    }

    fn view(&self) -> Vec<Entry> {
        self.files.synchronize().walk()
    }

    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }

    fn statistics(&self) -> Option<Stats> {
        Some(self.files.stats())
    }
}
