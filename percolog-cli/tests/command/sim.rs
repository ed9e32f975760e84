//! `percolog sim`: what it refuses without QEMU, and what it finds with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use percolog_sim::report::FORMAT;
use serde_json::Value;

use crate::{
    assert_fine, assert_plain_and_narrow, assert_refused, command, folder, run, simulated, skip,
    stderr,
};

/// A QEMU that says what it is and does nothing else, so that these tests need none.
pub(crate) fn pretended_qemu(folder: &Path, script: &str) -> std::path::PathBuf {
    let path = folder.join("qemu");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("the folder can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    path
}

pub(crate) const VERSION: &str =
    "[ \"$1\" = --version ] && echo 'qemu-x86_64 version 7.2.0' && exit";

pub(crate) fn with_qemu(folder: &Path, qemu: &Path, arguments: &[&str]) -> Output {
    command(folder)
        .env("PERCOLOG_QEMU", qemu)
        .args(arguments)
        .output()
        .expect("the command starts")
}

#[test]
fn what_cannot_be_run_is_refused_with_one_line() {
    let folder = folder();
    let qemu = pretended_qemu(folder.path(), VERSION);
    let file = |name: &str, mode: u32, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("the folder can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the file is ours");
    };
    let mut other = fs::read("/proc/self/exe").expect("this program can be read")[..64].to_vec();
    file("cut", 0o755, &other);
    // The machine of an ELF header.
    other[18] = 243;
    file("other", 0o755, &other);
    other[18] = 3;
    other[4] = 1;
    file("narrow", 0o755, &other);
    file("plain", 0o644, b"#!/bin/sh\n");
    file("text", 0o755, b"hello");
    file("empty", 0o755, b"");
    file("lost", 0o755, b"#!/nonexistent/shell\n");
    file("nameless", 0o755, b"#!   \n");
    file(
        "circle",
        0o755,
        format!("#!{}/circle\n", folder.path().display()).as_bytes(),
    );
    file("machine.toml", 0o644, b"name = 3");
    for (arguments, part) in [
        (&["sim"][..], "a program to run is missing"),
        (&["sim", "--"][..], "a program to run is missing"),
        (
            &["sim", "--", "no-such-program"][..],
            "no such program in PATH",
        ),
        (&["sim", "--", "./nothing"][..], "no such file"),
        (&["sim", "--", "."][..], "no such program in PATH"),
        (&["sim", "--", "./"][..], "is a folder"),
        (&["sim", "--", "/dev/null"][..], "no regular file"),
        (&["sim", "--", "./plain"][..], "not executable"),
        (&["sim", "--", "./text"][..], "is no program"),
        (&["sim", "--", "./empty"][..], "is empty"),
        (
            &["sim", "--", "./lost"][..],
            "/nonexistent/shell: no such file",
        ),
        (&["sim", "--", "./nameless"][..], "names no interpreter"),
        (&["sim", "--", "./circle"][..], "more than four deep"),
        (&["sim", "--", "./cut"][..], "damaged ELF file"),
        (&["sim", "--", "./other"][..], "RISC-V"),
        (&["sim", "--", "./narrow"][..], "32-bit"),
        (
            &["sim", "--machine", "opteron", "--", "true"][..],
            "opteron-48",
        ),
        (
            &["sim", "--machine", "./none.toml", "--", "true"][..],
            "./none.toml",
        ),
        (
            &["sim", "--machine", "machine.toml", "--", "true"][..],
            "machine.toml",
        ),
        (&["sim", "machines", "opteron"][..], "opteron-48"),
        (&["sim", "--skip", "later", "--", "true"][..], "100M, 5k"),
        (&["sim", "--skip", "0", "--", "true"][..], "leave it out"),
        (&["sim", "--for", "5", "--", "true"][..], "a time is needed"),
        (
            &["sim", "--for", "0s", "--", "true"][..],
            "more than nothing",
        ),
        (
            &["sim", "--roi-fn", "no_such_function", "--", "true"][..],
            "no_such_function",
        ),
        (
            &["sim", "--work", "total", "--", "true"][..],
            "add --sweep 1,2,4",
        ),
        (
            &["sim", "--chaos", "--work", "each", "--", "true"][..],
            "--work",
        ),
    ] {
        assert_refused(&with_qemu(folder.path(), &qemu, arguments), part);
    }
}

#[test]
fn a_missing_or_wrong_qemu_is_named() {
    let folder = folder();
    let old = pretended_qemu(folder.path(), "echo 'qemu-x86_64 version 5.2.0'");
    for (qemu, part) in [
        (Path::new("/nonexistent/qemu"), "`qemu-user`"),
        (Path::new("/bin/true"), "is not qemu-x86_64"),
        (&old, "5.2.0"),
    ] {
        let output = with_qemu(folder.path(), qemu, &["sim", "--", "true"]);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn no_result_is_no_clean_bill() {
    let folder = folder();
    let qemu = pretended_qemu(folder.path(), &format!("{VERSION}\nexit 0"));
    let output = with_qemu(folder.path(), &qemu, &["sim", "--", "true"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("left no result"),
        "{}",
        stderr(&output)
    );
}

/// A raw result as the plugin leaves it, with a region of these operations.
pub(crate) fn raw(operations: u64, format: u64) -> String {
    let counts = |transfers: u64| {
        format!(
            r#"{{"cold":1,"memory":0,"reads":0,"writes":{transfers},"upgrades":4,"invalidations":{transfers},"stall":900,"queued":300,"cold_stall":10}}"#
        )
    };
    format!(
        r#"{{"format":{format},"pid":77,"parent":1,"program":"/bin/guest","machine":"opteron-48","cores":48,"ending":"exit","exit_code":0,
        "ticks_per_cycle":16,"megahertz":2400,"line_size":64,"threads":2,"instructions":100,"elapsed":100000,"whole":{whole},
        "region":{{"entered":2,"operations":{operations},"elapsed":1000,"busy":1800,"counts":{counts},"threads":2}},"cores_detail":[],
        "lines_seen":1,"lines":[{{"line":4096,"counts":{counts},"readers":[],"writers":[0,1],"places":[{{"pc":64,"write":true,"events":8,"stall":900}}],"elsewhere":0,"label":"it","by_core":[{{"core":0,"events":4,"stall":400}},{{"core":1,"events":4,"stall":500}}]}}],
        "shared":[],"maps":"","sleepers":[{{"thread":0,"why":"futex","pc":64,"address":8}},{{"thread":1,"why":"futex","pc":64,"address":8}}],"unsimulated":["the helper"],"not_reproducible":[],"warnings":[],"forced":0,"unordered":0}}"#,
        whole = counts(90),
        counts = counts(8),
    )
}

/// Has a pretended QEMU find its settings and the folder for results.
pub(crate) const RESULTS: &str = "config=${4#*,config=}\nconfig=${config%,memory=*}\n\
     results=$(sed -n 's/^result //p' \"$config\")";

/// Has it leave the result in this file as its own.
pub(crate) fn leave(file: &Path) -> String {
    format!(
        r#"sed "s/\"pid\":77,/\"pid\":$$,/" '{}' >"$results/$$.json""#,
        file.display()
    )
}

/// A QEMU that leaves this result.
pub(crate) fn answering(folder: &Path, result: &str, status: u8) -> std::path::PathBuf {
    let file = folder.join("result");
    fs::write(&file, result).expect("the folder can be written");
    let script = format!(
        "{VERSION}\n{RESULTS}\n{}\necho the guest\nexit {status}",
        leave(&file)
    );
    pretended_qemu(folder, &script)
}

#[test]
fn a_result_becomes_a_report() {
    let folder = folder();
    let qemu = answering(folder.path(), &raw(8, FORMAT), 0);
    let output = with_qemu(folder.path(), &qemu, &["sim", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(crate::stdout(&output), "the guest\n");
    let report = stderr(&output);
    assert_plain_and_narrow(&report);
    assert!(
        report.starts_with("NOT SIMULATED: the helper\n"),
        "{report}"
    );
    for part in [
        "1.00",
        "0.50",
        "50.0 %",
        "100.0 %  it: ",
        "written by 2 cores",
        "--sweep 1,2,4,…,48",
        "at 0x1000",
        "not modelled: the bandwidth of memory and links",
    ] {
        assert!(report.contains(part), "{report} lacks {part}");
    }

    assert!(!report.contains("ownership upgrades"), "{report}");
    let output = with_qemu(folder.path(), &qemu, &["sim", "--full", "--", "true"]);
    let report = stderr(&output);
    assert_plain_and_narrow(&report);
    for part in ["100.0 %  it: ", "ownership upgrades", "0x1000 it:"] {
        assert!(report.contains(part), "{report} lacks {part}");
    }

    let output = with_qemu(folder.path(), &qemu, &["sim", "--json", "--", "true"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    assert_eq!(stderr(&output), "the guest\n");
    assert_eq!(json["version"], 1);
    assert_eq!(json["per_operation"]["transfers"], 1.0);
    assert_eq!(json["totals"]["upgrades"], 4);
    assert_eq!(json["stall_share"], 0.5);
    assert_eq!(json["lines"][0]["label"], "it");
    assert_eq!(json["unsimulated"][0], "the helper");
}

#[test]
fn a_deadlock_names_who_sleeps_where() {
    let folder = folder();
    let result = raw(8, FORMAT).replace("\"ending\":\"exit\"", "\"ending\":\"deadlock\"");
    let qemu = answering(folder.path(), &result, 1);
    let output = with_qemu(folder.path(), &qemu, &["sim", "--", "true"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = stderr(&output);
    assert_plain_and_narrow(&report);
    for part in [
        "\nDEADLOCK: ",
        "  threads 0-1: futex at 0x8 (memory that is no longer mapped), in code at 0x40\n",
        "percolog: the program deadlocked\n",
    ] {
        assert!(report.contains(part), "{report} lacks {part}");
    }
}

#[test]
fn every_field_of_the_json_is_documented() {
    let folder = folder();
    let qemu = answering(folder.path(), &raw(8, FORMAT), 0);
    let output = with_qemu(
        folder.path(),
        &qemu,
        &[
            "sim", "--json", "--seeds", "2", "--sweep", "1,48", "--", "true",
        ],
    );
    let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    let documented = include_str!("../../../percolog-sim/docs/json.md");
    fn check(value: &Value, documented: &str) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    assert!(
                        documented.contains(&format!("`{name}`")),
                        "{name} is not documented"
                    );
                    check(value, documented);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| check(item, documented)),
            _ => {}
        }
    }
    check(&json, documented);
    assert_eq!(json["one_core"]["speedup"], 1.0);
    assert_eq!(json["spread"]["seeds"], serde_json::json!([1, 2]));
    assert_eq!(json["lines"][0]["places"][0]["events"], 8);
    assert_eq!(json["sleepers"][1]["thread"], 1);
}

#[test]
fn statuses_tell_failures_apart() {
    let folder = folder();
    let bounded = &["sim", "assert", "--max-transfers-per-op"];
    let whole = |operations, format| {
        raw(operations, format).replace("\"unsimulated\":[\"the helper\"]", "\"unsimulated\":[]")
    };
    let crashed = |signal| {
        let ending = format!("\"ending\":\"signal\",\"exit_code\":{}", 128 + signal);
        whole(8, FORMAT).replace("\"ending\":\"exit\",\"exit_code\":0", &ending)
    };
    for (result, status, arguments, expected) in [
        (whole(8, FORMAT), 0, &["sim"][..], 0),
        (whole(8, FORMAT), 42, &["sim"][..], 42),
        (whole(0, FORMAT), 0, &["sim"][..], 3),
        (whole(8, FORMAT - 1), 0, &["sim"][..], 1),
        ("{".to_owned(), 0, &["sim"][..], 1),
        (
            whole(8, FORMAT),
            0,
            &[bounded[0], bounded[1], bounded[2], "1"][..],
            0,
        ),
        (
            whole(8, FORMAT),
            0,
            &[bounded[0], bounded[1], bounded[2], "0.99"][..],
            1,
        ),
        (
            whole(8, FORMAT),
            0,
            &["sim", "assert", "--max-upgrades-per-op", "0.5"][..],
            0,
        ),
        (
            whole(8, FORMAT),
            0,
            &["sim", "assert", "--max-upgrades-per-op", "0.4"][..],
            1,
        ),
        (
            whole(8, FORMAT),
            42,
            &[bounded[0], bounded[1], bounded[2], "9"][..],
            1,
        ),
        (
            whole(0, FORMAT),
            0,
            &[bounded[0], bounded[1], bounded[2], "9"][..],
            3,
        ),
        // A bound says nothing of what was not simulated, unless that was asked for.
        (
            raw(8, FORMAT),
            0,
            &[bounded[0], bounded[1], bounded[2], "9"][..],
            3,
        ),
        (
            raw(8, FORMAT),
            0,
            &[bounded[0], bounded[1], bounded[2], "0.5"][..],
            1,
        ),
        (
            raw(8, FORMAT),
            0,
            &[bounded[0], bounded[1], "--no-follow", bounded[2], "9"][..],
            0,
        ),
        // Nor if what was measured crashed and somebody hid it; that a script ends a server is as it should be.
        (
            crashed(11),
            0,
            &[bounded[0], bounded[1], bounded[2], "9"][..],
            1,
        ),
        (
            crashed(15),
            0,
            &[bounded[0], bounded[1], bounded[2], "9"][..],
            0,
        ),
    ] {
        let qemu = answering(folder.path(), &result, status);
        let typed: Vec<&str> = arguments.iter().copied().chain(["--", "true"]).collect();
        let output = with_qemu(folder.path(), &qemu, &typed);
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{typed:?} {status}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn the_guest_gets_its_arguments_and_its_machine() {
    let folder = folder();
    let said = folder.path().join("said");
    let script = format!(
        "{VERSION}\nprintf '%s|' \"$@\" >'{said}'\nconfig=${{4#*,config=}}\ncp \"${{config%,memory=*}}\" '{said}.config'\nenv >'{said}.env'",
        said = said.display()
    );
    let qemu = pretended_qemu(folder.path(), &script);
    with_qemu(
        folder.path(),
        &qemu,
        &[
            "sim",
            "--cores",
            "12",
            "--seed",
            "5",
            "--run-ahead",
            "7",
            "--",
            "true",
            "a b",
            "-t{cores}",
            "{cores}",
        ],
    );
    let typed = fs::read_to_string(&said).expect("it was started");
    assert!(typed.starts_with("-seed|5|-plugin|file="), "{typed}");
    assert!(typed.ends_with("/true|a b|-t12|12|"), "{typed}");
    let config = fs::read_to_string(format!("{}.config", said.display())).expect("it has settings");
    for line in ["seed 5", "run_ahead 7", "follow 1", "machine.cores 12"] {
        assert!(
            config.lines().any(|found| found == line),
            "{config} lacks {line}"
        );
    }
    let variables =
        fs::read_to_string(format!("{}.env", said.display())).expect("it has variables");
    for line in ["PERCOLOG_SLOTS=thread", "PERCOLOG_SIM_INSIDE=1"] {
        assert!(
            variables.lines().any(|found| found == line),
            "{variables} lacks {line}"
        );
    }
}

#[test]
fn machines_are_listed_and_shown() {
    let folder = folder();
    let text = assert_fine(&run(folder.path(), &["sim", "machines"]));
    assert_plain_and_narrow(&text);
    assert!(text.contains("opteron-48"), "{text}");
    let json = assert_fine(&run(folder.path(), &["sim", "machines", "--json"]));
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json[0]["cores"], 48);
    let file = assert_fine(&run(folder.path(), &["sim", "machines", "opteron-48"]));
    assert_plain_and_narrow(file.rsplit_once("\n\n").expect("two parts").1);
    assert!(
        file.contains("#   no  bandwidth of memory: no limit"),
        "{file}"
    );
    let file = file.replace("[latency]\n", "[latency]\nmemory_occupancy = 9\n");
    fs::write(folder.path().join("mine.toml"), file).expect("the folder can be written");
    let mine = assert_fine(&run(folder.path(), &["sim", "machines", "mine.toml"]));
    assert!(
        mine.contains("#   yes bandwidth of memory: a line each 9 cycles"),
        "{mine}"
    );
    let json = assert_fine(&run(
        folder.path(),
        &["sim", "machines", "mine.toml", "--json"],
    ));
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["modelled"][5]["is_modelled"], true, "{json}");
    // The file of a machine is one that can be used.
    let qemu = pretended_qemu(folder.path(), &format!("{VERSION}\nexit 0"));
    let output = with_qemu(
        folder.path(),
        &qemu,
        &["sim", "--machine", "mine.toml", "--", "true"],
    );
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

/// Compiles a program, if there is a compiler.
pub(crate) fn compiled(folder: &Path, name: &str, source: &str, options: &[&str]) -> bool {
    let file = folder.join(format!("{name}.c"));
    fs::write(&file, source).expect("the folder can be written");
    match Command::new("cc")
        .current_dir(folder)
        .args(["-O1", "-pthread", "-o", name])
        .args(options)
        .arg(&file)
        .status()
    {
        Ok(status) => {
            assert!(status.success(), "{name} could not be compiled");
            true
        }
        Err(error) => {
            skip(&format!("no C compiler: {error}"));
            false
        }
    }
}

pub(crate) const COUNTER: &str = r#"
#include <pthread.h>
#include <unistd.h>
#include <sys/syscall.h>
static long the_counter;
static pthread_barrier_t together;
static void *work(void *none) {
    pthread_barrier_wait(&together);
    syscall(0x5045524FL, 1L);
    for (int i = 0; i < 2000; i++) __atomic_fetch_add(&the_counter, 1, __ATOMIC_SEQ_CST);
    syscall(0x5045524FL, 2L, 2000L);
    return none;
}
int main(void) {
    pthread_t threads[4];
    pthread_barrier_init(&together, 0, 4);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return the_counter == 8000 ? 0 : 9;
}
"#;

#[test]
fn a_contended_counter_is_found_by_name_in_all_kinds_of_programs() {
    let folder = folder();
    if !simulated() || !compiled(folder.path(), "pie", COUNTER, &["-g", "-pie", "-fPIE"]) {
        return;
    }
    compiled(folder.path(), "fixed", COUNTER, &["-g", "-no-pie"]);
    compiled(folder.path(), "static", COUNTER, &["-g", "-static"]);
    compiled(folder.path(), "stripped", COUNTER, &["-s"]);
    for (program, memory) in [
        ("pie", "the_counter"),
        ("fixed", "the_counter"),
        ("static", "the_counter"),
        ("stripped", "stripped(.bss"),
    ] {
        let path = format!("./{program}");
        let output = run(
            folder.path(),
            &[
                "sim",
                "--cores",
                "4",
                "--run-ahead",
                "0",
                "--json",
                "--",
                &path,
            ],
        );
        let json: Value = serde_json::from_str(&assert_fine(&output)).expect("stdout is JSON");
        let transfers = json["per_operation"]["transfers"]
            .as_f64()
            .expect("a number");
        // Before the next core's probe comes, a core increments twice.
        assert!((0.4..=1.1).contains(&transfers), "{program}: {transfers}");
        let worst = &json["lines"][0];
        let found = worst["memory"].as_str().expect("a text");
        assert!(found.contains(memory), "{program}: {found}");
        let function = worst["places"][0]["function"].as_str().expect("a text");
        let expected = if program == "stripped" {
            "stripped+0x"
        } else {
            "work"
        };
        assert!(function.contains(expected), "{program}: {function}");
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let folder = folder();
    if !simulated() || !compiled(folder.path(), "counter", COUNTER, &[]) {
        return;
    }
    let once = || {
        assert_fine(&run(
            folder.path(),
            &["sim", "--cores", "4", "--json", "--", "./counter"],
        ))
    };
    assert_eq!(once(), once());
}

#[test]
fn a_program_that_waits_for_ever_is_ended_in_time() {
    let folder = folder();
    if !simulated() {
        return;
    }
    // It waits for input that does not come.
    let mut input = Command::new("sleep")
        .arg("60")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sleep starts");
    let output = Command::new(assert_cmd::cargo::cargo_bin!("percolog"))
        .current_dir(folder.path())
        .args(["sim", "--cores", "2", "--timeout", "1", "--", "cat"])
        .stdin(input.stdout.take().expect("it is a pipe"))
        .output()
        .expect("the command starts");
    input.kill().expect("it is ours");
    input.wait().expect("it is ours");
    assert!(!output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("time was up"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn memory_that_processes_share_leaves_no_clean_bill() {
    let folder = folder();
    let source = include_str!("../../../percolog-sim/tests/guests/shared.c");
    if !simulated() || !compiled(folder.path(), "shared", source, &[]) {
        return;
    }
    let first = "SHARED BETWEEN PROCESSES: the file ";
    let sim = |before: &[&str], how: &str| {
        let line = [before, &["--", "./shared", how, "16", "counters"]].concat();
        run(folder.path(), &line)
    };
    // Those that were forked have one machine, and those that become other programs each one of its own.
    for before in [
        &["sim"][..],
        &["advise", "--sweep", "1,16"],
        &["sim", "--full", "--cores", "24", "--html", "page.html"],
    ] {
        let output = sim(before, "apart");
        let said = stderr(&output);
        let report: Vec<&str> = said
            .lines()
            .filter(|line| !line.starts_with("percolog: "))
            .collect();
        assert_plain_and_narrow(&report.join("\n"));
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.starts_with(first), "{said}");
        assert!(!said.contains("core to core\n"), "{said}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("is used by 16 processes of shared;"),
            "{said}"
        );
    }
    let page = fs::read_to_string(folder.path().join("page.html")).expect("it was made");
    assert!(page.contains("SHARED BETWEEN PROCESSES:</strong> the file"));
    assert!(page.contains("No line of memory went from core to core on any machine."));
    let output = sim(&["sim", "--json", "--cores", "16"], "apart");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    assert_eq!(json["caveats"][0]["kind"], "shared-memory");
    let shared = json["shared_memory"][0]["processes"].as_array();
    assert_eq!(shared.map(Vec::len), Some(16), "{json}");
    // A gate does not pass, and a search has not survived.
    let gate = [
        "sim",
        "assert",
        "--max-transfers-per-op",
        "9",
        "--cores",
        "16",
    ];
    let chaos = ["sim", "--chaos", "--runs", "1", "--cores", "16"];
    for before in [&gate[..], &chaos] {
        let output = sim(before, "apart");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
    }
    let said = stderr(&sim(&chaos, "apart"));
    assert!(said.starts_with("SHARED BETWEEN"), "{said}");
    // What forked processes share is simulated, and children that do not use what they have inherited share nothing.
    for how in ["anonymous", "alone", "executed"] {
        let output = sim(&["sim", "--cores", "16"], how);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let output = sim(&["sim", "--cores", "16"], "anonymous");
    assert!(
        stderr(&output).contains("truly shared: read by 1 core, written by 1"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_program_that_ends_its_whole_group_is_reported() {
    let folder = folder();
    let source = "#include <signal.h>\n#include <unistd.h>\n#include <sys/wait.h>\n\
                  int main(void) { signal(SIGTERM, SIG_IGN); kill(0, SIGTERM); return 3; }\n";
    if !simulated() || !compiled(folder.path(), "server", source, &[]) {
        return;
    }
    // A group of its own, to which this test does not belong.
    let output = Command::new(env!("CARGO_BIN_EXE_percolog"))
        .args(["sim", "--", "./server"])
        .current_dir(folder.path())
        .process_group(0)
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("./server on opteron-48"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn there_are_no_other_ways_to_a_silent_clean_bill() {
    let folder = folder();
    if !simulated() || !compiled(folder.path(), "counter", COUNTER, &["-g"]) {
        return;
    }
    let source = "static void *none(void *it) { return it; }\n\
                  __attribute__((noinline)) void serve(void) { __asm__ volatile(\"\"); }\n\
                  #include <pthread.h>\n\
                  int main(int count, char **words) {\n\
                  pthread_t thread; pthread_create(&thread, 0, none, 0); pthread_join(thread, 0);\n\
                  if (count > 1) serve(); return 0; }\n";
    compiled(folder.path(), "server", source, &[]);
    let sim = |line: &[&str]| {
        let line = [&["sim", "--no-what-if", "--cores", "4"][..], line].concat();
        let output = run(folder.path(), &line);
        (output.status.code(), stderr(&output))
    };
    let sh = |script| ["--", "sh", "-c", script];
    // Who sleeps longest is not who is waited for.
    let (status, said) = sim(&sh("sleep 2; ./counter"));
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("the_counter"), "{said}");
    for (line, status, first) in [
        // It is killed, or a child is, whatever becomes of the first process.
        (
            &sh("kill -SEGV $$")[..],
            139,
            "ENDED EARLY: sh was killed by signal 11;",
        ),
        (
            &sh("sh -c 'kill -SEGV $$'; true"),
            0,
            "ENDED EARLY: sh was killed by signal 11;",
        ),
        (
            &sh("true; true"),
            0,
            "ONE THREAD: the program had one thread,",
        ),
        (&sh("true | true; true"), 0, "ONE THREAD: none of the "),
        // A region that is never entered, and one that is.
        (
            &["--roi-fn", "serve", "--", "./server"],
            3,
            "REGION NEVER ENTERED: serve was never called;",
        ),
        (
            &["--skip", "1000M", "--", "./server"],
            3,
            "./server on opteron-48: 4 cores",
        ),
        (
            &["--skip", "region", "--", "./server"],
            3,
            "./server on opteron-48: 4 cores",
        ),
        (
            &["--no-follow", "--", "sh", "-c", "exec ./counter"],
            0,
            "NOT SIMULATED: ./counter:",
        ),
    ] {
        let (found, said) = sim(line);
        assert_eq!(found, Some(status), "{line:?}: {said}");
        let report: Vec<&str> = said.lines().filter(|line| !is_of_the_guest(line)).collect();
        assert!(report[0].starts_with(first), "{line:?}: {said}");
    }
    let (status, said) = sim(&["--roi-fn", "serve", "--", "./server", "now"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("./server on"), "{said}");
}

/// Lines that QEMU and the shell write when a program crashes.
fn is_of_the_guest(line: &str) -> bool {
    line.starts_with("qemu: ") || line.starts_with("Segmentation fault")
}
