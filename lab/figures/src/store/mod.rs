//! Results: one text file in a folder for all figures, [`FILE`], which is whole or not there.
//!
//! While a figure is being made, what there is of it lies in a file of its own in [`UNFINISHED`], so that an interrupted run can go on, and an
//! earlier result stays until the new one is complete. Files are written under another name and renamed.

mod host;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use host::{Build, Host};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::catalogue::Where;
use crate::plan::{Cell, Place, Size};
use percolog_cells::Values;

/// The version of the files' format: another one is not read.
pub const VERSION: u32 = 2;

/// The name of the file that has all complete figures.
pub const FILE: &str = "evaluation.jsonl";

/// The folder of figures that are not complete.
pub const UNFINISHED: &str = "unfinished";

/// What was found of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Which figure.
    pub figure: String,
    /// How much of it was made.
    pub size: Size,
    /// What it was made by.
    pub build: Build,
    /// Where it was made; simulated cells do not depend on it.
    pub host: Host,
    /// The seed of simulated cells.
    pub seed: u64,
    /// Its cells.
    pub cells: Vec<Found>,
}

/// What was found of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Whose.
    pub contender: String,
    /// The value of what varies.
    pub x: u64,
    /// The value of what else varies, in a heat map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// What was run.
    #[serde(flatten)]
    pub cell: Cell,
    /// What each repetition gave.
    pub values: Vec<Values>,
    /// Seconds that all of them took.
    pub seconds: f64,
    /// Why there are no values, or not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// It was not run, since something is missing here that it needs: the failure says what.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

impl Found {
    /// What was found of the cell in this place.
    #[must_use]
    pub fn of(place: &Place, values: Vec<Values>, seconds: f64, failure: Option<String>) -> Self {
        Self {
            contender: place.contender.clone(),
            x: place.x,
            row: place.row,
            cell: place.cell.clone(),
            values,
            seconds,
            failure,
            skipped: false,
        }
    }

    /// Nothing was found of the cell in this place, as something is missing here.
    #[must_use]
    pub fn skipped(place: &Place, why: String) -> Self {
        Self {
            skipped: true,
            ..Self::of(place, Vec::new(), 0.0, Some(why))
        }
    }

    /// Whether it ran on a described machine.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.cell.machine != Where::Here.to_string()
    }

    /// Whether it could be run, and has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some() && !self.skipped
    }

    /// The median of a value, with the least and the largest.
    #[must_use]
    pub fn median(&self, name: &str) -> Option<Spread> {
        let mut all: Vec<f64> = self.values.iter().filter_map(|one| one.get(name)).collect();
        all.sort_by(f64::total_cmp);
        Some(Spread {
            median: *all.get(all.len().checked_sub(1)? / 2)?,
            least: *all.first()?,
            largest: *all.last()?,
        })
    }
}

/// A value of several repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle; the lower of two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The largest.
    pub largest: f64,
}

/// Why results cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be used.
    #[error("{}: {source}; choose another folder with --results", .path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} holds no results ({why}); move it away, or choose another folder with --results", .path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file was written by another version.
    #[error("{} was written by another version (its format is {found}, this version knows {VERSION}); use that version, or choose another folder with --results", .path.display())]
    Version {
        /// Which.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A file could not be written: what was there before still is.
    #[error("cannot write {}: {source}; what was there is as it was", .path.display())]
    Unwritten {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A folder with results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// A folder that is there.
    #[must_use]
    pub fn open(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The same, made if it is not there, after trying whether it can be written to: an hour later is too late to learn that.
    ///
    /// # Errors
    /// It can neither be made nor written to.
    pub fn create(folder: PathBuf) -> Result<Self, StoreError> {
        let tried = fs::create_dir_all(&folder)
            .and_then(|()| NamedTempFile::new_in(&folder))
            .map(drop);
        match tried {
            Ok(()) => Ok(Self { folder }),
            Err(source) => Err(StoreError::Folder {
                path: folder,
                source,
            }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether there is a file of this name in the folder.
    #[must_use]
    pub fn has_file(&self, name: &str) -> bool {
        self.folder.join(name).is_file()
    }

    fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    fn unfinished_path(&self, figure: &str) -> PathBuf {
        self.folder.join(UNFINISHED).join(format!("{figure}.jsonl"))
    }

    /// The results of all complete figures, by name.
    ///
    /// # Errors
    /// The file cannot be read, or is none.
    pub fn read(&self) -> Result<BTreeMap<String, Results>, StoreError> {
        read(&self.path())
    }

    /// What there is of a figure whose making was interrupted.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_unfinished(&self, figure: &str) -> Result<Option<Results>, StoreError> {
        Ok(read(&self.unfinished_path(figure))?.remove(figure))
    }

    /// Keeps what there is of a figure.
    ///
    /// # Errors
    /// It could not be written; what was there still is.
    pub fn write_unfinished(&self, results: &Results) -> Result<(), StoreError> {
        let path = self.unfinished_path(&results.figure);
        self.write(&path, &text::write([results]))
    }

    /// Keeps a complete figure in place of an earlier one.
    ///
    /// # Errors
    /// The others cannot be read, or it could not be written; what was there still is.
    pub fn finish(&self, results: &Results) -> Result<(), StoreError> {
        let mut all = self.read()?;
        all.insert(results.figure.clone(), results.clone());
        self.write(&self.path(), &text::write(all.values()))?;
        let unfinished = self.unfinished_path(&results.figure);
        match fs::remove_file(&unfinished) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::Unwritten {
                    path: unfinished,
                    source,
                });
            }
            _ => {}
        }
        // It stays while others are unfinished.
        let _ = fs::remove_dir(self.folder.join(UNFINISHED));
        Ok(())
    }

    /// Writes another file into the folder: a page, or a picture.
    ///
    /// # Errors
    /// It could not be written; what was there still is.
    pub fn write_file(&self, name: &str, content: &str) -> Result<PathBuf, StoreError> {
        let path = self.folder.join(name);
        self.write(&path, content)?;
        Ok(path)
    }

    fn write(&self, path: &Path, content: &str) -> Result<(), StoreError> {
        let written = || -> io::Result<()> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = NamedTempFile::new_in(path.parent().unwrap_or(&self.folder))?;
            file.write_all(content.as_bytes())?;
            file.as_file().sync_all()?;
            readable_by_all(file.as_file())?;
            file.persist(path).map_err(|error| error.error)?;
            Ok(())
        };
        written().map_err(|source| StoreError::Unwritten {
            path: path.to_path_buf(),
            source,
        })
    }
}

/// A temporary file is its owner's alone; results are as other files are.
fn readable_by_all(file: &fs::File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// The figures in a file; none, if it is not there.
fn read(path: &Path) -> Result<BTreeMap<String, Results>, StoreError> {
    let damaged = |why: String| StoreError::Damaged {
        path: path.to_path_buf(),
        why,
    };
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) if source.kind() == io::ErrorKind::InvalidData => {
            return Err(damaged("it is no text".to_owned()));
        }
        Err(source) => {
            return Err(StoreError::Folder {
                path: path.to_path_buf(),
                source,
            });
        }
    };
    text::read(&text).map_err(|wrong| match wrong {
        text::Wrong::Damaged(why) => damaged(why),
        text::Wrong::Version(found) => StoreError::Version {
            path: path.to_path_buf(),
            found,
        },
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn results(figure: &str) -> Results {
        let found = |contender: &str, x: u64, rates: &[f64]| Found {
            contender: contender.to_owned(),
            x,
            row: None,
            cell: Cell {
                machine: "here".to_owned(),
                program: "counters".to_owned(),
                parameters: BTreeMap::from([("threads".to_owned(), x.to_string())]),
                repetitions: 3,
                revision: 1,
            },
            values: rates
                .iter()
                .map(|rate| Values::default().with("rate", *rate))
                .collect(),
            seconds: 0.5,
            failure: None,
            skipped: false,
        };
        Results {
            figure: figure.to_owned(),
            size: Size::Quick,
            build: Build::this(),
            host: Host::describe(),
            seed: 1,
            cells: vec![
                found("Counter", 1, &[5.0, 1.0, 9.0]),
                found("Counter", 2, &[11.0]),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::create(folder.path().join("new")).expect("it can be made");
        assert!(store.read().expect("nothing is wrong").is_empty());
        let (one, other) = (results("a"), results("b"));
        store.write_unfinished(&one).expect("there is space");
        store.write_unfinished(&other).expect("there is space");
        assert!(store.read().expect("nothing is wrong").is_empty());
        let unfinished = store.read_unfinished("a").expect("nothing is wrong");
        assert_eq!(unfinished.as_ref(), Some(&one));
        store.finish(&one).expect("there is space");
        assert_eq!(store.read_unfinished("a").expect("it is gone"), None);
        assert_eq!(
            store.read_unfinished("b").expect("it is there"),
            Some(other.clone())
        );
        store.finish(&other).expect("there is space");
        let all = store.read().expect("it is there");
        assert_eq!((&all["a"], &all["b"]), (&one, &other));
        let files = fs::read_dir(store.folder()).expect("it can be read");
        assert_eq!(files.count(), 1);
    }

    #[test]
    fn the_median_lies_between_the_extremes() {
        let results = results("a");
        let spread = results.cells[0].median("rate").expect("there are three");
        assert_eq!(
            (spread.least, spread.median, spread.largest),
            (1.0, 5.0, 9.0)
        );
        assert_eq!(results.cells[0].median("lines"), None);
    }

    #[test]
    fn a_damaged_file_is_told_of_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::create(folder.path().to_path_buf()).expect("it is there");
        let whole = text::write([&results("a")]);
        let path = store.path();
        for (text, said) in [
            (&whole[..whole.len() / 2], "no results"),
            ("", "no results"),
            ("[]", "no results"),
            (&*whole.replace("\"seed\"", "\"sead\""), "no results"),
            (
                &*whole.replace("\"version\":2", "\"version\":99"),
                "another version",
            ),
        ] {
            fs::write(&path, text).expect("there is space");
            let error = store.read().expect_err(said).to_string();
            assert!(
                error.contains(said) && error.contains("--results"),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
        }
        fs::write(&path, [0xff, 0xfe]).expect("there is space");
        assert!(matches!(store.read(), Err(StoreError::Damaged { .. })));
    }

    #[test]
    fn a_folder_that_is_none_is_told_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("there is space");
        let error = Store::create(file.clone()).expect_err("it is a file");
        assert!(error.to_string().contains("--results"), "{error}");
        let store = Store::open(file);
        assert!(matches!(
            store.finish(&results("a")),
            Err(StoreError::Folder { .. })
        ));
    }
}
