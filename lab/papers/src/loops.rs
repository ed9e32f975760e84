//! The loops of the papers as traces: benchmarks that do one thing, again and again.
//!
//! They are traces like any other, so everything that is done with recorded ones can be done with them. Nobody recorded
//! them: times are made up, and order the events only.
//!
//! The processes take turns: each forks a child that exits at once, then the next one does. [`replay`](crate::replay) gives each process and its
//! children a thread of their own where there are enough.

use crate::trace::{
    Action, Backing, Description, Event, File, FileKind, MAX_MAPPINGS, Shares, Trace, TraceError,
};

const PAGE: u64 = 4096;
/// Pages of one part of a file.
const PAGES: u64 = 16;
/// Pages at which nothing is mapped, after each part.
const GAP: u64 = 16;
/// Where the first part is mapped.
const BASE: u64 = 1 << 32;
/// Microseconds from one round to the next.
const ROUND: u64 = 1000;

/// The parts of files that each process of [`fork_exit`] maps, as published: what a small C program has, which is text, constants,
/// relocated constants and data of each of three files.
pub const REGIONS: u32 = 12;
/// The files that each process of [`fork_truncate`] maps, as published.
pub const FILES: u32 = 48;

/// Each process forks a child that exits at once, again and again (S. Boyd-Wickizer, *Optimizing Communication
/// Bottlenecks in Multiprocessor Operating System Kernels*, section 3.2).
///
/// A first process starts `processes` others, each of which maps `regions` parts of three shared files (a program, the C
/// library, the loader, in turn). Then each of them forks a child, and every child exits, `forks_each` times. The thesis has
/// [`REGIONS`].
///
/// # Errors
/// When all that is more than a trace may amount to ([`MAX_MAPPINGS`]).
pub fn fork_exit(processes: u32, regions: u32, forks_each: u32) -> Result<Trace, TraceError> {
    let command = format!(
        "fork-exit loop: {processes} processes, {regions} mapped parts, {forks_each} forks each"
    );
    let file = |kind, name: &str| File {
        kind,
        name: name.to_owned(),
    };
    let files = vec![
        file(FileKind::Program, "program"),
        file(FileKind::Library, "libc.so.6"),
        file(FileKind::Library, "ld.so"),
    ];
    let amount = amount(processes, forks_each, regions);
    let mut author = Author::new(amount)?;
    author.start(processes);
    for region in 0..u64::from(regions) {
        let number = region % files.len() as u64;
        author.map(
            processes,
            region,
            number as u32,
            region / files.len() as u64,
        );
    }
    for _ in 0..forks_each {
        author.fork_and_exit(processes);
    }
    author.end(processes);
    author.finish(command, files)
}

/// The same with reads (section 8.2): `files` files, all mapped by all processes, and each process truncates *one* of them
/// after each `forks_per_truncate` pairs of fork and exit: it makes the file a page longer, then a page shorter again.
/// Nothing that is mapped is cut.
///
/// The thesis has 48 processes, 48 files, and 1 to 10 forks to a truncate.
///
/// # Errors
/// When all that is more than a trace may amount to ([`MAX_MAPPINGS`]).
pub fn fork_truncate(
    processes: u32,
    files: u32,
    forks_each: u32,
    forks_per_truncate: u32,
) -> Result<Trace, TraceError> {
    let command = format!(
        "fork-truncate loop: {processes} processes, {files} files, {forks_each} forks each, a truncate after each \
         {forks_per_truncate}"
    );
    let amount = amount(processes, forks_each, files);
    let mut author = Author::new(amount)?;
    author.start(processes);
    for file in 0..files {
        author.map(processes, file.into(), file, 0);
    }
    for round in 1..=forks_each {
        author.fork_and_exit(processes);
        if files > 0 && forks_per_truncate > 0 && round.is_multiple_of(forks_per_truncate) {
            for length in [(PAGES + 1) * PAGE, PAGES * PAGE] {
                for process in 1..=processes {
                    let file = (process - 1) % files;
                    author.act(process, Action::Truncate { file, length });
                }
            }
            author.time += ROUND;
        }
    }
    author.end(processes);
    let file = File {
        kind: FileKind::Other,
        name: String::new(),
    };
    author.finish(command, vec![file; files as usize])
}

/// How many events of a loop set the scene: a first process starts `processes` others, and each of those maps `mapped` parts of
/// files.
#[must_use]
pub fn set_up(processes: u32, mapped: u32) -> usize {
    (processes as usize).saturating_mul(1 + mapped as usize)
}

/// The first `events` events of a trace, after which everybody who is still there exits: for a look that shall not take
/// long.
///
/// # Errors
/// Never for a trace that keeps the rules, as every [`Trace`] does.
pub fn first(trace: &Trace, events: usize) -> Result<Trace, TraceError> {
    let header = trace.header();
    let mut kept = Vec::new();
    // Tasks are numbered anew, in order of appearance: those that begin later leave no gaps.
    let mut numbers = vec![0; header.tasks as usize];
    let mut alive = vec![true];
    for &event in trace.events().iter().take(events) {
        let Event {
            time,
            task,
            mut action,
        } = event;
        let task: u32 = numbers[task as usize];
        match &mut action {
            Action::Fork { child, .. } => {
                let number = alive.len() as u32;
                numbers[*child as usize] = number;
                *child = number;
                alive.push(true);
            }
            Action::Exit => alive[task as usize] = false,
            _ => {}
        }
        kept.push(Event { time, task, action });
    }
    let time = kept.last().map_or(0, |event| event.time);
    // Children before their parents, as a rule.
    for task in (0..alive.len()).rev().filter(|&task| alive[task]) {
        kept.push(Event {
            time,
            task: task as u32,
            action: Action::Exit,
        });
    }
    let description = Description {
        command: header.command.clone(),
        package: header.package.clone(),
        recorded: header.recorded.clone(),
        recorder: header.recorder.clone(),
        page_size: header.page_size,
        names: header.names,
        not_understood: header.not_understood,
    };
    Trace::new(description, trace.files().to_vec(), kept)
}

/// Mappings or forks that a loop amounts to, whichever are more.
fn amount(processes: u32, forks_each: u32, mapped: u32) -> u64 {
    let forks = u64::from(processes).saturating_mul(u64::from(forks_each) + 1);
    forks
        .saturating_add(1)
        .saturating_mul(u64::from(mapped.max(1)))
}

/// Writes the events of a loop.
struct Author {
    events: Vec<Event>,
    time: u64,
    /// How many tasks have been started.
    started: u32,
}

impl Author {
    /// Begins a loop that amounts to so much: what no trace may amount to is refused before it is written.
    fn new(amount: u64) -> Result<Author, TraceError> {
        if amount > MAX_MAPPINGS as u64 {
            return Err(TraceError::TooLarge { most: MAX_MAPPINGS });
        }
        Ok(Author {
            events: Vec::new(),
            time: 0,
            started: 0,
        })
    }

    fn act(&mut self, task: u32, action: Action) {
        self.events.push(Event {
            time: self.time,
            task,
            action,
        });
    }

    /// Each process but the first maps a part of a file at the place with this number.
    fn map(&mut self, processes: u32, place: u64, file: u32, part: u64) {
        let action = Action::Map {
            address: BASE + place * (PAGES + GAP) * PAGE,
            length: PAGES * PAGE,
            backing: Backing::File(file),
            offset: part * PAGES * PAGE,
        };
        for process in 1..=processes {
            self.act(process, action);
        }
        self.time += ROUND;
    }

    /// Starts a child of `parent`, with copies of everything.
    fn fork(&mut self, parent: u32) -> u32 {
        self.started += 1;
        let child = self.started;
        let shares = Shares::default();
        self.act(parent, Action::Fork { child, shares });
        child
    }

    /// The first process starts the others.
    fn start(&mut self, processes: u32) {
        for _ in 0..processes {
            self.fork(0);
        }
        self.time += ROUND;
    }

    /// Each process but the first starts a child, which exits.
    fn fork_and_exit(&mut self, processes: u32) {
        for process in 1..=processes {
            let child = self.fork(process);
            self.act(child, Action::Exit);
        }
        self.time += ROUND;
    }

    fn end(&mut self, processes: u32) {
        for process in (0..=processes).rev() {
            self.act(process, Action::Exit);
        }
    }

    fn finish(self, command: String, files: Vec<File>) -> Result<Trace, TraceError> {
        let description = Description {
            command,
            recorder: "made up".to_owned(),
            page_size: PAGE,
            ..Description::default()
        };
        Trace::new(description, files, self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{self, Load};
    use crate::subsystem::{Implementation, Subsystem};

    #[test]
    fn forks_and_exits_come_in_pairs() {
        let trace = fork_exit(4, 12, 10).expect("sound");
        let counts = trace.header().counts;
        assert_eq!((counts.map, counts.fork, counts.exit), (48, 44, 45));
        let load = Load::new(&trace, Subsystem::Files, None);
        assert_eq!(load.forks(), 44);
        assert_eq!(load.updates(), 2 * 12 * 44);
        assert_eq!(load.reads(), 0);
        let busiest = load.busiest();
        let names: Vec<&str> = busiest.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["program", "libc.so.6", "ld.so"]);
        assert!(busiest.iter().all(|&(_, updates)| updates == 2 * 4 * 44));
    }

    #[test]
    fn truncates_read_and_cut_nothing() {
        let trace = fork_truncate(3, 5, 12, 4).expect("sound");
        let load = Load::new(&trace, Subsystem::Files, None);
        // Whatever were cut would leave nothing to see for the next truncate of that file, and the model knows.
        assert_eq!(load.updates(), 2 * 5 * (3 + 36));
        assert_eq!(load.reads(), 2 * 3 * 3);
        assert_eq!(trace.info().truncates_of_mapped, 18);
        for implementation in [Implementation::Mutex, Implementation::OplogAbsorb] {
            let report = replay::check(&load, implementation, 3, &|_| ()).expect("agreement");
            assert_eq!(report.reads, 18);
        }
        for event in trace.events() {
            if let Action::Truncate { length, .. } = event.action {
                assert!(length >= PAGES * PAGE, "it cuts");
            }
        }
    }

    #[test]
    fn short_loops_are_traces_all_the_same_and_endless_ones_are_refused() {
        for trace in [
            fork_exit(0, 0, 0),
            fork_exit(1, 0, 3),
            fork_exit(0, 7, 3),
            fork_truncate(2, 0, 3, 1),
            fork_truncate(2, 2, 3, 0),
        ] {
            let load = Load::new(&trace.expect("sound"), Subsystem::Files, None);
            replay::check(&load, Implementation::Mutex, 2, &|_| ()).expect("agreement");
        }
        for trace in [
            fork_exit(2000, 3000, 1),
            fork_exit(u32::MAX, u32::MAX, u32::MAX),
            fork_exit(u32::MAX, 0, 0),
            fork_truncate(1, u32::MAX, 1, 1),
        ] {
            assert!(matches!(trace, Err(TraceError::TooLarge { .. })));
        }
    }

    #[test]
    fn the_first_events_are_a_trace() {
        let trace = Trace::bundled().expect("the bundled trace");
        for events in [0, 1, 500, 5000] {
            let part = first(&trace, events).expect("sound");
            assert!(part.events().len() >= events);
            let times = |trace: &Trace| -> Vec<u64> {
                let events = trace.events().iter().take(events);
                events.map(|event| event.time).collect()
            };
            assert_eq!(times(&part), times(&trace));
            for subsystem in Subsystem::ALL {
                let load = Load::new(&part, subsystem, None);
                replay::check(&load, Implementation::Oplog, 2, &|_| ()).expect("agreement");
            }
        }
        let whole = first(&trace, usize::MAX).expect("sound");
        assert_eq!(whole.events().len(), trace.events().len());
    }
}
