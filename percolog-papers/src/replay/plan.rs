//! What the events of a trace mean to reverse maps, worked out once, before any thread runs.
//!
//! Follows the address spaces event by event and writes down which mappings come and go. Also names the
//! process that each event belongs to, and the event that each process waits for.

use crate::address_space::{AddressSpace, Ledger, Region};
use crate::rmap::Mapping;
use crate::trace::{Action, Trace};
use std::ops::Range;

/// One call of a reverse map.
///
/// Identities are given out in the order of additions, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Add { file: u32, mapping: Mapping },
    Remove { file: u32, mapping: Mapping },
    Truncate { file: u32, length: u64 },
}

impl Update {
    /// The file that it concerns.
    pub(crate) fn file(&self) -> usize {
        match *self {
            Update::Add { file, .. }
            | Update::Remove { file, .. }
            | Update::Truncate { file, .. } => file as usize,
        }
    }
}

/// One event of the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The owner of the address space that the event acts on.
    pub(crate) process: u32,
    /// Where its updates begin in the plan's; they end where the next step's begin.
    updates: usize,
    /// Whether it is a truncate.
    pub(crate) truncates: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    updates: Vec<Update>,
    /// For each process, the event that starts it; the first process has none.
    started_by: Vec<Option<usize>>,
    files: usize,
}

/// A recorded process or thread.
#[derive(Clone, Copy)]
struct Task {
    space: usize,
    /// The event that started it.
    started_by: Option<usize>,
}

struct Space {
    mappings: AddressSpace,
    users: u32,
    process: u32,
}

/// Writes updates, and remembers what each identity stands for.
struct Writer<'p> {
    updates: &'p mut Vec<Update>,
    known: &'p mut Vec<(u32, Mapping)>,
    process: u32,
}

impl Ledger for Writer<'_> {
    fn enter(&mut self, region: Region) -> u32 {
        let identity = self.known.len() as u32;
        let mapping = Mapping {
            offset: region.offset,
            end: region.offset + region.length,
            process: self.process,
            identity,
        };
        self.known.push((region.file, mapping));
        self.updates.push(Update::Add {
            file: region.file,
            mapping,
        });
        identity
    }

    fn leave(&mut self, identity: u32) {
        let (file, mapping) = self.known[identity as usize];
        self.updates.push(Update::Remove { file, mapping });
    }
}

impl Plan {
    /// The plan of a trace that amounts to no more than `most` mappings; `None` when there are more.
    pub(crate) fn new(trace: &Trace, most: usize) -> Option<Plan> {
        let page = trace.header().page_size;
        let mut plan = Plan {
            files: trace.files().len(),
            started_by: vec![None],
            ..Plan::default()
        };
        let mut known = Vec::new();
        let mut spaces = vec![Space {
            mappings: AddressSpace::default(),
            users: 1,
            process: 0,
        }];
        let mut tasks = vec![
            Task {
                space: 0,
                started_by: None
            };
            trace.header().processes as usize
        ];

        for (number, event) in trace.events().iter().enumerate() {
            let task = tasks[event.process as usize];
            let updates = plan.updates.len();
            let mut process = spaces[task.space].process;
            let mut writer = Writer {
                updates: &mut plan.updates,
                known: &mut known,
                process,
            };
            match event.action {
                Action::Map {
                    address,
                    length,
                    file,
                    offset,
                } => {
                    let region = Region {
                        length,
                        file,
                        offset,
                    };
                    spaces[task.space]
                        .mappings
                        .map(address, region, &mut writer);
                }
                Action::Unmap { address, length } => {
                    spaces[task.space]
                        .mappings
                        .unmap(address, length, &mut writer);
                }
                Action::Fork { child, shared } => {
                    let space = if shared {
                        spaces[task.space].users += 1;
                        task.space
                    } else {
                        // The parent enters the copies, on its own core, for the child to remove.
                        writer.process = plan.started_by.len() as u32;
                        plan.started_by.push(Some(number));
                        let copy = Space {
                            process: writer.process,
                            mappings: spaces[task.space].mappings.copy(&mut writer),
                            users: 1,
                        };
                        spaces.push(copy);
                        spaces.len() - 1
                    };
                    tasks[child as usize] = Task {
                        space,
                        started_by: Some(number),
                    };
                }
                Action::Exec { program } => {
                    let mut space = task.space;
                    if spaces[space].users > 1 {
                        // Leaves an address space to its other users; a process of its own from now on.
                        spaces[space].users -= 1;
                        process = plan.started_by.len() as u32;
                        writer.process = process;
                        plan.started_by.push(task.started_by);
                        spaces.push(Space {
                            mappings: AddressSpace::default(),
                            users: 1,
                            process,
                        });
                        space = spaces.len() - 1;
                        tasks[event.process as usize].space = space;
                    } else {
                        spaces[space].mappings.clear(&mut writer);
                    }
                    if let Some((file, length)) = program {
                        let region = Region {
                            length,
                            file,
                            offset: 0,
                        };
                        spaces[space].mappings.set_program(region, &mut writer);
                    }
                }
                Action::Exit => {
                    let space = &mut spaces[task.space];
                    space.users -= 1;
                    if space.users == 0 {
                        space.mappings.clear(&mut writer);
                    }
                }
                Action::Truncate { file, length } => plan.updates.push(Update::Truncate {
                    file,
                    // The rest of the last page stays mapped.
                    length: length.next_multiple_of(page),
                }),
            }
            if known.len() > most {
                return None;
            }
            plan.steps.push(Step {
                process,
                updates,
                truncates: matches!(event.action, Action::Truncate { .. }),
            });
        }
        Some(plan)
    }

    /// The plan of a trace whose size has been checked, as every trace's is when it is made.
    pub(crate) fn of(trace: &Trace) -> Plan {
        match Plan::new(trace, usize::MAX) {
            Some(plan) => plan,
            None => unreachable!("there are not more mappings than usize::MAX"),
        }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// Where the updates of a step are.
    pub(crate) fn updates_of(&self, step: usize) -> Range<usize> {
        let end = self
            .steps
            .get(step + 1)
            .map_or(self.updates.len(), |next| next.updates);
        self.steps[step].updates..end
    }

    /// How many processes there are, in the sense of [`replay`](super).
    pub(crate) fn processes(&self) -> usize {
        self.started_by.len()
    }

    /// The event that starts `process`.
    pub(crate) fn started_by(&self, process: u32) -> Option<usize> {
        self.started_by[process as usize]
    }

    pub(crate) fn files(&self) -> usize {
        self.files
    }

    /// Additions and removals, and truncates.
    pub(crate) fn updates_and_reads(&self) -> (u64, u64) {
        let reads = self.steps.iter().filter(|step| step.truncates).count();
        ((self.updates.len() - reads) as u64, reads as u64)
    }
}
