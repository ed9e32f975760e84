//! The files in which programs look for the machine: `/sys/devices/system`, `/proc/cpuinfo` and `/proc/stat` as the
//! described machine has them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::{Machine, Processor};

/// What the guest opens, and what it gets instead.
pub(super) type Replaced = Vec<(String, PathBuf)>;

/// Where the described machine differs from the host, below a folder of its own.
pub(super) struct Files<'a> {
    below: &'a Path,
    replaced: Replaced,
    /// The first file of each content: there are many files and few contents.
    written: HashMap<String, PathBuf>,
}

/// Writes the files of `machine` below `folder`.
pub(super) fn write(machine: &Machine, folder: &Path) -> Result<Replaced, (PathBuf, io::Error)> {
    let mut files = Files {
        below: folder,
        replaced: Vec::new(),
        written: HashMap::new(),
    };
    files.processors(machine)?;
    files.nodes(machine)?;
    let clock = "/sys/devices/system/clocksource/clocksource0";
    files.file(&format!("{clock}/current_clocksource"), "tsc\n")?;
    files.file(&format!("{clock}/available_clocksource"), "tsc\n")?;
    files.file("/proc/cpuinfo", &cpuinfo(machine))?;
    files.file("/proc/stat", &stat(machine))?;
    Ok(files.replaced)
}

impl Files<'_> {
    fn processors(&mut self, machine: &Machine) -> Result<(), (PathBuf, io::Error)> {
        const AT: &str = "/sys/devices/system/cpu";
        let all = format!("{}\n", list(0..machine.processors()));
        self.folder(AT)?;
        for name in ["online", "possible", "present"] {
            self.file(&format!("{AT}/{name}"), &all)?;
        }
        self.file(&format!("{AT}/offline"), "\n")?;
        let last = machine.processors().saturating_sub(1);
        self.file(&format!("{AT}/kernel_max"), &format!("{last}\n"))?;
        for processor in 0..machine.processors() {
            let core = core_of(machine, processor);
            let (chip, first, behind) = chip(machine, core);
            let at = format!("{AT}/cpu{processor}");
            let topology = format!("{at}/topology");
            self.folder(&at)?;
            self.folder(&topology)?;
            let chip_list = format!("{}\n", lists(machine, first..behind));
            let chip_mask = format!("{}\n", mask(machine, first..behind));
            let own_list = format!("{}\n", lists(machine, core..core + 1));
            let own_mask = format!("{}\n", mask(machine, core..core + 1));
            for (name, text) in [
                ("physical_package_id", format!("{chip}\n")),
                ("die_id", "0\n".to_owned()),
                ("core_id", format!("{}\n", core - first)),
                ("package_cpus_list", chip_list.clone()),
                ("core_siblings_list", chip_list),
                ("package_cpus", chip_mask.clone()),
                ("core_siblings", chip_mask),
                ("core_cpus_list", own_list.clone()),
                ("thread_siblings_list", own_list),
                ("core_cpus", own_mask.clone()),
                ("thread_siblings", own_mask),
            ] {
                self.file(&format!("{topology}/{name}"), &text)?;
            }
        }
        Ok(())
    }

    /// Each chip is a node, as far apart as the chips are.
    fn nodes(&mut self, machine: &Machine) -> Result<(), (PathBuf, io::Error)> {
        const AT: &str = "/sys/devices/system/node";
        let chips = chips(machine);
        let all = format!("{}\n", list(0..chips));
        self.folder(AT)?;
        for name in [
            "online",
            "possible",
            "has_cpu",
            "has_memory",
            "has_normal_memory",
        ] {
            self.file(&format!("{AT}/{name}"), &all)?;
        }
        for node in 0..chips {
            let at = format!("{AT}/node{node}");
            let first = node * machine.cores_per_chip;
            let behind = (first + machine.cores_per_chip).min(machine.cores);
            self.folder(&at)?;
            self.file(
                &format!("{at}/cpulist"),
                &format!("{}\n", lists(machine, first..behind)),
            )?;
            self.file(
                &format!("{at}/cpumap"),
                &format!("{}\n", mask(machine, first..behind)),
            )?;
            // In tenths of a local access, as firmware tells it.
            let distances: Vec<String> = (0..chips)
                .map(|other| {
                    let hops = machine
                        .hops
                        .get(node)
                        .and_then(|row| row.get(other))
                        .copied()
                        .unwrap_or(u8::from(node != other));
                    (10 + 10 * u32::from(hops)).to_string()
                })
                .collect();
            self.file(
                &format!("{at}/distance"),
                &format!("{}\n", distances.join(" ")),
            )?;
        }
        Ok(())
    }

    fn place(&mut self, guest: &str) -> PathBuf {
        let place = self.below.join(guest.trim_start_matches('/'));
        // What lies in a folder that is replaced is found through it.
        let found = self.replaced.iter().any(|(folder, _)| {
            guest
                .strip_prefix(folder.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        });
        if !found {
            self.replaced.push((guest.to_owned(), place.clone()));
        }
        place
    }

    fn folder(&mut self, guest: &str) -> Result<(), (PathBuf, io::Error)> {
        let place = self.place(guest);
        fs::create_dir_all(&place).map_err(|error| (place, error))
    }

    fn file(&mut self, guest: &str, text: &str) -> Result<(), (PathBuf, io::Error)> {
        let place = self.place(guest);
        if let Some(folder) = place.parent()
            && !folder.is_dir()
        {
            fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
        }
        if let Some(same) = self.written.get(text)
            && fs::hard_link(same, &place).is_ok()
        {
            return Ok(());
        }
        self.written.insert(text.to_owned(), place.clone());
        fs::write(&place, text).map_err(|error| (place, error))
    }
}

/// The chips that have cores: a machine may be used in part.
fn chips(machine: &Machine) -> usize {
    machine.cores.div_ceil(machine.cores_per_chip.max(1))
}

/// The core of a processor.
fn core_of(machine: &Machine, processor: usize) -> usize {
    machine.core_of(processor as Processor).into()
}

/// The chip of a core, its first core, and the one behind its last.
fn chip(machine: &Machine, core: usize) -> (usize, usize, usize) {
    let each = machine.cores_per_chip.max(1);
    let chip = core / each;
    let first = chip * each;
    (chip, first, (first + each).min(machine.cores))
}

/// `0-47`, or `0`.
fn list(cores: std::ops::Range<usize>) -> String {
    match cores.len() {
        0 => String::new(),
        1 => cores.start.to_string(),
        _ => format!("{}-{}", cores.start, cores.end - 1),
    }
}

/// All hardware threads of some cores: `0-5,48-53`.
fn lists(machine: &Machine, cores: std::ops::Range<usize>) -> String {
    let of_thread = |thread| {
        let before = thread * machine.cores;
        list(before + cores.start..before + cores.end)
    };
    let lists: Vec<String> = (0..machine.threads_per_core).map(of_thread).collect();
    lists.join(",")
}

/// The same in the kernel's way to write a set: groups of 32 bits in hexadecimal, the highest first.
fn mask(machine: &Machine, cores: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    let all = machine.processors();
    let contains = |processor| processor < all && cores.contains(&core_of(machine, processor));
    for group in (0..all.div_ceil(32).max(1)).rev() {
        let bits = (0..32)
            .filter(|bit| contains(group * 32 + bit))
            .fold(0_u32, |bits, bit| bits | 1 << bit);
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{bits:08x}");
    }
    text
}

fn cpuinfo(machine: &Machine) -> String {
    let mut text = String::new();
    for processor in 0..machine.processors() {
        let core = core_of(machine, processor);
        let (chip, first, behind) = chip(machine, core);
        let line = machine.line_size;
        let (cores, id, megahertz) = (behind - first, core - first, machine.megahertz);
        let siblings = cores * machine.threads_per_core;
        let _ = write!(
            text,
            "processor\t: {processor}\nvendor_id\t: Percolog\nmodel name\t: {} (simulated)\n\
             cpu MHz\t\t: {megahertz}.000\nphysical id\t: {chip}\nsiblings\t: {siblings}\ncore id\t\t: {id}\n\
             cpu cores\t: {cores}\napicid\t\t: {processor}\nfpu\t\t: yes\nwp\t\t: yes\n\
             flags\t\t: fpu tsc cx8 cmov clflush mmx fxsr sse sse2 syscall nx rdtscp lm constant_tsc nonstop_tsc \
             cpuid cx16\n\
             bogomips\t: {}.00\nclflush size\t: {line}\ncache_alignment\t: {line}\n\n",
            machine.name,
            2 * megahertz,
        );
    }
    text
}

fn stat(machine: &Machine) -> String {
    let mut text = String::from("cpu  0 0 0 0 0 0 0 0 0 0\n");
    for processor in 0..machine.processors() {
        let _ = writeln!(text, "cpu{processor} 0 0 0 0 0 0 0 0 0 0");
    }
    text.push_str("intr 0\nctxt 0\nbtime 0\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cores_are_written_as_the_kernel_does() {
        assert_eq!(list(0..1), "0");
        assert_eq!(list(0..48), "0-47");
        assert_eq!(list(6..12), "6-11");
        let mut machine = Machine::flat("sets", 48);
        assert_eq!(mask(&Machine::flat("six", 6), 0..6), "0000003f");
        assert_eq!(mask(&machine, 42..48), "0000fc00,00000000");
        assert_eq!(mask(&machine, 0..1), "00000000,00000001");
        machine.threads_per_core = 2;
        assert_eq!(mask(&machine, 0..6), "00000000,003f0000,0000003f");
        assert_eq!(lists(&machine, 0..6), "0-5,48-53");
    }

    #[test]
    fn the_files_describe_the_machine() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut machine = Machine::flat("test", 4);
        machine.chips = 2;
        machine.cores_per_chip = 2;
        machine.hops = vec![vec![0, 2], vec![2, 0]];
        let replaced = write(&machine, folder.path()).expect("the folder can be written");
        let read = |guest: &str| {
            let (from, to) = replaced
                .iter()
                .find(|(from, _)| guest.starts_with(from.as_str()))
                .unwrap_or_else(|| panic!("{guest} is not replaced"));
            fs::read_to_string(format!("{}{}", to.display(), &guest[from.len()..]))
                .unwrap_or_else(|error| panic!("{guest}: {error}"))
        };
        for (guest, text) in [
            ("/sys/devices/system/cpu/online", "0-3\n"),
            (
                "/sys/devices/system/cpu/cpu3/topology/physical_package_id",
                "1\n",
            ),
            ("/sys/devices/system/cpu/cpu3/topology/core_id", "1\n"),
            (
                "/sys/devices/system/cpu/cpu2/topology/package_cpus_list",
                "2-3\n",
            ),
            (
                "/sys/devices/system/cpu/cpu2/topology/thread_siblings",
                "00000004\n",
            ),
            ("/sys/devices/system/node/online", "0-1\n"),
            ("/sys/devices/system/node/node1/cpulist", "2-3\n"),
            ("/sys/devices/system/node/node1/distance", "30 10\n"),
            (
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc\n",
            ),
        ] {
            assert_eq!(read(guest), text, "{guest}");
        }
        assert_eq!(read("/proc/cpuinfo").matches("test (simulated)").count(), 4);
        assert_eq!(
            read("/proc/stat")
                .lines()
                .filter(|line| line.starts_with("cpu"))
                .count(),
            5
        );
    }
}
