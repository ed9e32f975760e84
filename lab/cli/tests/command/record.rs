//! `lab record` with commands that are really run. Needs `strace` and permission to trace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use percolog_papers::trace::{Action, Names, Trace};
use serde_json::Value;

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, command, folder, run, skip};

/// Whether the test can run; says loudly when it cannot.
fn can_trace() -> bool {
    let works = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !works {
        skip("strace is not installed, or may not trace here: apt-get install strace");
    }
    works
}

fn open(folder: &Path) -> Trace {
    Trace::open(&folder.join("own.trace")).expect("the trace is sound")
}

#[test]
fn a_recording_can_be_replayed() {
    if !can_trace() {
        return;
    }
    let folder = folder();
    let text = assert_fine(&run(
        folder.path(),
        &["record", "-o", "own.trace", "--", "sh", "-c", "true; true"],
    ));
    assert_plain_and_narrow(&text);
    assert!(text.contains("own.trace"), "{text}");
    let text = assert_fine(&run(folder.path(), &["trace", "info", "own.trace"]));
    assert_plain_and_narrow(&text);
    let data = assert_fine(&run(
        folder.path(),
        &["trace", "info", "own.trace", "--json"],
    ));
    let info: Value = serde_json::from_str(&data).expect("the output is JSON");
    assert!(info["events_by_kind"]["exec"].as_u64().expect("a number") >= 1);
    assert!(info["events_by_kind"]["open"].as_u64().expect("a number") >= 1);
    assert_eq!(info["lines_not_understood"], 0);
    assert_fine(&run(
        folder.path(),
        &["replay", "own.trace", "--check-only", "--threads", "2"],
    ));
}

#[test]
fn the_commands_exit_code_is_passed_on_and_its_trace_kept() {
    if !can_trace() {
        return;
    }
    let folder = folder();
    for (script, code, part) in [
        ("exit 7", 7, "exit code 7"),
        ("kill -KILL $$", 137, "signal 9"),
    ] {
        let arguments = [
            "record",
            "--force",
            "-o",
            "own.trace",
            "--",
            "sh",
            "-c",
            script,
        ];
        let output = run(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(part), "{text}");
        assert_eq!(open(folder.path()).header().counts.exec, 1);
        let output = command(folder.path())
            .arg("--json")
            .args(arguments)
            .output()
            .expect("started");
        assert_eq!(output.status.code(), Some(code));
        let data: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(data["exit_code"], code);
    }
}

/// As Ctrl-C in a terminal does: the signal goes to everybody at once.
#[test]
fn an_interrupted_recording_keeps_what_was_seen() {
    if !can_trace() {
        return;
    }
    let folder = folder();
    let script = ": > began; while :; do : < began; done";
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("lab"))
        .args(["record", "-o", "own.trace", "--", "sh", "-c", script])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("the command starts");
    while !folder.path().join("began").exists() {
        assert!(child.try_wait().expect("waited").is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let everybody = format!("-{}", child.id());
    let sent = Command::new("kill")
        .args(["-INT", "--", &everybody])
        .status();
    assert!(sent.expect("kill starts").success());
    let status = child.wait().expect("ended");
    assert_eq!(status.code(), Some(130));
    let trace = open(folder.path());
    assert!(trace.header().counts.create >= 1, "{}", trace.info());
    let left = fs::read_dir(folder.path()).expect("listed").count();
    assert_eq!(left, 2, "something was left behind");
}

#[test]
fn names_are_told_only_when_asked_for() {
    if !can_trace() {
        return;
    }
    let folder = folder();
    let secret = folder.path().join("secret-of-mine");
    for (option, names) in [
        (None, Names::None),
        (Some("--names=none"), Names::None),
        (Some("--names=system"), Names::System),
        (Some("--names"), Names::All),
        (Some("--names=all"), Names::All),
    ] {
        let mut command = command(folder.path());
        command.args(["record", "--force", "-o", "own.trace"]);
        command.args(option);
        // The name is not in the command line.
        command.env("SECRET", &secret);
        command.args(["--", "sh", "-c", ": > \"$SECRET\"; cat \"$SECRET\""]);
        assert!(command.output().expect("started").status.success());
        let trace = open(folder.path());
        assert_eq!(trace.header().names, names);
        let told = |path: &str| trace.files().iter().any(|file| file.name == path);
        assert_eq!(
            told(secret.to_str().expect("UTF-8")),
            names == Names::All,
            "{option:?}"
        );
        assert_eq!(told("ld.so.cache"), names == Names::System);
        let hashes = trace
            .files()
            .iter()
            .filter(|file| file.name.starts_with('#'));
        match names {
            Names::None => assert_eq!(hashes.count(), trace.files().len()),
            Names::All => assert_eq!(hashes.count(), 0),
            _ => assert!(hashes.count() > 0),
        }
        let told = trace.files().iter().any(|file| file.name.contains("mine"));
        assert_eq!(told, names == Names::All);
        assert!(
            trace
                .events()
                .iter()
                .any(|event| matches!(event.action, Action::Create { .. }))
        );
    }
    assert_refused(
        &run(
            folder.path(),
            &["record", "-o", "x", "--names=some", "--", "true"],
        ),
        "some",
    );
}

#[test]
fn a_missing_strace_is_told() {
    let folder = folder();
    let output = command(folder.path())
        .env("PATH", folder.path())
        .args(["record", "-o", "own.trace", "--", "/bin/sh", "-c", "true"])
        .output()
        .expect("started");
    assert_refused(&output, "strace is not installed");
    assert!(!folder.path().join("own.trace").exists());
}

/// A program called `strace` that writes what it is told to: what the real one may write some day.
fn impostor(folder: &Path, log: &str) {
    let tools = folder.join("tools");
    fs::create_dir_all(&tools).expect("a folder");
    fs::write(folder.join("log"), log).expect("written");
    let script = r#"#!/bin/sh
[ "$1" = --version ] && { echo "strace -- version 99"; exit; }
while [ "$1" != -o ]; do shift; done
cat log > "$2"
"#;
    let path = tools.join("strace");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
}

fn run_with_impostor(folder: &Path, more: &[&str]) -> std::process::Output {
    let path = format!("{}:/usr/bin:/bin", folder.join("tools").display());
    command(folder)
        .env("PATH", path)
        .args(["record", "--force", "-o", "own.trace"])
        .args(more)
        .args(["--", "/bin/sh"])
        .output()
        .expect("started")
}

#[test]
fn lines_that_are_not_understood_are_told() {
    let folder = folder();
    let bad = "7 1.000001 close(\u{1b}[31mthree";
    impostor(
        folder.path(),
        &format!(
            "7 1.000000 execve(\"/bin/sh\", [\"sh\"], 0x1) = 0\n{bad}\n{bad}\n7 1.000002 +++ exited with 0 +++\n"
        ),
    );
    let text = assert_fine(&run_with_impostor(folder.path(), &[]));
    assert_plain_and_narrow(&text);
    assert!(
        text.contains("2 lines of strace's not understood; the first is 2 "),
        "{text}"
    );
    let data = assert_fine(&run_with_impostor(folder.path(), &["--json"]));
    let data: Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!(data["lines_not_understood"], 2);
    assert_eq!(data["first_not_understood"][0]["text"], bad);
    let text = assert_fine(&run(folder.path(), &["trace", "info", "own.trace"]));
    assert!(
        text.contains("2 lines of the recorder's output not understood"),
        "{text}"
    );
}

#[test]
fn an_strace_that_says_nothing_makes_no_trace() {
    let folder = folder();
    for log in ["", "nothing of the kind\n"] {
        impostor(folder.path(), log);
        let output = run_with_impostor(folder.path(), &[]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
        assert!(!folder.path().join("own.trace").exists());
    }
}
