//! `cargo xtask tutorial`: runs the tutorial's program on machines of many sizes, and cuts the pictures for `docs/tutorial.md` out of
//! the pages that percolog makes.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// The program's states, in the order of the tutorial, and the pictures of each that it shows.
const STEPS: [(&str, &[&str]); 3] = [
    ("shared", &["curve", "bytes"]),
    ("borrowed", &["curve", "bytes"]),
    ("apart", &["curve"]),
];
/// The sizes of machines.
const SIZES: &str = "1,2,4,6,12,24,48";
/// The longest that a command may take.
const LIMIT: Duration = Duration::from_secs(900);

/// Makes the pictures, and prints the reports that go with them.
pub(crate) fn command(workspace: &Workspace) -> Result<bool> {
    let folder = workspace.target.join("tutorial");
    let pictures = workspace.root.join("docs").join("tutorial");
    for folder in [&folder, &pictures] {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    // The reports show where the source lies: here it is nowhere in particular.
    let hidden = format!("--remap-path-prefix={}=.", workspace.root.display());
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(&workspace.root);
        run(&mut command)
    };
    cargo(&["build", "--package", "percolog-cli"])?;
    cargo(&[
        "rustc",
        "--release",
        "--package",
        "percolog-roi",
        "--example",
        "tutorial",
        "--",
        &hidden,
    ])?;
    let built = workspace.target.join("release/examples/tutorial");
    fs::copy(&built, folder.join("tutorial")).context("copying the program")?;
    let percolog = workspace.target.join("debug/percolog");
    for (step, wanted) in STEPS {
        let mut command = Command::new(&percolog);
        command
            .args([
                "sim",
                "--sweep",
                SIZES,
                "--html",
                "page.html",
                "--",
                "./tutorial",
                step,
            ])
            .current_dir(&folder);
        println!("{}", run(&mut command)?);
        let page = fs::read_to_string(folder.join("page.html")).context("reading the page")?;
        for kind in wanted {
            let picture = cut(&page, kind)
                .with_context(|| format!("the page of `{step}` has no picture `{kind}`"))?;
            let path = pictures.join(format!("{step}-{kind}.svg"));
            fs::write(&path, picture).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(true)
}

fn run(command: &mut Command) -> Result<String> {
    let outcome = process::run(process::clean(command), LIMIT, None, false)?;
    if !outcome.success() {
        bail!(
            "`{}` failed:\n{}",
            process::display(command),
            outcome.output
        );
    }
    Ok(outcome.output)
}

/// The first picture of a kind, with the page's colours, as a file of its own.
fn cut(page: &str, kind: &str) -> Option<String> {
    let between = |from: &str, to: &str| {
        let begin = page.find(from)?;
        let end = page[begin..].find(to)? + to.len();
        Some(&page[begin..begin + end])
    };
    let style = between("<style>", "</style>")?;
    let picture = between(&format!("<svg class=\"{kind}\""), "</svg>")?;
    let (head, body) = picture.split_once('>')?;
    let font =
        "<style>svg { font-family: system-ui, sans-serif; background: var(--sheet); }</style>";
    Some(format!(
        "{head} xmlns=\"http://www.w3.org/2000/svg\">{style}{font}{body}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_cut_out_with_its_colours() {
        let page = "<style>a{}</style><p><svg class=\"curve\" width=\"1\"><path/></svg><svg class=\"heat\"></svg>";
        let picture = cut(page, "curve").unwrap();
        assert!(picture.starts_with("<svg class=\"curve\" width=\"1\" xmlns="));
        assert!(picture.contains("<style>a{}</style>"));
        assert!(picture.ends_with("<path/></svg>\n"));
        assert_eq!(cut(page, "bytes"), None);
    }
}
