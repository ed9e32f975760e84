//! `cargo xtask layers`: which code may depend on which.
//!
//! Three rules: inside the library a module imports only from lower layers ([`library`]); in no crate do modules of one folder
//! import each other in a circle ([`circles`]); a crate depends only on the crates that [`crates`] lists for it.

mod circles;
mod crates;
mod library;
mod paths;

use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

pub(crate) use self::library::below;
use self::paths::Source;
use crate::workspace::{self, Workspace};

/// A file this long probably holds more than one idea.
const LONG: usize = 600;

/// A broken rule, and how to mend it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Broken {
    file: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Checks the rules, prints what breaks them, and tells whether nothing does.
pub(crate) fn command(workspace: &Workspace) -> Result<bool> {
    let failures = check(workspace)?;
    println!("layers: {failures} broken rules");
    Ok(failures == 0)
}

/// Checks the rules, prints what breaks them, and counts it.
pub(crate) fn check(workspace: &Workspace) -> Result<usize> {
    let laboratory = Workspace::at(&workspace.root.join("lab"))?;
    let mut broken = Vec::new();
    let mut files = Vec::new();
    for path in workspace::files(&workspace.root)? {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(workspace.root.join(&path))
            .with_context(|| format!("reading {}", path.display()))?;
        let lines = text.lines().count();
        if lines > LONG {
            println!(
                "warning: {}: {lines} lines: does it hold more than one idea?",
                path.display()
            );
        }
        files.push((path, text));
    }
    let roots = [workspace.roots(), laboratory.roots()].concat();
    for root in &roots {
        let folder = root.strip_prefix(&workspace.root).unwrap_or(root);
        let mut sources = Vec::new();
        for (path, text) in &files {
            // A program in a folder of its own belongs to another root.
            let inner = |other: &PathBuf| {
                other != root
                    && other.starts_with(root)
                    && workspace.root.join(path).starts_with(other)
            };
            if let Ok(inside) = path.strip_prefix(folder)
                && !roots.iter().any(inner)
            {
                let source = Source::parse(inside, text);
                sources.push((
                    path.clone(),
                    source.with_context(|| path.display().to_string())?,
                ));
            }
        }
        if folder == "percolog/src" {
            broken.extend(library::examine(&sources));
        }
        broken.extend(circles::examine(folder, &sources));
    }
    broken.extend(crates::examine(workspace, &laboratory));
    for broken in &broken {
        println!("error: {broken}");
    }
    Ok(broken.len())
}
