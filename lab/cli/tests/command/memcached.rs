//! Cells whose server is a process of its own.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::{assert_fine, folder, skip};

fn cell<'a>(structure: &'a str, pipeline: &'a str) -> [&'a str; 7] {
    [
        "memcached",
        "threads=2",
        "milliseconds=20",
        "keys=1000",
        "gets=3",
        structure,
        pipeline,
    ]
}

fn is_installed(command: &str) -> bool {
    Command::new(command)
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_ok()
}

#[test]
#[cfg(target_os = "linux")]
fn servers_are_asked_and_their_time_is_counted() {
    let folder = folder();
    let mut kinds = vec!["structure=percolog", "structure=locked"];
    if is_installed("memcached") {
        kinds.push("structure=memcached");
    } else {
        skip("memcached is not installed: apt-get install memcached");
    }
    for kind in kinds {
        for pipeline in ["pipeline=1", "pipeline=25"] {
            let ran = Command::new(assert_cmd::cargo::cargo_bin!("lab-cell"))
                .current_dir(folder.path())
                .args(cell(kind, pipeline))
                .output()
                .expect("the program starts");
            let text = assert_fine(&ran);
            let values: Value = serde_json::from_str(&text).expect("JSON");
            for value in ["rate", "server_ns", "operations"] {
                assert!(values[value].as_f64() > Some(0.0), "{kind}: {values}");
            }
            // A request that waits for the one before costs two system calls.
            if pipeline == "pipeline=1" {
                assert!(
                    values["server_ns"].as_f64() > Some(100.0),
                    "{kind}: {values}"
                );
            }
        }
    }
}

/// A process whose parent is this one, as Linux tells.
#[cfg(target_os = "linux")]
fn child(of: u32) -> Option<u32> {
    let parent = |process: u32| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // Behind the name, which may contain anything: the state, and the parent.
        let (_, behind) = text.rsplit_once(')')?;
        behind.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let entries = fs::read_dir("/proc").expect("processes are listed");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut processes = names.filter_map(|name| name.parse().ok());
    processes.find(|process| parent(*process) == Some(of))
}

/// Whoever asks may be killed: nothing of its servers stays.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_cell_leaves_no_server() {
    let folder = folder();
    let mut words = cell("structure=percolog", "pipeline=1");
    words[2] = "milliseconds=60000";
    let mut asking = Command::new(assert_cmd::cargo::cargo_bin!("lab-cell"))
        .current_dir(folder.path())
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let server = loop {
        if let Some(server) = child(asking.id()) {
            break server;
        }
        assert!(matches!(asking.try_wait(), Ok(None)), "it has ended");
        thread::sleep(Duration::from_millis(1));
    };
    asking.kill().expect("it can be killed");
    asking.wait().expect("it ends");
    // Gone, or a process without memory that nobody has looked after.
    let command = format!("/proc/{server}/cmdline");
    let is_there = || fs::read(&command).is_ok_and(|words| !words.is_empty());
    // Without end if it stays: the harness then ends this test.
    while is_there() {
        thread::sleep(Duration::from_millis(1));
    }
}
