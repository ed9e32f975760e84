//! Memory that other processes may use too: which of it this process has used.
//!
//! Each process is simulated by itself, so lines that go from process to process are not seen. That must not be taken for
//! there being none. So every mapping with `MAP_SHARED`, and every segment of System V, is noted here by what the kernel calls it: device
//! and number of a file, which memory without a name has as well. A process leaves a note of those that it has *used*: a mapping
//! that a child inherits and never touches is shared with nobody. The launcher compares the notes of all processes.
//!
//! A child finds the lines of its parent in its caches, and would use them without a word. So they are taken from it.

use crate::maps;
use crate::plugin::report::Json;
use crate::plugin::simulator::Simulator;

/// A part of the address space where such memory lies.
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
}

/// What was used of it, and where that lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    first: u64,
    end: u64,
    address: u64,
    writable: bool,
}

/// What this process has mapped so that others may see it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    areas: Vec<Area>,
    files: Vec<File>,
}

/// The address behind the last page that has some of these bytes.
fn behind(start: u64, size: u64) -> u64 {
    const PAGE: u64 = 4096;
    start.saturating_add(size).saturating_add(PAGE - 1) & !(PAGE - 1)
}

impl Shared {
    /// Whether nothing is mapped: there is nothing to look for.
    pub(crate) fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// The process has mapped something at `start`; if `size` is 0, it is not known how much. `text` is what the kernel says of all mappings.
    pub(crate) fn mapped(&mut self, start: u64, size: u64, text: &str) {
        for mapping in maps::parse(text).filter(|mapping| mapping.shared) {
            let end = match size {
                0 if mapping.contains(start) => mapping.end,
                _ => behind(start, size).min(mapping.end),
            };
            let start = start.max(mapping.start);
            if start >= end {
                continue;
            }
            self.unmapped(start, end - start);
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
                });
                self.files.len() - 1
            });
            self.areas.push(Area {
                start,
                end,
                offset: mapping.offset + (start - mapping.start),
                writable: mapping.writable,
                file,
            });
        }
    }

    /// Something else lies there from now on, or nothing.
    pub(crate) fn unmapped(&mut self, start: u64, size: u64) {
        let end = behind(start, size);
        let mut rest = Vec::new();
        self.areas.retain_mut(|area| {
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
        self.areas.append(&mut rest);
    }

    /// The segment that begins there is used no more.
    pub(crate) fn detached(&mut self, start: u64) {
        self.areas.retain(|area| area.start != start);
    }

    /// The rights to memory change.
    pub(crate) fn protected(&mut self, start: u64, size: u64, writable: bool) {
        let end = behind(start, size);
        for area in &mut self.areas {
            // Of a part is as good as of all: what it may not write it does not.
            area.writable |= writable && area.start < end && start < area.end;
        }
    }

    /// The process uses what lies at `address`.
    pub(crate) fn touch(&mut self, address: u64, size: u64) {
        for area in &self.areas {
            if !(area.start..area.end).contains(&address) {
                continue;
            }
            let first = area.offset + (address - area.start);
            let used = self.files[area.file].used.get_or_insert(Used {
                first,
                end: first,
                address,
                writable: false,
            });
            if first < used.first {
                (used.first, used.address) = (first, address);
            }
            used.end = used.end.max(first + size);
            used.writable |= area.writable;
        }
    }

    /// This is a child that has used nothing yet. Returns where what it has inherited lies.
    fn forked(&mut self) -> Vec<std::ops::Range<u64>> {
        for file in &mut self.files {
            file.used = None;
        }
        self.areas.iter().map(|area| area.start..area.end).collect()
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

impl Simulator {
    /// The guest has mapped memory that others may see, at `start`; if `size` is 0, it is not known how much.
    pub(crate) fn note_shared(&mut self, start: u64, size: u64) {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        self.shared.mapped(start, size, &text);
    }

    /// This is a forked child, which has used nothing of what it shares with its parent.
    pub(crate) fn forget_shared(&mut self) {
        let shift = self.settings.machine.line_size.ilog2();
        for area in self.shared.forked() {
            let lines = area.start >> shift..area.end.div_ceil(1 << shift);
            let tables = &mut self.tables;
            self.directory.discard(lines, |line, core| {
                if let Some(table) = &mut tables[usize::from(core)] {
                    table.forget(line);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
        1000-3000 rw-s 00000000 00:01 7 /dev/zero (deleted)\n\
        3000-5000 r--s 00001000 fe:00 9 /tmp/a \"file\"\n\
        5000-6000 rw-p 00000000 00:00 0 \n";

    fn written(shared: &Shared) -> Vec<crate::raw::SharedResult> {
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
    fn what_is_used_of_a_mapping_is_told_until_a_fork() {
        let mut shared = Shared::default();
        shared.mapped(0x1000, 0x2000, MAPS);
        shared.mapped(0x3000, 0, MAPS);
        shared.mapped(0x5000, 0x1000, MAPS);
        assert_eq!(shared.areas.len(), 2, "private memory is nobody else's");
        assert!(written(&shared).is_empty(), "nothing was used");
        shared.touch(0x5000, 64);
        assert!(written(&shared).is_empty(), "that was private");
        shared.touch(0x1100, 64);
        shared.touch(0x1040, 64);
        shared.touch(0x4fc0, 64);
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
        shared.protected(0x4000, 1, true);
        shared.touch(0x3000, 64);
        assert_eq!(written(&shared)[1].writable, 1);
        let inherited = shared.forked();
        assert_eq!(inherited, [0x1000..0x3000, 0x3000..0x5000]);
        assert!(written(&shared).is_empty(), "the child has used nothing");
        shared.touch(0x1000, 64);
        assert_eq!(written(&shared).len(), 1);
    }

    #[test]
    fn what_is_unmapped_is_used_no_more_and_was_used() {
        let mut shared = Shared::default();
        shared.mapped(0x1000, 0x2000, MAPS);
        shared.touch(0x2000, 64);
        shared.unmapped(0x1000, 0x800);
        shared.touch(0x1fc0, 64);
        assert_eq!(written(&shared)[0].first, 0x1000, "the page is gone");
        shared.touch(0x2fc0, 64);
        let found = &written(&shared)[0];
        assert_eq!((found.first, found.end), (0x1000, 0x2000));
        shared.unmapped(0, u64::MAX);
        assert!(shared.is_empty());
        shared.mapped(0x1000, 0x2000, MAPS);
        shared.detached(0x1000);
        assert!(shared.is_empty());
        assert_eq!(written(&shared).len(), 1, "it was used");
        // Mapped once more it is the same file.
        shared.mapped(0x1000, 0x1000, MAPS);
        shared.touch(0x1000, 64);
        assert_eq!(written(&shared)[0].first, 0);
        shared.mapped(0x1000, 0x1000, MAPS);
        assert_eq!(shared.areas.len(), 1, "the new one takes its place");
    }
}
