//! What each core may do without asking, as translated code looks it up: by the addresses of the process that has the core.

use crate::model::Core;
use crate::plugin::hot::{HOT, Table};
use crate::plugin::spaces::Spaces;

/// A table of each core that has ever had a thread.
#[derive(Debug)]
pub(crate) struct Tables(Vec<Option<Of>>);

/// A table, and the process whose addresses it has.
#[derive(Debug)]
struct Of {
    table: Table,
    process: usize,
}

/// The numbers that a process's lines have which are this line of the machine.
fn numbers(spaces: &Spaces, process: usize, line: u64) -> impl Iterator<Item = u64> + '_ {
    let shift = HOT.line_shift();
    spaces
        .addresses(process, line << shift)
        .map(move |address| address >> shift)
}

impl Tables {
    /// For so many cores.
    pub(crate) fn new(cores: usize) -> Self {
        Tables((0..cores).map(|_| None).collect())
    }

    /// The table of a core on which a thread of this process runs now.
    pub(crate) fn of(&mut self, core: Core, process: usize) -> &mut Table {
        let of = self.0[usize::from(core)].get_or_insert_with(|| Of {
            table: Table::new(),
            process,
        });
        if of.process != process {
            of.table.clear();
            of.process = process;
        }
        &mut of.table
    }

    /// A core loses a line, or has to ask for it.
    pub(crate) fn forget(&mut self, spaces: &Spaces, core: Core, line: u64) {
        if let Some(of) = &mut self.0[usize::from(core)] {
            for number in numbers(spaces, of.process, line) {
                of.table.forget(number);
            }
        }
    }

    /// All cores have to ask for a line.
    pub(crate) fn forget_all(&mut self, spaces: &Spaces, line: u64) {
        for core in 0..self.0.len() {
            self.forget(spaces, core as Core, line);
        }
    }

    /// A core may do this to a line, if the process that has it there has it.
    pub(crate) fn set(
        &mut self,
        spaces: &Spaces,
        core: Core,
        process: usize,
        line: u64,
        rights: u64,
    ) {
        let table = self.of(core, process);
        for number in numbers(spaces, process, line) {
            table.set(number, rights);
        }
    }

    /// A core's further uses of a line are not looked at.
    pub(crate) fn trust(&mut self, spaces: &Spaces, core: Core, process: usize, line: u64) {
        let table = self.of(core, process);
        for number in numbers(spaces, process, line) {
            table.trust(number);
        }
    }

    /// All cores have to ask for everything.
    pub(crate) fn clear(&mut self) {
        for of in self.0.iter_mut().flatten() {
            of.table.clear();
        }
    }

    /// A process has ended.
    pub(crate) fn end(&mut self, process: usize) {
        for of in self.0.iter_mut().flatten() {
            if of.process == process {
                of.table.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::hot::{READ, WRITE};

    #[test]
    fn a_line_is_known_at_all_addresses_of_the_process_that_has_the_core() {
        let maps = "1000-2000 rw-s 00000000 00:01 7 /dev/zero (deleted)\n\
                    8000-9000 rw-s 00000000 00:01 7 /dev/zero (deleted)\n";
        let mut spaces = Spaces::default();
        spaces.begin(None);
        spaces.mapped(0, 0x1000, 0x1000, maps);
        spaces.mapped(0, 0x8000, 0x1000, maps);
        spaces.begin(Some(0));
        let line = spaces.place(0, 0x1040) >> 6;
        let (here, there) = (0x1040 >> 6, 0x8040 >> 6);
        let mut tables = Tables::new(2);
        tables.set(&spaces, 0, 0, line, READ | WRITE);
        let table = tables.of(0, 0);
        assert_eq!([table.rights(here), table.rights(there)], [READ | WRITE; 2]);
        tables.forget(&spaces, 0, line);
        let table = tables.of(0, 0);
        assert_eq!([table.rights(here), table.rights(there)], [0; 2]);
        tables.set(&spaces, 0, 0, line, READ);
        assert_eq!(
            tables.of(0, 1).rights(here),
            0,
            "another process has the core"
        );
        tables.set(&spaces, 0, 1, line, READ);
        tables.set(&spaces, 1, 0, line, READ);
        tables.end(1);
        assert_eq!(tables.of(0, 1).rights(here), 0);
        tables.forget_all(&spaces, line);
        assert_eq!(tables.of(1, 0).rights(there), 0);
    }
}
