//! What is told to QEMU, and what is made of what the plugin leaves.

use std::os::unix::process::ExitStatusExt;

use super::*;
use crate::raw::{Ending, Region};

fn process(pid: u32, elapsed: u64, entered: u64, operations: u64) -> ProcessResult {
    ProcessResult {
        pid,
        format: crate::raw::FORMAT,
        ticks_per_cycle: 16,
        megahertz: 1000,
        elapsed,
        region: Region {
            entered,
            operations,
            ..Region::default()
        },
        ..ProcessResult::default()
    }
}

fn run_of(processes: Vec<ProcessResult>) -> Run {
    Run {
        processes,
        status: ExitStatus::from_raw(0),
        timed_out: false,
        stdout: Vec::new(),
        stderr: Vec::new(),
        first: 10,
        machine: Machine::flat("test", 2),
        run_ahead: 0,
        seed: 1,
        qemu: "7.2".to_owned(),
        free: Vec::new(),
        program: None,
        region_function: None,
    }
}

#[test]
fn the_report_is_about_the_region_or_the_busiest_process() {
    let main = |processes| run_of(processes).main().map(|process| process.pid);
    assert_eq!(main(vec![]), None);
    assert_eq!(
        main(vec![process(10, 5, 0, 0), process(11, 9, 0, 0)]),
        Some(11)
    );
    assert_eq!(
        main(vec![process(10, 9, 0, 0), process(11, 5, 1, 3)]),
        Some(11)
    );
    assert_eq!(
        main(vec![process(10, 9, 1, 3), process(11, 50, 1, 2)]),
        Some(10)
    );
    assert_eq!(
        main(vec![process(10, 9, 0, 0), process(11, 9, 0, 0)]),
        Some(10),
        "of equals the first"
    );
    let mut busy = process(11, 5, 0, 0);
    busy.cores_detail = vec![crate::raw::CoreResult {
        busy: 4,
        ..crate::raw::CoreResult::default()
    }];
    assert_eq!(
        main(vec![process(10, 1000, 0, 0), busy]),
        Some(11),
        "the first one slept"
    );
}

#[test]
fn a_child_without_a_result_ran_unsimulated() {
    let mut parent = process(10, 5, 0, 0);
    let left = |pid| crate::raw::OnMachine {
        pid,
        parent: 10,
        threads: 1,
        executed: 1,
        signal: 0,
    };
    parent.processes = vec![left(11), left(12)];
    let summary = run_of(vec![parent.clone(), process(11, 1, 0, 0)]).summary();
    assert_eq!(
        summary.unsimulated,
        ["a process that it started, which left no result"]
    );
    assert!(summary.to_text().starts_with("NOT SIMULATED: a process"));
    let all = vec![parent, process(11, 1, 0, 0), process(12, 1, 0, 0)];
    assert_eq!(run_of(all).summary().unsimulated, [""; 0]);
}

#[test]
fn results_come_in_the_order_in_which_programs_ran() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, pid, ending| {
        let mut result = process(pid, 1, 0, 0);
        result.ending = ending;
        name.clone_into(&mut result.program);
        let json = serde_json::to_vec(&result).expect("it can be written as JSON");
        fs::write(folder.path().join(name), json).expect("the folder can be written");
    };
    write("9.json", 9, Ending::Exit);
    write("10.json", 10, Ending::Exit);
    write("10.0.json", 10, Ending::Exec);
    write("10.1.json", 10, Ending::Exec);
    fs::write(folder.path().join("10.unfinished"), "{").expect("the folder can be written");
    let found = collect(folder.path(), 10).expect("all are results");
    let names: Vec<&str> = found.iter().map(|result| result.program.as_str()).collect();
    assert_eq!(names, ["10.0.json", "10.1.json", "10.json", "9.json"]);
    fs::write(folder.path().join("11.json"), "{").expect("the folder can be written");
    let error = collect(folder.path(), 10).expect_err("one is damaged");
    assert!(error.to_string().contains("11.json"), "{error}");
}

#[test]
fn paths_with_commas_reach_the_plugin() {
    assert_eq!(comma_doubled(OsStr::new("/a,b,,c")), "/a,,b,,,,c");
}

#[test]
fn what_no_environment_holds_is_refused() {
    let on = |name: &str, value: &str| {
        Simulation::new(Machine::flat("test", 1))
            .env(name, value)
            .check()
    };
    assert!(on("NAME", "a value = more").is_ok());
    for (name, value) in [("", "x"), ("A=B", "x"), ("A", "x\0"), ("A\0", "x")] {
        assert!(
            matches!(on(name, value), Err(SimulationError::Variable(_))),
            "{name:?}"
        );
    }
}
