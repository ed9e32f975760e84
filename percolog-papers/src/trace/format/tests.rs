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

#[test]
fn every_truncation_is_noticed_and_placed() {
    for block in [1, 5, 8192] {
        let bytes = in_blocks(block);
        let parts = parts(&bytes);
        for length in 0..bytes.len() {
            let error = Trace::from_bytes(&bytes[..length]).expect_err("cut short");
            let expected = part_at(&parts, length);
            assert!(
                matches!(error, TraceError::Truncated { part } if part == expected),
                "{length}: {error}"
            );
        }
        for extra in [1, 4, 1000] {
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + extra, 0);
            assert!(matches!(
                Trace::from_bytes(&longer),
                Err(TraceError::Trailing { extra: found }) if found == extra as u64
            ));
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed_and_placed() {
    for block in [7, 8192] {
        let mut bytes = in_blocks(block);
        let parts = parts(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                let error = Trace::from_bytes(&bytes).expect_err("damaged");
                let expected = part_at(&parts, at);
                let right = match at {
                    0..16 => matches!(error, TraceError::NotATrace),
                    16..18 => matches!(error, TraceError::Version { .. }),
                    _ => matches!(error, TraceError::Damaged { part } if part == expected),
                };
                assert!(right, "bit {bit} of byte {at}, in {expected}: {error}");
                assert!(!error.to_string().contains('\n'), "one line: {error}");
                bytes[at] ^= 1 << bit;
            }
        }
        assert!(Trace::from_bytes(&bytes).is_ok());
    }
}

#[test]
fn errors_say_where_and_what_to_do() {
    let bytes = in_blocks(5);
    let parts = parts(&bytes);
    let error = |bytes: &[u8]| Trace::from_bytes(bytes).expect_err("damaged").to_string();
    assert_eq!(
        error(&bytes[..parts[3].0 + 1]),
        "the trace is cut short after record 4; copy or record it again"
    );
    assert_eq!(
        error(&bytes[..parts[2].0]),
        "the trace is cut short before record 0; copy or record it again"
    );
    assert_eq!(
        error(&bytes[..FRONT]),
        "the trace is cut short in its header; copy or record it again"
    );
    let mut damaged = bytes.clone();
    damaged[parts[4].0 - 1] ^= 1;
    assert_eq!(
        error(&damaged),
        "the trace is damaged in records 5 to 9; copy or record it again"
    );
}

#[test]
fn blocks_that_have_changed_places_are_noticed() {
    let mut trace = sample();
    // Blocks of one record whose contents are alike: only their heads can tell them apart.
    trace.header.block = 1;
    let bytes = trace.to_bytes().expect("written");
    let parts = parts(&bytes);
    let block = |number: usize| bytes[parts[number + 2].0..parts[number + 3].0].to_vec();
    let mut swapped = bytes[..parts[2].0].to_vec();
    swapped.extend([block(1), block(0)].concat());
    swapped.extend(&bytes[parts[4].0..]);
    assert_eq!(swapped.len(), bytes.len());
    assert!(matches!(
        Trace::from_bytes(&swapped),
        Err(TraceError::Damaged {
            part: Part::Records { first: 0, last: 0 }
        })
    ));
}

#[test]
fn damage_to_the_bundled_trace_is_noticed() {
    let bytes = crate::trace::bundled::BUNDLED[0].1;
    for at in (0..bytes.len()).step_by(20_011) {
        assert!(Trace::from_bytes(&bytes[..at]).is_err());
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        assert!(Trace::from_bytes(&damaged).is_err());
    }
}

#[test]
fn other_formats_are_refused_with_the_way_out() {
    let mut bytes = sample().to_bytes().expect("written");
    for (version, way_out) in [(1, "record it again"), (3, "use a newer percolog")] {
        bytes[16] = version;
        // Whatever follows: another format lays it out as it likes.
        for length in [18, bytes.len()] {
            let error = Trace::from_bytes(&bytes[..length]).expect_err("another format");
            assert_eq!(
                error.to_string(),
                format!("the trace has format {version}, this program reads format 2; {way_out}")
            );
        }
    }
}

#[test]
fn what_is_no_trace_is_told_from_a_damaged_one() {
    for bytes in [
        &b"#!/bin/sh\necho hello\n"[..],
        b"\0",
        b"percolog trace\n\n a text",
    ] {
        assert!(matches!(
            Trace::from_bytes(bytes),
            Err(TraceError::NotATrace)
        ));
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

#[test]
fn headers_that_lie_are_refused() {
    let (_, table, blocks) = unpacked();
    let lie = |change: fn(&mut Header)| {
        let mut header = sample().header().clone();
        change(&mut header);
        let text = serde_json::to_vec(&header).expect("JSON");
        Trace::from_bytes(&file(&text, &table, &blocks).expect("packed")).expect_err("a lie")
    };
    for change in [
        (|header| header.counts.map += 1) as fn(&mut Header),
        |header| header.counts.exit -= 1,
        |header| header.counts.fork = u64::MAX,
        |header| std::mem::swap(&mut header.counts.map, &mut header.counts.unmap),
        |header| header.tasks += 1,
        |header| header.tasks -= 1,
        |header| header.block = 5,
    ] {
        let error = lie(change);
        assert!(matches!(error, TraceError::Inconsistent(_)), "{error}");
    }
    // Enough for a careless reader to run out of memory.
    assert!(matches!(
        lie(|header| {
            header.counts.fork = 1 << 45;
            header.tasks = u32::MAX;
        }),
        TraceError::TooManyEvents { .. }
    ));
    for change in [
        (|header| header.page_size = 0) as fn(&mut Header),
        |header| header.page_size = 3,
        |header| header.block = 0,
        |header| header.block = u32::MAX,
    ] {
        let error = lie(change);
        assert!(matches!(error, TraceError::Header(_)), "{error}");
    }
    assert!(matches!(
        lie(|header| header.page_size = 1 << 63),
        TraceError::Malformed { .. }
    ));
}

#[test]
fn parts_that_are_not_what_they_should_be_are_refused() {
    let (header, table, blocks) = unpacked();
    let refused = |header: &[u8], table: &[u8], blocks: &[(u32, Vec<u8>)]| {
        Trace::from_bytes(&file(header, table, blocks).expect("packed")).expect_err("no trace")
    };
    for text in [
        &b"{}"[..],
        b"",
        b"[1, 2",
        &[0xff, 0xfe],
        &header[..header.len() - 1],
    ] {
        let error = refused(text, &table, &blocks);
        assert!(matches!(error, TraceError::Header(_)), "{error}");
    }
    // What is quoted from the file stays on one line, and a short one.
    let quoted = format!("{{\"names\":\"a\\nb{}\"}}", "x".repeat(100_000));
    let error = refused(quoted.as_bytes(), &table, &blocks).to_string();
    assert!(error.contains("a b") && !error.contains('\n'), "{error}");
    assert!(error.len() < 400);
    for text in [&b"{}"[..], b"", b"[1]", b"[{\"kind\":\"none\"}]"] {
        let error = refused(&header, text, &blocks);
        assert!(matches!(error, TraceError::Header(_)), "{error}");
    }
    let error = refused(&header, b"[]", &blocks);
    assert!(
        matches!(error, TraceError::Malformed { event: 0, .. }),
        "{error}"
    );
    let mut longer = blocks.clone();
    longer[0].1.push(0);
    let error = refused(&header, &table, &longer);
    assert!(matches!(error, TraceError::Malformed { .. }), "{error}");
    // A block that unfolds to far more than it can hold.
    let bomb = vec![(blocks[0].0, vec![0; 50_000_000])];
    let error = refused(&header, &table, &bomb);
    assert!(matches!(error, TraceError::Malformed { .. }), "{error}");
    let blanks = vec![b' '; LONGEST_TABLE as usize + 1];
    let error = refused(&header, &blanks, &blocks);
    assert!(matches!(error, TraceError::Header(_)), "{error}");
}

/// What a task may do; the numbers choose.
fn action(kind: u8, a: u64, b: u64, flag: bool) -> Action {
    let file = (a % 3) as u32;
    let pages = |number: u64| number % (1 << 40) * PAGE;
    let length = (b % (1 << 30) + 1) * PAGE;
    match kind % 13 {
        0 => map(pages(a), length, file, pages(b)),
        1 => Action::Map {
            address: pages(a),
            length,
            backing: Backing::Memory,
            offset: 0,
        },
        2 => Action::Unmap {
            address: pages(a),
            length,
        },
        3 => Action::Break { end: a },
        4 => Action::Exec {
            program: flag.then_some((file, length)),
        },
        5 => Action::Truncate {
            file,
            length: b >> 20,
        },
        6 => Action::Open {
            file,
            descriptor: b as u32,
            close_on_exec: flag,
        },
        7 => Action::Close {
            descriptor: b as u32,
        },
        8 => Action::Duplicate {
            from: a as u32,
            to: b as u32,
            close_on_exec: flag,
        },
        9 => Action::Inherit {
            descriptor: b as u32,
            close_on_exec: flag,
        },
        10 if flag => Action::Stat { file },
        10 => Action::Create { file },
        11 => Action::Rename {
            from: file,
            to: (b % 3) as u32,
        },
        _ => Action::Unlink { file },
    }
}

prop_compose! {
    /// Events that keep the rules: tasks start others, and everybody ends.
    fn sound()(
        steps in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), any::<bool>(), any::<prop::sample::Index>(), 0..u64::from(u32::MAX)), 0..120)
    ) -> Vec<Event> {
        let (mut alive, mut born, mut time) = (vec![0], 1, 0);
        let mut events = Vec::new();
        for (kind, a, b, flag, who, elapsed) in steps {
            time += elapsed;
            let who = who.index(alive.len());
            let task = alive[who];
            let action = match kind {
                200.. => {
                    alive.push(born);
                    born += 1;
                    let process = flag && a % 2 == 0;
                    Action::Fork {
                        child: born - 1,
                        shares: Shares { memory: flag, descriptors: b % 2 == 0, process },
                    }
                }
                190..200 if alive.len() > 1 => {
                    alive.swap_remove(who);
                    Action::Exit
                }
                _ => action(kind, a, b, flag),
            };
            events.push(Event { time, task, action });
        }
        events.extend(alive.into_iter().map(|task| Event { time, task, action: Action::Exit }));
        events
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_sound_events_come_back(events in sound(), block in 1..50_u32) {
        let mut trace = Trace::new(description(), files(), events).expect("sound");
        trace.header.block = block;
        let bytes = trace.to_bytes().expect("written");
        prop_assert_eq!(Trace::from_bytes(&bytes).expect("read"), trace);
    }

    /// Whatever the records are, with right checksums: a sound trace or an error, never a panic.
    #[test]
    fn any_records_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(), cuts in any::<bool>()) {
        let (header, table, mut blocks) = unpacked();
        let plain = &mut blocks[0].1;
        for (at, byte) in changes {
            let at = at.index(plain.len());
            plain[at] = byte;
        }
        if cuts {
            plain.truncate(cut.index(plain.len()));
        }
        if let Ok(read) = Trace::from_bytes(&file(&header, &table, &blocks).expect("packed")) {
            let again = Trace::from_bytes(&read.to_bytes().expect("written")).expect("read");
            prop_assert_eq!(again, read);
        }
    }

    /// Several bytes changed at once are never taken for another trace.
    #[test]
    fn changed_bytes_are_noticed(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), block in 1..40_u32) {
        let sound = in_blocks(block);
        let mut bytes = sound.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assert_eq!(Trace::from_bytes(&bytes).is_ok(), bytes == sound);
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), front in any::<bool>()) {
        let mut all = Vec::new();
        if front {
            all.extend_from_slice(MAGIC);
            all.extend_from_slice(&VERSION.to_le_bytes());
        }
        all.extend_from_slice(&bytes);
        prop_assert!(Trace::from_bytes(&all).is_err());
    }
}

#[test]
fn rules_are_kept() {
    let event = |time, task, action| Event { time, task, action };
    let fork = |child| Action::Fork {
        child,
        shares: COPY,
    };
    let exit = event(9, 0, Action::Exit);
    let cases: Vec<(&str, Vec<Event>)> = vec![
        (
            "time goes back",
            vec![
                event(5, 0, Action::Exec { program: None }),
                event(4, 0, Action::Exit),
            ],
        ),
        (
            "a task that nobody started",
            vec![event(0, 1, Action::Exit), exit],
        ),
        (
            "a task acts after its end",
            vec![event(0, 0, Action::Exit), exit],
        ),
        ("a task is started twice", vec![event(0, 0, fork(0)), exit]),
        (
            "a task beyond the number of tasks",
            vec![event(0, 0, fork(2)), exit],
        ),
        (
            "a file that does not exist",
            vec![event(0, 0, map(0, PAGE, 3, 0)), exit],
        ),
        (
            "a file that does not exist",
            vec![event(0, 0, Action::Truncate { file: 3, length: 0 }), exit],
        ),
        (
            "a file that does not exist",
            vec![event(0, 0, Action::Rename { from: 0, to: 3 }), exit],
        ),
        (
            "a thread with memory of its own",
            vec![
                event(
                    0,
                    0,
                    Action::Fork {
                        child: 1,
                        shares: Shares {
                            process: true,
                            ..COPY
                        },
                    },
                ),
                exit,
            ],
        ),
        (
            "memory has no offset",
            vec![
                event(
                    0,
                    0,
                    Action::Map {
                        address: 0,
                        length: PAGE,
                        backing: Backing::Memory,
                        offset: PAGE,
                    },
                ),
                exit,
            ],
        ),
        ("an empty range", vec![event(0, 0, map(0, 0, 0, 0)), exit]),
        (
            "an empty range",
            vec![
                event(
                    0,
                    0,
                    Action::Exec {
                        program: Some((0, 0)),
                    },
                ),
                exit,
            ],
        ),
        (
            "a mapping is not in whole pages",
            vec![event(0, 0, map(1, PAGE, 0, 0)), exit],
        ),
        (
            "a mapping is not in whole pages",
            vec![
                event(
                    0,
                    0,
                    Action::Unmap {
                        address: 0,
                        length: 5,
                    },
                ),
                exit,
            ],
        ),
        (
            "a range passes the end of 64 bits",
            vec![event(0, 0, map(u64::MAX - PAGE + 1, PAGE, 0, 0)), exit],
        ),
        (
            "a range passes the end of 64 bits",
            vec![event(0, 0, map(0, PAGE, 0, u64::MAX - PAGE + 1)), exit],
        ),
        (
            "a file longer than 64 bits hold",
            vec![
                event(
                    0,
                    0,
                    Action::Truncate {
                        file: 0,
                        length: u64::MAX,
                    },
                ),
                exit,
            ],
        ),
    ];
    for (expected, events) in cases {
        match Trace::new(description(), files(), events) {
            Err(TraceError::Malformed { problem, .. }) => assert_eq!(problem, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert!(matches!(
        Trace::new(description(), files(), vec![event(0, 0, fork(1)), exit]),
        Err(TraceError::Inconsistent("a task has not ended"))
    ));
}

#[test]
fn a_short_trace_cannot_amount_to_more_than_fits() {
    // Each process maps once more and forks: the mappings grow as the square of the events.
    let mut events = Vec::new();
    let processes = 3000;
    for process in 0..processes {
        let address = u64::from(process) * PAGE;
        let mut act = |action| {
            events.push(Event {
                time: 0,
                task: process,
                action,
            })
        };
        act(map(address, PAGE, 0, address));
        if process + 1 < processes {
            act(Action::Fork {
                child: process + 1,
                shares: COPY,
            });
        }
    }
    for process in 0..processes {
        events.push(Event {
            time: 0,
            task: process,
            action: Action::Exit,
        });
    }
    assert!(matches!(
        Trace::new(description(), files(), events),
        Err(TraceError::TooLarge { .. })
    ));
}

#[test]
fn the_bundled_trace_is_what_its_description_says() {
    let trace = Trace::bundled().expect("the bundled trace");
    let info = trace.info();
    assert!(
        info.package.starts_with("exim4-daemon-light 4.96"),
        "{info}"
    );
    assert!(info.command.contains("exim4 -C exim.conf"), "{info}");
    assert_eq!(trace.header().not_understood, 0);
    let [files, memory, names, open, notifications] = &info.subsystems[..] else {
        unreachable!("five subsystems");
    };
    for whoever_enters_leaves in [files, memory, names, open] {
        assert_eq!(whoever_enters_leaves.entered, whoever_enters_leaves.left);
        assert!(whoever_enters_leaves.entered > 10_000, "{info}");
    }
    assert!(
        notifications.entered > 10_000 && names.reads > 1000,
        "{info}"
    );
    assert!(info.peak_tasks >= 16, "many clients at a time: {info}");
    assert!(info.counts.fork > 1000 && files.entered > 100_000, "{info}");
    assert!(info.sharing.hundreds > 3, "{info}");
    // Only the system's own names, and no folders; hashes for all others.
    for file in trace.files() {
        assert!(!file.name.contains('/'), "{}", file.name);
        assert!(
            file.kind != FileKind::Temporary || file.name.starts_with('#'),
            "{}",
            file.name
        );
    }
}
