//! Pages that name tests: `docs/defects.md` says which test keeps out which defect, `CONTRIBUTING.md` which test holds the code to which
//! promise. Each of these tests exists.

use std::fs;
use std::path::Path;

/// The rows of the tables whose last or middle column is called so.
fn rows<'a>(page: &'a str, column: &str) -> Vec<Vec<&'a str>> {
    let mut rows = Vec::new();
    let mut place = None;
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            place = None;
        } else if let Some(place) = place {
            if !line.starts_with("|---") {
                rows.push(vec![
                    cells[0],
                    cells.get(place).copied().unwrap_or_default(),
                ]);
            }
        } else {
            place = cells.iter().position(|cell| *cell == column);
        }
    }
    rows
}

/// What is wrong with a row: each of its tests is `path::name`, where the path is that of a file or of a folder that the file is in. A row
/// may name a command or a whole folder instead.
fn faults(root: &Path, row: &[&str]) -> Vec<String> {
    let [subject, tests] = row else {
        return vec!["it has no column for tests".into()];
    };
    let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
    let tests: Vec<_> = named
        .iter()
        .filter_map(|name| name.split_once("::"))
        .collect();
    if named.is_empty() {
        return vec![format!("`{subject}` names no test")];
    }
    tests
        .iter()
        .filter(|(path, name)| !has_test(&root.join(path), name))
        .map(|(path, name)| format!("{path} has no test {name}"))
        .collect()
}

/// Whether a file, or a file somewhere in a folder, has this test.
fn has_test(path: &Path, name: &str) -> bool {
    if let Ok(entries) = fs::read_dir(path) {
        return entries.flatten().any(|entry| has_test(&entry.path(), name));
    }
    if path.extension().is_none_or(|extension| extension != "rs") {
        return false;
    }
    let function = format!("fn {name}()");
    fs::read_to_string(path).is_ok_and(|code| {
        let mut lines = code.lines().map(str::trim);
        lines.any(|line| line == "#[test]") && lines.any(|line| line.starts_with(&function))
    })
}

fn every_test_exists(page: &str, column: &str, at_least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join(page)).expect("there is the page");
    let rows = rows(&text, column);
    assert!(rows.len() >= at_least, "{page} has {} rows", rows.len());
    let faults: Vec<String> = rows.iter().flat_map(|row| faults(&root, row)).collect();
    assert!(faults.is_empty(), "{page}: {}", faults.join("\n"));
}

#[test]
fn every_test_that_keeps_out_a_defect_exists() {
    every_test_exists("docs/defects.md", "the test", 30);
}

#[test]
fn every_test_that_keeps_a_promise_exists() {
    every_test_exists("CONTRIBUTING.md", "tests, for example", 15);
}

#[test]
fn a_test_that_is_not_there_is_noticed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of = |tests| faults(root, &["a promise", tests]).len();
    assert_eq!(
        of("`tests/promises.rs::a_test_that_is_not_there_is_noticed`"),
        0
    );
    assert_eq!(of("`tests::a_test_that_is_not_there_is_noticed`"), 0);
    assert_eq!(of("`tests/promises.rs::a_test_that_never_was`"), 1);
    assert_eq!(of("`tests/promises.rs::every_test_exists`"), 1);
    assert_eq!(
        of("`tests/nowhere.rs::a_test_that_is_not_there_is_noticed`"),
        1
    );
    assert_eq!(
        of("`tests::a_test_that_is_not_there_is_noticed`, `tests::never`"),
        1
    );
    assert_eq!(of("`cargo xtask validate`"), 0);
    assert_eq!(of("somebody looks"), 1);
}

#[test]
fn tables_of_other_columns_are_not_looked_at() {
    let page = "| a | tests |\n|---|---|\n| x | y |\n\n| a | b |\n|---|---|\n| x | z |\n";
    assert_eq!(rows(page, "tests"), [["x", "y"]]);
}
