//! Lines that cost nothing, to find out what the program would gain if they did not.
//!
//! Accesses to a free line are ordered as before, take it from other cores as before and wake who spins on it, so that the
//! program does what it did; they only take no time. The launcher names such lines by address, by label, or by their place in
//! a file that is mapped. Labels are found when the program sets them, files when they are mapped.

use std::collections::{HashMap, HashSet};

use crate::maps;
use crate::plugin::simulator::Simulator;

/// What the launcher wants to be free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Which of the user's wishes this is part of: a name may be one of a label and of a variable.
    pub(crate) wish: usize,
    pub(crate) place: Place,
}

/// How a line is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// By an address in it.
    Address(u64),
    /// By what the program calls it: all of that, or the line at an offset.
    Label { name: String, offset: Option<u64> },
    /// By its distance from where the beginning of a file is mapped.
    File { path: String, start: u64, size: u64 },
}

impl Wanted {
    /// Reads `WISH address N`, `WISH label all|N NAME` or `WISH file START SIZE PATH`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (wish, rest) = text.split_once(' ')?;
        let (kind, rest) = rest.split_once(' ')?;
        let place = match kind {
            "address" => Place::Address(rest.parse().ok()?),
            "label" => {
                let (offset, name) = rest.split_once(' ')?;
                let offset = match offset {
                    "all" => None,
                    offset => Some(offset.parse().ok()?),
                };
                Place::Label {
                    name: name.to_owned(),
                    offset,
                }
            }
            "file" => {
                let (start, rest) = rest.split_once(' ')?;
                let (size, path) = rest.split_once(' ')?;
                Place::File {
                    path: path.to_owned(),
                    start: start.parse().ok()?,
                    size: size.parse().ok()?,
                }
            }
            _ => return None,
        };
        Some(Self {
            wish: wish.parse().ok()?,
            place,
        })
    }
}

/// What has become of a wish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// How many lines there are.
    pub(crate) lines: u64,
    /// How many accesses to them were not hits.
    pub(crate) events: u64,
}

/// The free lines.
#[derive(Debug, Default)]
pub(crate) struct Free {
    wanted: Vec<Wanted>,
    /// Whether files may have been mapped that were not looked for yet.
    mapped: bool,
    lines: HashMap<u64, usize>,
    /// Their numbers as their processes have them: each counts once.
    numbers: HashSet<u64>,
    met: Vec<Met>,
}

impl Free {
    /// Nothing is free yet of what is wanted.
    pub(crate) fn new(wanted: &[Wanted]) -> Self {
        let wishes = wanted.iter().map(|wanted| wanted.wish + 1).max();
        Self {
            wanted: wanted.to_vec(),
            mapped: true,
            lines: HashMap::new(),
            numbers: HashSet::new(),
            met: vec![Met::default(); wishes.unwrap_or(0)],
        }
    }

    /// Whether any line is free.
    pub(crate) fn any(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Whether a line is free.
    pub(crate) fn has(&self, line: u64) -> bool {
        self.lines.contains_key(&line)
    }

    /// An access to a line was not a hit.
    pub(crate) fn count(&mut self, line: u64) {
        if let Some(&wish) = self.lines.get(&line) {
            self.met[wish].events += 1;
        }
    }

    /// What has become of each wish, in the order of the wishes.
    pub(crate) fn met(&self) -> &[Met] {
        &self.met
    }

    /// The lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        self.lines.keys().copied()
    }

    /// The bytes of a label that are wanted: wish, first byte, size.
    fn of_label(&self, start: u64, length: u64, name: &str) -> Vec<(usize, u64, u64)> {
        let wanted = |wanted: &Wanted| match &wanted.place {
            Place::Label {
                name: label,
                offset,
            } if label == name => Some(match offset {
                None => (wanted.wish, start, length.max(1)),
                Some(offset) => (wanted.wish, start.wrapping_add(*offset), 1),
            }),
            _ => None,
        };
        self.wanted.iter().filter_map(wanted).collect()
    }

    /// The bytes that are wanted of the files that `maps` names, the text of `/proc/self/maps`.
    fn of_files(&self, maps: &str) -> Vec<(usize, u64, u64)> {
        let mut found = Vec::new();
        for wanted in &self.wanted {
            let Place::File { path, start, size } = &wanted.place else {
                continue;
            };
            let first = maps::parse(maps)
                .find(|mapping| mapping.offset == 0 && mapping.name == *path)
                .map(|mapping| mapping.start);
            if let Some(first) = first {
                found.push((wanted.wish, first.wrapping_add(*start), *size));
            }
        }
        found
    }

    fn wants_files(&self) -> bool {
        self.wanted
            .iter()
            .any(|wanted| matches!(wanted.place, Place::File { .. }))
    }
}

impl Simulator {
    /// What is wanted by its address is free from the beginning.
    pub(crate) fn free_addresses(&mut self) {
        let addresses: Vec<_> = self
            .free
            .wanted
            .iter()
            .filter_map(|wanted| match wanted.place {
                Place::Address(address) => Some((wanted.wish, address, 1)),
                _ => None,
            })
            .collect();
        self.free_bytes(&addresses);
    }

    /// The program has called these bytes so.
    pub(crate) fn free_label(&mut self, start: u64, length: u64, name: &str) {
        self.free_bytes(&self.free.of_label(start, length, name));
    }

    /// A system call is about to be made: what the one before has mapped is looked for.
    pub(crate) fn free_files(&mut self, maps_now: bool) {
        if std::mem::replace(&mut self.free.mapped, maps_now) && self.free.wants_files() {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
            self.free_bytes(&self.free.of_files(&maps));
        }
    }

    fn free_bytes(&mut self, bytes: &[(usize, u64, u64)]) {
        let line_size = self.settings.machine.line_size;
        for &(wish, start, size) in bytes {
            let last = start.saturating_add(size.max(1) - 1);
            for number in start / line_size..=last / line_size {
                let line = self.line(number);
                self.directory.set_free(line);
                self.free.lines.insert(line, wish);
                if self.free.numbers.insert(number) {
                    self.free.met[wish].lines += 1;
                }
            }
        }
    }

    /// A process was forked: what is free in its parent's memory is free in its own.
    pub(crate) fn free_inherited(&mut self, parent: usize, child: usize) {
        let shift = self.settings.machine.line_size.ilog2();
        let inherited: Vec<(u64, usize)> = self
            .free
            .lines
            .iter()
            .filter_map(|(line, wish)| {
                let address = self.spaces.addresses(parent, line << shift).next()?;
                Some((self.spaces.place(child, address) >> shift, *wish))
            })
            .collect();
        for (line, wish) in inherited {
            self.directory.set_free(line);
            self.free.lines.insert(line, wish);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Free {
        let wanted: Vec<Wanted> = lines
            .iter()
            .map(|line| Wanted::parse(line).expect("it is right"))
            .collect();
        Free::new(&wanted)
    }

    #[test]
    fn wishes_are_read() {
        let free = read(&[
            "0 address 4096",
            "1 label all the counter",
            "1 label 64 the counter",
            "1 file 16 8 /a path/with spaces",
        ]);
        assert_eq!(free.wanted[0].place, Place::Address(4096));
        assert_eq!(
            free.wanted[3].place,
            Place::File {
                path: "/a path/with spaces".to_owned(),
                start: 16,
                size: 8
            }
        );
        assert_eq!(free.met().len(), 2);
        for wrong in [
            "",
            "x address 1",
            "0 address x",
            "0 label x",
            "0 label far x",
            "0 file 1 /x",
            "0 other 1 2",
        ] {
            assert_eq!(Wanted::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn labels_are_met_whole_or_at_an_offset() {
        let free = read(&["0 label all hits", "1 label 128 table", "2 label all table"]);
        assert_eq!(free.of_label(4096, 8, "hits"), [(0, 4096, 8)]);
        assert_eq!(
            free.of_label(8192, 1024, "table"),
            [(1, 8192 + 128, 1), (2, 8192, 1024)]
        );
        assert_eq!(free.of_label(0, 8, "hit"), []);
    }

    #[test]
    fn files_are_met_where_their_beginning_is_mapped() {
        let free = read(&["0 file 4112 8 /tmp/a file", "1 file 0 8 /tmp/other"]);
        let maps = "4000000000-4000001000 r--p 00000000 fe:00 99   /tmp/a file\n\
                    4000001000-4000002000 rw-p 00001000 fe:00 99   /tmp/a file\n\
                    4000002000-4000003000 rw-p 00000000 00:00 0 \n\
                    5000000000-5000001000 rw-p 00001000 fe:00 98   /tmp/other\n";
        assert_eq!(free.of_files(maps), [(0, 0x40_0000_0000 + 4112, 8)]);
    }
}
