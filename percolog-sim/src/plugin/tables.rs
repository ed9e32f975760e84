//! What each processor may do without asking, as translated code looks it up: by the addresses of the process that has it.
//!
//! Hardware threads of one core have its lines in common, and a table each: none may write without asking what another one has in
//! its table, so that it is noticed when they pass a line to each other.

use crate::model::{Core, Processor, core_of};
use crate::plugin::hot::{self, HOT, Table};
use crate::plugin::spaces::Spaces;

/// A table of each processor that has ever had a thread.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Of the first hardware thread of each core, then of the second, and so on.
    all: Vec<Option<Of>>,
    cores: usize,
}

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
    /// For so many cores of so many hardware threads.
    pub(crate) fn new(cores: usize, threads: usize) -> Self {
        Tables {
            all: (0..cores * threads).map(|_| None).collect(),
            cores,
        }
    }

    /// The table of a processor on which a thread of this process runs now.
    pub(crate) fn of(&mut self, processor: Processor, process: usize) -> &mut Table {
        let of = self.all[usize::from(processor)].get_or_insert_with(|| Of {
            table: Table::new(),
            process,
        });
        if of.process != process {
            of.table.clear();
            of.process = process;
        }
        &mut of.table
    }

    /// The tables of a core.
    fn of_core(&mut self, core: Core) -> impl Iterator<Item = (usize, &mut Of)> {
        let all = self.all.iter_mut().enumerate();
        all.skip(usize::from(core))
            .step_by(self.cores)
            .filter_map(|(processor, of)| Some((processor, of.as_mut()?)))
    }

    /// A core loses a line, or has to ask for it.
    pub(crate) fn forget(&mut self, spaces: &Spaces, core: Core, line: u64) {
        for (_, of) in self.of_core(core) {
            for number in numbers(spaces, of.process, line) {
                of.table.forget(number);
            }
        }
    }

    /// All cores have to ask for a line.
    pub(crate) fn forget_all(&mut self, spaces: &Spaces, line: u64) {
        for core in 0..self.cores {
            self.forget(spaces, core as Core, line);
        }
    }

    /// A processor uses a line of its core: the others of the core have to ask for it, if they could write it without, or if this one
    /// does. Returns whether there were any.
    pub(crate) fn take_from_siblings(
        &mut self,
        spaces: &Spaces,
        processor: Processor,
        line: u64,
        writes: bool,
    ) -> bool {
        let rights = if writes {
            hot::READ | hot::WRITE
        } else {
            hot::WRITE
        };
        let core = core_of(processor, self.cores);
        let processor = usize::from(processor);
        let mut any = false;
        for (_, of) in self.of_core(core).filter(|(other, _)| *other != processor) {
            for number in numbers(spaces, of.process, line) {
                if of.table.has(number, rights) {
                    of.table.forget(number);
                    any = true;
                }
            }
        }
        any
    }

    /// A processor may do this to a line, if the process that has it there has it.
    pub(crate) fn set(
        &mut self,
        spaces: &Spaces,
        processor: Processor,
        process: usize,
        line: u64,
        rights: u64,
    ) {
        let table = self.of(processor, process);
        for number in numbers(spaces, process, line) {
            table.set(number, rights);
        }
    }

    /// A processor's further uses of a line are not looked at.
    pub(crate) fn trust(
        &mut self,
        spaces: &Spaces,
        processor: Processor,
        process: usize,
        line: u64,
    ) {
        let table = self.of(processor, process);
        for number in numbers(spaces, process, line) {
            table.trust(number);
        }
    }

    /// All have to ask for everything.
    pub(crate) fn clear(&mut self) {
        for of in self.all.iter_mut().flatten() {
            of.table.clear();
        }
    }

    /// A process has ended.
    pub(crate) fn end(&mut self, process: usize) {
        for of in self.all.iter_mut().flatten() {
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
        let mut tables = Tables::new(2, 1);
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

    #[test]
    fn threads_of_a_core_take_lines_from_each_other() {
        let maps = "1000-2000 rw-p 00000000 00:00 0\n";
        let mut spaces = Spaces::default();
        spaces.begin(None);
        spaces.mapped(0, 0x1000, 0x1000, maps);
        let here = 0x1040 >> 6;
        let line = spaces.place(0, 0x1040) >> 6;
        let mut tables = Tables::new(2, 2);
        let rights =
            |tables: &mut Tables| [0, 1, 2].map(|processor| tables.of(processor, 0).rights(here));
        for processor in 0..3 {
            tables.set(&spaces, processor, 0, line, READ);
        }
        assert!(!tables.take_from_siblings(&spaces, 2, line, false));
        assert_eq!(rights(&mut tables), [READ; 3]);
        // The first threads of the two cores are no siblings.
        assert!(tables.take_from_siblings(&spaces, 2, line, true));
        assert_eq!(rights(&mut tables), [0, READ, READ]);
        tables.set(&spaces, 2, 0, line, (READ | WRITE) << hot::WATCHED);
        assert!(tables.take_from_siblings(&spaces, 0, line, false));
        tables.trust(&spaces, 2, 0, line);
        assert_eq!(rights(&mut tables), [0, READ, 0]);
        tables.set(&spaces, 0, 0, line, READ);
        tables.set(&spaces, 2, 0, line, READ);
        tables.forget(&spaces, 0, line);
        assert_eq!(rights(&mut tables), [0, READ, 0]);
    }
}
