//! The list behind a log without time stamps, as the open files' own memory would be linked into it.
//!
//! A file that is opened comes into a log and stays there, open or closed, until somebody walks the list or the log is
//! full; closing it changes one word of the file.

use super::table::sorted;
use crate::subsystem::deferred::{Queue, deferred, enter, leave, life};
use crate::subsystem::{Entry, SharedObject};
use percolog::ldu::{self, Bag, Deferred};
use percolog::oplog::LogStats;
use std::marker::PhantomData;

/// A [`Bag`] of the open files behind [`Deferred`], with the log that `Q` says.
#[derive(Debug)]
pub struct DeferredFiles<Q> {
    files: Deferred<Bag<Entry>>,
    queue: PhantomData<Q>,
}

impl<Q: Queue> Default for DeferredFiles<Q> {
    fn default() -> DeferredFiles<Q> {
        DeferredFiles {
            files: deferred::<Q, _>(Bag::new()),
            queue: PhantomData,
        }
    }
}

impl<Q: Queue> SharedObject for DeferredFiles<Q> {
    /// A handle of the open file: in a kernel, the file itself.
    type Arrival = ldu::Entry<Entry>;
    type Departure = ldu::Entry<Entry>;
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Self::Arrival, Self::Departure) {
        life(file)
    }

    fn enter(&self, file: Self::Arrival) {
        enter(&self.files, &file);
    }

    fn leave(&self, file: Self::Departure) {
        leave(&self.files, &file);
    }

    fn read(&self, _: u64) -> Vec<Entry> {
        self.view()
    }

    fn view(&self) -> Vec<Entry> {
        sorted(self.files.synchronize().iter().copied())
    }

    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }

    fn statistics(&self) -> Option<LogStats> {
        Some(self.files.stats())
    }
}
