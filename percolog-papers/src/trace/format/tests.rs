use super::*;
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
        file(FileKind::Temporary, ""),
    ]
}

/// Every kind of event, and extremes of every number.
fn events() -> Vec<Event> {
    let mut time = 0;
    let mut at = |after: u64, process, action| {
        time += after;
        Event {
            time,
            process,
            action,
        }
    };
    vec![
        at(
            0,
            0,
            Action::Exec {
                program: Some((1, 7 * PAGE)),
            },
        ),
        at(
            1,
            0,
            Action::Map {
                address: 0x7f00_0000_0000,
                length: 5 * PAGE,
                file: 0,
                offset: 0,
            },
        ),
        at(
            300,
            0,
            Action::Map {
                address: 0x7f00_0000_1000,
                length: PAGE,
                file: 0,
                offset: 1 << 40,
            },
        ),
        at(
            0,
            0,
            Action::Fork {
                child: 1,
                shared: false,
            },
        ),
        at(
            70_000,
            1,
            Action::Unmap {
                address: 0x7f00_0000_2000,
                length: PAGE,
            },
        ),
        at(
            2,
            0,
            Action::Fork {
                child: 2,
                shared: true,
            },
        ),
        at(2, 2, Action::Exec { program: None }),
        at(
            9,
            2,
            Action::Map {
                address: u64::MAX - 8 * PAGE + 1,
                length: 7 * PAGE,
                file: 2,
                offset: 0,
            },
        ),
        at(
            9,
            2,
            Action::Map {
                address: 0,
                length: PAGE,
                file: 2,
                offset: u64::MAX - 2 * PAGE + 1,
            },
        ),
        at(5, 1, Action::Truncate { file: 2, length: 0 }),
        at(
            5,
            1,
            Action::Truncate {
                file: 0,
                length: 4097,
            },
        ),
        at(u64::from(u32::MAX), 1, Action::Exit),
        at(1, 2, Action::Exit),
        at(1, 0, Action::Exit),
    ]
}

fn sample() -> Trace {
    Trace::new(description(), files(), events()).expect("a sound trace")
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
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = sample().to_bytes().expect("written");
    for length in 0..bytes.len() {
        let error = Trace::from_bytes(&bytes[..length]).expect_err("cut short");
        assert!(
            matches!(error, TraceError::Truncated { have, need } if have == length as u64 && need > have),
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

#[test]
fn every_flipped_bit_is_noticed() {
    let mut bytes = sample().to_bytes().expect("written");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            let error = Trace::from_bytes(&bytes).expect_err("damaged");
            let expected = match at {
                0..16 => matches!(error, TraceError::NotATrace),
                16..18 => matches!(error, TraceError::Version { .. }),
                18..30 => matches!(
                    error,
                    TraceError::Truncated { .. } | TraceError::Trailing { .. }
                ),
                _ => matches!(error, TraceError::Damaged { .. }),
            };
            assert!(expected, "bit {bit} of byte {at}: {error}");
            assert!(!error.to_string().contains('\n'), "one line: {error}");
            bytes[at] ^= 1 << bit;
        }
    }
    assert!(Trace::from_bytes(&bytes).is_ok());
}

#[test]
fn damage_to_the_bundled_trace_is_noticed() {
    let bytes = crate::trace::BUNDLED;
    for at in (0..bytes.len()).step_by(20_011) {
        assert!(Trace::from_bytes(&bytes[..at]).is_err());
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        assert!(Trace::from_bytes(&damaged).is_err());
    }
}

#[test]
fn a_newer_format_says_so() {
    let mut bytes = sample().to_bytes().expect("written");
    bytes[16] = 2;
    let error = Trace::from_bytes(&bytes).expect_err("newer");
    assert!(matches!(error, TraceError::Version { found: 2, known: 1 }));
}

/// A file around any header and any records, whose checksum is right.
fn sealed(header: &[u8], plain: &[u8]) -> Vec<u8> {
    let records = compress(plain).expect("compressed");
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(records.len() as u64).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(&records);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

#[test]
fn headers_that_lie_are_refused() {
    let trace = sample();
    let plain = encode_events(trace.header(), trace.events()).expect("records");
    let lie = |change: fn(&mut Header)| {
        let mut header = trace.header().clone();
        change(&mut header);
        let text = serde_json::to_vec(&header).expect("JSON");
        Trace::from_bytes(&sealed(&text, &plain)).expect_err("a lie")
    };
    for change in [
        (|header| header.counts.map += 1) as fn(&mut Header),
        |header| header.counts.exit -= 1,
        |header| header.counts.fork = u64::MAX,
        // Enough for a careless reader to run out of memory.
        |header| {
            header.counts.fork = 1 << 45;
            header.processes = u32::MAX;
        },
        |header| std::mem::swap(&mut header.counts.map, &mut header.counts.unmap),
        |header| header.processes += 1,
    ] {
        let error = lie(change);
        assert!(matches!(error, TraceError::Inconsistent(_)), "{error}");
    }
    assert!(matches!(
        lie(|header| header.processes -= 1),
        TraceError::Malformed { .. }
    ));
    assert!(matches!(
        lie(|header| header.files.truncate(2)),
        TraceError::Malformed { .. }
    ));
    assert!(matches!(
        lie(|header| header.page_size = 0),
        TraceError::Header(_)
    ));
    assert!(matches!(
        lie(|header| header.page_size = 3),
        TraceError::Header(_)
    ));
    assert!(matches!(
        lie(|header| header.page_size = 1 << 63),
        TraceError::Malformed { .. }
    ));

    let header = serde_json::to_vec(trace.header()).expect("JSON");
    for text in [
        &b"{}"[..],
        b"",
        b"[1, 2",
        &[0xff, 0xfe],
        &header[..header.len() - 1],
    ] {
        let error = Trace::from_bytes(&sealed(text, &plain)).expect_err("no header");
        assert!(matches!(error, TraceError::Header(_)), "{error}");
    }
}

proptest! {
    /// Whatever the records are, with a right checksum: a sound trace or an error, never a panic.
    #[test]
    fn any_records_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(), cuts in any::<bool>()) {
        let trace = sample();
        let mut plain = encode_events(trace.header(), trace.events()).expect("records");
        for (at, byte) in changes {
            let at = at.index(plain.len());
            plain[at] = byte;
        }
        if cuts {
            plain.truncate(cut.index(plain.len()));
        }
        let header = serde_json::to_vec(trace.header()).expect("JSON");
        if let Ok(read) = Trace::from_bytes(&sealed(&header, &plain)) {
            let again = Trace::from_bytes(&read.to_bytes().expect("written")).expect("read");
            prop_assert_eq!(again, read);
        }
    }
}

#[test]
fn rules_are_kept() {
    let event = |time, process, action| Event {
        time,
        process,
        action,
    };
    let map = |address, length, file, offset| Action::Map {
        address,
        length,
        file,
        offset,
    };
    let fork = |child| Action::Fork {
        child,
        shared: false,
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
            "a process that nobody started",
            vec![event(0, 1, Action::Exit), exit],
        ),
        (
            "a process acts after its end",
            vec![event(0, 0, Action::Exit), exit],
        ),
        (
            "a process is started twice",
            vec![event(0, 0, fork(0)), exit],
        ),
        (
            "a process beyond the number of processes",
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
        Err(TraceError::Inconsistent("a process has not ended"))
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
                process,
                action,
            })
        };
        act(Action::Map {
            address,
            length: PAGE,
            file: 0,
            offset: address,
        });
        if process + 1 < processes {
            act(Action::Fork {
                child: process + 1,
                shared: false,
            });
        }
    }
    for process in 0..processes {
        events.push(Event {
            time: 0,
            process,
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
    assert!(crate::trace::BUNDLED.len() <= 1 << 20);
    let info = trace.info();
    assert_eq!(
        (info.package.as_str(), info.command.as_str()),
        ("xz 5.4.1", "make -j8")
    );
    assert_eq!(info.additions, info.removals);
    assert!(info.peak_processes >= 8, "the build was parallel: {info}");
    assert_eq!(info.popular[0].0, "libc.so.6");
    assert!(
        info.counts.fork > 1000 && info.additions > 100_000,
        "{info}"
    );
    // Only the system's own names, and no folders.
    for file in trace.files() {
        assert!(!file.name.contains('/'), "{}", file.name);
        assert!(
            file.kind != FileKind::Temporary || file.name.is_empty(),
            "{}",
            file.name
        );
    }
}
