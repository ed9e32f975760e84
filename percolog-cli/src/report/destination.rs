//! The file a report goes to: judged before the measurements begin, written whole at their end.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// How a file says that this command made it: such a file may be made anew.
pub(crate) const MARK: &str = r#"<meta name="generator" content="percolog demo">"#;

/// Where a report goes when the user does not say.
const DEFAULT: &str = "report.html";

/// How far into a file the mark is looked for.
const HEAD: u64 = 1024;

/// A place that a report can be written to.
#[derive(Debug)]
pub(crate) struct Destination {
    path: PathBuf,
    replace: bool,
}

impl Destination {
    /// Judges the place the user chose, or `report.html` here: whether it is free or may be replaced, and whether a
    /// file can be written there at all.
    ///
    /// An earlier report under the default name is replaced without `--force`; anything else is not.
    pub(crate) fn choose(chosen: Option<&Path>, force: bool) -> Result<Self, Failure> {
        let path = chosen.map_or_else(|| PathBuf::from(DEFAULT), Path::to_path_buf);
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(a_folder(&path));
        }
        let replace = match fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(a_folder(&path)),
            Ok(found) if !found.is_file() => {
                return Err(Failure::Input(format!(
                    "{} is no ordinary file; choose another with --output",
                    path.display()
                )));
            }
            Ok(_) if force || (chosen.is_none() && is_earlier_report(&path)) => true,
            Ok(_) => {
                return Err(Failure::Input(format!(
                    "{} exists; replace it with --force or choose another file with --output",
                    path.display()
                )));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::symlink_metadata(&path).is_ok() {
                    return Err(Failure::Input(format!(
                        "{} is a link that leads nowhere; choose another file with --output",
                        path.display()
                    )));
                }
                false
            }
            Err(error) => return Err(unwritable(&path, &error)),
        };
        // A link is followed: the file it leads to is replaced, not the link.
        let path = if replace {
            fs::canonicalize(&path).map_err(|error| unwritable(&path, &error))?
        } else {
            path
        };
        let destination = Self { path, replace };
        // Tried now, removed at once: after twenty seconds is too late to learn that the folder is read-only.
        drop(destination.temporary()?);
        Ok(destination)
    }

    /// Writes the report so that it appears whole or not at all, and gives its full path.
    pub(crate) fn write(self, content: &str) -> Result<PathBuf, Failure> {
        let mut file = self.temporary()?;
        file.write_all(content.as_bytes())
            .and_then(|()| file.as_file().sync_all())
            .map_err(|error| unwritable(&self.path, &error))?;
        if self.replace {
            file.persist(&self.path)
                .map_err(|error| unwritable(&self.path, &error.error))?;
        } else {
            // Whatever has appeared there during the measurements is not ours to replace.
            file.persist_noclobber(&self.path).map_err(|error| {
                if error.error.kind() == ErrorKind::AlreadyExists {
                    Failure::Input(format!(
                        "{} has appeared during the measurements; replace it with --force",
                        self.path.display()
                    ))
                } else {
                    unwritable(&self.path, &error.error)
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
            .map_err(|error| unwritable(&self.path, &error))
    }
}

fn a_folder(path: &Path) -> Failure {
    Failure::Input(format!(
        "{} is a folder; name a file with --output",
        path.display()
    ))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Input(format!(
        "cannot write {}: {error}; choose another file with --output",
        path.display()
    ))
}

/// Whether this command made the file. What cannot be read is somebody else's.
fn is_earlier_report(path: &Path) -> bool {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(HEAD).read_to_end(&mut head))
        .is_ok_and(|_| {
            head.windows(MARK.len())
                .any(|window| window == MARK.as_bytes())
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
        assert!(!is_earlier_report(&path));
        fs::write(&path, "<html>mine").expect("written");
        assert!(!is_earlier_report(&path));
        fs::write(&path, format!("<html>{MARK}")).expect("written");
        assert!(is_earlier_report(&path));
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
