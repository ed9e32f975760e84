//! The table behind a log for each core; every open and close is carried out, in order, by who asks next.

use super::FileTable;
use crate::subsystem::edits::{Edit, Plain};
use crate::subsystem::{Entry, Key, SharedObject};
use percolog::oplog::{LogStats, Logged, LoggedBuilder, Mode};

/// A [`FileTable`] behind [`Logged`], without absorption.
#[derive(Debug)]
pub struct LoggedFiles {
    files: Logged<FileTable, Edit>,
}

impl Plain for FileTable {
    fn enter(&mut self, entry: Entry) {
        self.open(entry);
    }

    fn leave(&mut self, key: Key) {
        self.close(key);
    }
}

impl Default for LoggedFiles {
    fn default() -> LoggedFiles {
        LoggedFiles {
            // As the paper's, which logs always.
            files: LoggedBuilder::new()
                .mode(Mode::Deferring)
                .build(FileTable::default()),
        }
    }
}

impl SharedObject for LoggedFiles {
    type Arrival = Entry;
    type Departure = Key;
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Entry, Key) {
        (file, file.key())
    }

    fn enter(&self, file: Entry) {
        self.files.queue(Edit::Enter(file));
    }

    fn leave(&self, key: Key) {
        self.files.queue(Edit::Leave(key));
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

    fn statistics(&self) -> Option<LogStats> {
        Some(self.files.stats())
    }
}
