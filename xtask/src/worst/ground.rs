//! Where the programs are built and run, and what they need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::tools::on_path;
use crate::workspace::Workspace;

/// The longest that anything may take to be built.
const LIMIT: Duration = Duration::from_secs(900);

/// A folder for the programs, and the commands they are made and run with.
pub(crate) struct Ground {
    /// Everything that is made lies in it.
    pub(crate) folder: PathBuf,
    /// The command, built from this workspace.
    pub(crate) percolog: PathBuf,
    /// What says how much memory a program took, if it is here.
    pub(crate) time: Option<PathBuf>,
    /// What is not shown of paths, and what stands for it; the longest first.
    hidden: Vec<(String, &'static str)>,
    root: PathBuf,
    target: PathBuf,
}

/// A program that is ready to be simulated.
#[derive(Default)]
pub(crate) struct Guest {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// What it finds in its environment besides.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// What talks to it meanwhile, and ends it.
    pub(crate) client: Option<Box<dyn FnOnce() -> Result<()> + Send>>,
}

impl Guest {
    /// A program that needs nobody.
    pub(crate) fn of(command: &[&str]) -> Self {
        Self {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            ..Self::default()
        }
    }
}

impl Ground {
    /// Makes the folder, and builds the command.
    pub(crate) fn new(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.target.join("worst-lines");
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let mut hidden = vec![
            (format!("{}/", folder.display()), ""),
            (format!("{}/", workspace.root.display()), ""),
        ];
        if let Some(home) = std::env::var_os("HOME") {
            hidden.push((format!("{}/", home.display()), "~/"));
        }
        let ground = Self {
            percolog: workspace.target.join("debug").join("percolog"),
            time: on_path("time"),
            hidden,
            root: workspace.root.clone(),
            target: workspace.target.clone(),
            folder,
        };
        on_path("qemu-x86_64").context("qemu-x86_64 is missing: apt-get install qemu-user")?;
        ground.cargo(&["build", "--package", "percolog-cli"])?;
        Ok(ground)
    }

    /// A file of the workspace.
    pub(crate) fn source(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    /// A file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The text without the paths of this machine.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let text = self
            .hidden
            .iter()
            .fold(text.to_owned(), |text, (path, instead)| {
                text.replace(path, instead)
            });
        // Where a program was built that came from elsewhere.
        let mut parts = text.split("/tmp/");
        let mut clean = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            clean.push_str(part.split_once('/').map_or(part, |(_, rest)| rest));
        }
        clean
    }

    /// Looks whether a program is here, and says what to install if not.
    pub(crate) fn needs(&self, program: &str, package: &str) -> Result<PathBuf> {
        on_path(program).with_context(|| format!("{program} is missing: apt-get install {package}"))
    }

    /// Runs a command in a folder.
    pub(crate) fn run(&self, folder: &Path, words: &[&str]) -> Result<String> {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(folder);
        let outcome = process::run(process::clean(&mut command), LIMIT, None, false)?;
        if !outcome.success() {
            bail!(
                "`{}` failed: {}",
                words.join(" "),
                super::tail(&outcome.output)
            );
        }
        Ok(outcome.output)
    }

    /// Runs cargo in the workspace.
    fn cargo(&self, words: &[&str]) -> Result<()> {
        let mut all = vec!["cargo"];
        all.extend(words);
        self.run(&self.root, &all).map(drop)
    }

    /// A crate's driver: one of `percolog-bench`'s guests, in a build without the paths of this machine.
    pub(crate) fn bench(&self, name: &str) -> Result<Guest> {
        let hidden = format!("--remap-path-prefix={}=.", self.root.display());
        let target = format!("--target-dir={}", self.target.display());
        self.cargo(&[
            "rustc",
            "--manifest-path",
            "lab/Cargo.toml",
            &target,
            "--release",
            "--package",
            "percolog-bench",
            "--example",
            "guests",
            "--",
            &hidden,
        ])?;
        let built = self.target.join("release/examples/guests");
        let here = self.path("guests");
        fs::copy(&built, &here).with_context(|| format!("copying {}", built.display()))?;
        Ok(Guest::of(&["./guests", name]))
    }

    /// A file of `size` bytes that compresses as text does, the same each time.
    pub(crate) fn text(&self, name: &str, size: usize) -> Result<()> {
        const WORDS: [&str; 16] = [
            "line", "cache", "the", "of", "a", "core", "waits", "for", "reads", "writes", "and",
            "then", "lock", "page", "more", "who",
        ];
        let mut text = String::with_capacity(size + 64);
        let mut state = 1_u64;
        while text.len() < size {
            // Knuth's generator: the high bits are good enough for words.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(WORDS[(state >> 60) as usize]);
            let end = if (state >> 40).is_multiple_of(9) {
                '\n'
            } else {
                ' '
            };
            text.push(end);
            if (state >> 50).is_multiple_of(5) {
                text.push_str(&(state >> 44).to_string());
            }
        }
        text.truncate(size);
        fs::write(self.path(name), text).with_context(|| format!("writing {name}"))
    }
}
