//! Puts the catalogue's files into the crate, and says what it was built from.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("catalogue.rs"), catalogue(&root.join("catalogue")))
        .expect("cargo's folder can be written to");

    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let toolchain = said(Command::new(rustc).arg("--version"));
    println!(
        "cargo:rustc-env=PERCOLOG_TOOLCHAIN={}",
        toolchain.as_deref().unwrap_or("unknown compiler")
    );
    println!("cargo:rustc-env=PERCOLOG_COMMIT={}", commit(&root));
    println!("cargo:rerun-if-changed=build.rs");
}

/// A table of the files: group, name, content.
fn catalogue(folder: &Path) -> String {
    let mut table = String::from("&[\n");
    println!("cargo:rerun-if-changed={}", folder.display());
    for group in sorted(folder) {
        if !group.is_dir() {
            continue;
        }
        println!("cargo:rerun-if-changed={}", group.display());
        for file in sorted(&group) {
            if file.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let name = |path: &Path| {
                let stem = path.file_stem().unwrap_or_default();
                stem.to_string_lossy().into_owned()
            };
            writeln!(
                table,
                "    ({:?}, {:?}, include_str!({:?})),",
                name(&group),
                name(&file),
                file.display().to_string()
            )
            .expect("a String takes everything");
        }
    }
    table.push(']');
    table
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the catalogue can be read");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the catalogue can be read").path())
        .collect();
    paths.sort();
    paths
}

/// The commit, with a plus if files differ from it; `release` where there is no repository, as in an installed package.
fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| said(Command::new("git").arg("-C").arg(root).args(arguments));
    // A package that lies in somebody else's repository must not take that one's commit.
    let ours = git(&["ls-files", "--error-unmatch", "Cargo.toml"]).is_some();
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| ours) else {
        return "release".to_owned();
    };
    if let Some(folder) = git(&["rev-parse", "--git-common-dir"]) {
        let folder = root.join(folder);
        for file in ["HEAD", "packed-refs", "refs/heads"] {
            println!("cargo:rerun-if-changed={}", folder.join(file).display());
        }
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    match changed.as_deref() {
        Some("") => commit,
        _ => format!("{commit}+"),
    }
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
