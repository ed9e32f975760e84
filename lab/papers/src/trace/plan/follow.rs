//! Follows the recorded processes.

use super::book::Book;
use super::descriptors::{Opened, Tables};
use super::{Most, Plan, Step, Update};
use crate::address_space::{AddressSpace, Region};
use crate::subsystem::Subsystem;
use crate::trace::{Action, Backing, Event, Shares, Trace, TraceError};
use std::num::NonZeroU64;

/// A recorded process or thread.
#[derive(Clone, Copy)]
struct Task {
    /// Its process, in the sense of [`replay`](crate::replay).
    unit: usize,
    space: usize,
    table: usize,
}

/// Tasks that share something: a process, in the sense of [`replay`](crate::replay).
struct Unit {
    members: u32,
    last_event: usize,
}

#[derive(Default)]
struct Space {
    mappings: AddressSpace<u32>,
    users: u32,
    heap: Option<Heap>,
}

/// Where a heap begins and ends; it is not mapped while that is the same.
#[derive(Clone, Copy)]
struct Heap {
    start: u64,
    end: u64,
}

struct Follower {
    subsystem: Subsystem,
    page: u64,
    book: Book,
    tasks: Vec<Task>,
    units: Vec<Unit>,
    spaces: Vec<Space>,
    tables: Tables,
    started_by: Vec<Option<usize>>,
}

/// The plan of a trace, unless it amounts to more than `most`.
pub(super) fn follow(
    trace: &Trace,
    subsystem: Subsystem,
    truncate_every: Option<NonZeroU64>,
    most: Most,
) -> Result<Plan, TraceError> {
    let mut follower = Follower::new(trace, subsystem);
    let mut steps = Vec::with_capacity(trace.events().len());
    for (number, event) in trace.events().iter().enumerate() {
        let updates = follower.book.updates.len();
        let process = follower.event(number, event);
        if truncate_every.is_some_and(|every| (number as u64 + 1).is_multiple_of(every.get())) {
            follower.book.read_last(subsystem);
        }
        if follower.book.entries().max(follower.tables.copies) > most.entries {
            return Err(TraceError::TooLarge { most: most.entries });
        }
        if follower.book.looked_at > most.looked_at {
            return Err(TraceError::TooMuchToRead {
                most: most.looked_at,
            });
        }
        let own_reads = follower.book.updates[updates..]
            .iter()
            .filter(|update| matches!(update, Update::Read { .. }))
            .count();
        steps.push(Step {
            process,
            updates,
            reads: own_reads > 0,
        });
    }
    Ok(Plan {
        steps,
        started_by: follower.started_by,
        objects: follower.book.objects,
        entries: follower.book.entries(),
        copies: follower.tables.copies,
        updates: follower.book.updates,
    })
}

impl Follower {
    fn new(trace: &Trace, subsystem: Subsystem) -> Follower {
        let objects = match subsystem {
            Subsystem::Files | Subsystem::Names => trace.files().len(),
            Subsystem::Memory => 0,
            Subsystem::OpenFiles | Subsystem::Events => 1,
        };
        let first = Task {
            unit: 0,
            space: 0,
            table: 0,
        };
        Follower {
            subsystem,
            page: trace.header().page_size,
            book: Book::new(objects),
            tasks: vec![first; trace.header().tasks as usize],
            units: vec![Unit {
                members: 1,
                last_event: 0,
            }],
            spaces: vec![Space {
                users: 1,
                ..Space::default()
            }],
            tables: Tables::new(),
            started_by: vec![None],
        }
    }

    /// One event; tells which process it belongs to.
    fn event(&mut self, number: usize, event: &Event) -> u32 {
        let at = event.task as usize;
        if let Action::Exec { .. } = event.action {
            self.leave_unit(at);
        }
        let Task { unit, space, table } = self.tasks[at];
        self.book.process = unit as u32;
        match event.action {
            Action::Map {
                address,
                length,
                backing,
                offset,
            } => self.map(space, address, length, backing, offset),
            Action::Unmap { address, length } => {
                self.spaces[space]
                    .mappings
                    .unmap(address, length, &mut self.book);
            }
            Action::Break { end } => self.move_break(space, end),
            Action::Fork { child, shares } => self.fork(number, at, child as usize, shares),
            Action::Exec { program } => self.exec(at, program),
            Action::Exit => {
                self.units[unit].members -= 1;
                let space = &mut self.spaces[space];
                space.users -= 1;
                if space.users == 0 {
                    space.mappings.clear(&mut self.book);
                }
                let closed = self.tables.exit(table);
                self.closed(closed);
            }
            Action::Truncate { file, length } => {
                if self.subsystem == Subsystem::Files {
                    // The rest of the last page stays mapped.
                    self.book.read(file, length.next_multiple_of(self.page));
                }
                self.notify();
            }
            Action::Open {
                file,
                descriptor,
                close_on_exec,
            } => self.open(table, file, descriptor, close_on_exec),
            Action::Close { descriptor } => {
                let closed = self.tables.close(table, descriptor);
                self.closed(closed);
            }
            Action::Duplicate {
                from,
                to,
                close_on_exec,
            } => {
                let closed = self.tables.duplicate(table, from, to, close_on_exec);
                self.closed(closed);
            }
            Action::Inherit {
                descriptor,
                close_on_exec,
            } => self.tables.inherit(table, descriptor, close_on_exec),
            Action::Stat { file } => self.look_up(file),
            Action::Create { file } => {
                self.look_up(file);
                self.notify();
            }
            Action::Rename { from, to } => {
                self.make_void(from);
                self.make_void(to);
                self.notify();
            }
            Action::Unlink { file } => {
                self.make_void(file);
                self.notify();
            }
        }
        self.units[unit].last_event = number;
        unit as u32
    }

    fn map(&mut self, space: usize, address: u64, length: u64, backing: Backing, offset: u64) {
        let mappings = &mut self.spaces[space].mappings;
        let (object, offset) = match (self.subsystem, backing) {
            (Subsystem::Files, Backing::File(file)) => (file, offset),
            // As in Linux, what memory is found by does not change when only a part stays mapped: the address where it
            // was mapped first.
            (Subsystem::Memory, Backing::Memory) => (self.book.memory(), address),
            // Takes the place of what was there, and is nothing here itself.
            _ => return mappings.unmap(address, length, &mut self.book),
        };
        let region = Region {
            length,
            object,
            offset,
        };
        mappings.map(address, region, &mut self.book);
    }

    /// The heap ends somewhere else: it shrinks, or what is there of it at its end is drawn out.
    fn move_break(&mut self, space: usize, end: u64) {
        if self.subsystem != Subsystem::Memory {
            return;
        }
        // What passes the end of 64 bits is cut down.
        let end = end
            .checked_next_multiple_of(self.page)
            .unwrap_or(end - end % self.page);
        let Space { mappings, heap, .. } = &mut self.spaces[space];
        let Some(heap) = heap else {
            *heap = Some(Heap { start: end, end });
            return;
        };
        let end = end.max(heap.start);
        if end < heap.end {
            mappings.unmap(end, heap.end - end, &mut self.book);
        } else if end > heap.end {
            let last = (heap.end > heap.start)
                .then(|| mappings.region_at(heap.end - 1))
                .flatten();
            let (start, object, offset) = match last {
                Some((start, region)) => (start, region.object, region.offset),
                None => (heap.end, self.book.memory(), heap.end),
            };
            let region = Region {
                length: end - start,
                object,
                offset,
            };
            mappings.map(start, region, &mut self.book);
        }
        heap.end = end;
    }

    fn fork(&mut self, number: usize, parent: usize, child: usize, shares: Shares) {
        let Task { unit, space, table } = self.tasks[parent];
        let unit = if shares.memory || shares.descriptors {
            self.units[unit].members += 1;
            unit
        } else {
            self.unit(number)
        };
        let space = if shares.memory {
            self.spaces[space].users += 1;
            space
        } else {
            // The parent enters the copies, on its own core, for the child to remove.
            self.book.process = unit as u32;
            let copy = Space {
                mappings: self.spaces[space].mappings.copy(&mut self.book),
                users: 1,
                heap: self.spaces[space].heap,
            };
            self.spaces.push(copy);
            self.spaces.len() - 1
        };
        let table = if shares.descriptors {
            self.tables.share(table);
            table
        } else {
            self.tables.copy(table)
        };
        self.tasks[child] = Task { unit, space, table };
    }

    /// A new process, which waits for an event.
    fn unit(&mut self, started_by: usize) -> usize {
        self.units.push(Unit {
            members: 1,
            last_event: started_by,
        });
        self.started_by.push(Some(started_by));
        self.units.len() - 1
    }

    /// A task that shares something with others goes its own way: a process of its own from now on. It waits for
    /// everything that the old one has done so far, as it takes a part of that along.
    fn leave_unit(&mut self, task: usize) {
        let unit = self.tasks[task].unit;
        if self.units[unit].members > 1 {
            self.units[unit].members -= 1;
            self.tasks[task].unit = self.unit(self.units[unit].last_event);
        }
    }

    fn exec(&mut self, task: usize, program: Option<(u32, u64)>) {
        let space = &mut self.spaces[self.tasks[task].space];
        if space.users > 1 {
            // Leaves an address space to its other users.
            space.users -= 1;
            self.tasks[task].space = self.spaces.len();
            self.spaces.push(Space {
                users: 1,
                ..Space::default()
            });
        } else {
            space.mappings.clear(&mut self.book);
            space.heap = None;
        }
        let (table, closed) = self.tables.exec(self.tasks[task].table);
        self.tasks[task].table = table;
        self.closed(closed);
        if let Some((file, length)) = program {
            self.look_up(file);
            if self.subsystem == Subsystem::Files {
                let region = Region {
                    length,
                    object: file,
                    offset: 0,
                };
                self.spaces[self.tasks[task].space]
                    .mappings
                    .set_program(region, &mut self.book);
            }
        }
    }

    fn open(&mut self, table: usize, file: u32, descriptor: u32, close_on_exec: bool) {
        let closed = self.tables.close(table, descriptor);
        self.closed(closed);
        let entry = match self.subsystem {
            Subsystem::Names => Some(self.book.come(file, 0, 0)),
            Subsystem::OpenFiles => Some(self.book.come(0, file.into(), 0)),
            Subsystem::Files | Subsystem::Memory | Subsystem::Events => None,
        };
        let opened = Opened { file, entry };
        self.tables.open(table, descriptor, opened, close_on_exec);
        self.notify();
    }

    /// The last descriptors of these open files have been closed.
    fn closed(&mut self, closed: impl IntoIterator<Item = Opened>) {
        for opened in closed {
            if let Some(entry) = opened.entry {
                self.book.go(entry);
            }
            self.notify();
        }
    }

    /// A name is looked up: a reference to it comes, and goes at once.
    fn look_up(&mut self, file: u32) {
        if self.subsystem == Subsystem::Names {
            let reference = self.book.come(file, 0, 0);
            self.book.go(reference);
        }
    }

    /// A name no longer means what it meant: how many have a reference to it must be known.
    fn make_void(&mut self, file: u32) {
        if self.subsystem == Subsystem::Names {
            self.book.read(file, 0);
        }
    }

    /// Something has happened that somebody who watches the file system wants to hear of.
    fn notify(&mut self) {
        if self.subsystem == Subsystem::Events {
            self.book.come(0, 0, 0);
        }
    }
}
