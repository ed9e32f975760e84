//! Tests that need a process of their own.

use std::ffi::OsStr;
use std::process::Command;

/// Set in a process that was started for one test.
const VARIABLE: &str = "PERCOLOG_TEST_ALONE";

/// Leaves the test that it stands in, having run it in a process of its own: for tests that use up what a process has, or count
/// what all its threads do.
macro_rules! alone {
    () => {
        fn here() {}
        if crate::common::alone::ran_elsewhere(std::any::type_name_of_val(&here)) {
            return;
        }
    };
}
pub(crate) use alone;

/// Runs the test in which the function of that path stands in a process of its own, and fails if it fails. `false` in that process,
/// which goes on with the test.
#[track_caller]
pub(crate) fn ran_elsewhere(here: &str) -> bool {
    if std::env::var_os(VARIABLE).is_some() {
        return false;
    }
    // Without the program's name and the function's own.
    let test = here
        .split_once("::")
        .and_then(|(_, path)| path.rsplit_once("::"))
        .map(|(test, _)| test)
        .unwrap_or_else(|| panic!("{here} is not in a test"));
    let program = std::env::current_exe().expect("this program has a path");
    // The system cannot start an emulated program by itself: whoever emulates this one says how.
    let emulator = std::env::var("PERCOLOG_TEST_EMULATOR").unwrap_or_default();
    let mut words: Vec<&OsStr> = emulator.split_whitespace().map(AsRef::as_ref).collect();
    words.push(program.as_os_str());
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(["--exact", "--nocapture", test])
        .env(VARIABLE, "1")
        .output()
        .expect("a test program can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}
