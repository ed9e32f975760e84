//! What is counted, and that the library reads what is written here.

use super::*;
use crate::model::{Bytes, Event, Outcome, Rights};

fn outcome(event: Event, finished: Ticks) -> Outcome {
    Outcome {
        finished,
        takes: 0,
        granted: Rights::Write,
        event,
        invalidated: 1,
        queued: 0,
    }
}

fn snapshot(tally: &Tally) -> Snapshot<'_> {
    Snapshot {
        pid: 7,
        parent: 3,
        program: "/bin/\"odd\"\n",
        machine: "two",
        cores: 2,
        megahertz: 2400,
        line_size: 64,
        ending: Ending::Exit(-1),
        exit_code: -1,
        threads: 2,
        instructions: 10,
        elapsed: 5000,
        began: 0,
        skipped: 0,
        is_skipping: false,
        looked_at: 0,
        maps: "400000-401000 r-xp 00000000 00:00 0 /bin/odd\n",
        sleepers: &[],
        unsimulated: &[],
        not_reproducible: &["it reads the clock of the host"],
        forced: 0,
        unordered: 0,
        processes: &[
            OnMachine {
                pid: 7,
                parent: 3,
                threads: 2,
                has_executed: false,
                signal: 0,
            },
            OnMachine {
                pid: 8,
                parent: 7,
                threads: 1,
                has_executed: true,
                signal: 0,
            },
        ],
        interleaving: Some(Interleaving {
            points: 3,
            delays: 2,
            order: u64::MAX,
        }),
        top_lines: 2,
        free: &[],
        free_lines: &[],
        spaces: Box::leak(Box::default()),
        tally,
        witness: Box::leak(Box::default()),
    }
}

fn read(tally: &Tally) -> crate::report::ProcessResult {
    let text = to_json(&snapshot(tally));
    crate::report::ProcessResult::from_json(text.as_bytes()).expect("the library reads it")
}

#[test]
fn the_library_reads_what_the_plugin_writes() {
    let mut tally = Tally::new(2);
    tally.on(0, 0, 0);
    tally.record(0, 4, 0x400100, true, &outcome(Event::Write, 160), 0, false);
    tally.label(260, 8, "the \\ counter".to_owned());
    tally.settle(0, 200);
    let result = read(&tally);
    assert_eq!((result.pid, result.parent, result.exit_code), (7, 3, -1));
    assert_eq!(result.program, "/bin/\"odd\"\n");
    let pids: Vec<u32> = result.processes.iter().map(|of| of.pid).collect();
    assert_eq!(pids, [7, 8]);
    assert_eq!(result.processes[1].executed, 1);
    assert_eq!(result.not_reproducible, ["it reads the clock of the host"]);
    assert_eq!(
        (
            result.whole.writes,
            result.whole.stall,
            result.whole.invalidations
        ),
        (1, 160, 1)
    );
    assert_eq!(result.region, crate::report::Region::default());
    let [core] = &result.cores_detail[..] else {
        panic!("only one core has worked: {:?}", result.cores_detail);
    };
    assert_eq!((core.core, core.busy, core.counts.writes), (0, 200, 1));
    let [line] = &result.lines[..] else {
        panic!("one line went around: {:?}", result.lines);
    };
    assert_eq!(
        (line.line, line.label.as_deref()),
        (256, Some("the \\ counter"))
    );
    assert_eq!((&line.readers[..], &line.writers[..]), (&[][..], &[0][..]));
    assert_eq!((line.places[0].pc, line.places[0].write), (0x400100, true));
    let [of] = line.by_core[..] else {
        panic!("one core took part: {:?}", line.by_core);
    };
    assert_eq!((of.core, of.events, of.stall), (0, 1, 160));
}

#[test]
fn lines_are_those_of_the_region() {
    let mut tally = Tally::new(2);
    tally.record(0, 1, 1, true, &outcome(Event::Write, 900), 0, false);
    tally.begin(0, 1000);
    tally.record(
        0,
        2,
        1,
        true,
        &outcome(Event::Upgrade, 1100),
        1000,
        tally.inside(0),
    );
    tally.record(
        1,
        3,
        1,
        false,
        &outcome(Event::Read, 1900),
        1000,
        tally.inside(1),
    );
    tally.end(0, 5, 1200);
    let result = read(&tally);
    assert_eq!(
        result
            .lines
            .iter()
            .map(|line| line.line)
            .collect::<Vec<_>>(),
        [128]
    );
    assert_eq!(
        (result.region.counts.upgrades, result.region.counts.reads),
        (1, 0)
    );
    assert_eq!(
        (
            result.whole.writes,
            result.whole.reads,
            result.whole.upgrades
        ),
        (1, 1, 1)
    );
    assert_eq!((result.region.operations, result.region.elapsed), (5, 200));
}

#[test]
fn the_worst_lines_come_first_and_cold_ones_never() {
    let mut tally = Tally::new(1);
    for (line, stall) in [(1, 10), (2, 30), (3, 20), (4, 30)] {
        tally.record(0, line, 1, true, &outcome(Event::Write, stall), 0, false);
    }
    tally.record(0, 9, 1, true, &outcome(Event::Cold, 9000), 0, false);
    let result = read(&tally);
    assert_eq!(
        result
            .lines
            .iter()
            .map(|line| line.line / 64)
            .collect::<Vec<_>>(),
        [2, 4]
    );
    assert_eq!(
        (
            result.lines_seen,
            result.whole.cold,
            result.whole.cold_stall
        ),
        (4, 1, 9000)
    );
}

#[test]
fn busy_time_is_split_at_the_marks_and_at_sleep() {
    let mut tally = Tally::new(2);
    tally.on(0, 0, 0);
    tally.begin(0, 100);
    tally.begin(0, 150);
    tally.off(0, 300);
    tally.on(0, 1, 700);
    tally.end(0, 1, 750);
    tally.end(0, 1, 800);
    tally.off(0, 1000);
    let result = read(&tally);
    assert_eq!(
        result
            .cores_detail
            .iter()
            .map(|core| core.busy)
            .collect::<Vec<_>>(),
        [300, 300]
    );
    assert_eq!(
        (result.region.busy, result.region.elapsed),
        (200 + 100, 700)
    );
    assert_eq!(
        (
            result.region.entered,
            result.region.threads,
            result.region.operations
        ),
        (1, 1, 2)
    );
}

#[test]
fn marks_that_do_not_match_are_named() {
    let mut tally = Tally::new(2);
    tally.end(0, 9, 10);
    tally.begin(0, 20);
    tally.gone(0, 30);
    tally.begin(1, 40);
    let result = read(&tally);
    assert_eq!((result.region.operations, result.region.entered), (0, 2));
    assert_eq!(result.region.elapsed, 5000 - 20, "one is still inside");
    assert_eq!(result.warnings.len(), 2);
    assert!(
        result.warnings[0].starts_with("1 marks"),
        "{:?}",
        result.warnings
    );
    assert!(
        result.warnings[1].starts_with("2 threads"),
        "{:?}",
        result.warnings
    );
}

#[test]
fn labels_name_every_line_they_touch() {
    let mut tally = Tally::default();
    tally.label(100, 100, "table".to_owned());
    tally.label(190, 2, "head".to_owned());
    assert_eq!(tally.labels_in(0, 64), None);
    assert_eq!(tally.labels_in(64, 64).as_deref(), Some("table"));
    assert_eq!(tally.labels_in(128, 64).as_deref(), Some("table, head"));
    assert_eq!(tally.labels_in(192, 64).as_deref(), Some("table"));
    assert_eq!(tally.labels_in(256, 64), None);
}

#[test]
fn each_program_of_a_process_has_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tally = Tally::new(1);
    let mut now = snapshot(&tally);
    for (ending, name) in [
        (Ending::Exec, "7.0.json"),
        (Ending::Exec, "7.1.json"),
        (Ending::Signal(15), "7.json"),
        (Ending::Exit(0), "7.json"),
    ] {
        now.ending = ending;
        let place = write(folder.path(), &now).expect("the folder can be written");
        assert_eq!(place.file_name(), Some(name.as_ref()));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 3);
}

/// Accesses to line 4 as the simulator tells of them.
fn write_by(tally: &mut Tally, core: u16, loser: u16, offset: u32, in_region: bool) {
    let outcome = outcome(Event::Write, 160);
    let bytes = Bytes { offset, size: 8 };
    tally.record(core, 4, 0x400100, true, &outcome, 0, in_region);
    let lost = [(loser, Rights::None)];
    tally.come(core, 4, Some(bytes), true, &outcome, &lost, 64, in_region);
}

#[test]
fn a_line_that_moves_often_is_followed() {
    let mut tally = Tally::new(2);
    let hit = Bytes { offset: 0, size: 8 };
    for turn in 0..40 {
        let core = turn % 2;
        // Each core has a word of its own; one of them sometimes uses the other's in passing.
        write_by(&mut tally, core, 1 - core, 8 + 8 * u32::from(core), false);
        let watched = tally.used(core, 4, hit, false, false);
        assert_eq!(watched, turn >= 7, "after {turn} turns");
        if turn >= 20 && core == 1 {
            tally.used(core, 4, Bytes { offset: 8, size: 8 }, false, false);
        }
    }
    let result = read(&tally);
    let line = &result.lines[0];
    assert_eq!(
        line.spans
            .iter()
            .map(|span| (span.offset, span.events))
            .collect::<Vec<_>>(),
        [(0, 0), (8, 20), (16, 20)]
    );
    assert_eq!(
        (&line.spans[1].writers[..], &line.spans[1].readers[..]),
        (&[0][..], &[1][..])
    );
    // It was followed from the eighth turn on, when it came to a core that may never have had it.
    assert_eq!(line.true_events, 10);
    assert_eq!(line.true_events + line.false_events, 40 - 7 - 1);
    assert_eq!(line.undecided_events, 0);
}

#[test]
fn what_others_write_outside_of_the_region_is_known_and_not_counted() {
    let mut tally = Tally::new(2);
    tally.begin(0, 0);
    for _ in 0..10 {
        write_by(&mut tally, 0, 1, 0, true);
        write_by(&mut tally, 1, 0, 0, false);
    }
    let result = read(&tally);
    let line = &result.lines[0];
    assert_eq!(line.counts.writes, 10);
    assert_eq!(line.spans[0].writers, [0]);
    assert_eq!((line.true_events, line.false_events), (2, 0));
}

#[test]
fn free_lines_are_named_though_nobody_waits_for_them() {
    let mut tally = Tally::new(2);
    for line in [1, 2, 3] {
        tally.record(0, line, 7, true, &outcome(Event::Write, 0), 0, false);
    }
    let met = [Met {
        lines: 2,
        events: 9,
    }];
    let mut with = snapshot(&tally);
    with.free = &met;
    with.free_lines = &[5, 3];
    let text = to_json(&with);
    let result = crate::report::ProcessResult::from_json(text.as_bytes()).expect("it is read");
    assert_eq!((result.free[0].lines, result.free[0].events), (2, 9));
    let lines: Vec<u64> = result.free_lines.iter().map(|line| line.line).collect();
    assert_eq!(lines, [3 * 64]);
    assert_eq!(result.free_lines[0].places[0].pc, 7);
}
