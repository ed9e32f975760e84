//! `docs/defects.md` says for each defect which test keeps it out: each of these tests exists.

use std::fs;
use std::path::Path;

/// The rows of all tables, without the lines above them.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    page.lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|---"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .filter(|row: &Vec<_>| row.last() != Some(&"the test"))
}

/// What is wrong with a row.
fn fault(root: &Path, row: &[&str]) -> Option<String> {
    let [_, _, test] = row else {
        return Some("it has not three columns".into());
    };
    let Some((file, name)) = test.trim_matches('`').split_once("::") else {
        return Some(format!("{test} is no test"));
    };
    match fs::read_to_string(root.join(file)) {
        Err(error) => Some(format!("{file}: {error}")),
        Ok(code) => {
            let mut lines = code.lines().map(str::trim);
            let function = format!("fn {name}()");
            let found = lines.any(|line| line == "#[test]")
                && lines.any(|line| line.starts_with(&function));
            (!found).then(|| format!("{file} has no test {name}"))
        }
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/defects.md")).expect("there is the page");
    let rows: Vec<_> = rows(&page).collect();
    assert!(rows.len() >= 30, "the page has {} rows", rows.len());
    let faults: Vec<_> = rows.iter().filter_map(|row| fault(&root, row)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_test_that_is_not_there_is_noticed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of = |test| fault(root, &["wrong", "right", test]);
    assert_eq!(
        of("`tests/defects.rs::a_test_that_is_not_there_is_noticed`"),
        None
    );
    assert!(of("`tests/defects.rs::a_test_that_never_was`").is_some());
    assert!(of("`tests/nowhere.rs::a_test_that_is_not_there_is_noticed`").is_some());
    assert!(of("somebody looks").is_some());
    assert!(fault(root, &["two", "columns"]).is_some());
}
