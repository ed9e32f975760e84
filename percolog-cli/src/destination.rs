//! The file a report goes to: judged before the measurements begin, written whole at their end.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// How a page of `percolog sim` says so.
pub const SIM_MARK: &str = r#"<meta name="generator" content="percolog sim">"#;

/// How a file says that this command made it: such a file may be made anew.
pub const MARK: &str = r#"<meta name="generator" content="percolog demo">"#;

/// Where a report goes when the user does not say.
const DEFAULT: &str = "report.html";

/// How far into a file the mark is looked for.
const HEAD: u64 = 1024;

/// A place that a report can be written to.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    replace: bool,
    /// The option that chose it.
    option: &'static str,
}

impl Destination {
    /// Judges the place the user chose, or `report.html` here: whether it is free or may be replaced, and whether a
    /// file can be written there at all.
    ///
    /// An earlier report under the default name is replaced without `--force`; anything else is not.
    ///
    /// # Errors
    /// Nothing can be written there, or something is there that may not be replaced: the line says what to choose instead.
    pub fn choose(chosen: Option<&Path>, force: bool) -> Result<Self, Failure> {
        let path = chosen.map_or_else(|| PathBuf::from(DEFAULT), Path::to_path_buf);
        let may_replace = |path: &Path| force || (chosen.is_none() && has_mark(path, MARK));
        Self::judge(
            path,
            "--output",
            may_replace,
            "replace it with --force or choose another file with --output",
        )
    }

    /// Judges the place that `--html` names: a page of `percolog sim` is replaced, anything else is not.
    ///
    /// # Errors
    /// Nothing can be written there, or something is there that may not be replaced: the line says what to choose instead.
    pub fn page(chosen: &Path) -> Result<Self, Failure> {
        Self::judge(
            chosen.to_path_buf(),
            "--html",
            |path| has_mark(path, SIM_MARK),
            "and `percolog sim` has not made it; choose another file with --html",
        )
    }

    fn judge(
        path: PathBuf,
        option: &'static str,
        may_replace: impl Fn(&Path) -> bool,
        way_out: &str,
    ) -> Result<Self, Failure> {
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(a_folder(&path, option));
        }
        let replace = match fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(a_folder(&path, option)),
            Ok(found) if !found.is_file() => {
                return Err(Failure::Input(format!(
                    "{} is no ordinary file; choose another with {option}",
                    path.display()
                )));
            }
            Ok(_) if may_replace(&path) => true,
            Ok(_) => {
                return Err(Failure::Input(format!(
                    "{} exists; {way_out}",
                    path.display()
                )));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::symlink_metadata(&path).is_ok() {
                    return Err(Failure::Input(format!(
                        "{} is a link that leads nowhere; choose another file with {option}",
                        path.display()
                    )));
                }
                false
            }
            Err(error) => return Err(unwritable(&path, &error, option)),
        };
        // A link is followed: the file it leads to is replaced, not the link.
        let path = if replace {
            fs::canonicalize(&path).map_err(|error| unwritable(&path, &error, option))?
        } else {
            path
        };
        let destination = Self {
            path,
            replace,
            option,
        };
        // Tried now, removed at once: after twenty seconds is too late to learn that the folder is read-only.
        drop(destination.temporary()?);
        Ok(destination)
    }

    /// Writes the report so that it appears whole or not at all, and gives its full path.
    ///
    /// # Errors
    /// It cannot be written, or another file has appeared there meanwhile.
    pub fn write(self, content: &str) -> Result<PathBuf, Failure> {
        let mut file = self.temporary()?;
        file.write_all(content.as_bytes())
            .and_then(|()| file.as_file().sync_all())
            .map_err(|error| unwritable(&self.path, &error, self.option))?;
        if self.replace {
            file.persist(&self.path)
                .map_err(|error| unwritable(&self.path, &error.error, self.option))?;
        } else {
            // Whatever has appeared there during the measurements is not ours to replace.
            file.persist_noclobber(&self.path).map_err(|error| {
                if error.error.kind() == ErrorKind::AlreadyExists {
                    Failure::Input(format!(
                        "{} has appeared meanwhile; choose another file with {}",
                        self.path.display(),
                        self.option
                    ))
                } else {
                    unwritable(&self.path, &error.error, self.option)
                }
            })?;
        }
        Ok(fs::canonicalize(&self.path).unwrap_or(self.path))
    }

    /// A file beside the destination, so that renaming it does not leave the file system.
    fn temporary(&self) -> Result<NamedTempFile, Failure> {
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".report-").suffix(OsStr::new(".html"));
        #[cfg(unix)]
        {
            // As any file the user makes, less what the user's umask takes away; the crate's default is for secrets.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        builder
            .tempfile_in(folder)
            .map_err(|error| unwritable(&self.path, &error, self.option))
    }
}

fn a_folder(path: &Path, option: &str) -> Failure {
    Failure::Input(format!(
        "{} is a folder; name a file with {option}",
        path.display()
    ))
}

fn unwritable(path: &Path, error: &std::io::Error, option: &str) -> Failure {
    Failure::Input(format!(
        "cannot write {}: {error}; choose another file with {option}",
        path.display()
    ))
}

/// Whether this command made the file, as `mark` says. What cannot be read is somebody else's.
fn has_mark(path: &Path, mark: &str) -> bool {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(HEAD).read_to_end(&mut head))
        .is_ok_and(|_| {
            head.windows(mark.len())
                .any(|window| window == mark.as_bytes())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(result: Result<Destination, Failure>) -> String {
        match result {
            Err(Failure::Input(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_report_appears_whole_and_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.html");
        let destination = Destination::choose(Some(&path), false).expect("free");
        let written = destination.write("whole").expect("written");
        assert_eq!(fs::read_to_string(written).expect("there"), "whole");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn what_exists_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.html");
        // Even an earlier report: the user named this file.
        fs::write(&path, MARK).expect("written");
        let line = refusal(Destination::choose(Some(&path), false));
        assert!(line.contains("--force"), "{line}");
        let destination = Destination::choose(Some(&path), true).expect("forced");
        destination.write("new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
    }

    #[test]
    fn what_appears_meanwhile_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.html");
        let destination = Destination::choose(Some(&path), false).expect("free");
        fs::write(&path, "somebody else's").expect("written");
        assert!(matches!(destination.write("new"), Err(Failure::Input(_))));
        assert_eq!(fs::read_to_string(&path).expect("there"), "somebody else's");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_is_followed_if_it_leads_somewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let line = refusal(Destination::choose(Some(&link), true));
        assert!(line.contains("leads nowhere"), "{line}");
        fs::write(&file, "old").expect("written");
        let destination = Destination::choose(Some(&link), true).expect("forced");
        destination.write("new").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("there"), "new");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    }

    #[test]
    fn only_files_with_the_mark_are_earlier_reports() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.html");
        assert!(!has_mark(&path, MARK));
        fs::write(&path, "<html>mine").expect("written");
        assert!(!has_mark(&path, MARK));
        fs::write(&path, format!("<html>{MARK}")).expect("written");
        assert!(has_mark(&path, MARK));
    }

    #[test]
    fn pages_of_sim_are_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.html");
        fs::write(&path, MARK).expect("written");
        let line = refusal(Destination::page(&path));
        assert!(
            line.contains("--html") && !line.contains("--force"),
            "{line}"
        );
        fs::write(&path, SIM_MARK).expect("written");
        let destination = Destination::page(&path).expect("it is a page");
        destination.write("new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
        let line = refusal(Destination::page(folder.path()));
        assert!(line.contains("name a file with --html"), "{line}");
    }

    #[test]
    fn folders_and_places_that_do_not_exist_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let line = refusal(Destination::choose(Some(folder.path()), true));
        assert!(line.contains("folder"), "{line}");
        let slash = folder.path().join("new/");
        let line = refusal(Destination::choose(Some(&slash), true));
        assert!(line.contains("folder"), "{line}");
        let nowhere = folder.path().join("no").join("out.html");
        let line = refusal(Destination::choose(Some(&nowhere), false));
        assert!(line.contains("cannot write"), "{line}");
    }
}
