//! What must not compile does not, and for the right reason.
//!
//! Each file of `tests/ui` is its own twin: as it stands it compiles, and with the feature `wrong` it
//! fails with the error code that its first line names. Codes are looked at, not texts: texts change
//! with every compiler.
#![cfg(not(percolog_loom))]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// The cases, by name, and the error that each must fail with.
fn cases(folder: &Path) -> Vec<(String, PathBuf, String)> {
    let mut cases: Vec<_> = fs::read_dir(folder)
        .expect("the cases lie there")
        .map(|entry| {
            let path = entry.expect("the folder can be read").path();
            let name = path.file_stem().expect("a file has a name");
            let text = fs::read_to_string(&path).expect("a case is text");
            let code = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("// error: "))
                .unwrap_or_else(|| panic!("{} names no error", path.display()));
            let name = name.to_str().expect("names are plain").to_owned();
            (name, path, code.to_owned())
        })
        .collect();
    cases.sort();
    cases
}

/// A package of its own with all cases as programs.
fn package(folder: &Path, cases: &[(String, PathBuf, String)]) {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut manifest = format!(
        "[package]\nname = \"cases\"\nedition = \"2024\"\n\n[features]\nwrong = []\n\n[workspace]\n\n\
         [dependencies]\npercolog = {{ path = {library:?} }}\n\n[profile.dev]\ndebug = false\n"
    );
    for (name, path, _) in cases {
        write!(manifest, "\n[[bin]]\nname = {name:?}\npath = {path:?}\n")
            .expect("strings can be written to");
    }
    fs::create_dir_all(folder).expect("the build's folder can be written to");
    fs::write(folder.join("Cargo.toml"), manifest).expect("the build's folder can be written to");
    // The versions that are here already.
    let locks = [library.join("../Cargo.lock"), library.join("Cargo.lock")];
    if let Some(lock) = locks.iter().find(|lock| lock.exists()) {
        fs::copy(lock, folder.join("Cargo.lock")).expect("the build's folder can be written to");
    }
}

fn build(cargo: &str, folder: &Path, arguments: &[&str]) -> Output {
    // Not `check`: some errors come up only when code is generated.
    Command::new(cargo)
        .args(["build", "--quiet", "--offline"])
        .args(arguments)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        // Flags of this build (sanitizers, other targets) are nothing to these.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .expect("cargo can be started")
}

#[test]
fn wrong_programs_fail_and_their_twins_compile() {
    let Ok(cargo) = env::var("CARGO") else {
        // Past the harness, which hides what a passing test prints.
        writeln!(
            std::io::stderr(),
            "SKIPPED: wrong_programs_fail_and_their_twins_compile: not run by cargo: cargo test"
        )
        .expect("there is somebody to tell");
        return;
    };
    let cases = cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui"));
    assert!(!cases.is_empty());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_errors");
    package(&folder, &cases);

    let twins = build(&cargo, &folder, &["--bins"]);
    let text = String::from_utf8_lossy(&twins.stderr);
    assert!(twins.status.success(), "the twins do not compile:\n{text}");

    // All at once, on all processors: each message says which program it is of.
    let wrong = build(
        &cargo,
        &folder,
        &[
            "--bins",
            "--features",
            "wrong",
            "--keep-going",
            "--message-format=json",
        ],
    );
    let messages = String::from_utf8_lossy(&wrong.stdout);
    let errors: Vec<(&str, &str)> = messages.lines().filter_map(error).collect();
    for (name, _, expected) in &cases {
        let of_this = errors.iter().filter(|(program, _)| program == name);
        let codes: BTreeSet<&str> = of_this.map(|(_, code)| *code).collect();
        assert_eq!(
            codes,
            BTreeSet::from([expected.as_str()]),
            "{name} compiles, or fails for another reason:\n{messages}"
        );
    }
}

/// The program that a line of cargo's output is an error of, and the error's code.
fn error(line: &str) -> Option<(&str, &str)> {
    let value = |text, key: &str| -> Option<&str> {
        let (_, rest): (&str, &str) = str::split_once(text, key)?;
        rest.split_once('"').map(|(value, _)| value)
    };
    // In texts quotation marks have a backslash.
    let (target, message) = line.split_once(r#""message":{"#)?;
    let (_, target) = target.split_once(r#""target":{"#)?;
    if !message.contains(r#""level":"error""#) {
        return None;
    }
    let code = value(message, r#""code":{"code":""#)?;
    Some((value(target, r#""name":""#)?, code))
}
