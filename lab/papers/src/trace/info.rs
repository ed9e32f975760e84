//! What is in a trace, in a few figures.

use super::Trace;
use super::event::{Action, Backing, Counts, FileKind, Names};
use crate::subsystem::Subsystem;
use crate::trace::plan::{Plan, Update};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// A summary of a trace; [`Display`](fmt::Display) makes a page of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// What was run.
    pub command: String,
    /// What that built or ran.
    pub package: String,
    /// When, `YYYY-MM-DD`.
    pub recorded: String,
    /// With what.
    pub recorder: String,
    /// How much is told of the files' paths.
    pub names: Names,
    /// How many lines of the recorder's output were not understood.
    pub not_understood: u64,
    /// How long it ran, in microseconds.
    pub duration: u64,
    /// Processes.
    pub processes: u64,
    /// Threads that were started besides.
    pub threads: u64,
    /// The most processes and threads that were alive at once.
    pub peak_tasks: usize,
    /// Events by kind.
    pub counts: Counts,
    /// What the events amount to for each subsystem.
    pub subsystems: Vec<Amount>,
    /// The most mappings of files that existed at once.
    pub peak_mappings: usize,
    /// Truncates that found anything mapped.
    pub truncates_of_mapped: u64,
    /// Files by kind.
    pub files: BTreeMap<FileKind, usize>,
    /// How many processes touch one file.
    pub sharing: Sharing,
}

/// What a trace amounts to for one subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Amount {
    /// Which one.
    pub subsystem: Subsystem,
    /// How many entries come.
    pub entered: u64,
    /// How many entries go.
    pub left: u64,
    /// How often somebody reads.
    pub reads: u64,
}

impl Amount {
    /// Entries that come or go.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.entered + self.left
    }

    /// Updates for each read; `None` when nobody reads.
    #[must_use]
    pub fn updates_per_read(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.updates() as f64 / self.reads as f64)
    }
}

/// How many processes touch one file over the whole run: open it, map it, run it, look its name up, make,
/// rename, remove or truncate it themselves. Threads count as their process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sharing {
    /// Files that one process touches.
    pub one: usize,
    /// Files that 2 to 9 processes touch.
    pub few: usize,
    /// Files that 10 to 99 processes touch.
    pub tens: usize,
    /// Files that 100 or more processes touch.
    pub hundreds: usize,
    /// The files that most processes touch, most first.
    pub most: Vec<Shared>,
}

/// A file that many processes touch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shared {
    /// Its name.
    pub name: String,
    /// How many processes touch it.
    pub processes: usize,
    /// How many mappings of it come over the run; copies by `fork` and what remains of cut ones count, too.
    pub mappings: u64,
}

/// How many files [`Sharing::most`] names.
const MOST: usize = 8;

pub(super) fn summarize(trace: &Trace) -> Info {
    let header = trace.header();
    let counts = header.counts;
    let mut files = BTreeMap::new();
    for file in trace.files() {
        *files.entry(file.kind).or_insert(0) += 1;
    }
    let mut mapped = Mapped::new(trace.files().len());
    let subsystems = Subsystem::ALL
        .into_iter()
        .map(|subsystem| {
            let plan = Plan::of(trace, subsystem, None);
            if subsystem == Subsystem::Files {
                mapped.follow(&plan);
            }
            amount(subsystem, &plan)
        })
        .collect();
    Info {
        command: header.command.clone(),
        package: header.package.clone(),
        recorded: header.recorded.clone(),
        recorder: header.recorder.clone(),
        names: header.names,
        not_understood: header.not_understood,
        duration: trace.events().last().map_or(0, |event| event.time),
        processes: 1 + counts.fork + counts.share,
        threads: counts.thread,
        peak_tasks: peak_tasks(trace),
        counts,
        subsystems,
        peak_mappings: mapped.peak,
        truncates_of_mapped: mapped.truncates,
        files,
        sharing: sharing(trace, &mapped.ever),
    }
}

fn amount(subsystem: Subsystem, plan: &Plan) -> Amount {
    let mut amount = Amount {
        subsystem,
        entered: 0,
        left: 0,
        reads: 0,
    };
    for update in plan.updates() {
        *match update {
            Update::Enter { .. } => &mut amount.entered,
            Update::Leave { .. } => &mut amount.left,
            Update::Read { .. } => &mut amount.reads,
        } += 1;
    }
    amount
}

/// Mappings of files.
struct Mapped {
    /// For each file, how many there are over the run.
    ever: Vec<u64>,
    /// The most there were at once, of all files.
    peak: usize,
    /// Truncates that found any.
    truncates: u64,
}

impl Mapped {
    fn new(files: usize) -> Mapped {
        Mapped {
            ever: vec![0; files],
            peak: 0,
            truncates: 0,
        }
    }

    /// `plan` is that of the files.
    fn follow(&mut self, plan: &Plan) {
        let mut now = vec![0_u64; self.ever.len()];
        let mut all = 0;
        for update in plan.updates() {
            match *update {
                Update::Enter { object, .. } => {
                    all += 1;
                    self.peak = self.peak.max(all);
                    self.ever[object as usize] += 1;
                    now[object as usize] += 1;
                }
                Update::Leave { object, .. } => {
                    all -= 1;
                    now[object as usize] -= 1;
                }
                Update::Read { object, .. } => {
                    self.truncates += u64::from(now[object as usize] > 0);
                }
            }
        }
    }
}

fn sharing(trace: &Trace, mappings: &[u64]) -> Sharing {
    // For each task, its process: the first of its tasks.
    let mut process: Vec<u32> = (0..trace.header().tasks).collect();
    let mut touches = Vec::new();
    for event in trace.events() {
        let who = process[event.task as usize];
        match event.action {
            Action::Fork { child, shares } if shares.process => process[child as usize] = who,
            Action::Map {
                backing: Backing::File(file),
                ..
            }
            | Action::Exec {
                program: Some((file, _)),
            }
            | Action::Truncate { file, .. }
            | Action::Open { file, .. }
            | Action::Stat { file }
            | Action::Create { file }
            | Action::Unlink { file } => touches.push((file, who)),
            Action::Rename { from, to } => touches.extend([(from, who), (to, who)]),
            _ => {}
        }
    }
    touches.sort_unstable();
    touches.dedup();
    let mut sharing = Sharing::default();
    let mut shared = Vec::new();
    for touched in touches.chunk_by(|(file, _), (other, _)| file == other) {
        let processes = touched.len();
        *match processes {
            1 => &mut sharing.one,
            2..10 => &mut sharing.few,
            10..100 => &mut sharing.tens,
            _ => &mut sharing.hundreds,
        } += 1;
        if processes > 1 {
            shared.push((touched[0].0, processes));
        }
    }
    shared.sort_by_key(|&(file, processes)| (Reverse(processes), Reverse(mappings[file as usize])));
    sharing.most = shared
        .into_iter()
        .take(MOST)
        .map(|(file, processes)| Shared {
            name: trace.file_name(file),
            processes,
            mappings: mappings[file as usize],
        })
        .collect();
    sharing
}

fn peak_tasks(trace: &Trace) -> usize {
    let (mut alive, mut peak) = (1, 1);
    for event in trace.events() {
        match event.action {
            Action::Fork { .. } => alive += 1,
            Action::Exit => alive -= 1,
            _ => {}
        }
        peak = peak.max(alive);
    }
    peak
}

/// `1 file`, `2 files`, `1 process`, `2 processes`.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The end of a name that is too long for a line.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 56;
    // A path can hold anything; a terminal is to see none of it but text.
    let characters: Vec<char> = name
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    match characters.len().checked_sub(LONGEST) {
        None | Some(0) => characters.into_iter().collect(),
        Some(more) => std::iter::once('…')
            .chain(characters.into_iter().skip(more + 1))
            .collect(),
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.package.is_empty() {
            writeln!(f, "{}", self.command)?;
        } else {
            writeln!(f, "{}: {}", self.package, self.command)?;
        }
        writeln!(f, "recorded {} with {}", self.recorded, self.recorder)?;
        writeln!(
            f,
            "{:.2} s, {} and {}, at most {} at once",
            self.duration as f64 / 1e6,
            counted(self.processes, "process", "processes"),
            counted(self.threads, "more thread", "more threads"),
            self.peak_tasks
        )?;
        if self.not_understood > 0 {
            writeln!(
                f,
                "{} of the recorder's output not understood: what they say is missing",
                counted(self.not_understood, "line", "lines")
            )?;
        }
        write!(f, "events:")?;
        let kinds = self
            .counts
            .by_kind()
            .into_iter()
            .filter(|(_, count)| *count > 0);
        for (position, (kind, count)) in kinds.enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma} {count} {kind}")?;
        }
        write!(f, "\nfiles:")?;
        for (position, (kind, count)) in self.files.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma} {count} {kind}")?;
        }
        writeln!(
            f,
            "\n\n{:<14}{:>12}{:>12}  {:>18}",
            "subsystem", "updates", "reads", "updates : reads"
        )?;
        for amount in &self.subsystems {
            let ratio = match amount.updates_per_read() {
                Some(ratio) if ratio < 99.5 => format!("{ratio:.1} : 1"),
                Some(ratio) => format!("{ratio:.0} : 1"),
                None => "no reads".to_owned(),
            };
            writeln!(
                f,
                "{:<14}{:>12}{:>12}  {ratio:>18}",
                amount.subsystem.name(),
                amount.updates(),
                amount.reads
            )?;
        }
        writeln!(
            f,
            "at most {} at once; {} found one",
            counted(
                self.peak_mappings as u64,
                "mapping of a file",
                "mappings of files"
            ),
            counted(self.truncates_of_mapped, "truncate", "truncates"),
        )?;
        let sharing = &self.sharing;
        write!(
            f,
            "\nfiles by the number of processes that touch them: {} by 1, {} by 2 to 9, {} by 10 to 99, {} by 100 or more",
            sharing.one, sharing.few, sharing.tens, sharing.hundreds
        )?;
        for shared in &sharing.most {
            write!(
                f,
                "\n  {:<56}{:>8} processes {:>8} {}",
                shortened(&shared.name),
                shared.processes,
                shared.mappings,
                if shared.mappings == 1 {
                    "mapping"
                } else {
                    "mappings"
                }
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Description, Event, File, Shares};

    /// 120 processes in a row; a thread of the first; files of every degree of sharing.
    fn family() -> Trace {
        let mut events = Vec::new();
        let mut act = |task, action| {
            events.push(Event {
                time: 5,
                task,
                action,
            });
        };
        let children = 120;
        for child in 1..=children {
            act(
                child - 1,
                Action::Fork {
                    child,
                    shares: Shares::default(),
                },
            );
        }
        let thread = children + 1;
        act(
            0,
            Action::Fork {
                child: thread,
                shares: Shares {
                    memory: true,
                    descriptors: true,
                    process: true,
                },
            },
        );
        for task in 1..=children {
            act(task, Action::Stat { file: 0 });
            act(task, Action::Stat { file: 0 });
        }
        for task in 1..=10 {
            act(task, Action::Create { file: 1 });
        }
        act(1, Action::Rename { from: 2, to: 3 });
        act(2, Action::Unlink { file: 2 });
        act(2, Action::Truncate { file: 4, length: 0 });
        // One process, though two tasks.
        act(0, Action::Stat { file: 5 });
        act(thread, Action::Stat { file: 5 });
        for task in 0..=thread {
            act(task, Action::Exit);
        }
        let file = File {
            kind: FileKind::Other,
            name: format!("/a/{}", "long/".repeat(30)),
        };
        let description = Description {
            page_size: 4096,
            not_understood: 2,
            ..Description::default()
        };
        Trace::new(description, vec![file; 7], events).expect("sound")
    }

    #[test]
    fn files_are_counted_by_who_touches_them() {
        let info = family().info();
        let sharing = &info.sharing;
        assert_eq!(
            (sharing.one, sharing.few, sharing.tens, sharing.hundreds),
            (3, 1, 1, 1)
        );
        let most: Vec<usize> = sharing.most.iter().map(|shared| shared.processes).collect();
        assert_eq!(most, [120, 10, 2]);
        assert_eq!((info.processes, info.threads), (121, 1));
        assert_eq!(info.peak_tasks, 122);
    }

    #[test]
    fn each_subsystem_has_its_ratio() {
        let info = family().info();
        let amount = |subsystem| {
            let found = info
                .subsystems
                .iter()
                .find(|amount| amount.subsystem == subsystem);
            *found.expect("every subsystem")
        };
        assert_eq!(info.subsystems.len(), Subsystem::ALL.len());
        let files = amount(Subsystem::Files);
        assert_eq!((files.updates(), files.reads), (0, 1));
        let memory = amount(Subsystem::Memory);
        assert_eq!(memory.updates_per_read(), None);
        let names = amount(Subsystem::Names);
        // Each lookup comes and goes; a rename and a removal want the count.
        assert!(
            names.entered >= 240 + 10 && names.entered == names.left,
            "{names:?}"
        );
        assert!(
            names.reads >= 2 && names.updates_per_read() > Some(1.0),
            "{names:?}"
        );
    }

    #[test]
    fn the_page_is_narrow() {
        let info = family().info();
        let page = info.to_string();
        assert!(
            page.contains("2 lines of the recorder's output not understood"),
            "{page}"
        );
        for line in page.lines() {
            let fits = line.chars().count() <= 100 || line.starts_with("files by");
            assert!(fits, "{line}");
        }
        assert!(
            page.contains("long/long/ "),
            "the end of a long name is told: {page}"
        );
    }

    #[test]
    fn long_names_lose_their_beginning() {
        assert_eq!(shortened("short"), "short");
        let exact = "x".repeat(56);
        assert_eq!(shortened(&exact), exact);
        let name = format!("a{exact}");
        assert_eq!(shortened(&name), format!("…{}", "x".repeat(55)));
        assert_eq!(shortened("a\u{1b}b"), "a?b");
    }
}
