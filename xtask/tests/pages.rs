//! What the pages of the repository refer to exists: relative links, headings that links name, and the guide's table of contents.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The repository's pages of Markdown, but for what was recorded or built.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            // Parts of pages, of which others are made, lie beside the code that does so.
            if !name.starts_with('.') && !["target", "src"].contains(&&*name) {
                pages(&path, found);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// A page without its blocks of code.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect()
}

/// What a page links to, images included.
fn links(text: &str) -> Vec<String> {
    prose(text)
        .split("](")
        .skip(1)
        .filter_map(|behind| behind.split(')').next())
        .filter(|link| !link.contains(char::is_whitespace) && !link.contains("://"))
        .map(str::to_owned)
        .collect()
}

/// The names under which links find a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|sign| sign.is_alphanumeric() || [' ', '-', '_'].contains(sign))
                .map(|sign| if sign == ' ' { '-' } else { sign })
                .collect()
        })
        .collect()
}

/// What is wrong with the links of a page.
fn broken(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().expect("a file lies in a folder");
    links(text)
        .into_iter()
        .filter(|link| {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            if file.is_empty() {
                return !anchors(text).contains(anchor);
            }
            let target = folder.join(file);
            let found = target.exists()
                && (anchor.is_empty()
                    || fs::read_to_string(&target)
                        .is_ok_and(|text| anchors(&text).contains(anchor)));
            !found
        })
        .map(|link| format!("{}: {link}", page.display()))
        .collect()
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut found = Vec::new();
    pages(&root(), &mut found);
    assert!(found.len() > 20, "{found:?}");
    let broken: Vec<String> = found
        .iter()
        .flat_map(|page| {
            let text = fs::read_to_string(page).expect("a page is text");
            broken(page, &text)
        })
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_guide_has_every_page_in_its_table_of_contents() {
    let docs = root().join("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).expect("there is a summary");
    let listed: BTreeSet<String> = links(&contents).into_iter().collect();
    let there: BTreeSet<String> = fs::read_dir(&docs)
        .expect("there is a guide")
        .map(|entry| entry.expect("the entry can be read").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    assert_eq!(listed, there);
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let page = root().join("README.md");
    let text = "# A title\n[a](SECURITY.md) [b](nothing.md) [c](#a-title) [d](README.md#not-there)\n\
                ```\n[e](code.md)\n```\n[f](https://example.org/x.md)\n";
    let found = broken(&page, text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ends_with("nothing.md") && found[1].ends_with("README.md#not-there"));
}
