//! The results that come with the source: what stands beside them is what they say.

use std::fs;
use std::path::Path;

use crate::{assert_fine, folder, run};

#[test]
fn page_tables_and_pictures_are_those_of_the_results() {
    let figures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/figures");
    let copy = folder();
    let mut names = Vec::new();
    for entry in fs::read_dir(&figures).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        assert!(path.is_file(), "{}: an unfinished run", path.display());
        let name = path.file_name().expect("it has a name").to_owned();
        // Pictures that are there are made again: whatever is in them.
        let content = match path.extension().and_then(|ending| ending.to_str()) {
            Some("jsonl") => fs::read(&path).expect("it can be read"),
            _ => Vec::new(),
        };
        fs::write(copy.path().join(&name), content).expect("there is space");
        names.push(name);
    }
    assert_fine(&run(copy.path(), &["figures", "render", "--results", "."]));
    for name in names {
        let made = fs::read(copy.path().join(&name)).expect("it can be read");
        let there = fs::read(figures.join(&name)).expect("it can be read");
        assert!(
            there == made,
            "{}: make it again with `cargo lab figures render --results results/figures`",
            name.display()
        );
    }
}
