//! Which descriptor of whom stands for which open file.

use std::collections::BTreeMap;
use std::mem;

/// A file that was opened once, until the last descriptor that stands for it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) file: u32,
    /// The entry that stands for it, where the subsystem has one.
    pub(super) entry: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    /// Which open file it stands for.
    opened: usize,
    close_on_exec: bool,
}

#[derive(Debug, Default)]
struct Table {
    descriptors: BTreeMap<u32, Descriptor>,
    users: u32,
}

/// All tables of descriptors, by number from 0, and all open files.
///
/// Descriptors that nobody knows are left alone: they stand for what no trace tracks.
#[derive(Debug)]
pub(super) struct Tables {
    tables: Vec<Table>,
    /// Open files, and how many descriptors stand for each.
    opened: Vec<(Opened, u32)>,
    /// How many descriptors have been copied.
    pub(super) copies: usize,
}

impl Tables {
    /// One table with one user.
    pub(super) fn new() -> Tables {
        Tables {
            tables: vec![Table {
                users: 1,
                ..Table::default()
            }],
            opened: Vec::new(),
            copies: 0,
        }
    }

    /// Opens a file; the descriptor must be closed.
    pub(super) fn open(
        &mut self,
        table: usize,
        descriptor: u32,
        opened: Opened,
        close_on_exec: bool,
    ) {
        self.opened.push((opened, 1));
        let descriptors = &mut self.tables[table].descriptors;
        descriptors.insert(
            descriptor,
            Descriptor {
                opened: self.opened.len() - 1,
                close_on_exec,
            },
        );
    }

    /// Closes a descriptor; tells the open file if it was its last one.
    pub(super) fn close(&mut self, table: usize, descriptor: u32) -> Option<Opened> {
        let descriptor = self.tables[table].descriptors.remove(&descriptor)?;
        self.drop(descriptor)
    }

    fn drop(&mut self, descriptor: Descriptor) -> Option<Opened> {
        let (opened, descriptors) = &mut self.opened[descriptor.opened];
        *descriptors -= 1;
        (*descriptors == 0).then_some(*opened)
    }

    /// Makes `to` stand for what `from` stands for; tells the open file whose last descriptor `to` was.
    pub(super) fn duplicate(
        &mut self,
        table: usize,
        from: u32,
        to: u32,
        close_on_exec: bool,
    ) -> Option<Opened> {
        if from == to {
            return None;
        }
        let closed = self.close(table, to);
        let descriptors = &mut self.tables[table].descriptors;
        if let Some(&Descriptor { opened, .. }) = descriptors.get(&from) {
            self.opened[opened].1 += 1;
            let descriptor = Descriptor {
                opened,
                close_on_exec,
            };
            descriptors.insert(to, descriptor);
        }
        closed
    }

    /// Says anew whether starting a program closes a descriptor.
    pub(super) fn inherit(&mut self, table: usize, descriptor: u32, close_on_exec: bool) {
        if let Some(descriptor) = self.tables[table].descriptors.get_mut(&descriptor) {
            descriptor.close_on_exec = close_on_exec;
        }
    }

    /// A table has one user more.
    pub(super) fn share(&mut self, table: usize) {
        self.tables[table].users += 1;
    }

    /// A copy of a table, with one user.
    pub(super) fn copy(&mut self, table: usize) -> usize {
        let descriptors = self.tables[table].descriptors.clone();
        for descriptor in descriptors.values() {
            self.opened[descriptor.opened].1 += 1;
        }
        self.copies += descriptors.len();
        self.tables.push(Table {
            descriptors,
            users: 1,
        });
        self.tables.len() - 1
    }

    /// One of the users of a table starts a program: a table that others use is left to them, for a copy. Tells the
    /// user's table from now on, and the open files whose last descriptors were closed.
    pub(super) fn exec(&mut self, table: usize) -> (usize, Vec<Opened>) {
        let own = if self.tables[table].users > 1 {
            self.tables[table].users -= 1;
            self.copy(table)
        } else {
            table
        };
        let (closed, kept) = mem::take(&mut self.tables[own].descriptors)
            .into_iter()
            .partition(|(_, descriptor)| descriptor.close_on_exec);
        self.tables[own].descriptors = kept;
        (own, self.drop_all(closed))
    }

    /// One of the users of a table ends; tells the open files whose last descriptors were closed.
    pub(super) fn exit(&mut self, table: usize) -> Vec<Opened> {
        self.tables[table].users -= 1;
        if self.tables[table].users > 0 {
            return Vec::new();
        }
        let closed = mem::take(&mut self.tables[table].descriptors);
        self.drop_all(closed)
    }

    fn drop_all(&mut self, closed: BTreeMap<u32, Descriptor>) -> Vec<Opened> {
        closed
            .into_values()
            .filter_map(|descriptor| self.drop(descriptor))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(file: u32) -> Opened {
        Opened { file, entry: None }
    }

    #[test]
    fn the_last_descriptor_counts() {
        let mut tables = Tables::new();
        tables.open(0, 3, opened(7), false);
        assert_eq!(tables.duplicate(0, 3, 4, false), None);
        assert_eq!(tables.close(0, 3), None);
        assert_eq!(tables.close(0, 3), None, "it is closed already");
        let copy = tables.copy(0);
        assert_eq!(tables.close(0, 4), None);
        assert_eq!(tables.close(copy, 4), Some(opened(7)));
    }

    #[test]
    fn a_duplicate_closes_what_was_there() {
        let mut tables = Tables::new();
        tables.open(0, 3, opened(7), false);
        tables.open(0, 4, opened(8), false);
        assert_eq!(tables.duplicate(0, 4, 4, false), None, "onto itself");
        assert_eq!(tables.duplicate(0, 3, 4, false), Some(opened(8)));
        assert_eq!(tables.duplicate(0, 99, 3, false), None, "one of two");
        assert_eq!(tables.close(0, 4), Some(opened(7)));
    }

    #[test]
    fn a_program_keeps_what_it_is_to_inherit() {
        let mut tables = Tables::new();
        tables.open(0, 3, opened(7), true);
        tables.open(0, 4, opened(8), false);
        tables.open(0, 5, opened(9), true);
        tables.inherit(0, 3, false);
        tables.inherit(0, 4, true);
        tables.duplicate(0, 5, 6, false);
        let (table, closed) = tables.exec(0);
        assert_eq!((table, closed), (0, vec![opened(8)]));
        assert_eq!(tables.close(0, 3), Some(opened(7)));
        assert_eq!(tables.close(0, 6), Some(opened(9)));
    }

    #[test]
    fn a_shared_table_is_left_by_exec_and_ends_with_its_last_user() {
        let mut tables = Tables::new();
        tables.open(0, 3, opened(7), true);
        tables.share(0);
        let (table, closed) = tables.exec(0);
        assert_eq!((table, closed.len()), (1, 0), "the other one has it still");
        assert_eq!(tables.exit(1), []);
        tables.share(0);
        assert_eq!(tables.exit(0), []);
        assert_eq!(tables.exit(0), [opened(7)]);
    }
}
