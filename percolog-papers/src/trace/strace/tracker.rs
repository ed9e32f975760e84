//! Second pass: follows tasks and address spaces, and writes the events that change file mappings.

use super::Program;
use super::files::{Files, is_mappable};
use super::lines::{Child, Entry, Log, What};
use crate::address_space::{AddressSpace, Ledger, Region};
use crate::trace::error::StraceError;
use crate::trace::event::{Action, Event, File};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A process or thread that is alive.
struct Task {
    number: u32,
    space: usize,
    directory: PathBuf,
}

#[derive(Default)]
struct Space {
    mappings: AddressSpace,
    users: u32,
}

/// Identities do not matter here; the replay gives them out.
struct Nobody;

impl Ledger for Nobody {
    fn enter(&mut self, _: Region) -> u32 {
        0
    }
    fn leave(&mut self, _: u32) {}
}

pub(super) struct Tracker<'l, P> {
    log: &'l Log,
    page: u64,
    program: P,
    start: PathBuf,
    files: Files,
    events: Vec<Event>,
    tasks: HashMap<u32, Task>,
    next_task: u32,
    spaces: Vec<Space>,
    /// The births that will bring forth each process, in order: numbers are used again.
    expected: HashMap<u32, VecDeque<usize>>,
    /// Births entered and not over, whose child has not appeared.
    open: Vec<usize>,
    first: u64,
    time: u64,
}

impl<'l, P: FnMut(&Path) -> Option<Program>> Tracker<'l, P> {
    pub(super) fn new(log: &'l Log, start: &Path, page: u64, program: P) -> Self {
        let mut expected: HashMap<u32, VecDeque<usize>> = HashMap::new();
        for (number, birth) in log.births.iter().enumerate() {
            if let Child::Process(child) = birth.child {
                expected.entry(child).or_default().push_back(number);
            }
        }
        Tracker {
            log,
            page: page.max(1),
            program,
            start: start.to_owned(),
            files: Files::default(),
            events: Vec::new(),
            tasks: HashMap::new(),
            next_task: 0,
            spaces: Vec::new(),
            expected,
            open: Vec::new(),
            first: log.entries.first().map_or(0, |entry| entry.time),
            time: 0,
        }
    }

    pub(super) fn follow(&mut self, entry: &Entry) -> Result<(), StraceError> {
        // Lines are in order, but the clock may be set back while they are written.
        self.time = self.time.max(entry.time.saturating_sub(self.first));
        let pid = entry.process;
        if !self.tasks.contains_key(&pid) {
            self.appear(entry)?;
        }
        match &entry.what {
            What::Map {
                address,
                length,
                file,
                offset,
            } => self.map(entry, *address, *length, file.as_deref(), *offset),
            What::Unmap { address, length } => {
                let length = self.whole_pages(entry, *length)?;
                self.unmap(entry, *address, length)
            }
            What::Remap {
                from,
                old_length,
                to,
                length,
                keeps,
            } => self.remap(entry, (*from, *old_length), (*to, *length), *keeps),
            What::Exec { path } => self.exec(entry, path.as_deref()),
            What::Truncate { path, length } => {
                let path = self.absolute(pid, path);
                if is_mappable(&path) {
                    let file = self.files.number(&path, false);
                    let length = *length;
                    self.emit(pid, Action::Truncate { file, length });
                }
                Ok(())
            }
            What::ChangeDirectory { path } => {
                let path = PathBuf::from(std::ffi::OsString::from_vec(self.absolute(pid, path)));
                if let Some(task) = self.tasks.get_mut(&pid) {
                    task.directory = path;
                }
                Ok(())
            }
            What::BirthBegins(birth) => {
                self.open.push(*birth);
                Ok(())
            }
            What::BirthEnds(birth) => {
                if self.open.contains(birth)
                    && let Child::Process(child) = self.log.births[*birth].child
                {
                    self.bring_forth(entry, *birth, child)?;
                }
                self.open.retain(|open| open != birth);
                Ok(())
            }
            What::Exited => {
                // Killed inside a call whose child shows itself later.
                for birth in self.open.clone() {
                    let Child::Process(child) = self.log.births[birth].child else {
                        continue;
                    };
                    if self.log.births[birth].parent == pid {
                        self.bring_forth(entry, birth, child)?;
                    }
                }
                self.exit(pid);
                Ok(())
            }
            What::Superseded { by } => {
                self.exit(pid);
                if let Some(task) = self.tasks.remove(by) {
                    self.tasks.insert(pid, task);
                }
                Ok(())
            }
        }
    }

    /// What was recorded. Who is still alive ends now.
    pub(super) fn finish(mut self) -> Result<(Vec<File>, Vec<Event>), StraceError> {
        let mut left: Vec<(u32, u32)> = self
            .tasks
            .iter()
            .map(|(&pid, task)| (task.number, pid))
            .collect();
        left.sort_unstable();
        for (_, pid) in left {
            self.exit(pid);
        }
        if self.events.is_empty() {
            return Err(StraceError::Empty);
        }
        Ok((self.files.into_files(), self.events))
    }

    fn emit(&mut self, pid: u32, action: Action) {
        if let Some(task) = self.tasks.get(&pid) {
            self.events.push(Event {
                time: self.time,
                process: task.number,
                action,
            });
        }
    }

    /// A process shows itself for the first time: the first of all, or the child of a call under way.
    fn appear(&mut self, entry: &Entry) -> Result<(), StraceError> {
        let pid = entry.process;
        if self.next_task == 0 {
            let directory = self.start.clone();
            self.add_task(pid, 0, directory);
            self.spaces.push(Space {
                mappings: AddressSpace::default(),
                users: 1,
            });
            return Ok(());
        }
        let known = self
            .expected
            .get(&pid)
            .and_then(VecDeque::front)
            .copied()
            .filter(|birth| self.open.contains(birth));
        // Else the recording ends before the call does: the oldest such call must be it.
        let birth = known.or_else(|| {
            self.open
                .iter()
                .copied()
                .find(|&birth| self.log.births[birth].child == Child::Unknown)
        });
        match birth {
            Some(birth) => self.bring_forth(entry, birth, pid),
            None => Err(orphan(entry, pid)),
        }
    }

    fn bring_forth(&mut self, entry: &Entry, birth: usize, child: u32) -> Result<(), StraceError> {
        self.open.retain(|&open| open != birth);
        if let Some(expected) = self.expected.get_mut(&child) {
            expected.retain(|&other| other != birth);
        }
        let (parent, shared) = {
            let birth = &self.log.births[birth];
            // A call that never returned shows its flags nowhere; `vfork` waits, so that is what it was.
            (birth.parent, birth.shared || birth.child == Child::Unknown)
        };
        // The number can only be in use again if its end was not recorded.
        self.exit(child);
        let Some(task) = self.tasks.get(&parent) else {
            return Err(orphan(entry, child));
        };
        let (space, directory) = (task.space, task.directory.clone());
        self.emit(
            parent,
            Action::Fork {
                child: self.next_task,
                shared,
            },
        );
        let space = if shared {
            self.spaces[space].users += 1;
            space
        } else {
            let mappings = self.spaces[space].mappings.copy(&mut Nobody);
            self.spaces.push(Space { mappings, users: 1 });
            self.spaces.len() - 1
        };
        self.add_task(child, space, directory);
        Ok(())
    }

    fn add_task(&mut self, pid: u32, space: usize, directory: PathBuf) {
        let number = self.next_task;
        self.next_task += 1;
        self.tasks.insert(
            pid,
            Task {
                number,
                space,
                directory,
            },
        );
    }

    fn exit(&mut self, pid: u32) {
        self.emit(pid, Action::Exit);
        if let Some(task) = self.tasks.remove(&pid) {
            self.leave(task.space);
        }
    }

    fn leave(&mut self, space: usize) {
        let space = &mut self.spaces[space];
        space.users -= 1;
        if space.users == 0 {
            space.mappings.clear(&mut Nobody);
        }
    }

    fn exec(&mut self, entry: &Entry, path: Option<&[u8]>) -> Result<(), StraceError> {
        let pid = entry.process;
        let program = path
            .map(|path| self.absolute(pid, path))
            .and_then(|path| (self.program)(Path::new(OsStr::from_bytes(&path))))
            .filter(|program| program.length > 0);
        let program = match program {
            Some(program) => {
                let length = self.whole_pages(entry, program.length)?;
                Some((
                    self.files.number(program.path.as_os_str().as_bytes(), true),
                    length,
                ))
            }
            None => None,
        };
        self.emit(pid, Action::Exec { program });
        let Some(task) = self.tasks.get_mut(&pid) else {
            return Ok(());
        };
        let old = task.space;
        if self.spaces[old].users > 1 {
            task.space = self.spaces.len();
            self.spaces.push(Space {
                mappings: AddressSpace::default(),
                users: 1,
            });
            self.leave(old);
        } else {
            self.spaces[old].mappings.clear(&mut Nobody);
        }
        Ok(())
    }

    fn map(
        &mut self,
        entry: &Entry,
        address: u64,
        length: u64,
        file: Option<&[u8]>,
        offset: u64,
    ) -> Result<(), StraceError> {
        let length = self.whole_pages(entry, length)?;
        let Some(path) = file.map(true_path).filter(|path| is_mappable(path)) else {
            // Memory without a file covers what was there.
            return self.unmap(entry, address, length);
        };
        self.check_range(entry, address, length)?;
        self.check_range(entry, offset, length)?;
        let file = self.files.number(path, false);
        let region = Region {
            length,
            file,
            offset,
        };
        self.map_region(entry.process, address, region);
        Ok(())
    }

    fn map_region(&mut self, pid: u32, address: u64, region: Region) {
        let Region {
            length,
            file,
            offset,
        } = region;
        self.emit(
            pid,
            Action::Map {
                address,
                length,
                file,
                offset,
            },
        );
        if let Some(space) = self.space(pid) {
            space.map(address, region, &mut Nobody);
        }
    }

    fn unmap(&mut self, entry: &Entry, address: u64, length: u64) -> Result<(), StraceError> {
        if length == 0 {
            return Ok(());
        }
        self.check_range(entry, address, length)?;
        let touches = self
            .space(entry.process)
            .is_some_and(|space| space.overlaps(address, length));
        if touches {
            self.emit(entry.process, Action::Unmap { address, length });
            if let Some(space) = self.space(entry.process) {
                space.unmap(address, length, &mut Nobody);
            }
        }
        Ok(())
    }

    /// A remapping is an unmapping of what was there and a mapping of the same part of the file.
    fn remap(
        &mut self,
        entry: &Entry,
        (from, old_length): (u64, u64),
        (to, length): (u64, u64),
        keeps: bool,
    ) -> Result<(), StraceError> {
        let old_length = self.whole_pages(entry, old_length)?;
        let length = self.whole_pages(entry, length)?;
        let moved = self
            .space(entry.process)
            .and_then(|space| space.region_at(from));
        if from == to && length < old_length {
            self.check_range(entry, from, old_length)?;
            return self.unmap(entry, from + length, old_length - length);
        }
        if !keeps {
            self.unmap(entry, from, old_length)?;
        }
        let Some((start, region)) = moved else {
            return self.unmap(entry, to, length);
        };
        let offset = region.offset + (from - start);
        self.check_range(entry, to, length)?;
        self.check_range(entry, offset, length)?;
        let region = Region {
            length,
            file: region.file,
            offset,
        };
        self.map_region(entry.process, to, region);
        Ok(())
    }

    fn space(&mut self, pid: u32) -> Option<&mut AddressSpace> {
        let task = self.tasks.get(&pid)?;
        Some(&mut self.spaces[task.space].mappings)
    }

    fn whole_pages(&self, entry: &Entry, length: u64) -> Result<u64, StraceError> {
        length
            .checked_next_multiple_of(self.page)
            .ok_or_else(|| malformed(entry, "a length that 64 bits do not hold"))
    }

    fn check_range(&self, entry: &Entry, start: u64, length: u64) -> Result<(), StraceError> {
        if length == 0 || start.checked_add(length).is_none() {
            return Err(malformed(entry, "a range that 64 bits do not hold"));
        }
        if !start.is_multiple_of(self.page) {
            return Err(malformed(entry, "a mapping that is not in whole pages"));
        }
        Ok(())
    }

    /// The path as seen from the root; symbolic links stay.
    fn absolute(&self, pid: u32, path: &[u8]) -> Vec<u8> {
        let path = true_path(path);
        let relative = path.first() != Some(&b'/') && !path.contains(&b':');
        match self.tasks.get(&pid) {
            Some(task) if relative => task
                .directory
                .join(OsStr::from_bytes(path))
                .into_os_string()
                .into_vec(),
            _ => path.to_vec(),
        }
    }
}

/// A removed file keeps the path that it had.
fn true_path(path: &[u8]) -> &[u8] {
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}

fn orphan(entry: &Entry, process: u32) -> StraceError {
    StraceError::Orphan {
        line: entry.line,
        process,
    }
}

fn malformed(entry: &Entry, problem: &'static str) -> StraceError {
    StraceError::Line {
        line: entry.line,
        problem,
    }
}
