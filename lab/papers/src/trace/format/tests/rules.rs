//! What events must keep to, and what the bundled trace is.

use super::*;

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
