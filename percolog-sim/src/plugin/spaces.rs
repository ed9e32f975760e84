//! Address spaces: which line of the machine's memory lies behind an address of a process.
//!
//! Two processes have different memory at the same address, and the same memory at different ones. So a line is known by
//! what it belongs to: private memory to its process, and memory that is mapped with `MAP_SHARED` or a segment of System V
//! to what the kernel calls it, device and number of a file, which memory without a name has as well, and where in it.
//! [`Spaces::place`] makes one number of that, from the first access of a process on; [`Spaces::shown`] says where the
//! user finds it.
//!
//! What is executed by a forked process is simulated on a machine of its own, and lines that go from machine to machine
//! are not seen. That must not be taken for there being none: so a note is left of all such memory that was *used*, and the
//! launcher compares the notes of all machines.

use crate::maps;
use crate::plugin::hot::HOT;
use crate::plugin::report::Json;
use crate::plugin::simulator::Simulator;

/// Bits of an address. What is above them says whose it is.
const ADDRESS_BITS: u32 = 47;
const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;
/// It is not a process's, but of a file.
const FILE: u64 = 1 << 63;
/// So many processes, or files, are told apart at a time.
const OWNERS: usize = 1 << (63 - ADDRESS_BITS);

/// A part of an address space where memory lies that others may see.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Area {
    start: u64,
    end: u64,
    /// Where the first byte is in the file.
    offset: u64,
    writable: bool,
    /// Its place among the files.
    file: usize,
}

/// What is mapped, by whatever name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    device: String,
    number: u64,
    name: String,
    used: Option<Used>,
    /// Where parts of it lay first: what a user is shown.
    seen: Vec<Area>,
}

/// So many parts of a file are remembered: programs may map a large one piece by piece.
const MOST_SEEN: usize = 256;

/// What was used of it, and where that lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    first: u64,
    end: u64,
    address: u64,
    writable: bool,
}

/// The address spaces of all processes, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    spaces: Vec<Space>,
    files: Vec<File>,
}

#[derive(Debug, Default)]
struct Space {
    areas: Vec<Area>,
    /// The process that this one was forked from.
    parent: Option<usize>,
}

/// The address behind the last page that has some of these bytes.
fn behind(start: u64, size: u64) -> u64 {
    const PAGE: u64 = 4096;
    start.saturating_add(size).saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// What tells an owner from others.
fn tag(owner: usize) -> u64 {
    ((owner % OWNERS) as u64) << ADDRESS_BITS
}

impl Spaces {
    /// One more process, with the next number: the first one, or one that was forked.
    pub(crate) fn begin(&mut self, parent: Option<usize>) {
        let areas = parent.map_or_else(Vec::new, |parent| self.spaces[parent].areas.clone());
        self.spaces.push(Space { areas, parent });
    }

    /// A process has ended.
    pub(crate) fn end(&mut self, process: usize) {
        self.spaces[process].areas = Vec::new();
    }

    /// Whether a process has mapped nothing that others may see.
    pub(crate) fn is_alone(&self, process: usize) -> bool {
        self.spaces[process].areas.is_empty()
    }

    fn area(&self, process: usize, address: u64) -> Option<&Area> {
        let areas = &self.spaces[process].areas;
        areas
            .iter()
            .find(|area| (area.start..area.end).contains(&address))
    }

    /// The place in the machine's memory that a process has at this address. Places that follow one another in a page do so in both.
    pub(crate) fn place(&self, process: usize, address: u64) -> u64 {
        match self.area(process, address) {
            None => tag(process) | (address & ADDRESS),
            Some(area) => {
                let within = area.offset + (address - area.start);
                FILE | tag(area.file) | (within & ADDRESS)
            }
        }
    }

    /// The address of a private place.
    pub(crate) fn bare(place: u64) -> u64 {
        place & ADDRESS
    }

    /// What makes places of a process's addresses of private memory.
    pub(crate) fn of_private(process: usize) -> u64 {
        tag(process)
    }

    /// Whether a place is one of private memory.
    pub(crate) fn is_private(place: u64) -> bool {
        place & FILE == 0
    }

    /// The addresses at which a process has a place: none, if it is not its own, and several, if it has mapped it more than once.
    pub(crate) fn addresses(&self, process: usize, place: u64) -> impl Iterator<Item = u64> + '_ {
        let within = place & ADDRESS;
        let private = (place & !ADDRESS == tag(process)).then_some(within);
        let areas: &[Area] = match place & FILE {
            0 => &[],
            _ => &self.spaces[process].areas,
        };
        let in_areas = areas.iter().filter_map(move |area| {
            let is_its = FILE | tag(area.file) == place & !ADDRESS;
            let from_start = within.wrapping_sub(area.offset & ADDRESS) & ADDRESS;
            (is_its && from_start < area.end - area.start).then(|| area.start + from_start)
        });
        private.into_iter().chain(in_areas)
    }

    /// A place, and then where its process's parents had what they have left to it there.
    pub(crate) fn inherited(&self, process: usize, place: u64) -> impl Iterator<Item = u64> + '_ {
        let is_private = Spaces::is_private(place);
        let parents = std::iter::successors(self.spaces[process].parent, |&parent| {
            self.spaces[parent].parent
        });
        let theirs = parents
            .take_while(move |_| is_private)
            .map(move |parent| tag(parent) | (place & ADDRESS));
        std::iter::once(place).chain(theirs)
    }

    /// The private places of a process, all together.
    fn private(process: usize) -> std::ops::Range<u64> {
        tag(process)..tag(process) + ADDRESS + 1
    }

    /// Where the user finds a place: the address, and whose it is if it is private.
    pub(crate) fn shown(&self, place: u64) -> (u64, Option<usize>) {
        let (owner, within) = (((place & !FILE) >> ADDRESS_BITS) as usize, place & ADDRESS);
        if Spaces::is_private(place) {
            return (within, Some(owner));
        }
        let seen = self.files.get(owner).map_or(&[][..], |file| &file.seen);
        let address = seen.iter().find_map(|area| {
            let from_start = within.wrapping_sub(area.offset & ADDRESS) & ADDRESS;
            (from_start < area.end - area.start).then(|| area.start + from_start)
        });
        (address.unwrap_or(within), None)
    }

    /// What the kernel calls the memory at a place that is not private.
    pub(crate) fn file(&self, place: u64) -> Option<&str> {
        let owner = ((place & !FILE) >> ADDRESS_BITS) as usize;
        let file = self.files.get(owner).filter(|_| !Spaces::is_private(place));
        file.map(|file| &file.name[..])
    }

    /// A process has mapped something at `start`; if `size` is 0, it is not known how much. `text` is what the kernel says of all its
    /// mappings.
    pub(crate) fn mapped(&mut self, process: usize, start: u64, size: u64, text: &str) {
        for mapping in maps::parse(text).filter(|mapping| mapping.shared) {
            let end = match size {
                0 if mapping.contains(start) => mapping.end,
                _ => behind(start, size).min(mapping.end),
            };
            let start = start.max(mapping.start);
            if start >= end {
                continue;
            }
            self.unmapped(process, start, end - start);
            let known = self
                .files
                .iter()
                .position(|file| file.number == mapping.inode && file.device == mapping.device);
            let file = known.unwrap_or_else(|| {
                self.files.push(File {
                    device: mapping.device.clone(),
                    number: mapping.inode,
                    name: mapping.name.clone(),
                    used: None,
                    seen: Vec::new(),
                });
                self.files.len() - 1
            });
            let area = Area {
                start,
                end,
                offset: mapping.offset + (start - mapping.start),
                writable: mapping.writable,
                file,
            };
            self.files[file].see(&area);
            self.spaces[process].areas.push(area);
        }
    }

    /// Something else lies there from now on, or nothing.
    pub(crate) fn unmapped(&mut self, process: usize, start: u64, size: u64) {
        let end = behind(start, size);
        let mut rest = Vec::new();
        let areas = &mut self.spaces[process].areas;
        areas.retain_mut(|area| {
            if area.end <= start || end <= area.start {
                return true;
            }
            if area.end > end {
                rest.push(Area {
                    start: end,
                    offset: area.offset + (end - area.start),
                    ..area.clone()
                });
            }
            area.end = start;
            area.start < area.end
        });
        areas.append(&mut rest);
    }

    /// The segment that begins there is used no more.
    pub(crate) fn detached(&mut self, process: usize, start: u64) {
        self.spaces[process]
            .areas
            .retain(|area| area.start != start);
    }

    /// The rights to memory change.
    pub(crate) fn protected(&mut self, process: usize, start: u64, size: u64, writable: bool) {
        let end = behind(start, size);
        for area in &mut self.spaces[process].areas {
            // Of a part is as good as of all: what it may not write it does not.
            area.writable |= writable && area.start < end && start < area.end;
        }
    }

    /// A process uses what lies at a place of `size` bytes.
    pub(crate) fn touch(&mut self, process: usize, place: u64, size: u64) {
        if Spaces::is_private(place) {
            return;
        }
        let Some(address) = self.addresses(process, place).next() else {
            return;
        };
        let Some(area) = self.area(process, address) else {
            return;
        };
        let (first, writable) = (area.offset + (address - area.start), area.writable);
        let file = area.file;
        let used = self.files[file].used.get_or_insert(Used {
            first,
            end: first,
            address,
            writable: false,
        });
        if first < used.first {
            (used.first, used.address) = (first, address);
        }
        used.end = used.end.max(first + size);
        used.writable |= writable;
    }

    /// Writes what was used.
    pub(crate) fn write(&self, json: &mut Json) {
        let used = self
            .files
            .iter()
            .filter_map(|file| Some((file, file.used?)));
        json.list("shared", used, |json, (file, used)| {
            json.open('{');
            json.text("device", &file.device);
            json.number("number", file.number);
            json.text("name", &file.name);
            json.number("first", used.first);
            json.number("end", used.end);
            json.number("address", used.address);
            json.number("writable", u64::from(used.writable));
            json.close('}');
        });
    }
}

impl File {
    fn see(&mut self, area: &Area) {
        let covers = |seen: &Area| {
            seen.offset <= area.offset
                && seen.offset + (seen.end - seen.start) >= area.offset + (area.end - area.start)
        };
        if self.seen.len() < MOST_SEEN && !self.seen.iter().any(covers) {
            self.seen.push(area.clone());
        }
    }
}

impl Simulator {
    /// The place that the process which has the turn has at an address.
    pub(crate) fn place(&self, address: u64) -> u64 {
        self.spaces.place(self.process(), address)
    }

    /// The line of the machine's memory that is the process's line of this number.
    pub(crate) fn line(&self, number: u64) -> u64 {
        let shift = HOT.line_shift();
        self.place(number << shift) >> shift
    }

    /// The guest has mapped memory that others may see, at `start`; if `size` is 0, it is not known how much.
    pub(crate) fn note_shared(&mut self, start: u64, size: u64) {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        self.spaces.mapped(self.process(), start, size, &text);
        self.free_addresses();
    }

    /// A process has left the machine, `finally` or so far, and its private memory is nobody's.
    pub(crate) fn discard_space(&mut self, process: usize, finally: bool) {
        if finally {
            self.spaces.end(process);
        }
        let places = Spaces::private(process);
        let shift = HOT.line_shift();
        let lines = places.start >> shift..places.end >> shift;
        self.tables.end(process);
        self.directory.discard(lines, |_, _| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
        1000-3000 rw-s 00000000 00:01 7 /dev/zero (deleted)\n\
        3000-5000 r--s 00001000 fe:00 9 /tmp/a \"file\"\n\
        5000-6000 rw-p 00000000 00:00 0 \n";

    fn touch(spaces: &mut Spaces, address: u64) {
        let place = spaces.place(0, address);
        spaces.touch(0, place, 64);
    }

    fn written(shared: &Spaces) -> Vec<crate::raw::SharedResult> {
        let mut json = Json::default();
        json.open('{');
        shared.write(&mut json);
        json.close('}');
        #[derive(serde::Deserialize)]
        struct Written {
            shared: Vec<crate::raw::SharedResult>,
        }
        let written: Written = serde_json::from_str(&json.into_text()).expect("it is JSON");
        written.shared
    }

    #[test]
    fn what_is_used_of_a_mapping_is_told() {
        let mut shared = Spaces::default();
        shared.begin(None);
        shared.mapped(0, 0x1000, 0x2000, MAPS);
        shared.mapped(0, 0x3000, 0, MAPS);
        shared.mapped(0, 0x5000, 0x1000, MAPS);
        assert_eq!(
            shared.spaces[0].areas.len(),
            2,
            "private memory is nobody else's"
        );
        assert!(written(&shared).is_empty(), "nothing was used");
        touch(&mut shared, 0x5000);
        assert!(written(&shared).is_empty(), "that was private");
        touch(&mut shared, 0x1100);
        touch(&mut shared, 0x1040);
        touch(&mut shared, 0x4fc0);
        let [zero, file] = &written(&shared)[..] else {
            panic!("{shared:?}");
        };
        assert_eq!((zero.device.as_str(), zero.number), ("00:01", 7));
        assert_eq!(
            (zero.first, zero.end, zero.address),
            (0x40, 0x140, 0x1040),
            "from the first byte to the last"
        );
        assert_eq!((zero.writable, file.writable), (1, 0));
        assert_eq!((file.first, file.end), (0x2fc0, 0x3000), "in the file");
        assert_eq!(file.name, "/tmp/a \"file\"");
        shared.protected(0, 0x4000, 1, true);
        touch(&mut shared, 0x3000);
        assert_eq!(written(&shared)[1].writable, 1);
    }

    #[test]
    fn what_is_unmapped_is_used_no_more_and_was_used() {
        let mut shared = Spaces::default();
        shared.begin(None);
        shared.mapped(0, 0x1000, 0x2000, MAPS);
        touch(&mut shared, 0x2000);
        shared.unmapped(0, 0x1000, 0x800);
        touch(&mut shared, 0x1fc0);
        assert_eq!(written(&shared)[0].first, 0x1000, "the page is gone");
        touch(&mut shared, 0x2fc0);
        let found = &written(&shared)[0];
        assert_eq!((found.first, found.end), (0x1000, 0x2000));
        shared.unmapped(0, 0, u64::MAX);
        assert!(shared.is_alone(0));
        shared.mapped(0, 0x1000, 0x2000, MAPS);
        shared.detached(0, 0x1000);
        assert!(shared.is_alone(0));
        assert_eq!(written(&shared).len(), 1, "it was used");
        // Mapped once more it is the same file.
        shared.mapped(0, 0x1000, 0x1000, MAPS);
        touch(&mut shared, 0x1000);
        assert_eq!(written(&shared)[0].first, 0);
        shared.mapped(0, 0x1000, 0x1000, MAPS);
        assert_eq!(
            shared.spaces[0].areas.len(),
            1,
            "the new one takes its place"
        );
    }
    #[test]
    fn private_memory_is_its_process_s_and_shared_memory_is_the_file_s() {
        let mut spaces = Spaces::default();
        spaces.begin(None);
        spaces.mapped(0, 0x1000, 0x2000, MAPS);
        spaces.begin(Some(0));
        let [private, shared] = [0x9008, 0x1040];
        assert_eq!(spaces.place(0, private), private);
        assert_ne!(spaces.place(1, private), private);
        assert_eq!(spaces.place(0, shared), spaces.place(1, shared));
        // The child maps the same file somewhere else.
        let elsewhere = "7000-9000 rw-s 00000000 00:01 7 /dev/zero (deleted)\n";
        spaces.mapped(1, 0x7000, 0x2000, elsewhere);
        assert_eq!(spaces.place(1, 0x7040), spaces.place(0, shared));
        assert_ne!(spaces.place(1, 0x8040), spaces.place(0, shared));
        let has = |process, place| spaces.addresses(process, place).collect::<Vec<_>>();
        let place = spaces.place(0, shared);
        assert_eq!(has(0, place), [0x1040]);
        assert_eq!(has(1, place), [0x1040, 0x7040], "it has it twice");
        assert_eq!(has(0, spaces.place(0, private)), [private]);
        assert!(has(1, spaces.place(0, private)).is_empty());
        assert_eq!(spaces.shown(place), (0x1040, None), "where it lay first");
        assert_eq!(spaces.file(place), Some("/dev/zero (deleted)"));
        assert_eq!(spaces.file(spaces.place(1, private)), None);
        let theirs = spaces.place(1, private);
        assert_eq!(spaces.shown(theirs), (private, Some(1)));
        let before: Vec<u64> = spaces.inherited(1, theirs).collect();
        assert_eq!(before, [theirs, private], "what its parent has left to it");
        assert_eq!(spaces.inherited(1, place).count(), 1);
        let all = Spaces::private(1);
        assert!(all.contains(&theirs) && !all.contains(&private) && !all.contains(&place));
    }
}
