//! The folders that steps build into.

use std::fs;
use std::path::{Path, PathBuf};

/// What to do with the folders that steps of their own flags build into: together they are many times what the others take.
pub(super) enum Folders {
    /// They are there for the next run.
    Kept,
    /// Each goes once a step is done with it and the next one uses another: the one that is there now.
    Swept(Option<PathBuf>),
}

impl Folders {
    /// Before a step that builds into `next`, or into what all others share.
    pub(super) fn turn_to(&mut self, next: Option<PathBuf>) {
        let Self::Swept(there) = self else { return };
        if *there == next {
            return;
        }
        let Some(done) = std::mem::replace(there, next) else {
            return;
        };
        if done.exists()
            && let Err(error) = fs::remove_dir_all(&done)
        {
            // No step fails of it; one that finds no space will.
            println!("   {} could not be removed: {error}", done.display());
        }
    }
}

/// How many bytes the files below a folder have, as far as they can be looked at: others may be building there.
pub(super) fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(what) if what.is_dir() => size(&entry.path()),
            Ok(what) => what.len(),
            Err(_) => 0,
        })
        .sum()
}
