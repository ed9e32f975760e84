//! Finds QEMU and asks it for its version.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::SimulationError;
use super::program;

const NAME: &str = "qemu-x86_64";

/// The version with which the plugin's way to the guest's registers has been proved.
const PROVED: &str = "7.2";

/// A QEMU that may be used.
#[derive(Clone, Debug)]
pub(super) struct Qemu {
    pub(super) path: PathBuf,
    /// What it says it is: `7.2.22`.
    pub(super) version: String,
}

/// Whether programs can be simulated on this machine: `Err` says what is missing.
///
/// # Errors
///
/// When the host is not x86-64 Linux, or QEMU is missing or of another version than the plugin is proved with.
pub fn available() -> Result<(), SimulationError> {
    find().map(|_| ())
}

/// The program that `PERCOLOG_QEMU` names, or `qemu-x86_64` in `PATH`.
pub(super) fn find() -> Result<Qemu, SimulationError> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return Err(SimulationError::Host(if cfg!(target_os = "linux") {
            std::env::consts::ARCH
        } else {
            std::env::consts::OS
        }));
    }
    let named = std::env::var_os("PERCOLOG_QEMU").filter(|named| !named.is_empty());
    let path = locate(named, std::env::var_os("PATH").as_deref())?;
    let unproved = std::env::var_os("PERCOLOG_QEMU_UNPROVED").is_some_and(|set| set == "1");
    ask(path, unproved)
}

fn locate(named: Option<OsString>, path: Option<&OsStr>) -> Result<PathBuf, SimulationError> {
    let named = named.unwrap_or_else(|| NAME.into());
    let found = if Path::new(&named).components().count() > 1 {
        Some(PathBuf::from(&named)).filter(|named| named.is_file())
    } else {
        program::in_path(&named, path)
    };
    let found = found.ok_or_else(|| SimulationError::NoQemu(PathBuf::from(named)))?;
    // The plugin starts it again for the programs that the guest executes, from wherever the guest is then.
    Ok(std::path::absolute(&found).unwrap_or(found))
}

fn ask(path: PathBuf, unproved: bool) -> Result<Qemu, SimulationError> {
    let said = Command::new(&path)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| SimulationError::Start {
            path: path.clone(),
            source,
        })?;
    let said = String::from_utf8_lossy(&said.stdout);
    let line = said.lines().next().unwrap_or_default();
    let version = line
        .strip_prefix("qemu-x86_64 version ")
        .and_then(|rest| rest.split_whitespace().next());
    let Some(version) = version else {
        return Err(SimulationError::NotQemu {
            path,
            said: line.to_owned(),
        });
    };
    if !unproved && !is_proved(version) {
        return Err(SimulationError::QemuVersion {
            path,
            found: version.to_owned(),
        });
    }
    Ok(Qemu {
        version: version.to_owned(),
        path,
    })
}

fn is_proved(version: &str) -> bool {
    version
        .strip_prefix(PROVED)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_proved_version_is_taken() {
        for (version, proved) in [
            ("7.2.22", true),
            ("7.2", true),
            ("7.20.1", false),
            ("8.2.0", false),
            ("7.1.9", false),
        ] {
            assert_eq!(is_proved(version), proved, "{version}");
        }
    }

    #[test]
    fn a_missing_qemu_names_the_package() {
        let error = locate(None, Some(OsStr::new("/nonexistent"))).expect_err("nothing is there");
        assert!(error.to_string().contains("`qemu-user`"), "{error}");
        let error =
            locate(Some("/nonexistent/qemu".into()), None).expect_err("nothing is there either");
        assert!(
            error.to_string().starts_with("/nonexistent/qemu"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_qemu_is_refused() {
        let error = ask(PathBuf::from("/bin/true"), true).expect_err("true says nothing");
        assert!(matches!(error, SimulationError::NotQemu { .. }), "{error}");
    }
}
