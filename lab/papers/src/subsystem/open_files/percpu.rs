//! A table for each core, made by hand, as Linux had a list of open files for each processor.
//!
//! A file goes into the table of the core that opens it, under a lock that no other core takes as a rule, and
//! remembers which that was: closing it goes straight there, from whichever core. A walk takes the locks of
//! all tables, in order.

use super::FileTable;
use super::table::sorted;
use crate::subsystem::slots::{Home, Slots};
use crate::subsystem::{Entry, Key, SharedObject};

/// A [`FileTable`] for each core.
#[derive(Debug, Default)]
pub struct PerCpu {
    files: Slots<FileTable>,
}

impl SharedObject for PerCpu {
    type Arrival = (Home, Entry);
    type Departure = (Home, Key);
    type View = Vec<Entry>;

    fn life(file: Entry) -> (Self::Arrival, Self::Departure) {
        let home = Home::unknown();
        ((home.clone(), file), (home, file.key()))
    }

    fn enter(&self, (home, file): Self::Arrival) {
        let (part, mut files) = self.files.own();
        home.set(part);
        files.open(file);
    }

    fn leave(&self, (home, key): Self::Departure) {
        if let Some(mut files) = self.files.part(home.part()) {
            files.close(key);
        }
    }

    fn read(&self, _: u64) -> Vec<Entry> {
        self.view()
    }

    fn view(&self) -> Vec<Entry> {
        let all = self.files.all();
        sorted(all.iter().flat_map(|files| files.iter()))
    }

    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::slots::on_slot;

    #[test]
    fn a_file_is_closed_where_it_was_opened() {
        let list = PerCpu {
            files: Slots::new(3),
        };
        let closings: Vec<_> = (0..9)
            .map(|identity| {
                let (opening, closing) = PerCpu::life(Entry {
                    offset: 5,
                    identity,
                    end: 0,
                    process: 1,
                });
                on_slot(identity % 3, || list.enter(opening));
                closing
            })
            .collect();
        let parts: Vec<usize> = list.files.all().iter().map(|f| f.iter().count()).collect();
        assert_eq!(parts, [3, 3, 3]);
        on_slot(1, || {
            closings.into_iter().for_each(|closing| list.leave(closing))
        });
        assert_eq!(list.view(), []);
    }
}
