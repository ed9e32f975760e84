use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::*;
use crate::model::Machine;
use crate::report::{BlockResult, Counts, Ending, FreeResult, PlaceResult, Region};

fn line(address: u64, stall: u64) -> LineResult {
    LineResult {
        line: address,
        counts: Counts {
            writes: 640,
            stall,
            ..Counts::default()
        },
        places: vec![PlaceResult {
            pc: 77,
            write: true,
            events: 640,
            stall,
        }],
        ..LineResult::default()
    }
}

fn run(change: impl FnOnce(&mut ProcessResult), free: Vec<Free>) -> Run {
    let mut process = ProcessResult {
        ticks_per_cycle: 16,
        megahertz: 1000,
        line_size: 64,
        elapsed: 16_000,
        ending: Ending::Exit,
        lines: vec![line(4096, 900), line(8192, 100), line(64, 0)],
        ..ProcessResult::default()
    };
    change(&mut process);
    Run {
        processes: vec![process],
        status: ExitStatus::from_raw(0),
        timed_out: false,
        stdout: Vec::new(),
        stderr: Vec::new(),
        first: 1,
        machine: Machine::flat("test", 2),
        run_ahead: 0,
        seed: 1,
        qemu: "7.2".to_owned(),
        free,
        program: None,
        region_function: None,
    }
}

fn first() -> Run {
    run(|_| {}, Vec::new())
}

/// A run in which this line was free and met.
fn second(free: &Free, change: impl FnOnce(&mut ProcessResult)) -> Run {
    run(
        |process| {
            process.elapsed = 4000;
            process.free = vec![FreeResult {
                lines: 1,
                events: 40,
            }];
            process.free_lines = vec![line(4096, 0)];
            change(process);
        },
        vec![free.clone()],
    )
}

#[test]
fn lines_for_which_nobody_waited_are_not_tried() {
    let first = first();
    let tried = worst(&first, &first.summary(), 9);
    let addresses: Vec<_> = tried.iter().map(|candidate| &candidate.free[..]).collect();
    assert_eq!(addresses, [[Free::Address(4096)], [Free::Address(8192)]]);
    assert_eq!(worst(&first, &first.summary(), 1).len(), 1);
}

#[test]
fn a_line_is_found_again_by_its_label_unless_that_is_anothers_too() {
    let label = |name: &str, address| LabelResult {
        name: name.to_owned(),
        address,
        size: 128,
    };
    let first = run(
        |process| {
            process.labels = vec![
                label("table", 4096 - 64),
                label("shard", 8192),
                label("shard", 16384),
            ];
        },
        Vec::new(),
    );
    let tried = worst(&first, &first.summary(), 2);
    assert_eq!(tried[0].free[0].to_string(), "table+0x40");
    assert_eq!(tried[1].free, [Free::Address(8192)]);
}

#[test]
fn the_speed_is_that_of_the_run_of_the_region_or_of_operations() {
    let first = first();
    let candidate = worst(&first, &first.summary(), 1).remove(0);
    let compare = |first: &Run, second: &Run| candidate.compare(first, second);
    let found = compare(&first, &second(&candidate.free[0], |_| {})).expect("they compare");
    assert_eq!((found.speedup, found.elapsed_ns), (4.0, 250.0));

    let region = |elapsed, operations| Region {
        entered: 1,
        elapsed,
        operations,
        ..Region::default()
    };
    let marked = run(|process| process.region = region(8000, 0), Vec::new());
    let again = second(&candidate.free[0], |process| {
        process.region = region(4000, 0)
    });
    assert_eq!(compare(&marked, &again).expect("they do").speedup, 2.0);
    let counted = run(|process| process.region = region(8000, 10), Vec::new());
    let more = second(&candidate.free[0], |process| {
        process.region = region(4000, 30)
    });
    assert_eq!(compare(&counted, &more).expect("they do").speedup, 6.0);
}

#[test]
fn what_is_not_the_same_run_or_line_is_not_compared() {
    let first = first();
    let candidate = worst(&first, &first.summary(), 1).remove(0);
    let refused = |second: Run| candidate.compare(&first, &second).expect_err("no figure");
    let mut late = second(&candidate.free[0], |_| {});
    late.timed_out = true;
    assert_eq!(refused(late), Incomparable::TimedOut);
    let mut failed = second(&candidate.free[0], |_| {});
    failed.status = ExitStatus::from_raw(256);
    assert_eq!(refused(failed), Incomparable::Different);
    let dead = second(&candidate.free[0], |process| {
        process.ending = Ending::Deadlock
    });
    assert_eq!(refused(dead), Incomparable::Different);
    let unused = second(&candidate.free[0], |process| process.free[0].events = 0);
    assert_eq!(refused(unused), Incomparable::NotMet);
    let others = second(&candidate.free[0], |process| {
        process.free_lines[0].places[0].pc = 78;
    });
    assert_eq!(refused(others), Incomparable::NotMet);
    let hardly = second(&candidate.free[0], |process| {
        process.free_lines[0].counts.writes = 0;
    });
    assert_eq!(refused(hardly), Incomparable::NotMet);
}

/// A run with lines of two blocks, one of which has a line beyond all others.
fn of_blocks() -> Run {
    run(
        |process| {
            let part = |address, stall, block| LineResult {
                block: Some(BlockResult {
                    address: block,
                    size: 128,
                    stack: None,
                }),
                ..line(address, stall)
            };
            process.lines = vec![
                line(64, 500),
                part(8192, 400, 8192),
                part(8192 + 64, 300, 8192),
                part(16384, 200, 16384),
                part(8192 + 128, 0, 8192),
            ];
        },
        Vec::new(),
    )
}

#[test]
fn the_contended_lines_of_an_object_are_tried_together_and_ranked_by_their_sum() {
    let first = of_blocks();
    let summary = first.summary();
    let tried = worst(&first, &summary, 9);
    let lines: Vec<_> = tried.iter().map(|candidate| &candidate.lines[..]).collect();
    assert_eq!(lines, [&[1, 2][..], &[0], &[3]]);
    assert_eq!(
        tried[0].free,
        [Free::Address(8192), Free::Address(8192 + 64)]
    );
    assert_eq!(worst(&first, &summary, 1).len(), 1);

    let labelled = run(
        |process| {
            let label = |address, size| LabelResult {
                name: "shard".to_owned(),
                address,
                size,
            };
            process.labels = vec![label(4096, 4096 + 8), label(64, 64)];
        },
        Vec::new(),
    );
    let tried = worst(&labelled, &labelled.summary(), 9);
    assert_eq!(tried.len(), 1);
    assert_eq!(tried[0].lines, [0, 1]);
}

#[test]
fn memory_that_the_program_has_mapped_is_no_object() {
    let mapping = Some(BlockResult {
        address: 4096,
        size: 1 << 20,
        stack: None,
    });
    let first = run(
        |process| {
            for line in &mut process.lines {
                line.mapping = mapping;
            }
        },
        Vec::new(),
    );
    assert_eq!(worst(&first, &first.summary(), 9).len(), 2);
}

#[test]
fn the_gain_of_a_group_stands_at_its_worst_line_with_all_that_were_free() {
    let first = of_blocks();
    let mut summary = first.summary();
    let candidate = worst(&first, &summary, 1).remove(0);
    let again = |lines: Vec<LineResult>| {
        run(
            |process| {
                process.elapsed = 4000;
                process.free = vec![
                    FreeResult {
                        lines: 1,
                        events: 40,
                    };
                    2
                ];
                process.free_lines = lines;
            },
            candidate.free.clone(),
        )
    };
    // Its other line is not asked for once the worst costs nothing; it was free all the same.
    for lines in [vec![line(8192, 0)], vec![line(8192, 0), line(8192 + 64, 0)]] {
        let found = candidate
            .compare(&first, &again(lines))
            .expect("they compare");
        assert_eq!(found.speedup, 4.0);
    }
    let found = candidate
        .compare(&first, &again(vec![line(8192, 0)]))
        .expect("they compare");
    candidate.note(found, &mut summary);
    assert_eq!(summary.lines[1].what_if, None);
    let noted = summary.lines[1].what_if_object.as_ref();
    assert_eq!(noted.expect("it is there").lines, [8192, 8192 + 64]);
    assert_eq!(summary.lines[2].what_if_object, None);
    assert_eq!(summary.lines[1].gain(), Some(found));
    assert_eq!(found.note(), None);
    // One of them is a lock's: nobody waits for its holder, either.
    let data = summary
        .lines
        .iter_mut()
        .find(|line| line.address == 8192 + 64);
    data.expect("it is there").suggestion = Some(crate::report::Suggestion {
        pattern: Pattern::LockWord,
        text: String::new(),
        fits: None,
    });
    assert!(!candidate.is_lock);
    let lock = &worst(&first, &summary, 9)[0];
    assert!(lock.is_lock && lock.lines == candidate.lines);
    lock.note(found, &mut summary);
    let noted = summary.lines[1].gain().expect("it was noted");
    assert!(
        noted
            .note()
            .is_some_and(|note| note.contains("nobody held it"))
    );

    // What others use there was free as well: the figure is not about the object.
    let mut others = line(8192 + 64, 0);
    others.places[0].pc = 78;
    assert_eq!(
        candidate.compare(&first, &again(vec![line(8192, 0), others])),
        Err(Incomparable::NotMet)
    );
    // And without the worst line it is about nothing.
    assert_eq!(
        candidate.compare(&first, &again(vec![line(8192 + 64, 0)])),
        Err(Incomparable::NotMet)
    );
}
