use super::*;
use crate::trace::{Action, Backing, Event, FileKind, Names, Shares};
use std::io::Cursor;

const PAGE: u64 = 4096;

const COPY: Shares = Shares {
    memory: false,
    descriptors: false,
    process: false,
};
const SHARED: Shares = Shares {
    memory: true,
    ..COPY
};

mod descriptors;
mod trouble;

fn description() -> Description {
    Description {
        page_size: PAGE,
        names: Names::All,
        ..Description::default()
    }
}

fn read(text: &[u8]) -> Result<(Trace, NotUnderstood), StraceError> {
    // Programs in /bin have three pages and a bit; others cannot be found.
    let program = |path: &Path| {
        path.starts_with("/bin").then(|| Program {
            path: path.to_owned(),
            length: 3 * PAGE + 1,
        })
    };
    parse(
        Cursor::new(text),
        Path::new("/start"),
        description(),
        program,
    )
}

/// A text that is understood entirely.
fn trace(text: &str) -> Trace {
    let (trace, not_understood) = match read(text.as_bytes()) {
        Ok(read) => read,
        Err(error) => panic!("{error}\n{text}"),
    };
    assert_eq!(not_understood, NotUnderstood::default());
    assert_eq!(trace.header().not_understood, 0);
    trace
}

fn actions(text: &str) -> Vec<(u32, Action)> {
    trace(text)
        .events()
        .iter()
        .map(|event| (event.task, event.action))
        .collect()
}

fn map(address: u64, pages: u64, file: u32, offset: u64) -> Action {
    Action::Map {
        address,
        length: pages * PAGE,
        backing: Backing::File(file),
        offset,
    }
}

fn memory(address: u64, pages: u64) -> Action {
    Action::Map {
        address,
        length: pages * PAGE,
        backing: Backing::Memory,
        offset: 0,
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
    assert_eq!(times, [0, 100, 200, 300, 400, 500, 700, 800, 1000]);
    let actions: Vec<Action> = trace.events().iter().map(|event| event.action).collect();
    assert_eq!(
        actions,
        [
            Action::Exec {
                program: Some((0, 4 * PAGE))
            },
            memory(0x7000_0000, 2),
            Action::Open {
                file: 1,
                descriptor: 3,
                close_on_exec: true
            },
            map(0x8000_0000, 5, 1, 0),
            map(0x8000_1000, 1, 1, PAGE),
            memory(0x8000_4000, 1),
            unmap(0x7000_0000, 2),
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
            (FileKind::Program, "/bin/true"),
            (FileKind::Library, "/lib/libc.so.6")
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
                    shares: COPY
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
                    shares: COPY
                }
            ),
            (
                1,
                Action::Fork {
                    child: 2,
                    shares: SHARED
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
                    shares: SHARED
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
                    shares: COPY
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
                    shares: COPY
                }
            ),
            (1, Action::Exit),
            (
                0,
                Action::Fork {
                    child: 2,
                    shares: COPY
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
                        shares: Shares {
                            process: true,
                            ..SHARED
                        }
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
    let file = |name: &str| {
        let place = trace.files().iter().position(|file| file.name == name);
        place.expect("a file of this name") as u32
    };
    // The first `open` made the file.
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
            (file("/start/f"), 8192),
            (file("/start/f"), 1),
            (file("/start/f"), 2),
            (file("/start/f"), 3),
            (file("/start/f"), 4),
            (file("/start/f"), 0),
            (file("/memfd:x"), 4)
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
fn closing_no_descriptor_is_understood_also_when_interrupted() {
    let text = "10 1.000000 execve(\"/bin/a\", [], 0x1) = 0\n\
                10 1.000001 close(-1) = -1 EBADF (Bad file descriptor)\n\
                10 1.000002 close(-1 <unfinished ...>\n\
                10 1.000003 <... close resumed>) = -1 EBADF (Bad file descriptor)\n\
                10 1.000004 +++ exited with 0 +++\n";
    assert_eq!(actions(text).len(), 2);
}
