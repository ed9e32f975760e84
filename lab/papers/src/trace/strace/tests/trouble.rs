//! Texts that are not as `strace` writes them, or not as it should.

use super::*;
use crate::subsystem::Subsystem;
use proptest::prelude::*;

const GOOD: &str = "7 1.000000 execve(\"/x\", [\"x\"], 0x1) = 0\n";

/// Reads `text`, which is not understood entirely.
fn misread(text: &str) -> (Trace, NotUnderstood) {
    let (trace, not_understood) = read(text.as_bytes()).expect("partly understood");
    assert!(not_understood.lines > 0, "{text}");
    assert_eq!(trace.header().not_understood, not_understood.lines);
    (trace, not_understood)
}

#[test]
fn what_strace_does_not_write_is_counted_and_shown() {
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
        "7 1.000000 openat(AT_FDCWD</>, \"x\", O_RDONLY) = 99999999999</x>",
        "7 1.000000 close(three) = 0",
        "7 1.000000 dup2(3) = 4294967296",
        "7 1.000000 stat(0x7ffc, {}) = 0",
        "7 1.000000 rename(\"/a\") = 0",
        "7 1.000000 truncate(\"/a\", 18446744073709551615) = 0",
        "9 1.000000 stat(\"/a\", {}) = 0",
        "9 1.000000 +++ exited with 0 +++",
    ] {
        let (trace, not_understood) = misread(&format!("{GOOD}{bad}\n{GOOD}"));
        assert_eq!(not_understood.lines, 1, "{bad}");
        let [first] = &not_understood.first[..] else {
            panic!("{bad}: {not_understood:?}");
        };
        assert_eq!((first.line, first.text.as_str()), (2, bad));
        assert!(!first.why.is_empty());
        assert_eq!(trace.header().counts.exec, 2, "{bad}: the rest is there");
    }
}

#[test]
fn only_the_first_few_are_shown_and_none_at_length() {
    let long = "x".repeat(10_000);
    let (_, not_understood) = misread(&format!("{GOOD}{}", format!("{long}\n").repeat(50)));
    assert_eq!(not_understood.lines, 50);
    assert_eq!(not_understood.first.len(), SHOWN);
    for (number, misread) in not_understood.first.iter().enumerate() {
        assert_eq!(misread.line, 2 + number as u64);
        assert_eq!(misread.text.len(), SHOWN_BYTES);
    }
}

#[test]
fn a_process_that_nobody_started_is_a_child_of_the_first() {
    let (trace, not_understood) = misread(&format!(
        "{GOOD}9 1.000001 unlink(\"/a\") = 0\n9 1.000002 +++ exited with 0 +++\n7 1.000003 +++ exited with 0 +++\n"
    ));
    assert_eq!(not_understood.lines, 1);
    let actions: Vec<_> = trace
        .events()
        .iter()
        .map(|event| (event.task, event.action))
        .collect();
    assert_eq!(
        actions,
        [
            (0, EXEC),
            (
                0,
                Action::Fork {
                    child: 1,
                    shares: COPY
                }
            ),
            (1, Action::Unlink { file: 0 }),
            (1, Action::Exit),
            (0, Action::Exit),
        ]
    );
    // With nobody left to have started it, it is left out.
    let (trace, not_understood) = misread(&format!(
        "{GOOD}7 1.000001 +++ exited with 0 +++\n9 1.000002 unlink(\"/a\") = 0\n9 1.000003 unlink(\"/a\") = 0\n"
    ));
    assert_eq!(not_understood.lines, 2);
    assert_eq!(trace.header().tasks, 1);
}

#[test]
fn another_call_resumes_than_was_interrupted() {
    let (_, not_understood) = misread(&format!(
        "{GOOD}7 1.000000 vfork( <unfinished ...>\n7 1.000000 <... fork resumed>) = 3\n"
    ));
    assert_eq!((not_understood.lines, not_understood.first[0].line), (1, 3));
}

#[test]
fn a_text_that_is_cut_off_keeps_what_is_before() {
    let whole = format!(
        "{GOOD}7 1.000001 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0) = 0x5000\n7 1.000002 unlink(\"/a\") = 0\n"
    );
    for length in GOOD.len()..whole.len() {
        let (trace, not_understood) = read(&whole.as_bytes()[..length]).expect("the beginning");
        assert_eq!(trace.header().counts.exec, 1);
        assert!(not_understood.lines <= 1);
        let line = whole.as_bytes()[GOOD.len()..length]
            .split(|&byte| byte == b'\n')
            .next();
        if line.is_some_and(|line| line.ends_with(b"x5000")) {
            assert_eq!(trace.header().counts.map, 1);
        }
    }
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
            .map(|event| (event.task, event.action))
            .collect::<Vec<_>>(),
        [(0, Action::Exit), (1, Action::Exit)]
    );
}

#[test]
fn texts_with_nothing_in_them_are_refused() {
    for text in ["", "\n\n"] {
        assert!(matches!(read(text.as_bytes()), Err(StraceError::Empty)));
    }
    assert!(matches!(
        read(b"\nsome other file\n"),
        Err(StraceError::Foreign { line: 2, .. })
    ));
}

#[test]
fn text_that_is_not_utf8_is_only_text() {
    let text = b"7 1.000000 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</\xff\xfe>, 0) = 0x5000\n";
    let (trace, _) = read(text).expect("read");
    assert_eq!(trace.files().len(), 1);
}

/// Lines that go together, and some that do not.
const LINES: [&str; 36] = [
    r#"execve("/bin/x", ["x"], 0x1 /* 1 var */) = 0"#,
    "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</f>, 0) = 0x5000",
    "mmap(0x4000, 16384, PROT_READ, MAP_SHARED|MAP_FIXED, 3</g>, 0x3000) = 0x4000",
    "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x5000",
    "munmap(0x4000, 8192) = 0",
    "munmap(0x4000, 8192 <unfinished ...>",
    "<... munmap resumed>) = 0",
    "mremap(0x4000, 8192, 4096, 0) = 0x4000",
    "mremap(0x4000, 4096, 16384, MREMAP_MAYMOVE) = 0x9000",
    "brk(NULL) = 0x700000",
    "brk(0x710000) = 0x710000",
    "fork() = 8",
    "clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD|CLONE_FILES|CLONE_FS) = 9",
    "clone(child_stack=0x1, flags=CLONE_FILES <unfinished ...>",
    "vfork( <unfinished ...>",
    "<... vfork resumed>) = 9",
    "<... clone resumed>) = 8",
    "ftruncate(3</f>, 100) = 0",
    "+++ exited with 0 +++",
    "+++ superseded by execve in pid 8 +++",
    "execve(\"/y\", [], 0x1 <unfinished ...>",
    "<... execve resumed>) = 0",
    "openat(AT_FDCWD</start>, \"f\", O_RDWR|O_CREAT|O_TRUNC|O_CLOEXEC, 0666) = 3</start/f>",
    "open(\"../g\", O_RDONLY) = 4</g>",
    "open(\"/x\", O_RDONLY) = -1 ENOENT (No such file or directory)",
    "close(3</start/f>) = 0",
    "close(3</start/f> <unfinished ...>",
    "<... close resumed>) = 0",
    "close_range(3, 4294967295, CLOSE_RANGE_UNSHARE) = 0",
    "dup2(3</start/f>, 4</g>) = 4</start/f>",
    "fcntl(4</g>, F_DUPFD_CLOEXEC, 0) = 3</g>",
    "fcntl(3</g>, F_SETFD, 0) = 0",
    "rename(\"f\", \"/g\") = 0",
    "unlinkat(5</start>, \"f\", 0) = 0",
    "chdir(\"..\") = 0",
    "newfstatat(AT_FDCWD</start>, \"f\", {st_mode=S_IFREG}, 0) = 0",
];

/// What follows from the rules that every recording keeps: tracked descriptors alone are closed and
/// duplicated, and nothing is opened over one that is open.
fn descriptors_are_sound(trace: &Trace) {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;
    let mut tables = vec![Rc::new(RefCell::new(BTreeMap::new()))];
    for event in trace.events() {
        let table = Rc::clone(&tables[event.task as usize]);
        let mut table = table.borrow_mut();
        match event.action {
            Action::Open {
                descriptor,
                close_on_exec,
                ..
            } => assert_eq!(table.insert(descriptor, close_on_exec), None),
            Action::Close { descriptor } => assert!(table.remove(&descriptor).is_some()),
            Action::Duplicate {
                from,
                to,
                close_on_exec,
            } => {
                assert!(from != to && table.contains_key(&from));
                table.insert(to, close_on_exec);
            }
            Action::Inherit {
                descriptor,
                close_on_exec,
            } => assert_eq!(
                table.insert(descriptor, close_on_exec),
                Some(!close_on_exec)
            ),
            Action::Fork { child, shares } => {
                assert_eq!(child as usize, tables.len());
                let copy = Rc::new(RefCell::new(table.clone()));
                let parent = &tables[event.task as usize];
                let its = if shares.descriptors {
                    Rc::clone(parent)
                } else {
                    copy
                };
                tables.push(its);
            }
            Action::Exec { .. } => {
                let mut left = table.clone();
                left.retain(|_, close_on_exec| !*close_on_exec);
                drop(table);
                tables[event.task as usize] = Rc::new(RefCell::new(left));
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Lines in any order make a sound trace, whatever of them is understood.
    #[test]
    fn any_order_is_read(lines in prop::collection::vec((7..10_u32, 0..LINES.len()), 1..80)) {
        let text: String = lines.iter().enumerate()
            .map(|(number, &(process, line))| format!("{process} 1.{number:06} {}\n", LINES[line])).collect();
        let Ok((trace, not_understood)) = read(text.as_bytes()) else {
            return Ok(());
        };
        prop_assert!(not_understood.lines <= lines.len() as u64);
        for amount in trace.info().subsystems {
            // Notifications never leave by themselves; everything else has gone at the end.
            prop_assert!(amount.subsystem == Subsystem::Events || amount.entered == amount.left, "{amount:?}");
        }
        descriptors_are_sound(&trace);
    }

    /// So do bytes that are no lines at all.
    #[test]
    fn damaged_text_is_read_or_refused(lines in prop::collection::vec(0..LINES.len(), 1..20), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12)) {
        let mut text: Vec<u8> = lines.iter().flat_map(|&line| format!("7 1.000000 {}\n", LINES[line]).into_bytes()).collect();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        if let Ok((trace, _)) = read(&text) {
            descriptors_are_sound(&trace);
        }
    }
}
