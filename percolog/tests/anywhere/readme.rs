//! The README's program is the one that runs as an example.
#![cfg(not(percolog_loom))]

use std::path::Path;

/// Code without comments and layout.
fn words(code: &str) -> Vec<&str> {
    code.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(str::split_whitespace)
        .collect()
}

#[test]
fn the_program_in_the_readme_is_the_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    // In the repository the README lies one folder up; in the published crate, beside the manifest.
    let readme = std::fs::read_to_string(folder.join("../README.md"))
        .or_else(|_| std::fs::read_to_string(folder.join("README.md")))
        .expect("there is a README");
    let shown = readme
        .split("```rust\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("the README shows a program");
    let example = include_str!("../../examples/readme.rs");
    let before_main = example
        .split("fn main")
        .next()
        .expect("the example has a beginning");
    assert_eq!(words(shown), words(before_main));
}
