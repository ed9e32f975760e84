//! Descriptors, names and heaps.

use super::*;

/// What happens after the first program has started, with files by their names; only one process.
fn story(lines: &[&str]) -> Vec<String> {
    let mut text = String::from("7 1.000000 execve(\"/x\", [\"x\"], 0x1) = 0\n");
    for line in lines {
        text += &format!("7 1.000001 {line}\n");
    }
    let trace = trace(&(text + "7 1.000002 +++ exited with 0 +++\n"));
    let inner = 1..trace.events().len() - 1;
    trace.events()[inner]
        .iter()
        .map(|event| told(&trace, event.action))
        .collect()
}

fn told(trace: &Trace, action: Action) -> String {
    let name = |file| trace.file_name(file);
    let marked = |close_on_exec| if close_on_exec { " until exec" } else { "" };
    match action {
        Action::Open {
            file,
            descriptor,
            close_on_exec,
        } => format!(
            "open {} as {descriptor}{}",
            name(file),
            marked(close_on_exec)
        ),
        Action::Close { descriptor } => format!("close {descriptor}"),
        Action::Duplicate {
            from,
            to,
            close_on_exec,
        } => format!("duplicate {from} as {to}{}", marked(close_on_exec)),
        Action::Inherit {
            descriptor,
            close_on_exec,
        } => format!("mark {descriptor}{}", marked(close_on_exec)),
        Action::Stat { file } => format!("stat {}", name(file)),
        Action::Create { file } => format!("create {}", name(file)),
        Action::Unlink { file } => format!("unlink {}", name(file)),
        Action::Rename { from, to } => format!("rename {} to {}", name(from), name(to)),
        Action::Truncate { file, length } => format!("truncate {} to {length}", name(file)),
        other => format!("{other:?}"),
    }
}

#[test]
fn descriptors_are_followed() {
    assert_eq!(
        story(&[
            r#"openat(AT_FDCWD</start>, "a", O_RDONLY) = 3</start/a>"#,
            r#"openat(AT_FDCWD</start>, "b", O_RDONLY|O_CLOEXEC) = 4</start/b>"#,
            "dup(3</start/a>) = 5</start/a>",
            "dup2(3</start/a>, 4</start/b>) = 4</start/a>",
            "dup2(3</start/a>, 3</start/a>) = 3</start/a>",
            "dup3(3</start/a>, 6, O_CLOEXEC) = 6</start/a>",
            "fcntl(3</start/a>, F_DUPFD, 10) = 10</start/a>",
            "fcntl(3</start/a>, F_DUPFD_CLOEXEC, 10) = 11</start/a>",
            "fcntl(3</start/a>, F_GETFD) = 0",
            "fcntl(3</start/a>, F_SETFD, FD_CLOEXEC) = 0",
            "fcntl(3</start/a>, F_SETFD, FD_CLOEXEC) = 0",
            "fcntl(11</start/a>, F_SETFD, 0) = 0",
            "fcntl(3</start/a>, F_SETFL, O_NONBLOCK) = 0",
            // Something that is not tracked takes a tracked one's place.
            "dup2(20<pipe:[7]>, 5</start/a>) = 5<pipe:[7]>",
            "close(5<pipe:[7]>) = 0",
            "close(9) = -1 EBADF (Bad file descriptor)",
            "close(10</start/a>) = -1 EIO (Input/output error)",
            "close_range(6, 9, CLOSE_RANGE_CLOEXEC) = 0",
            "close_range(4, 8, 0) = 0",
            "close_range(9, 4294967295, CLOSE_RANGE_CLOEXEC) = 0",
            "close_range(11, 4294967295, CLOSE_RANGE_UNSHARE) = 0",
        ]),
        [
            "open /start/a as 3",
            "open /start/b as 4 until exec",
            "duplicate 3 as 5",
            "duplicate 3 as 4",
            "duplicate 3 as 6 until exec",
            "duplicate 3 as 10",
            "duplicate 3 as 11 until exec",
            "mark 3 until exec",
            "mark 11",
            "close 5",
            "close 10",
            "close 4",
            "close 6",
            "mark 11 until exec",
            "close 11",
        ]
    );
}

#[test]
fn starting_a_program_closes_what_is_marked() {
    assert_eq!(
        story(&[
            r#"open("/a", O_RDONLY) = 3</a>"#,
            r#"open("/b", O_RDONLY|O_CLOEXEC) = 4</b>"#,
            r#"execve("/y", ["y"], 0x1) = 0"#,
            // Neither is open any more, so nothing is said of 4.
            "close(4</b>) = 0",
            "close(3</a>) = 0",
        ]),
        [
            "open /a as 3",
            "open /b as 4 until exec",
            "Exec { program: None }",
            "close 3"
        ]
    );
}

#[test]
fn threads_share_their_descriptors_and_others_have_copies() {
    let text = |flags: &str| {
        format!(
            r#"7 1.000000 execve("/x", ["x"], 0x1) = 0
7 1.000001 open("/a", O_RDONLY) = 3</a>
7 1.000002 clone(child_stack=0x1, flags={flags}) = 8
8 1.000003 close(3</a>) = 0
7 1.000004 close(3</a>) = 0
8 1.000005 +++ exited with 0 +++
7 1.000006 +++ exited with 0 +++
"#
        )
    };
    let closes = |flags: &str| {
        let trace = trace(&text(flags));
        let fork = trace.events().iter().find_map(|event| match event.action {
            Action::Fork { shares, .. } => Some(shares),
            _ => None,
        });
        (trace.header().counts.close, fork.expect("a child"))
    };
    assert_eq!(closes("SIGCHLD"), (2, COPY));
    let descriptors = true;
    assert_eq!(
        closes("CLONE_FILES|SIGCHLD"),
        (
            1,
            Shares {
                descriptors,
                ..COPY
            }
        )
    );
    assert_eq!(
        closes("CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD"),
        (
            1,
            Shares {
                descriptors,
                process: true,
                ..SHARED
            }
        )
    );
}

/// A thread is given the number that another is about to have closed.
#[test]
fn what_is_closed_can_be_given_out_before_the_call_returns() {
    let trace = trace(
        r#"7 1.000000 execve("/x", ["x"], 0x1) = 0
7 1.000001 open("/a", O_RDONLY) = 3</a>
7 1.000002 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</a>, 0) = 0x5000
7 1.000003 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 8
7 1.000004 close(3</a> <unfinished ...>
8 1.000005 open("/b", O_RDONLY) = 3</b>
7 1.000006 <... close resumed>) = 0
7 1.000007 munmap(0x5000, 4096 <unfinished ...>
8 1.000008 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</b>, 0) = 0x5000
7 1.000009 <... munmap resumed>) = 0
8 1.000010 close(3</b>) = 0
"#,
    );
    let told: Vec<String> = trace.events()[4..trace.events().len() - 2]
        .iter()
        .map(|event| told(&trace, event.action))
        .collect();
    let mapping = "Map { address: 20480, length: 4096, backing: File(1), offset: 0 }";
    assert_eq!(
        told,
        [
            "close 3",
            "open /b as 3",
            "Unmap { address: 20480, length: 4096 }",
            mapping,
            "close 3",
        ]
    );
}

#[test]
fn only_files_with_a_path_are_tracked() {
    let nothing: [&str; 0] = [];
    assert_eq!(
        story(&[
            r#"openat(AT_FDCWD</start>, "/dev/null", O_RDWR) = 3</dev/null>"#,
            r#"open("/proc/self/maps", O_RDONLY) = 4</proc/7/maps>"#,
            r#"open("/proc/self/fd/1", O_WRONLY) = 5<pipe:[9]>"#,
            "close(3</dev/null>) = 0",
            "dup2(5<pipe:[9]>, 6) = 6<pipe:[9]>",
            "fcntl(6<pipe:[9]>, F_SETFD, FD_CLOEXEC) = 0",
            "ftruncate(6<pipe:[9]>, 0) = 0",
            "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</dev/dri/card0>, 0) = 0x5000",
            r#"stat("/dev/tty", {st_mode=S_IFCHR}) = 0"#,
        ]),
        nothing
    );
}

#[test]
fn a_descriptor_that_was_closed_unseen_is_closed_when_it_is_given_out_again() {
    assert_eq!(
        story(&[
            r#"open("/a", O_RDONLY) = 3</a>"#,
            r#"open("/b", O_RDONLY) = 3</b>"#,
            r#"open("/dev/null", O_RDONLY) = 3</dev/null>"#,
        ]),
        ["open /a as 3", "close 3", "open /b as 3", "close 3"]
    );
}

#[test]
fn names_are_looked_up_made_and_taken_away() {
    assert_eq!(
        story(&[
            r#"stat("a", {st_mode=S_IFREG}) = 0"#,
            r#"lstat("/l/./b/../c//d", {st_mode=S_IFREG}) = 0"#,
            r#"newfstatat(AT_FDCWD</start>, "../up", {st_mode=S_IFREG}, 0) = 0"#,
            r#"newfstatat(5</folder>, "x", {st_mode=S_IFREG}, AT_SYMLINK_NOFOLLOW) = 0"#,
            r#"newfstatat(3</etc/x>, "", {st_mode=S_IFREG}, AT_EMPTY_PATH) = 0"#,
            r#"statx(AT_FDCWD</start>, "s", AT_STATX_SYNC_AS_STAT, STATX_ALL, {}) = 0"#,
            r#"statx(3</etc/x>, NULL, AT_EMPTY_PATH, STATX_ALL, {}) = 0"#,
            r#"access("/p", R_OK) = -1 ENOENT (No such file or directory)"#,
            r#"faccessat2(AT_FDCWD</start>, "/q", X_OK, AT_EACCESS) = 0"#,
            r#"readlink("link", "to", 4096) = 2"#,
            r#"readlinkat(5</folder>, "link", "to", 4096) = 2"#,
            r#"openat(AT_FDCWD</start>, "none", O_RDONLY) = -1 ENOENT (No such file or directory)"#,
            r#"open("/full", O_RDONLY) = -1 EMFILE (Too many open files)"#,
            r#"access(0x1, R_OK) = -1 EFAULT (Bad address)"#,
            r#"execve("/nowhere/cc", ["cc"], 0x1) = -1 ENOENT (No such file or directory)"#,
            r#"mkdir("d", 0777) = 0"#,
            r#"mkdir("d", 0777) = -1 EEXIST (File exists)"#,
            r#"mkdirat(5</folder>, "d", 0777) = 0"#,
            r#"link("a", "b") = 0"#,
            r#"linkat(AT_FDCWD</start>, "a", 5</folder>, "b", 0) = 0"#,
            r#"symlink("target", "s1") = 0"#,
            r#"symlinkat("target", 5</folder>, "s2") = 0"#,
            r#"mknod("f1", S_IFIFO|0666) = 0"#,
            r#"mknodat(5</folder>, "f2", S_IFIFO|0666) = 0"#,
            r#"rename("b", "/c") = 0"#,
            r#"renameat(5</folder>, "b", AT_FDCWD</start>, "c") = 0"#,
            r#"renameat2(5</folder>, "c", 5</folder>, "e", RENAME_EXCHANGE) = 0"#,
            r#"rename("b", "/c") = -1 ENOENT (No such file or directory)"#,
            r#"unlink("/c") = 0"#,
            r#"unlinkat(5</folder>, "f2", 0) = 0"#,
            r#"rmdir("d") = 0"#,
            r#"chdir("/elsewhere") = 0"#,
            r#"stat("a", {st_mode=S_IFREG}) = 0"#,
            r#"fchdir(5</folder>) = 0"#,
            r#"stat("a", {st_mode=S_IFREG}) = 0"#,
        ]),
        [
            "stat /start/a",
            "stat /l/c/d",
            "stat /up",
            "stat /folder/x",
            "stat /start/s",
            "stat /p",
            "stat /q",
            "stat /start/link",
            "stat /folder/link",
            "stat /start/none",
            "stat /nowhere/cc",
            "create /start/d",
            "stat /start/d",
            "create /folder/d",
            "create /start/b",
            "create /folder/b",
            "create /start/s1",
            "create /folder/s2",
            "create /start/f1",
            "create /folder/f2",
            "rename /start/b to /c",
            "rename /folder/b to /start/c",
            "rename /folder/c to /folder/e",
            "stat /start/b",
            "unlink /c",
            "unlink /folder/f2",
            "unlink /start/d",
            "stat /elsewhere",
            "stat /elsewhere/a",
            "stat /folder/a",
        ]
    );
}

#[test]
fn a_file_is_made_when_it_is_not_known_to_be_there() {
    let open = |flags: &str| {
        format!(r#"openat(AT_FDCWD</start>, "a", O_WRONLY|{flags}, 0666) = 3</start/a>"#)
    };
    let opened = "open /start/a as 3";
    let close = "close 3";
    let made = ["create /start/a", opened, close];
    let cut = [opened, "truncate /start/a to 0", close];
    for (before, flags, expected) in [
        // Nobody knows.
        (None, "O_CREAT", &made[..]),
        (None, "O_CREAT|O_TRUNC", &made[..]),
        (None, "O_TRUNC", &cut[..]),
        // It was there.
        (Some(r#"stat("a", {}) = 0"#), "O_CREAT|O_TRUNC", &cut[..]),
        (
            Some(r#"stat("a", {}) = 0"#),
            "O_CREAT",
            &[opened, close][..],
        ),
        // The kernel knows better.
        (Some(r#"stat("a", {}) = 0"#), "O_CREAT|O_EXCL", &made[..]),
        // It was not.
        (Some(r#"unlink("a") = 0"#), "O_CREAT|O_TRUNC", &made[..]),
        (Some(r#"rename("a", "b") = 0"#), "O_CREAT", &made[..]),
        (
            Some(r#"access("a", R_OK) = -1 ENOENT (No such file or directory)"#),
            "O_CREAT|O_TRUNC",
            &made[..],
        ),
        (
            Some(r#"rename("b", "a") = 0"#),
            "O_CREAT",
            &[opened, close][..],
        ),
    ] {
        let mut lines = Vec::from_iter(before);
        let (open, again) = (open(flags), open("O_CREAT"));
        let close = "close(3</start/a>) = 0";
        lines.extend([open.as_str(), close, again.as_str()]);
        let told = story(&lines);
        let skipped = usize::from(before.is_some());
        assert_eq!(
            told[skipped..told.len() - 1],
            *expected,
            "{before:?} {flags}"
        );
        // After that it is known.
        assert_eq!(told.last().expect("the second open"), opened);
    }
}

#[test]
fn heaps_begin_grow_and_are_copied() {
    assert_eq!(
        actions(
            r#"7 1.000000 execve("/x", ["x"], 0x1) = 0
7 1.000001 brk(NULL) = 0x100000
7 1.000002 brk(0x121000) = 0x121000
7 1.000003 brk(NULL) = 0x121000
7 1.000004 fork() = 8
8 1.000005 brk(0x121000) = 0x121000
8 1.000006 brk(0x110000) = 0x110000
8 1.000007 execve("/y", ["y"], 0x1) = 0
8 1.000008 brk(NULL) = 0x110000
8 1.000009 +++ exited with 0 +++
7 1.000010 brk(0x122000) = 0x122000
7 1.000011 +++ exited with 0 +++
"#
        ),
        [
            (0, EXEC),
            (0, Action::Break { end: 0x10_0000 }),
            (0, Action::Break { end: 0x12_1000 }),
            (
                0,
                Action::Fork {
                    child: 1,
                    shares: COPY
                }
            ),
            (1, Action::Break { end: 0x11_0000 }),
            (1, EXEC),
            (1, Action::Break { end: 0x11_0000 }),
            (1, Action::Exit),
            (0, Action::Break { end: 0x12_2000 }),
            (0, Action::Exit),
        ]
    );
}

#[test]
fn memory_moves_without_an_offset() {
    assert_eq!(
        actions(
            r#"7 1.000000 execve("/x", ["x"], 0x1) = 0
7 1.000001 mmap(NULL, 16384, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x5000
7 1.000002 mremap(0x6000, 8192, 16384, MREMAP_MAYMOVE) = 0x20000
7 1.000003 munmap(0x20000, 4096) = 0
7 1.000004 +++ exited with 0 +++
"#
        ),
        [
            (0, EXEC),
            (0, memory(0x5000, 4)),
            (0, unmap(0x6000, 2)),
            (0, memory(0x2_0000, 4)),
            (0, unmap(0x2_0000, 1)),
            (0, Action::Exit),
        ]
    );
}
