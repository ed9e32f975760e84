//! What is said of the inside of a line, true or false sharing, and what becomes of a program if a line costs nothing.

use crate::common::PATIENCE;
use crate::common::program::Program;
use percolog_sim::machine;
use percolog_sim::report::{LineSummary, Verdict};
use percolog_sim::run::{Free, Run, Simulation};
use percolog_sim::what_if::{self, Incomparable};

/// What the guest calls the line.
const LINE: &str = "the line";

/// Threads and rounds of the guest.
const CORES: usize = 8;
const OPERATIONS: u64 = 8 * 400;

struct Guest(Program);

impl Guest {
    fn run(&self, simulation: &Simulation, how: &str) -> Run {
        let run = simulation
            .run(&self.0.path, [how])
            .expect("the simulation leaves a result");
        assert!(run.status.success(), "{how}: {}", run.status);
        assert!(!run.timed_out, "{how} hangs");
        run
    }
}

fn simulation() -> Simulation {
    let machine = machine::built_in("opteron-48")
        .expect("it is built in")
        .with_cores(CORES)
        .expect("it has as many");
    Simulation::new(machine).capture(true).timeout(PATIENCE)
}

/// The line that the guest labels.
fn the_line(run: &Run) -> LineSummary {
    run.summary()
        .lines
        .into_iter()
        .find(|line| line.label.as_deref() == Some(LINE))
        .expect("it went around")
}

#[test]
fn sharing_is_told_from_being_neighbours() {
    let Some(guest) = Program::guest("sharing.c").map(Guest) else {
        return;
    };
    for (how, verdict) in [
        ("counter", Verdict::True),
        ("packed", Verdict::False),
        ("beside", Verdict::False),
        ("mixed", Verdict::Mixed),
    ] {
        let line = the_line(&guest.run(&simulation(), how));
        assert_eq!(line.sharing.verdict, verdict, "{how}: {:?}", line.sharing);
        let events = line.sharing.true_events + line.sharing.false_events;
        let came = line.totals.transfers;
        assert!(
            events <= came && events * 10 >= came * 8,
            "{how}: {events} of {came} are told apart"
        );
    }
}

#[test]
fn a_lock_is_shared_truly_but_what_it_protects_may_come_for_nothing() {
    let Some(guest) = Program::guest("sharing.c").map(Guest) else {
        return;
    };
    let line = the_line(&guest.run(&simulation(), "lock"));
    let sharing = line.sharing;
    // Who holds the lock loses the line to those who try it, and gets it back for data that they never touch.
    assert!(
        sharing.true_events > sharing.false_events && sharing.false_events > 0,
        "{sharing:?}"
    );
    let [word, written, read] = &line.spans[..] else {
        panic!("three words are used: {:?}", line.spans);
    };
    assert_eq!((word.offset, written.offset, read.offset), (0, 8, 16));
    assert_eq!(word.writers.len(), CORES);
    assert_eq!((written.writers.len(), written.readers.len()), (CORES, 0));
    assert_eq!((read.writers.len(), read.readers.len()), (0, CORES));
    assert!(word.events > written.events, "{:?}", line.spans);
}

#[test]
fn spans_say_which_core_uses_which_bytes() {
    let Some(guest) = Program::guest("sharing.c").map(Guest) else {
        return;
    };
    let line = the_line(&guest.run(&simulation(), "packed"));
    assert_eq!(line.spans.len(), CORES);
    for (core, span) in (0..).zip(&line.spans) {
        assert_eq!((span.offset, span.size), (8 * core, 8));
        assert_eq!((&span.writers, &span.readers), (&vec![core], &vec![core]));
    }
    let events: u64 = line.spans.iter().map(|span| span.events).sum();
    assert_eq!(events, line.totals.transfers + line.totals.upgrades);
}

#[test]
fn a_free_line_costs_time_and_nothing_else() {
    let Some(guest) = Program::guest("sharing.c").map(Guest) else {
        return;
    };
    let paid = guest.run(&simulation(), "counter");
    let free = guest.run(
        &simulation().free(LINE.parse::<Free>().expect("a name")),
        "counter",
    );
    assert_eq!(paid.stdout, free.stdout, "the program did the same");
    let (paid_main, main) = (paid.main().expect("it ran"), free.main().expect("it ran"));
    assert_eq!(main.region.operations, OPERATIONS);
    assert_eq!(free.freed()[0].lines, 1);
    let [line] = &main.free_lines[..] else {
        panic!("one line is free: {:?}", main.free_lines);
    };
    assert_eq!((line.counts.stall, line.counts.queued), (0, 0));
    assert!(
        line.counts.events() * 2 > paid_main.lines[0].counts.events(),
        "it goes around as before: {:?}",
        line.counts
    );
    assert!(main.region.elapsed * 2 < paid_main.region.elapsed);
}

#[test]
fn lines_are_freed_by_label_variable_and_address() {
    let Some(guest) = Program::guest("sharing.c").map(Guest) else {
        return;
    };
    let address = the_line(&guest.run(&simulation(), "counter")).address;
    let mut elapsed = Vec::new();
    // The variable's name is `line`.
    for name in [
        LINE.to_owned(),
        "line".to_owned(),
        "line+0x0".to_owned(),
        format!("{:#x}", address + 8),
    ] {
        let free: Free = name.parse().expect("it is a name");
        let run = guest.run(&simulation().free(free), "counter");
        let freed = &run.freed()[0];
        assert_eq!(freed.lines, 1, "{name}");
        assert!(freed.events > 100, "{name}: {}", freed.events);
        elapsed.push(run.main().expect("it ran").region.elapsed);
    }
    assert!(
        elapsed.iter().all(|time| *time == elapsed[0]),
        "{elapsed:?}"
    );
    let nothing: Free = "lines".parse().expect("it is a name");
    let run = guest.run(&simulation().free(nothing), "counter");
    assert_eq!((run.freed()[0].lines, run.freed()[0].events), (0, 0));
    assert!(
        run.names_like("lines").iter().any(|name| name == "line"),
        "{:?}",
        run.names_like("lines")
    );
}

#[test]
fn what_if_names_the_gain_of_the_line_that_is_in_the_way() {
    let Some(guest) = Program::guest("sharing.c").map(Guest) else {
        return;
    };
    let simulation = simulation();
    let first = guest.run(&simulation, "packed");
    let candidates = what_if::worst(&first, &first.summary(), 2);
    let worst = &candidates[0];
    assert_eq!(worst.free[0].to_string(), "the line+0x0");
    let second = guest.run(&worst.simulation(&simulation), "packed");
    let found = worst.compare(&first, &second).expect("they compare");
    // The same with a line for each core: what one would really do.
    let fixed = guest.run(&simulation, "padded");
    let elapsed = |run: &Run| run.main().expect("it ran").region.elapsed as f64;
    let really = elapsed(&first) / elapsed(&fixed);
    assert!(found.speedup > 2.0, "{found:?}");
    assert!(
        (0.8..1.25).contains(&(found.speedup / really)),
        "foretold {}, found {really}",
        found.speedup
    );
    // A run in which nothing was free says nothing.
    assert_eq!(worst.compare(&first, &fixed), Err(Incomparable::NotMet));
}
