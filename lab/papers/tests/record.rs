//! Records real commands. Needs `strace` and leave to trace.

#![cfg(unix)]

use percolog_papers::replay::{self, Load};
use percolog_papers::subsystem::{Implementation, Subsystem};
use percolog_papers::trace::{
    Action, Backing, FileKind, Names, NotUnderstood, RecordError, Request, Trace, record,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether the test can run; says loudly when it cannot.
fn can_trace(test: &str) -> bool {
    let traced = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let why = match traced {
        Ok(status) if status.success() => return true,
        Ok(_) => "strace may not trace here",
        Err(_) => "strace is missing: apt-get install strace",
    };
    // Past the harness, which keeps what a passing test prints to itself.
    writeln!(std::io::stderr(), "SKIPPED: {test}: {why}").expect("standard error is open");
    false
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn request<'a>(command: &'a [OsString], output: &'a Path) -> Request<'a> {
    Request {
        command,
        output,
        force: false,
        package: "a test",
        names: Names::System,
    }
}

#[test]
fn a_shell_and_its_children() {
    if !can_trace("a_shell_and_its_children") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("my trace");
    let scratch = folder.path().join("a, b (c)");
    // A subshell is a copy; `true` is executed; the redirections truncate.
    let script = r#"(echo one > "$0"; : > "$0") & /bin/true; wait; exit 3"#;
    let command = words(&["/bin/sh", "-c", script, scratch.to_str().expect("UTF-8")]);

    let recorded = record(&request(&command, &output)).expect("recorded");
    assert_eq!(
        recorded.status.code(),
        Some(3),
        "a command that fails is recorded all the same"
    );
    assert_eq!(
        recorded.bytes,
        fs::metadata(&output).expect("written").len()
    );
    let trace = Trace::open(&output).expect("read");
    assert_eq!(trace, recorded.trace);

    let counts = trace.header().counts;
    assert!(counts.exec >= 2 && counts.exit >= 3, "{counts:?}");
    assert_eq!(counts.exit, counts.fork + counts.share + 1);
    let truncated: Vec<u32> = trace
        .events()
        .iter()
        .filter_map(|event| match event.action {
            Action::Truncate { file, length: 0 } => Some(file),
            _ => None,
        })
        .collect();
    // The first redirection made the file.
    let created = trace.events().iter().find_map(|event| match event.action {
        Action::Create { file } => Some(file),
        _ => None,
    });
    assert_eq!(truncated, Vec::from_iter(created), "{truncated:?}");
    assert_eq!(truncated.len(), 1);
    assert_eq!(recorded.not_understood, NotUnderstood::default());
    assert!(
        trace
            .files()
            .iter()
            .any(|file| file.kind == FileKind::Library && file.name.starts_with("libc"))
    );
    let text = fs::read(&output).expect("read");
    let text = String::from_utf8_lossy(&text);
    let here = folder.path().to_str().expect("UTF-8");
    assert!(
        !text.contains(here),
        "the trace names a folder of this machine"
    );
    assert!(!trace.info().to_string().contains(here));

    for subsystem in Subsystem::ALL {
        let load = Load::new(&trace, subsystem, None);
        for implementation in Implementation::ALL {
            if implementation.serves(subsystem) {
                replay::check(&load, implementation, 3, &|_| ()).expect("agreement");
            }
        }
    }
}

#[test]
fn outputs_that_exist_are_replaced_only_on_request() {
    if !can_trace("outputs_that_exist_are_replaced_only_on_request") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("trace");
    fs::write(&output, "precious").expect("written");
    let command = words(&["true"]);
    let polite = request(&command, &output);
    assert!(matches!(record(&polite), Err(RecordError::OutputExists(path)) if path == output));
    assert_eq!(fs::read(&output).expect("read"), b"precious");

    let forced = Request {
        force: true,
        ..polite
    };
    record(&forced).expect("recorded");
    Trace::open(&output).expect("a trace");

    // The command takes the place while it is recorded.
    let output = folder.path().join("taken");
    let script = format!("echo mine > '{}'", output.display());
    let command = words(&["sh", "-c", &script]);
    assert!(matches!(
        record(&request(&command, &output)),
        Err(RecordError::OutputExists(_))
    ));
    assert_eq!(fs::read(&output).expect("read"), b"mine\n");
    assert_eq!(
        fs::read_dir(folder.path()).expect("listed").count(),
        2,
        "something was left behind"
    );
}

/// What a process's address space holds at the end of its events, page by page: file and offset.
fn pages(trace: &Trace, process: u32) -> BTreeMap<u64, (String, u64)> {
    let page = trace.header().page_size;
    let mut pages = BTreeMap::new();
    for event in trace.events().iter().filter(|event| event.task == process) {
        match event.action {
            Action::Map {
                address,
                length,
                backing: Backing::File(file),
                offset,
            } => {
                for at in (0..length).step_by(page as usize) {
                    pages.insert(address + at, (trace.file_name(file), offset + at));
                }
            }
            Action::Map {
                address, length, ..
            }
            | Action::Unmap { address, length } => {
                for at in (0..length).step_by(page as usize) {
                    pages.remove(&(address + at));
                }
            }
            Action::Exec { .. } => pages.clear(),
            // Its last event: what it left is what we want to see.
            _ => {}
        }
    }
    pages
}

/// The kernel's own account of a process against what was recorded of it.
#[test]
fn the_kernel_agrees() {
    if !can_trace("the_kernel_agrees") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("trace");
    let shown = folder.path().join("maps");
    let command = words(&[
        "/bin/sh",
        "-c",
        "exec cat /proc/self/maps > \"$0\"",
        shown.to_str().expect("UTF-8"),
    ]);
    let trace = record(&request(&command, &output)).expect("recorded").trace;

    let mut expected = BTreeMap::new();
    for line in fs::read_to_string(&shown).expect("read").lines() {
        // 7f12a000-7f12b000 r--p 00001000 fe:00 1234    /usr/lib/libc.so.6
        let words: Vec<&str> = line.split_whitespace().collect();
        let [range, _, offset, _, _, path] = words[..] else {
            continue;
        };
        let name = path.rsplit('/').next().expect("a name");
        // Mapped by the kernel itself, out of strace's sight: the program, the loader.
        if !name.contains(".so") || name.starts_with("ld") {
            continue;
        }
        let number = |text| u64::from_str_radix(text, 16).expect("a number");
        let (start, end) = range.split_once('-').expect("a range");
        let (start, end, offset) = (number(start), number(end), number(offset));
        for address in (start..end).step_by(trace.header().page_size as usize) {
            expected.insert(address, (name.to_owned(), offset + (address - start)));
        }
    }
    assert!(
        expected.len() > 50,
        "the C library alone has more pages: {expected:?}"
    );
    let mut found = pages(&trace, 0);
    found.retain(|_, (name, _)| name.contains(".so"));
    assert_eq!(found, expected);
}
