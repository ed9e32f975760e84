//! Programs that a command starts: they are built with it and lie beside it.

use std::path::PathBuf;

use crate::failure::Failure;

/// Returns the path of the program `name` in the folder of the running program. `which` are the words by which `cargo build` builds both.
///
/// # Errors
/// It is not there; the line says how to build it.
pub fn beside(name: &str, which: &str) -> Result<PathBuf, Failure> {
    let running = std::env::current_exe()
        .map_err(|error| Failure::Work(format!("cannot find the running program: {error}")))?;
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let path = running.with_file_name(&file);
    if path.is_file() {
        return Ok(path);
    }
    let release = if cfg!(debug_assertions) {
        ""
    } else {
        " --release"
    };
    Err(Failure::Work(format!(
        "{} is missing; build it with `cargo build{release} {which}`",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_the_way_to_build_it() {
        let Err(Failure::Work(line)) = beside("no-such-program", "--package some") else {
            panic!("there is no such program");
        };
        assert!(
            line.contains("no-such-program") && line.contains("--package some"),
            "{line}"
        );
    }

    #[test]
    fn a_program_beside_the_running_one_is_found() {
        let running = std::env::current_exe().expect("this test runs");
        let name = running
            .file_name()
            .and_then(|name| name.to_str())
            .expect("it has a name");
        let name = name.trim_end_matches(std::env::consts::EXE_SUFFIX);
        assert_eq!(beside(name, "any").expect("it is there"), running);
    }
}
