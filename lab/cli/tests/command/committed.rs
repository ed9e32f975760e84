//! The results that come with the source: what stands beside them is what they say.

use std::fs;
use std::path::Path;

use super::{folder, run};

/// Where they are, if this is the whole source and not the package of the command.
fn results() -> Option<std::path::PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    path.join("figures").is_dir().then_some(path)
}

#[test]
fn tables_and_pictures_are_those_of_the_results() {
    let Some(results) = results() else { return };
    let figures = results.join("figures");
    let copy = folder();
    for entry in fs::read_dir(&figures).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        assert_ne!(
            path.extension().and_then(|ending| ending.to_str()),
            Some("unfinished"),
            "{}",
            path.display()
        );
        if path.extension().is_some_and(|ending| ending == "json") {
            let name = path.file_name().expect("it has a name");
            fs::copy(&path, copy.path().join(name)).expect("it can be copied");
        }
    }
    let rendered = run(copy.path(), &["figures", "render", "--results", "."]);
    assert!(rendered.status.success(), "{rendered:?}");
    let again =
        "make them again with `cargo run --release -- figures render --results results/figures`";
    for entry in fs::read_dir(copy.path()).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().expect("it has a name");
        let made = fs::read(&path).expect("it can be read");
        let there = fs::read(figures.join(name));
        assert!(
            there.is_ok_and(|there| there == made),
            "{}: {again}",
            path.display()
        );
    }
    let tables = fs::read_to_string(copy.path().join("summary.md")).expect("it is there");
    let readme = fs::read_to_string(results.join("README.md")).expect("it is there");
    assert!(
        readme.contains(tables.trim()),
        "results/README.md does not hold summary.md; {again}, and put it there"
    );
}
