//! Reports for tests.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::*;
use crate::model::Machine;
use crate::run::Run;

/// A run whose report leaves nothing out that a result can hold.
pub(super) fn run() -> Run {
    let counts = Counts {
        reads: 4,
        writes: 8,
        stall: 500,
        ..Counts::default()
    };
    let process = |pid| ProcessResult {
        format: FORMAT,
        pid,
        program: "/bin/one".to_owned(),
        ticks_per_cycle: 1,
        megahertz: 1000,
        line_size: 64,
        threads: 2,
        instructions: 10,
        elapsed: 1000,
        ending: Ending::Exit,
        whole: counts,
        region: Region {
            entered: 2,
            operations: 4,
            elapsed: 800,
            busy: 900,
            counts,
            threads: 2,
        },
        lines_seen: 1,
        lines: vec![LineResult {
            line: 4096,
            counts,
            readers: vec![0],
            writers: vec![0, 1],
            places: vec![PlaceResult {
                pc: 64,
                write: true,
                events: 12,
                stall: 500,
            }],
            elsewhere: 1,
            label: Some("it".to_owned()),
            by_core: vec![OfCore {
                core: 1,
                events: 12,
                stall: 500,
            }],
            ..LineResult::default()
        }],
        sleepers: vec![Sleeper {
            thread: 1,
            why: "futex".to_owned(),
            pc: 64,
            address: 8,
        }],
        skipped_instructions: 7,
        skipped_but_looked_at: 1,
        ..ProcessResult::default()
    };
    Run {
        processes: vec![process(1), process(2)],
        status: ExitStatus::from_raw(0),
        timed_out: false,
        stdout: Vec::new(),
        stderr: Vec::new(),
        first: 1,
        machine: Machine::flat("flat", 2),
        run_ahead: 1000,
        seed: 1,
        qemu: "7.2".to_owned(),
        free: Vec::new(),
        program: None,
        region_function: None,
    }
}

/// All that may be found out about a line.
pub(super) fn known(line: &mut LineSummary) {
    let place = Place {
        function: "main".to_owned(),
        file: Some("main.c".to_owned()),
        line: Some(3),
    };
    line.object = Some(ObjectSummary {
        kind: ObjectKind::Heap,
        name: "new".to_owned(),
        address: 4090,
        size: Some(80),
        offset: -6,
        allocated: vec![place.clone()],
    });
    line.sharing = Sharing {
        true_events: 1,
        false_events: 2,
        verdict: Verdict::Mixed,
    };
    line.spans = vec![SpanSummary {
        offset: 8,
        size: 4,
        readers: vec![0],
        writers: vec![1],
        events: 3,
        name: Some("count".to_owned()),
    }];
    line.what_if = Some(WhatIf {
        speedup: 3.5,
        elapsed_ns: 10.0,
        never_held: false,
    });
    line.suggestion = Some(Suggestion {
        pattern: Pattern::PackedFields,
        text: "Move it.".to_owned(),
        fits: Some("percolog::counter::Counter".to_owned()),
    });
    line.places[0].place = place.clone();
    line.places[0].frames = vec![place.clone()];
    line.places[0].callers = vec![CallerSummary { place, events: 2 }];
}
