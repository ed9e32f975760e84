//! What is counted, and that the library reads what is written here.

use super::*;
use crate::model::{Event, Outcome, Rights};

fn outcome(event: Event, finished: Ticks) -> Outcome {
    Outcome {
        finished,
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
        maps: "400000-401000 r-xp 00000000 00:00 0 /bin/odd\n",
        sleepers: &[],
        unsimulated: &[],
        not_reproducible: &["it reads the clock of the host"],
        forced: 0,
        unordered: 0,
        children: &[8, 9],
        top_lines: 2,
        tally,
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
    assert_eq!(result.children, [8, 9]);
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
