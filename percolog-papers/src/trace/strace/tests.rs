use super::*;
use crate::trace::{Action, Event, FileKind};
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn read(text: &str) -> Result<Trace, StraceError> {
    let description = Description {
        page_size: PAGE,
        ..Description::default()
    };
    // Programs in /bin have three pages and a bit; others cannot be found.
    let program = |path: &Path| {
        path.starts_with("/bin").then(|| Program {
            path: path.to_owned(),
            length: 3 * PAGE + 1,
        })
    };
    parse(text.as_bytes(), Path::new("/start"), description, program)
}

fn trace(text: &str) -> Trace {
    match read(text) {
        Ok(trace) => trace,
        Err(error) => panic!("{error}\n{text}"),
    }
}

fn actions(text: &str) -> Vec<(u32, Action)> {
    trace(text)
        .events()
        .iter()
        .map(|event| (event.process, event.action))
        .collect()
}

fn map(address: u64, pages: u64, file: u32, offset: u64) -> Action {
    Action::Map {
        address,
        length: pages * PAGE,
        file,
        offset,
    }
}

fn unmap(address: u64, pages: u64) -> Action {
    Action::Unmap {
        address,
        length: pages * PAGE,
    }
}

const EXEC: Action = Action::Exec { program: None };

#[test]
fn a_dynamic_program_maps_its_library() {
    let trace = trace(
        r#"7 100.000000 execve("/bin/true", ["true"], 0x7ffc /* 3 vars */) = 0
7 100.000100 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x70000000
7 100.000200 openat(AT_FDCWD</start>, "/lib/libc.so.6", O_RDONLY|O_CLOEXEC) = 3</lib/libc.so.6>
7 100.000300 mmap(NULL, 20000, PROT_READ, MAP_PRIVATE|MAP_DENYWRITE, 3</lib/libc.so.6>, 0) = 0x80000000
7 100.000400 mmap(0x80001000, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_FIXED|MAP_DENYWRITE, 3</lib/libc.so.6>, 0x1000) = 0x80001000
7 100.000500 mmap(0x80004000, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS, -1, 0) = 0x80004000
7 100.000600 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3</lib/libc.so.6>, 0) = -1 ENOMEM (Cannot allocate memory)
7 100.000700 munmap(0x70000000, 8192) = 0
7 100.000800 munmap(0x80000000, 4096) = 0
7 100.000900 exit_group(0) = ?
7 100.001000 +++ exited with 0 +++
"#,
    );
    let times: Vec<u64> = trace.events().iter().map(|event| event.time).collect();
    assert_eq!(times, [0, 300, 400, 500, 800, 1000]);
    let actions: Vec<Action> = trace.events().iter().map(|event| event.action).collect();
    assert_eq!(
        actions,
        [
            Action::Exec {
                program: Some((0, 4 * PAGE))
            },
            map(0x8000_0000, 5, 1, 0),
            map(0x8000_1000, 1, 1, PAGE),
            // Memory without a file covered a page of the library.
            unmap(0x8000_4000, 1),
            unmap(0x8000_0000, 1),
            Action::Exit,
        ]
    );
    let files: Vec<_> = trace
        .files()
        .iter()
        .map(|file| (file.kind, file.name.as_str()))
        .collect();
    assert_eq!(
        files,
        [
            (FileKind::Program, "true"),
            (FileKind::Library, "libc.so.6")
        ]
    );
}

#[test]
fn interrupted_calls_count_when_they_end() {
    assert_eq!(
        actions(
            r#"7 1.000000 execve("/x", ["x"], 0x1 /* 1 var */) = 0
7 1.000001 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>
8 1.000002 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</a b, (c) = 1>, 0 <unfinished ...>
7 1.000003 <... clone resumed>, child_tidptr=0x7f00) = 8
7 1.000004 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 4</d>, 0x2000) = 0x5000
8 1.000005 <... mmap resumed>)         = 0x9000
8 1.000006 +++ killed by SIGSEGV (core dumped) +++
7 1.000007 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_KILLED} ---
7 1.000008 +++ exited with 1 +++
"#
        ),
        [
            (0, EXEC),
            (
                0,
                Action::Fork {
                    child: 1,
                    shared: false
                }
            ),
            (0, map(0x5000, 1, 0, 0x2000)),
            (1, map(0x9000, 1, 1, 0)),
            (1, Action::Exit),
            (0, Action::Exit),
        ]
    );
}

#[test]
fn children_show_themselves_before_their_parents_call_ends() {
    // As `vfork` always does; also clone3 as posix_spawn uses it, and two at once.
    assert_eq!(
        actions(
            r#"7 1.000000 execve("/x", ["x"], 0x1 /* 1 var */) = 0
7 1.000001 clone(child_stack=NULL, flags=SIGCHLD) = 8
7 1.000002 vfork( <unfinished ...>
8 1.000003 clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD, stack=0x7f, stack_size=0x9000}, 88 <unfinished ...>
10 1.000004 execve("/bin/a", ["a"], 0x1 /* 1 var */) = 0
9 1.000005 execve("/bin/b", ["b"], 0x1 /* 1 var */ <unfinished ...>
8 1.000006 <... clone3 resumed>) = 10
9 1.000007 <... execve resumed>) = 0
7 1.000008 <... vfork resumed>) = 9
7 1.000009 +++ exited with 0 +++
9 1.000010 +++ exited with 0 +++
10 1.000011 +++ exited with 0 +++
8 1.000012 +++ exited with 0 +++
"#
        ),
        [
            (0, EXEC),
            (
                0,
                Action::Fork {
                    child: 1,
                    shared: false
                }
            ),
            (
                1,
                Action::Fork {
                    child: 2,
                    shared: true
                }
            ),
            (
                2,
                Action::Exec {
                    program: Some((0, 4 * PAGE))
                }
            ),
            (
                0,
                Action::Fork {
                    child: 3,
                    shared: true
                }
            ),
            (
                3,
                Action::Exec {
                    program: Some((1, 4 * PAGE))
                }
            ),
            (0, Action::Exit),
            (3, Action::Exit),
            (2, Action::Exit),
            (1, Action::Exit),
        ]
    );
}

#[test]
fn a_fork_that_fails_or_starts_again_brings_forth_nobody() {
    assert_eq!(
        actions(
            r#"7 1.000000 execve("/x", ["x"], 0x1 /* 1 var */) = 0
7 1.000001 fork() = -1 EAGAIN (Resource temporarily unavailable)
7 1.000002 clone(child_stack=NULL, flags=SIGCHLD) = ? ERESTARTNOINTR (To be restarted)
7 1.000003 --- SIGALRM {si_signo=SIGALRM} ---
7 1.000004 clone(child_stack=NULL, flags=SIGCHLD) = 8
8 1.000005 +++ exited with 0 +++
7 1.000006 +++ exited with 0 +++
"#
        ),
        [
            (0, EXEC),
            (
                0,
                Action::Fork {
                    child: 1,
                    shared: false
                }
            ),
            (1, Action::Exit),
            (0, Action::Exit),
        ]
    );
}

#[test]
fn numbers_of_processes_are_used_again() {
    assert_eq!(
        actions(
            r#"7 1.000000 execve("/x", ["x"], 0x1 /* 1 var */) = 0
7 1.000001 fork() = 8
8 1.000002 +++ exited with 0 +++
7 1.000003 fork( <unfinished ...>
8 1.000004 execve("/y", ["y"], 0x1 /* 1 var */) = 0
7 1.000005 <... fork resumed>) = 8
8 1.000006 +++ exited with 0 +++
7 1.000007 +++ exited with 0 +++
"#
        ),
        [
            (0, EXEC),
            (
                0,
                Action::Fork {
                    child: 1,
                    shared: false
                }
            ),
            (1, Action::Exit),
            (
                0,
                Action::Fork {
                    child: 2,
                    shared: false
                }
            ),
            (2, EXEC),
            (2, Action::Exit),
            (0, Action::Exit),
        ]
    );
}

#[test]
fn a_thread_that_executes_a_program_takes_its_leaders_place() {
    let text = |how: &str| {
        format!(
            r#"7 1.000000 execve("/x", ["x"], 0x1 /* 1 var */) = 0
7 1.000001 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0) = 0x5000
7 1.000002 clone3({{flags=CLONE_VM|CLONE_FS|CLONE_THREAD, child_tid=0x7f, exit_signal=0}} => {{parent_tid=[8]}}, 88) = 8
8 1.000003 execve("/y", ["y"], 0x1 /* 1 var */ {how}
7 1.000004 +++ superseded by execve in pid 8 +++
7 1.000005 <... execve resumed>) = 0
7 1.000006 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0) = 0x6000
7 1.000007 +++ exited with 0 +++
"#
        )
    };
    for how in ["<unfinished ...>", "<pid changed to 7 ...>"] {
        assert_eq!(
            actions(&text(how)),
            [
                (0, EXEC),
                (0, map(0x5000, 1, 0, 0)),
                (
                    0,
                    Action::Fork {
                        child: 1,
                        shared: true
                    }
                ),
                (0, Action::Exit),
                (1, EXEC),
                (1, map(0x6000, 1, 0, 0)),
                (1, Action::Exit),
            ]
        );
    }
}

#[test]
fn truncates_name_the_same_file_however_they_are_made() {
    let trace = trace(
        r#"7 1.000000 execve("/x", ["x"], 0x1 /* 1 var */) = 0
7 1.000001 openat(AT_FDCWD</start>, "f", O_RDWR|O_CREAT|O_TRUNC, 0666) = 3</start/f>
7 1.000002 ftruncate(3</start/f>, 8192) = 0
7 1.000003 truncate("f", 1) = 0
7 1.000004 chdir("..") = 0
7 1.000005 chdir("/start") = 0
7 1.000006 truncate("f", 2) = 0
7 1.000007 fchdir(5</other>) = 0
7 1.000008 truncate("/start/f", 3) = 0
7 1.000009 ftruncate(3</start/f>(deleted), 4) = 0
7 1.000010 creat("/start/f", 0666) = 4</start/f>
7 1.000011 openat(AT_FDCWD</other>, "/dev/null", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4</dev/null>
7 1.000012 open("/start/f", O_RDONLY) = 4</start/f>
7 1.000013 openat(AT_FDCWD</other>, "/start/g", O_WRONLY|O_TRUNC) = -1 EACCES (Permission denied)
7 1.000014 ftruncate(6</memfd:x>(deleted), 4) = 0
7 1.000015 +++ exited with 0 +++
"#,
    );
    let truncates: Vec<(u32, u64)> = trace
        .events()
        .iter()
        .filter_map(|event| match event.action {
            Action::Truncate { file, length } => Some((file, length)),
            _ => None,
        })
        .collect();
    assert_eq!(
        truncates,
        [
            (0, 0),
            (0, 8192),
            (0, 1),
            (0, 2),
            (0, 3),
            (0, 4),
            (0, 0),
            (1, 4)
        ]
    );
}

#[test]
fn remappings_move_grow_and_shrink() {
    assert_eq!(
        actions(
            r#"7 1.000000 mmap(NULL, 16384, PROT_READ, MAP_SHARED, 3</f>, 0x1000) = 0x5000
7 1.000001 mremap(0x5000, 16384, 8192, MREMAP_MAYMOVE) = 0x5000
7 1.000002 mremap(0x5000, 8192, 12288, MREMAP_MAYMOVE) = 0x5000
7 1.000003 mremap(0x6000, 8192, 20480, MREMAP_MAYMOVE) = 0x20000
7 1.000004 mremap(0x900000, 8192, 20480, MREMAP_MAYMOVE) = 0xa00000
7 1.000005 +++ exited with 0 +++
"#
        ),
        [
            (0, map(0x5000, 4, 0, 0x1000)),
            (0, unmap(0x7000, 2)),
            (0, unmap(0x5000, 2)),
            (0, map(0x5000, 3, 0, 0x1000)),
            (0, unmap(0x6000, 2)),
            (0, map(0x20000, 5, 0, 0x2000)),
            (0, Action::Exit),
        ]
    );
}

#[test]
fn a_recording_that_stops_in_the_middle_ends_everybody() {
    let trace = trace(
        r#"7 1.000000 execve("/x", ["x"], 0x1 /* 1 var */) = 0
7 1.000001 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0) = 0x5000
7 1.000002 vfork( <unfinished ...>
8 1.000003 execve("/y", ["y"], 0x1 /* 1 var */) = 0
8 1.000004 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0 <unfinished ...>
"#,
    );
    let last: Vec<Event> = trace.events()[trace.events().len() - 2..].to_vec();
    assert_eq!(
        last.iter()
            .map(|event| (event.process, event.action))
            .collect::<Vec<_>>(),
        [(0, Action::Exit), (1, Action::Exit)]
    );
}

#[test]
fn what_strace_does_not_write_is_refused_with_its_line() {
    let good = "7 1.000000 execve(\"/x\", [\"x\"], 0x1) = 0\n";
    for bad in [
        "7",
        "7 1.000000",
        "seven 1.000000 fork() = 8",
        "7 1.5 fork() = 8",
        "7 noon fork() = 8",
        "99999999999 1.000000 fork() = 8",
        "7 1.000000 munmap(0x5000, 4096",
        "7 1.000000 mmap(NULL, 4096) = 0x5000",
        "7 1.000000 munmap(zero, 4096) = 0",
        "7 1.000000 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0) = 0x5001",
        "7 1.000000 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0x10) = 0x5000",
        "7 1.000000 mmap(NULL, 0xffffffffffffffff, PROT_READ, MAP_SHARED, 3</f>, 0) = 0x5000",
        "7 1.000000 munmap(0xfffffffffffff000, 8192) = 0",
        "7 1.000000 mremap(0xfffffffffffff000, 0x4000, 0x1000, 0) = 0xfffffffffffff000",
        "7 1.000000 fork() = 99999999999",
        "7 1.000000 +++ vanished +++",
        "7 1.000000 +++ superseded by execve in pid x +++",
        "7 1.000000 <... fork",
    ] {
        match read(&format!("{good}{bad}\n{good}")) {
            Err(StraceError::Line { line: 2, .. }) => {}
            other => panic!("{bad}: {other:?}"),
        }
    }
    let stranger = format!("{good}9 1.000000 fork() = 8\n");
    assert!(matches!(
        read(&stranger),
        Err(StraceError::Orphan {
            line: 2,
            process: 9
        })
    ));
    let mixed =
        format!("{good}7 1.000000 vfork( <unfinished ...>\n7 1.000000 <... fork resumed>) = 3\n");
    assert!(matches!(
        read(&mixed),
        Err(StraceError::Line { line: 3, .. })
    ));
    assert!(matches!(read(""), Err(StraceError::Empty)));
    assert!(matches!(read("\n\n"), Err(StraceError::Empty)));
}

#[test]
fn text_that_is_not_utf8_is_only_text() {
    let text = b"7 1.000000 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</\xff\xfe>, 0) = 0x5000\n";
    let description = Description {
        page_size: PAGE,
        ..Description::default()
    };
    let trace = parse(&text[..], Path::new("/"), description, |_| None).expect("read");
    assert_eq!(trace.files().len(), 1);
}

/// Lines that go together, and some that do not.
const LINES: [&str; 16] = [
    r#"execve("/bin/x", ["x"], 0x1 /* 1 var */) = 0"#,
    "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0) = 0x5000",
    "mmap(0x4000, 16384, PROT_READ, MAP_SHARED|MAP_FIXED, 3</g>, 0x3000) = 0x4000",
    "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x5000",
    "munmap(0x4000, 8192) = 0",
    "mremap(0x4000, 8192, 4096, 0) = 0x4000",
    "mremap(0x4000, 4096, 16384, MREMAP_MAYMOVE) = 0x9000",
    "fork() = 8",
    "clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD) = 9",
    "vfork( <unfinished ...>",
    "<... vfork resumed>) = 9",
    "ftruncate(3</f>, 100) = 0",
    "+++ exited with 0 +++",
    "+++ superseded by execve in pid 8 +++",
    "execve(\"/y\", [], 0x1 <unfinished ...>",
    "<... execve resumed>) = 0",
];

proptest! {
    /// Lines in any order make a sound trace or an error, never a panic.
    #[test]
    fn any_order_is_read_or_refused(lines in prop::collection::vec((7..10_u32, 0..LINES.len()), 1..60)) {
        let text: String = lines.iter().enumerate()
            .map(|(number, &(process, line))| format!("{process} 1.{number:06} {}\n", LINES[line])).collect();
        if let Ok(trace) = read(&text) {
            prop_assert!(trace.info().additions == trace.info().removals);
        }
    }

    /// So do bytes that are no lines at all.
    #[test]
    fn damaged_text_is_read_or_refused(lines in prop::collection::vec(0..LINES.len(), 1..10), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        let mut text: Vec<u8> = lines.iter().flat_map(|&line| format!("7 1.000000 {}\n", LINES[line]).into_bytes()).collect();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let description = Description { page_size: PAGE, ..Description::default() };
        let _ = parse(text.as_slice(), Path::new("/"), description, |_| None);
    }
}
