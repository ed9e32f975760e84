use std::os::unix::process::ExitStatusExt;

use super::*;

#[test]
fn how_a_program_ended_is_named_in_the_order_of_what_tells_most() {
    let exited = |status| ExitStatus::from_raw(status << 8);
    assert_eq!(How::of(exited(3), false, false), How::Exited(3));
    assert_eq!(How::of(exited(4), false, true), How::Deadlocked);
    assert_eq!(
        How::of(ExitStatus::from_raw(11), false, false),
        How::Killed(11)
    );
    assert_eq!(How::of(ExitStatus::from_raw(15), true, false), How::Hung);
    assert!(How::Killed(11).to_string().contains("SIGSEGV"));
    assert!(How::Killed(40).to_string().ends_with("signal 40"));
}

#[test]
fn how_a_program_ended_is_data_too() {
    let json = |how: How| serde_json::to_string(&how).expect("it can be written");
    assert_eq!(json(How::Killed(6)), r#"{"ending":"signal","number":6}"#);
    assert_eq!(json(How::Hung), r#"{"ending":"hang"}"#);
}

#[test]
fn what_a_test_says_has_the_seed_and_the_output() {
    let failure = Failure {
        seed: Some(17),
        how: How::Exited(101),
        stdout: String::new(),
        stderr: "left: 3\nright: 4".to_owned(),
        sleepers: Vec::new(),
    };
    let shown = Shown {
        failure: &failure,
        runs: 5,
    }
    .to_string();
    for part in ["seed 17", "run 5", "status 101", ".seed(17)", "right: 4"] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    let calm = Failure {
        seed: None,
        ..failure
    };
    let shown = Shown {
        failure: &calm,
        runs: 0,
    }
    .to_string();
    assert!(
        shown.starts_with("even with no thread held back"),
        "{shown}"
    );
}
