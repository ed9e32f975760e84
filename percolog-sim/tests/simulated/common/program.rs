//! Programs that are compiled for a test.

use crate::common::skip::{is_here, skip};
use percolog_sim::run::available;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// One of them, in a folder that goes away with it.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    _folder: TempDir,
}

impl Program {
    /// Compiles a program in C of `tests/guests` that is to be simulated; nothing where either is not possible.
    #[track_caller]
    pub(crate) fn guest(source: &str) -> Option<Program> {
        if !is_here(available()) {
            return None;
        }
        Program::compile(&format!("tests/guests/{source}"), |_| {
            let mut compiler = Command::new("cc");
            compiler.args(["-O1", "-pthread"]);
            compiler
        })
    }

    /// Compiles this file of the package. `compiler` is started with `-o`, the program and the source behind its own arguments; it is
    /// told the folder. Where it is not here, the test is skipped.
    #[track_caller]
    pub(crate) fn compile(
        source: &str,
        compiler: impl FnOnce(&Path) -> Command,
    ) -> Option<Program> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder
            .path()
            .join(source.file_stem().expect("sources have names"));
        let mut compiler = compiler(folder.path());
        match compiler.arg("-o").args([&path, &source]).output() {
            Ok(output) => assert!(
                output.status.success(),
                "{}: {}",
                source.display(),
                String::from_utf8_lossy(&output.stderr)
            ),
            Err(error) => {
                skip(&format!("{}: {error}", compiler.get_program().display()));
                return None;
            }
        }
        Some(Program {
            path,
            _folder: folder,
        })
    }
}
