//! Finds QEMU and asks it for its version.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::SimulationError;
use super::program;

/// The processors whose programs can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processor {
    /// x86-64.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Processor {
    /// What the QEMU that emulates it is called.
    pub(super) fn qemu(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-x86_64",
            Self::Aarch64 => "qemu-aarch64",
        }
    }

    /// The variable that names another one.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::X86_64 => "PERCOLOG_QEMU",
            Self::Aarch64 => "PERCOLOG_QEMU_AARCH64",
        }
    }

    /// The versions with which all tests of the simulator have passed. The first is the one with which they are run always.
    pub(super) fn proved(self) -> &'static [&'static str] {
        match self {
            Self::X86_64 => &["7.2", "10.0"],
            Self::Aarch64 => &["7.2"],
        }
    }

    /// What QEMU is told of the processor to emulate. The simulator does not know the instructions for scalable vectors and
    /// matrices; addresses are checked by a fast method that is as good as any other.
    pub(super) fn options(self) -> &'static [&'static str] {
        match self {
            Self::X86_64 => &[],
            Self::Aarch64 => &["-cpu", "max,sve=off,sme=off,pauth-impdef=on"],
        }
    }

    /// Where the libraries of programs for it are, on a host that has them besides its own.
    pub(super) fn libraries(self) -> Option<PathBuf> {
        match self {
            Self::X86_64 => None,
            Self::Aarch64 => {
                let named = std::env::var_os("QEMU_LD_PREFIX").filter(|named| !named.is_empty());
                let found =
                    named.map_or_else(|| PathBuf::from("/usr/aarch64-linux-gnu"), PathBuf::from);
                found.is_dir().then_some(found)
            }
        }
    }
}

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
/// When the host is not x86-64 Linux, or QEMU is missing, was built without plugins, or is of another version than the
/// plugin is proved with.
pub fn available() -> Result<(), SimulationError> {
    find(Processor::X86_64).map(|_| ())
}

/// The same for programs for 64-bit ARM, which another QEMU runs.
///
/// # Errors
///
/// As those of [`available`].
pub fn available_for_aarch64() -> Result<(), SimulationError> {
    find(Processor::Aarch64).map(|_| ())
}

/// The program that `PERCOLOG_QEMU` (`PERCOLOG_QEMU_AARCH64`) names, or `qemu-x86_64` (`qemu-aarch64`) in `PATH`.
pub(super) fn find(processor: Processor) -> Result<Qemu, SimulationError> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return Err(SimulationError::Host(if cfg!(target_os = "linux") {
            std::env::consts::ARCH
        } else {
            std::env::consts::OS
        }));
    }
    let named = std::env::var_os(processor.variable()).filter(|named| !named.is_empty());
    let path = locate(processor, named, std::env::var_os("PATH").as_deref())?;
    let unproved = std::env::var_os("PERCOLOG_QEMU_UNPROVED").is_some_and(|set| set == "1");
    ask(processor, path, unproved)
}

fn locate(
    processor: Processor,
    named: Option<OsString>,
    path: Option<&OsStr>,
) -> Result<PathBuf, SimulationError> {
    let named = named.unwrap_or_else(|| processor.qemu().into());
    let found = if Path::new(&named).components().count() > 1 {
        Some(PathBuf::from(&named)).filter(|named| named.is_file())
    } else {
        program::in_path(&named, path)
    };
    let found = found.ok_or_else(|| SimulationError::NoQemu {
        path: PathBuf::from(named),
        variable: processor.variable(),
    })?;
    // The plugin starts it again for the programs that the guest executes, from wherever the guest is then.
    Ok(std::path::absolute(&found).unwrap_or(found))
}

fn ask(processor: Processor, path: PathBuf, unproved: bool) -> Result<Qemu, SimulationError> {
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
        .strip_prefix(processor.qemu())
        .and_then(|rest| rest.strip_prefix(" version "))
        .and_then(|rest| rest.split_whitespace().next());
    let Some(version) = version else {
        return Err(SimulationError::NotQemu {
            path,
            said: line.to_owned(),
            expected: processor.qemu(),
            variable: processor.variable(),
        });
    };
    if !unproved && !is_proved(processor, version) {
        return Err(SimulationError::QemuVersion {
            path,
            found: version.to_owned(),
            proved: processor.proved(),
            variable: processor.variable(),
        });
    }
    // Version 7.2 is Debian's, which has them, and the question would cost as much as a short program.
    if !is(version, processor.proved()[0]) && !has_plugins(&path) {
        return Err(SimulationError::QemuWithoutPlugins {
            path,
            found: version.to_owned(),
            variable: processor.variable(),
        });
    }
    Ok(Qemu {
        version: version.to_owned(),
        path,
    })
}

fn is_proved(processor: Processor, version: &str) -> bool {
    let mut proved = processor.proved().iter();
    proved.any(|proved| is(version, proved))
}

/// Whether `version` is `release` or one of its corrections.
fn is(version: &str, release: &str) -> bool {
    version
        .strip_prefix(release)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether QEMU has an option to load plugins. If it does not answer, it will say what is wrong when it is used.
fn has_plugins(path: &Path) -> bool {
    let said = Command::new(path)
        .arg("--help")
        .stdin(Stdio::null())
        .output();
    said.map_or(true, |said| {
        String::from_utf8_lossy(&said.stdout).contains("-plugin")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_proved_versions_are_taken() {
        for (version, proved) in [
            ("7.2.22", true),
            ("7.2", true),
            ("7.20.1", false),
            ("10.0.13", true),
            ("8.2.0", false),
            ("10.1.0", false),
            ("7.1.9", false),
        ] {
            assert_eq!(is_proved(Processor::X86_64, version), proved, "{version}");
        }
    }

    #[test]
    fn a_missing_qemu_names_the_package() {
        let error = locate(Processor::X86_64, None, Some(OsStr::new("/nonexistent")))
            .expect_err("nothing is there");
        assert!(error.to_string().contains("`qemu-user`"), "{error}");
        let error = locate(Processor::X86_64, Some("/nonexistent/qemu".into()), None)
            .expect_err("nothing is there either");
        assert!(
            error.to_string().starts_with("/nonexistent/qemu"),
            "{error}"
        );
    }

    #[test]
    fn another_processor_has_a_qemu_of_its_own() {
        let error = locate(Processor::Aarch64, None, Some(OsStr::new("/nonexistent")))
            .expect_err("nothing is there");
        let error = error.to_string();
        assert!(error.starts_with("qemu-aarch64 is not here"), "{error}");
        assert!(error.ends_with("PERCOLOG_QEMU_AARCH64"), "{error}");
        assert!(
            is_proved(Processor::Aarch64, "7.2.22") && !is_proved(Processor::Aarch64, "10.0.0")
        );
    }

    #[test]
    fn a_qemu_without_plugins_is_told_from_one_with_them() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, options, expected) in [("with", "-plugin  ", true), ("without", "", false)] {
            let path = folder.path().join(name);
            let text = format!(
                "#!/bin/sh\n[ \"$1\" = --version ] && echo qemu-x86_64 version 10.0.9 || echo '-h {options}'\n"
            );
            std::fs::write(&path, text).expect("the folder can be written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
                .expect("its mode");
            match ask(Processor::X86_64, path, false) {
                Ok(found) => assert!(expected && found.version == "10.0.9"),
                Err(error) => {
                    assert!(!expected, "{error}");
                    assert!(error.to_string().contains("without plugins"), "{error}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_qemu_is_refused() {
        let error = ask(Processor::X86_64, PathBuf::from("/bin/true"), true)
            .expect_err("true says nothing");
        assert!(matches!(error, SimulationError::NotQemu { .. }), "{error}");
    }
}
