//! Second pass: follows tasks, their address spaces, descriptors and working directories, and writes events.

use super::Program;
use super::calls::{How, Mapped, Remap, What};
use super::files::{Files, is_mappable, join};
use super::lines::{Child, Entry, Log, Text};
use crate::address_space::{AddressSpace, Ledger, Region};
use crate::trace::event::{Action, Backing, Event, File, Names, Shares};
use crate::trace::format::{LONGEST_TABLE, MOST_EVENTS};
use crate::trace::{MAX_MAPPINGS, TraceError};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// Something that tasks share.
type Common<T> = Rc<RefCell<T>>;

fn common<T>(value: T) -> Common<T> {
    Rc::new(RefCell::new(value))
}

/// The same, or a copy of it.
fn share_or_copy<T: Clone>(of: &Common<T>, share: bool) -> Common<T> {
    if share {
        Rc::clone(of)
    } else {
        common(of.borrow().clone())
    }
}

/// A process or thread that is alive.
struct Task {
    number: u32,
    space: Common<Space>,
    descriptors: Common<Descriptors>,
    directory: Common<Vec<u8>>,
}

impl Task {
    /// How much of what it has is a copy for it alone.
    fn size(&self, shares: Shares, directory: bool) -> usize {
        let of = |shared: bool, size: usize| if shared { 0 } else { size };
        of(shares.memory, self.space.borrow().mappings.len())
            + of(shares.descriptors, self.descriptors.borrow().len())
            + of(directory, self.directory.borrow().len() / 32)
    }
}

/// An address space. Identities do not matter here; the replay gives them out.
#[derive(Default)]
struct Space {
    mappings: AddressSpace<Backing>,
    /// Where the heap ends, once that is known.
    heap: Option<u64>,
}

impl Clone for Space {
    fn clone(&self) -> Space {
        Space {
            mappings: self.mappings.copy(&mut Nobody),
            heap: self.heap,
        }
    }
}

/// The descriptors that stand for files with a path, and whether starting a program closes them.
type Descriptors = BTreeMap<u32, bool>;

struct Nobody;

impl Ledger<Backing> for Nobody {
    fn enter(&mut self, _: Region<Backing>) -> u32 {
        0
    }
    fn leave(&mut self, _: u32) {}
}

/// What an entry could not be followed for.
type Problem = &'static str;

/// A folder can lie deeper, but then no call tells its path (`PATH_MAX`).
const LONGEST_FOLDER: usize = 4096;

/// So many births can be under way at once; of more, the oldest are taken for over.
const MOST_OPEN: usize = 1 << 10;

const RANGE: Problem = "a range that 64 bits do not hold";
const LENGTH: Problem = "a length that 64 bits do not hold";

pub(super) struct Tracker<'l, P> {
    log: &'l Log,
    page: u64,
    program: P,
    /// What `program` has said before.
    programs: HashMap<Vec<u8>, Option<Program>>,
    start: Vec<u8>,
    files: Files,
    events: Vec<Event>,
    /// By the number that the operating system gives.
    tasks: BTreeMap<u32, Task>,
    next_task: u32,
    /// The births that will bring forth each process, in order: numbers are used again.
    expected: HashMap<u32, VecDeque<usize>>,
    /// Births entered and not over, whose child has not appeared.
    open: Vec<usize>,
    first: u64,
    time: u64,
    /// How many mappings, descriptors and parts of folders' names were copied for new tasks.
    copied: usize,
}

impl<'l, P: FnMut(&Path) -> Option<Program>> Tracker<'l, P> {
    pub(super) fn new(log: &'l Log, start: &Path, page: u64, names: Names, program: P) -> Self {
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
            programs: HashMap::new(),
            start: start.as_os_str().as_bytes().to_vec(),
            files: Files::new(names),
            events: Vec::new(),
            tasks: BTreeMap::new(),
            next_task: 0,
            expected,
            open: Vec::new(),
            first: log.entries.first().map_or(0, |entry| entry.time),
            time: 0,
            copied: 0,
        }
    }

    /// Follows one entry; the error says why it cannot be, or what had to be guessed.
    pub(super) fn follow(&mut self, entry: &Entry) -> Result<(), Problem> {
        // Lines are in order, but the clock may be set back while they are written.
        self.time = self.time.max(entry.time.saturating_sub(self.first));
        let pid = entry.process;
        let guessed = if self.tasks.contains_key(&pid) {
            Ok(())
        } else {
            self.appear(pid, &entry.what)
        };
        if self.tasks.contains_key(&pid) {
            self.act(pid, &entry.what)?;
        }
        guessed
    }

    fn act(&mut self, pid: u32, what: &What) -> Result<(), Problem> {
        match what {
            What::Map {
                address,
                length,
                mapped,
                offset,
            } => self.map(pid, (*address, *length), mapped, *offset)?,
            What::Unmap { address, length } => {
                let length = self.whole_pages(*length)?;
                self.unmap(pid, *address, length)?;
            }
            What::Remap(remap) => self.remap(pid, remap)?,
            What::Break { end } => self.heap(pid, *end),
            What::Exec { path } => self.exec(pid, *path)?,
            What::Truncate { path, length } => self.truncate(pid, *path, *length)?,
            What::ChangeDirectory { path, looked } => {
                let path = self.path(pid, *path);
                if *looked {
                    self.look(pid, &path, Some(true));
                }
                if let Some(task) = self.tasks.get(&pid) {
                    if path.len() > LONGEST_FOLDER {
                        return Err("a folder whose path is longer than the kernel says any");
                    }
                    *task.directory.borrow_mut() = path;
                }
            }
            What::Open {
                path,
                descriptor,
                how,
            } => self.open(pid, *path, *descriptor, *how),
            What::Close { descriptor } => self.close(pid, *descriptor),
            What::CloseRange {
                first,
                last,
                close_on_exec,
                unshare,
            } => {
                if *unshare && Rc::strong_count(&self.tasks[&pid].descriptors) > 1 {
                    return Err("descriptors cease to be shared, for which a trace has no event");
                }
                for descriptor in self.tracked(pid, *first, *last) {
                    if *close_on_exec {
                        self.inherit(pid, descriptor, true);
                    } else {
                        self.close(pid, descriptor);
                    }
                }
            }
            What::Duplicate {
                from,
                to,
                close_on_exec,
            } => self.duplicate(pid, *from, *to, *close_on_exec),
            What::Inherit {
                descriptor,
                close_on_exec,
            } => self.inherit(pid, *descriptor, *close_on_exec),
            What::Look { path, exists } => {
                let path = self.path(pid, *path);
                self.look(pid, &path, *exists);
            }
            What::Create { path } => {
                if let Some(file) = self.file(pid, *path) {
                    self.files.set_exists(file, true);
                    self.emit(pid, Action::Create { file });
                }
            }
            What::Rename { from, to, exchange } => {
                if let (Some(from), Some(to)) = (self.file(pid, *from), self.file(pid, *to)) {
                    self.files.set_exists(from, *exchange);
                    self.files.set_exists(to, true);
                    self.emit(pid, Action::Rename { from, to });
                }
            }
            What::Unlink { path } => {
                if let Some(file) = self.file(pid, *path) {
                    self.files.set_exists(file, false);
                    self.emit(pid, Action::Unlink { file });
                }
            }
            What::BirthBegins(birth) => {
                if self.open.len() == MOST_OPEN {
                    self.open.remove(0);
                }
                self.open.push(*birth);
            }
            What::BirthEnds(birth) => {
                let awaited = self.open.contains(birth);
                self.open.retain(|open| open != birth);
                if awaited && let Child::Process(child) = self.log.births[*birth].child {
                    self.bring_forth(*birth, child);
                }
            }
            What::Exited => {
                // Killed inside a call whose child shows itself later.
                for birth in self.open.clone() {
                    let entered = &self.log.births[birth];
                    if entered.parent == pid
                        && let Child::Process(child) = entered.child
                    {
                        self.bring_forth(birth, child);
                    }
                }
                self.exit(pid);
            }
            What::Superseded { by } => {
                self.exit(pid);
                if let Some(task) = self.tasks.remove(by) {
                    self.tasks.insert(pid, task);
                }
            }
        }
        Ok(())
    }

    /// Refuses what no trace could hold, before there is much more of it.
    pub(super) fn check(&self) -> Result<(), TraceError> {
        if self.events.len() as u64 > MOST_EVENTS {
            Err(TraceError::TooManyEvents { most: MOST_EVENTS })
        } else if self.copied > MAX_MAPPINGS {
            Err(TraceError::TooLarge { most: MAX_MAPPINGS })
        } else if self.files.path_bytes() > LONGEST_TABLE {
            Err(TraceError::Header(format!(
                "the files' paths take more than {} MiB",
                LONGEST_TABLE >> 20
            )))
        } else {
            Ok(())
        }
    }

    /// What was recorded. Who is still alive ends now.
    pub(super) fn finish(mut self) -> (Vec<File>, Vec<Event>) {
        let mut left: Vec<(u32, u32)> = self
            .tasks
            .iter()
            .map(|(&pid, task)| (task.number, pid))
            .collect();
        left.sort_unstable();
        for (_, pid) in left {
            self.exit(pid);
        }
        (self.files.into_files(), self.events)
    }

    fn emit(&mut self, pid: u32, action: Action) {
        if let Some(task) = self.tasks.get(&pid) {
            self.events.push(Event {
                time: self.time,
                task: task.number,
                action,
            });
        }
    }

    /// A process shows itself for the first time: the first of all, or the child of a call under way.
    fn appear(&mut self, pid: u32, what: &What) -> Result<(), Problem> {
        if self.next_task == 0 {
            let task = Task {
                number: 0,
                space: common(Space::default()),
                descriptors: common(Descriptors::new()),
                directory: common(self.start.clone()),
            };
            self.next_task = 1;
            self.tasks.insert(pid, task);
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
        if let Some(birth) = birth
            && self.bring_forth(birth, pid)
        {
            return Ok(());
        }
        if matches!(what, What::Exited | What::Superseded { .. }) {
            return Err("a process ends that nobody started");
        }
        // Somebody must have started it; that it is a copy of the oldest that is alive harms nobody.
        let oldest = self
            .tasks
            .iter()
            .min_by_key(|(_, task)| task.number)
            .map(|(&parent, _)| parent);
        match oldest {
            Some(parent) => {
                self.start_task(parent, pid, Shares::default(), false);
                Err("a process that nobody started; taken for a child of the first one alive")
            }
            None => Err("a process that nobody started, after all others have ended"),
        }
    }

    /// The child of a birth appears; whether there was anybody to start it.
    fn bring_forth(&mut self, birth: usize, child: u32) -> bool {
        self.open.retain(|&open| open != birth);
        if let Some(expected) = self.expected.get_mut(&child) {
            expected.retain(|&other| other != birth);
        }
        let birth = &self.log.births[birth];
        if birth.parent == child || !self.tasks.contains_key(&birth.parent) {
            return false;
        }
        // The number can only be in use again if its end was not recorded.
        self.exit(child);
        self.start_task(birth.parent, child, birth.shares, birth.directory);
        true
    }

    fn start_task(&mut self, parent: u32, child: u32, shares: Shares, directory: bool) {
        let number = self.next_task;
        let Some(task) = self.tasks.get(&parent).map(|parent| Task {
            number,
            space: share_or_copy(&parent.space, shares.memory),
            descriptors: share_or_copy(&parent.descriptors, shares.descriptors),
            directory: share_or_copy(&parent.directory, directory),
        }) else {
            return;
        };
        self.next_task += 1;
        self.copied += task.size(shares, directory);
        self.emit(
            parent,
            Action::Fork {
                child: number,
                shares,
            },
        );
        self.tasks.insert(child, task);
    }

    fn exit(&mut self, pid: u32) {
        self.emit(pid, Action::Exit);
        self.tasks.remove(&pid);
    }

    fn exec(&mut self, pid: u32, path: Option<Text>) -> Result<(), Problem> {
        let program = path
            .map(|path| self.path(pid, path))
            .and_then(|path| self.resolve(path))
            .filter(|program| program.length > 0);
        let program = match program {
            Some(program) => {
                let length = self.whole_pages(program.length)?;
                let file = self.files.program(program.path.as_os_str().as_bytes());
                self.files.set_exists(file, true);
                Some((file, length))
            }
            None => None,
        };
        self.emit(pid, Action::Exec { program });
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.space = common(Space::default());
            let mut descriptors = task.descriptors.borrow().clone();
            descriptors.retain(|_, close_on_exec| !*close_on_exec);
            task.descriptors = common(descriptors);
        }
        Ok(())
    }

    fn resolve(&mut self, path: Vec<u8>) -> Option<Program> {
        let Tracker {
            programs, program, ..
        } = self;
        programs
            .entry(path)
            .or_insert_with_key(|path| program(Path::new(OsStr::from_bytes(path))))
            .clone()
    }

    fn map(
        &mut self,
        pid: u32,
        (address, length): (u64, u64),
        mapped: &Mapped,
        offset: u64,
    ) -> Result<(), Problem> {
        let length = self.whole_pages(length)?;
        self.check_range(address, length)?;
        let (object, offset) = match mapped {
            Mapped::Memory => (Backing::Memory, 0),
            Mapped::File(path) => match self.file(pid, *path) {
                Some(file) => {
                    self.files.set_exists(file, true);
                    (Backing::File(file), offset)
                }
                // A device covers what was there.
                None => return self.unmap(pid, address, length),
            },
            Mapped::Other => return self.unmap(pid, address, length),
        };
        self.check_range(offset, length)?;
        let region = Region {
            length,
            object,
            offset,
        };
        self.map_region(pid, address, region);
        Ok(())
    }

    fn map_region(&mut self, pid: u32, address: u64, region: Region<Backing>) {
        let offset = match region.object {
            Backing::File(_) => region.offset,
            Backing::Memory => 0,
        };
        let region = Region { offset, ..region };
        self.emit(
            pid,
            Action::Map {
                address,
                length: region.length,
                backing: region.object,
                offset,
            },
        );
        self.in_space(pid, |space| {
            space.mappings.map(address, region, &mut Nobody)
        });
    }

    fn unmap(&mut self, pid: u32, address: u64, length: u64) -> Result<(), Problem> {
        if length == 0 {
            return Ok(());
        }
        self.check_range(address, length)?;
        if self.in_space(pid, |space| space.mappings.overlaps(address, length)) == Some(true) {
            self.emit(pid, Action::Unmap { address, length });
            self.in_space(pid, |space| {
                space.mappings.unmap(address, length, &mut Nobody);
            });
        }
        Ok(())
    }

    /// A remapping is an unmapping of what was there and a mapping of the same part of the same thing.
    fn remap(&mut self, pid: u32, remap: &Remap) -> Result<(), Problem> {
        let Remap { from, to, .. } = *remap;
        let old_length = self.whole_pages(remap.old_length)?;
        let length = self.whole_pages(remap.length)?;
        if old_length > 0 {
            self.check_range(from, old_length)?;
        }
        self.check_range(to, length)?;
        if from == to && length < old_length {
            return self.unmap(pid, from + length, old_length - length);
        }
        let moved = self
            .in_space(pid, |space| space.mappings.region_at(from))
            .flatten();
        let region = match moved {
            Some((start, region)) => Some(Region {
                length,
                object: region.object,
                offset: match region.object {
                    Backing::File(_) => region.offset.checked_add(from - start).ok_or(RANGE)?,
                    Backing::Memory => 0,
                },
            }),
            None => None,
        };
        if let Some(region) = region {
            self.check_range(region.offset, length)?;
        }
        if !remap.keeps {
            self.unmap(pid, from, old_length)?;
        }
        match region {
            Some(region) => {
                self.map_region(pid, to, region);
                Ok(())
            }
            None => self.unmap(pid, to, length),
        }
    }

    fn heap(&mut self, pid: u32, end: u64) {
        let before = self.in_space(pid, |space| space.heap.replace(end));
        if before != Some(Some(end)) {
            self.emit(pid, Action::Break { end });
        }
    }

    fn truncate(&mut self, pid: u32, path: Text, length: u64) -> Result<(), Problem> {
        if i64::try_from(length).is_err() {
            return Err("a file cannot be that long");
        }
        if let Some(file) = self.file(pid, path) {
            self.files.set_exists(file, true);
            self.emit(pid, Action::Truncate { file, length });
        }
        Ok(())
    }

    fn open(&mut self, pid: u32, path: Option<Text>, descriptor: u32, how: How) {
        // Whatever it stood for before, it was closed without our knowledge.
        self.close(pid, descriptor);
        let Some(file) = path.and_then(|path| self.file(pid, path)) else {
            return;
        };
        let made = how.create && (how.exclusive || self.files.exists(file) != Some(true));
        self.files.set_exists(file, true);
        if made {
            self.emit(pid, Action::Create { file });
        }
        self.emit(
            pid,
            Action::Open {
                file,
                descriptor,
                close_on_exec: how.close_on_exec,
            },
        );
        if how.truncate && !made {
            self.emit(pid, Action::Truncate { file, length: 0 });
        }
        self.in_table(pid, |table| table.insert(descriptor, how.close_on_exec));
    }

    fn close(&mut self, pid: u32, descriptor: u32) {
        if self
            .in_table(pid, |table| table.remove(&descriptor))
            .flatten()
            .is_some()
        {
            self.emit(pid, Action::Close { descriptor });
        }
    }

    fn duplicate(&mut self, pid: u32, from: u32, to: u32, close_on_exec: bool) {
        if from == to {
            return;
        }
        let tracked = self.in_table(pid, |table| table.contains_key(&from));
        if tracked == Some(true) {
            self.emit(
                pid,
                Action::Duplicate {
                    from,
                    to,
                    close_on_exec,
                },
            );
            self.in_table(pid, |table| table.insert(to, close_on_exec));
        } else {
            self.close(pid, to);
        }
    }

    fn inherit(&mut self, pid: u32, descriptor: u32, close_on_exec: bool) {
        let changed = self.in_table(pid, |table| match table.get_mut(&descriptor) {
            Some(marked) if *marked != close_on_exec => {
                *marked = close_on_exec;
                true
            }
            _ => false,
        });
        if changed == Some(true) {
            self.emit(
                pid,
                Action::Inherit {
                    descriptor,
                    close_on_exec,
                },
            );
        }
    }

    /// The tracked descriptors in a range.
    fn tracked(&self, pid: u32, first: u32, last: u32) -> Vec<u32> {
        if first > last {
            return Vec::new();
        }
        self.in_table(pid, |table| {
            table
                .range(first..=last)
                .map(|(&number, _)| number)
                .collect()
        })
        .unwrap_or_default()
    }

    fn look(&mut self, pid: u32, path: &[u8], exists: Option<bool>) {
        if !is_mappable(path) {
            return;
        }
        let file = self.files.number(path);
        if let Some(exists) = exists {
            self.files.set_exists(file, exists);
        }
        self.emit(pid, Action::Stat { file });
    }

    fn in_space<R>(&self, pid: u32, act: impl FnOnce(&mut Space) -> R) -> Option<R> {
        let task = self.tasks.get(&pid)?;
        Some(act(&mut task.space.borrow_mut()))
    }

    fn in_table<R>(&self, pid: u32, act: impl FnOnce(&mut Descriptors) -> R) -> Option<R> {
        let task = self.tasks.get(&pid)?;
        Some(act(&mut task.descriptors.borrow_mut()))
    }

    fn whole_pages(&self, length: u64) -> Result<u64, Problem> {
        length.checked_next_multiple_of(self.page).ok_or(LENGTH)
    }

    fn check_range(&self, start: u64, length: u64) -> Result<(), Problem> {
        if length == 0 || start.checked_add(length).is_none() {
            return Err(RANGE);
        }
        if !start.is_multiple_of(self.page) {
            return Err("a mapping that is not in whole pages");
        }
        Ok(())
    }

    /// The path as seen from the root; symbolic links stay.
    fn path(&self, pid: u32, path: Text) -> Vec<u8> {
        let path = self.log.texts.get(path);
        match self.tasks.get(&pid) {
            Some(task) => join(&task.directory.borrow(), path),
            None => join(&self.start, path),
        }
    }

    /// The number of the file of a path; `None` when it is none that is tracked.
    fn file(&mut self, pid: u32, path: Text) -> Option<u32> {
        let path = self.path(pid, path);
        is_mappable(&path).then(|| self.files.number(&path))
    }
}
