//! Traces come back as they were, and what is no sound trace is refused.

mod damage;
mod generated;
mod rules;

use super::*;
use crate::trace::event::{Action, Backing, Shares};
use crate::trace::{FileKind, Trace};
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn description() -> Description {
    Description {
        command: "make -j8".to_owned(),
        package: "nothing 1.0".to_owned(),
        recorded: "2026-01-31".to_owned(),
        recorder: "by hand".to_owned(),
        page_size: PAGE,
        names: Names::System,
        not_understood: 3,
    }
}

fn files() -> Vec<File> {
    let file = |kind, name: &str| File {
        kind,
        name: name.to_owned(),
    };
    vec![
        file(FileKind::Library, "libc.so.6"),
        file(FileKind::Program, ""),
        file(FileKind::Temporary, "#0123abcd"),
    ]
}

const COPY: Shares = Shares {
    memory: false,
    descriptors: false,
    process: false,
};

fn map(address: u64, length: u64, file: u32, offset: u64) -> Action {
    Action::Map {
        address,
        length,
        backing: Backing::File(file),
        offset,
    }
}

/// Every kind of event, and extremes of every number.
fn events() -> Vec<Event> {
    let shares = |memory, descriptors, process| Shares {
        memory,
        descriptors,
        process,
    };
    let fork = |child, shares| Action::Fork { child, shares };
    let open = |file, descriptor, close_on_exec| Action::Open {
        file,
        descriptor,
        close_on_exec,
    };
    let actions = [
        (
            0,
            0,
            Action::Exec {
                program: Some((1, 7 * PAGE)),
            },
        ),
        (
            0,
            0,
            Action::Break {
                end: 0x5500_0000_0001,
            },
        ),
        (1, 0, Action::Break { end: u64::MAX }),
        (1, 0, open(0, 3, true)),
        (1, 0, map(0x7f00_0000_0000, 5 * PAGE, 0, 0)),
        (0, 0, Action::Close { descriptor: 3 }),
        (300, 0, map(0x7f00_0000_1000, PAGE, 0, 1 << 40)),
        (0, 0, fork(1, COPY)),
        (
            70_000,
            1,
            Action::Unmap {
                address: 0x7f00_0000_2000,
                length: PAGE,
            },
        ),
        (2, 0, fork(2, shares(true, false, false))),
        (2, 2, Action::Exec { program: None }),
        (9, 2, map(u64::MAX - 8 * PAGE + 1, 7 * PAGE, 2, 0)),
        (9, 2, map(0, PAGE, 2, u64::MAX - 2 * PAGE + 1)),
        (
            0,
            2,
            Action::Map {
                address: 0,
                length: PAGE,
                backing: Backing::Memory,
                offset: 0,
            },
        ),
        (5, 1, Action::Truncate { file: 2, length: 0 }),
        (
            5,
            1,
            Action::Truncate {
                file: 0,
                length: 4097,
            },
        ),
        (0, 1, open(2, u32::MAX, false)),
        (
            0,
            1,
            Action::Duplicate {
                from: u32::MAX,
                to: 1,
                close_on_exec: false,
            },
        ),
        (
            0,
            1,
            Action::Duplicate {
                from: 1,
                to: 7,
                close_on_exec: true,
            },
        ),
        (
            0,
            1,
            Action::Inherit {
                descriptor: 7,
                close_on_exec: false,
            },
        ),
        (
            0,
            1,
            Action::Inherit {
                descriptor: 1,
                close_on_exec: true,
            },
        ),
        (0, 1, fork(3, shares(true, true, true))),
        (0, 3, fork(4, shares(false, true, false))),
        (0, 4, Action::Stat { file: 0 }),
        (0, 3, Action::Create { file: 2 }),
        (0, 4, Action::Rename { from: 2, to: 1 }),
        (0, 4, Action::Unlink { file: 1 }),
        (0, 4, Action::Exit),
        (0, 3, Action::Exit),
        (u64::from(u32::MAX), 1, Action::Exit),
        (1, 2, Action::Exit),
        (1, 0, Action::Exit),
    ];
    let mut time = 0;
    actions
        .into_iter()
        .map(|(after, task, action)| {
            time += after;
            Event { time, task, action }
        })
        .collect()
}

fn sample() -> Trace {
    Trace::new(description(), files(), events()).expect("a sound trace")
}

/// The sample's file in blocks of `block` records.
fn in_blocks(block: u32) -> Vec<u8> {
    let mut trace = sample();
    trace.header.block = block;
    trace.to_bytes().expect("written")
}

/// Where each part of a file ends, and what it is.
fn parts(bytes: &[u8]) -> Vec<(usize, Part)> {
    let mut end = FRONT;
    let mut parts = vec![(end, Part::Front)];
    end += number(bytes, 18) as usize;
    parts.push((end, Part::Header));
    end += number(bytes, 26) as usize;
    parts.push((end, Part::Files));
    let mut first = 0;
    while end < bytes.len() {
        let last = first + u64::from(number(bytes, end)) - 1;
        end += BLOCK_HEAD + number(bytes, end + 4) as usize;
        parts.push((end, Part::Records { first, last }));
        first = last + 1;
    }
    parts
}

/// The part that the byte at `place` is of.
fn part_at(parts: &[(usize, Part)], place: usize) -> Part {
    parts
        .iter()
        .find(|(end, _)| place < *end)
        .expect("inside the file")
        .1
}

#[test]
fn comes_back() {
    let trace = sample();
    let bytes = trace.to_bytes().expect("written");
    assert_eq!(Trace::from_bytes(&bytes).expect("read"), trace);
    assert_eq!(
        sample().to_bytes().expect("written"),
        bytes,
        "equal traces, equal files"
    );
    for block in [1, 5, events().len() as u32] {
        let read = Trace::from_bytes(&in_blocks(block)).expect("read");
        assert_eq!(read.events(), trace.events());
    }
}

/// The sample's parts before they are packed: header, table of files, records.
fn unpacked() -> (Vec<u8>, Vec<u8>, records::Blocks) {
    let trace = sample();
    (
        serde_json::to_vec(trace.header()).expect("JSON"),
        serde_json::to_vec(trace.files()).expect("JSON"),
        records::encode(PAGE, BLOCK, trace.events()).expect("records"),
    )
}
