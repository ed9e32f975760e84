//! What a reader has to know before any figure: what the figures leave out, and why they may be about less than was asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::text::{grouped, plural};
use crate::raw::{Ending, ProcessResult, SharedResult};
use crate::run::Run;

/// What a reader has to know before the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Caveat {
    /// What it is about.
    pub kind: CaveatKind,
    /// What there is to say, in a sentence without a full stop.
    pub text: String,
}

/// What a [`Caveat`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CaveatKind {
    /// Processes share memory: lines that go from one to another are not seen, and the figures cannot be used.
    SharedMemory,
    /// The function that was to be the region was never called: there are no figures of it.
    NeverCalled,
    /// A process did not come to its end.
    EndedEarly,
    /// No process had more than one thread at any time: nothing can go from core to core.
    OneThread,
}

impl CaveatKind {
    /// What it is called where it is printed.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::SharedMemory => "SHARED BETWEEN PROCESSES",
            Self::NeverCalled => "REGION NEVER ENTERED",
            Self::EndedEarly => "ENDED EARLY",
            Self::OneThread => "ONE THREAD",
        }
    }

    /// Whether the figures are no answer to what was asked.
    pub(super) fn is_fatal(self) -> bool {
        matches!(self, Self::SharedMemory | Self::NeverCalled)
    }
}

/// Memory that several processes have used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SharedMemory {
    /// What it is.
    pub name: String,
    /// Where the first byte lies that was used, in the first of the processes.
    pub address: u64,
    /// How many bytes lie between the first and the last that were used.
    pub size: u64,
    /// The processes, by their places among all that were simulated.
    pub processes: Vec<usize>,
}

impl SharedMemory {
    /// What several processes have used, if one of them could write it.
    pub(crate) fn of(run: &Run) -> Vec<Self> {
        let mut files: BTreeMap<(&str, u64), Vec<(usize, &SharedResult)>> = BTreeMap::new();
        for (index, process) in run.processes.iter().enumerate() {
            for shared in &process.shared {
                let file = files
                    .entry((shared.device.as_str(), shared.number))
                    .or_default();
                file.push((index, shared));
            }
        }
        let mut found: Vec<Self> = files
            .values()
            .filter_map(|uses| Self::between(run, uses))
            .collect();
        found.sort_by_key(|shared| (shared.address, shared.processes.clone()));
        found
    }

    /// What two or more of these have in common.
    fn between(run: &Run, uses: &[(usize, &SharedResult)]) -> Option<Self> {
        let meet = |(one, a): &(usize, &SharedResult), (other, b): &(usize, &SharedResult)| {
            let pid = |index: usize| run.processes[index].pid;
            pid(*one) != pid(*other)
                && (a.writable != 0 || b.writable != 0)
                && a.first < b.end
                && b.first < a.end
        };
        let met: Vec<_> = uses
            .iter()
            .filter(|a| uses.iter().any(|b| meet(a, b)))
            .collect();
        let (_, first) = met.first()?;
        let start = met.iter().map(|(_, shared)| shared.first).min()?;
        let end = met.iter().map(|(_, shared)| shared.end).max()?;
        let processes: BTreeSet<usize> = met.iter().map(|(index, _)| *index).collect();
        Some(Self {
            name: name(&first.name),
            address: first.address.wrapping_sub(first.first - start),
            size: end - start,
            processes: processes.into_iter().collect(),
        })
    }

    fn text(&self, run: &Run) -> String {
        let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
        for index in &self.processes {
            *programs
                .entry(short(&run.processes[*index].program))
                .or_default() += 1;
        }
        let users: Vec<String> = programs
            .iter()
            .map(|(program, count)| format!("{} of {}", processes(*count), program.escape_debug()))
            .collect();
        format!(
            "{} at {:#x}, {}, is used by {}",
            self.name,
            self.address,
            plural(self.size, "byte"),
            users.join(" and ")
        )
    }
}

/// What memory that processes can share is, by what the kernel calls it, without the folder of a file.
pub(super) fn mapped(mapped: &str) -> String {
    let is_file = !["/dev/zero", "/SYSV", "/memfd:"]
        .iter()
        .any(|none| mapped.starts_with(none));
    name(if is_file { short(mapped) } else { mapped })
}

/// What a mapping is, by what the kernel calls it.
fn name(mapped: &str) -> String {
    let mapped = mapped.strip_suffix(" (deleted)").unwrap_or(mapped);
    if mapped == "/dev/zero" {
        "memory without a file".to_owned()
    } else if mapped.starts_with("/SYSV") {
        "a segment of System V's shared memory".to_owned()
    } else if let Some(name) = mapped.strip_prefix("/memfd:") {
        format!("the memory file {}", name.escape_debug())
    } else {
        format!("the file {}", mapped.escape_debug())
    }
}

fn processes(count: u64) -> String {
    match count {
        1 => "1 process".to_owned(),
        _ => format!("{} processes", grouped(count)),
    }
}

fn short(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// All that there is to say, the gravest first.
pub(super) fn of(run: &Run, shared: &[SharedMemory]) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let mut say = |kind, text| caveats.push(Caveat { kind, text });
    if !shared.is_empty() {
        const MOST: usize = 3;
        let mut what: Vec<String> = shared
            .iter()
            .take(MOST)
            .map(|shared| shared.text(run))
            .collect();
        if shared.len() > MOST {
            what.push(format!("{} more are", shared.len() - MOST));
        }
        say(
            CaveatKind::SharedMemory,
            format!(
                "{}; each of them runs on a machine of its own, so lines that go from one to another are not seen and cost nothing here",
                what.join(", ")
            ),
        );
    }
    if let (Some(function), Some(main)) = (&run.region_function, run.main())
        && main.region.entered == 0
    {
        say(
            CaveatKind::NeverCalled,
            format!(
                "{} was never called; the figures are about the whole program",
                function.escape_debug()
            ),
        );
    }
    for (text, count) in early(run) {
        let many = match count {
            1 => String::new(),
            _ => format!("{}: ", processes(count)),
        };
        say(CaveatKind::EndedEarly, format!("{many}{text}"));
    }
    if run.machine.cores > 1 && shared.is_empty() && run.processes.iter().all(is_alone) {
        let many = run
            .processes
            .iter()
            .map(|machine| machine.processes.len().max(1));
        let who = match many.sum::<usize>() {
            0 | 1 => "the program had one thread".to_owned(),
            many => format!(
                "none of the {many} processes had more than one thread or memory that another uses"
            ),
        };
        say(
            CaveatKind::OneThread,
            format!("{who}, so nothing can go from core to core"),
        );
    }
    caveats
}

/// Whether no two threads of a machine have memory in common.
fn is_alone(machine: &ProcessResult) -> bool {
    let threads = machine.processes.iter().map(|process| process.threads);
    let has_others = machine.processes.len() > 1 && !machine.shared.is_empty();
    !has_others && threads.max().unwrap_or(machine.threads) <= 1
}

/// What cut processes short, and how many each.
fn early(run: &Run) -> BTreeMap<String, u64> {
    let mut endings = BTreeMap::new();
    let forked = run.processes.iter().flat_map(|machine| {
        let killed = machine.processes.iter().skip(1).filter(|of| of.signal != 0);
        killed.map(|of| (short(&machine.program).escape_debug(), of.signal))
    });
    for (program, signal) in forked {
        *endings
            .entry(format!(
                "{program} was killed by signal {signal}; its figures end there"
            ))
            .or_default() += 1;
    }
    for process in &run.processes {
        let how = match process.ending {
            Ending::Signal => match signal(process) {
                0 => "was killed by a signal".to_owned(),
                number => format!("was killed by signal {number}"),
            },
            Ending::Deadlock => "could not go on: all its threads slept".to_owned(),
            Ending::Running => "had not ended".to_owned(),
            _ => continue,
        };
        let program = short(&process.program).escape_debug();
        *endings
            .entry(format!("{program} {how}; its figures end there"))
            .or_default() += 1;
    }
    if run.timed_out {
        let text =
            "time was up before the program ended; the figures are of what it did until then";
        endings.insert(text.to_owned(), 1);
    }
    endings
}

/// The signal that killed a process; 0 if it is not known.
pub(super) fn signal(process: &ProcessResult) -> i32 {
    // As a shell has it: 128 and the signal.
    match process.exit_code {
        code if code > 128 => code - 128,
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::run;
    use super::*;

    fn used(number: u64, first: u64, end: u64, writable: u8) -> SharedResult {
        SharedResult {
            device: "00:01".to_owned(),
            number,
            name: "/dev/zero (deleted)".to_owned(),
            first,
            end,
            address: 0x10000 + first,
            writable,
        }
    }

    /// A run of as many processes as there are lists of what they use.
    fn of_processes(uses: &[&[SharedResult]]) -> Run {
        let mut run = run();
        let process = run.processes[0].clone();
        run.processes = uses
            .iter()
            .zip(10..)
            .map(|(shared, pid)| ProcessResult {
                pid,
                shared: shared.to_vec(),
                ..process.clone()
            })
            .collect();
        run.first = 10;
        run
    }

    #[test]
    fn memory_is_shared_if_two_use_it_and_one_may_write() {
        let shares = |uses: &[&[SharedResult]]| !SharedMemory::of(&of_processes(uses)).is_empty();
        let (read, write) = ([used(1, 0, 64, 0)], [used(1, 0, 64, 1)]);
        let (other, behind) = ([used(2, 0, 64, 1)], [used(1, 64, 128, 1)]);
        assert!(!shares(&[&write, &[]]), "one uses it");
        assert!(shares(&[&write, &[], &write]));
        assert!(shares(&[&read, &write]));
        assert!(!shares(&[&read, &read]), "a library");
        assert!(!shares(&[&other, &write]), "another file");
        assert!(!shares(&[&behind, &write]), "another part of it");
        let mut same = of_processes(&[&write, &write]);
        same.processes[1].pid = 10;
        assert!(
            SharedMemory::of(&same).is_empty(),
            "a process and what it became"
        );
    }

    #[test]
    fn who_shares_what_is_said_before_all_figures_and_leaves_no_clean_bill() {
        let one = [used(1, 128, 192, 1)];
        let other = [used(1, 0, 192, 1)];
        let mut run = of_processes(&[&one, &other, &other]);
        for process in &mut run.processes {
            process.lines.clear();
        }
        run.processes[2].program = "/bin/two".to_owned();
        let summary = run.summary();
        let [shared] = &summary.shared_memory[..] else {
            panic!("{:?}", summary.shared_memory);
        };
        assert_eq!(
            (shared.address, shared.size, &shared.processes[..]),
            (0x10000, 192, &[0, 1, 2][..])
        );
        let said = "SHARED BETWEEN PROCESSES: memory without a file at 0x10000, 192 bytes, is used by 2 processes of one and 1 process of two;";
        for text in [
            summary.to_text(),
            summary.to_full_text(),
            summary.to_advice(),
        ] {
            let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(line.starts_with(said), "{text}");
            assert!(
                !text.contains("no line of memory went from core to core\n"),
                "{text}"
            );
        }
        assert!(!summary.conclusion().contains("Nothing here is contended"));
        assert!(summary.check().is_err());
    }

    #[test]
    fn a_function_that_is_never_called_is_no_region() {
        let mut run = run();
        run.region_function = Some("serve".to_owned());
        assert_eq!(run.summary().check(), Ok(()), "it was entered");
        for process in &mut run.processes {
            process.region = crate::raw::Region::default();
        }
        let summary = run.summary();
        assert!(
            summary
                .to_text()
                .starts_with("REGION NEVER ENTERED: serve was")
        );
        let error = summary.check().expect_err("these are other figures");
        assert!(error.to_string().contains("serve"), "{error}");
        run.region_function = None;
        assert_eq!(run.summary().check(), Ok(()), "nobody asked for one");
    }

    #[test]
    fn who_was_cut_short_and_who_had_one_thread_is_said_first() {
        let mut run = of_processes(&[&[], &[], &[]]);
        assert_eq!(run.summary().caveats, []);
        for process in &mut run.processes[1..] {
            process.ending = Ending::Signal;
            process.exit_code = 128 + 11;
        }
        let text = run.summary().to_text();
        assert!(
            text.starts_with("ENDED EARLY: 2 processes: one was killed by signal 11; its"),
            "{text}"
        );
        run.processes.truncate(1);
        run.processes[0].threads = 1;
        let summary = run.summary();
        let text = summary.to_text();
        assert!(
            text.starts_with("ONE THREAD: the program had one thread, so"),
            "{text}"
        );
        assert_eq!(summary.check(), Ok(()), "that is an answer");
        run.machine.cores = 1;
        assert_eq!(run.summary().caveats, [], "nobody expects more of one core");
    }
}
