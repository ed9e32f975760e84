//! The programs that some steps need beside cargo and a C compiler, and how they come onto the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::toolchain;

/// A program that some step needs.
#[derive(Clone, Copy, Debug)]
struct Tool {
    /// Present if this file exists, or, without a slash, if the search path has a program of this name.
    sign: &'static str,
    /// Debian's package.
    package: &'static str,
}

/// Tells the files of the tree from what was built in it.
const GIT: Tool = Tool {
    sign: "git",
    package: "git",
};
/// Records what a program asks of the kernel, for traces.
const STRACE: Tool = Tool {
    sign: "strace",
    package: "strace",
};
/// Counts instructions.
const VALGRIND: Tool = Tool {
    sign: "valgrind",
    package: "valgrind",
};
/// Links programs for the other C library of Linux.
const MUSL: Tool = Tool {
    sign: "musl-gcc",
    package: "musl-tools",
};
/// Links programs for the other processor that has a fast clock, and runs them.
const AARCH64: [Tool; 3] = [
    Tool {
        sign: "aarch64-linux-gnu-gcc",
        package: "gcc-aarch64-linux-gnu",
    },
    Tool {
        sign: "/usr/aarch64-linux-gnu/lib/crt1.o",
        package: "libc6-dev-arm64-cross",
    },
    Tool {
        sign: "qemu-aarch64",
        package: "qemu-user",
    },
];
/// Runs programs for the simulator, which is a plugin of it.
const SIMULATOR: Tool = Tool {
    sign: "qemu-x86_64",
    package: "qemu-user",
};
/// Programs that the simulator's tests run because nobody here wrote them; without one of them its test skips itself.
const SIMULATED: [Tool; 5] = [
    Tool {
        sign: "xz",
        package: "xz-utils",
    },
    Tool {
        sign: "pigz",
        package: "pigz",
    },
    Tool {
        sign: "memcached",
        package: "memcached",
    },
    Tool {
        sign: "/usr/bin/python3",
        package: "python3-minimal",
    },
    Tool {
        sign: "make",
        package: "make",
    },
];
/// Libraries that the benchmarks compare with, and their headers.
const C_PEERS: [Tool; 2] = [
    Tool {
        sign: "/usr/include/ck_epoch.h",
        package: "libck-dev",
    },
    Tool {
        sign: "/usr/lib/x86_64-linux-gnu/liburcu-memb.so",
        package: "liburcu-dev",
    },
];
/// A compiler that comes with the sources of the standard library, for builds that must compile those too.
const SOURCES: [Tool; 3] = [
    Tool {
        sign: "/usr/bin/rustc",
        package: "rustc-web",
    },
    Tool {
        sign: "/usr/bin/cargo",
        package: "cargo-web",
    },
    Tool {
        sign: "/usr/lib/rustlib/src/rust/library/std/Cargo.toml",
        package: "rust-web-src",
    },
];

/// A machine without an operating system.
pub(crate) const BARE: &str = "x86_64-unknown-none";

/// What the library is built for beside the machines that it is tested on: 32 bits, and other systems.
pub(crate) const TARGETS: [&str; 4] = [
    "i686-unknown-linux-gnu",
    "armv7-unknown-linux-gnueabihf",
    "x86_64-pc-windows-msvc",
    "aarch64-apple-darwin",
];

/// What this machine has.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) valgrind: bool,
    pub(crate) musl_gcc: bool,
    pub(crate) aarch64: bool,
    pub(crate) simulator: bool,
    pub(crate) c_peers: bool,
}

impl Tools {
    /// Looks for the tools that every change needs, or all; `install` fetches the missing ones, otherwise the command that does so is
    /// printed.
    pub(crate) fn find(install: bool, full: bool) -> Result<Self> {
        let mut wanted = vec![GIT, STRACE, SIMULATOR];
        wanted.extend(SIMULATED);
        if full {
            wanted.extend([VALGRIND, MUSL]);
            wanted.extend(AARCH64);
            wanted.extend(C_PEERS);
        }
        let ready = TARGETS
            .iter()
            .chain(&[BARE])
            .all(|target| toolchain::has_standard_library(target));
        if (full || !ready) && toolchain::of_rustup_with_sources().is_none() {
            wanted.extend(SOURCES);
        }
        let mut missing: Vec<&str> = wanted
            .iter()
            .filter(|tool| !is_present(tool))
            .map(|tool| tool.package)
            .collect();
        // Some packages bring several programs.
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            if install {
                install_packages(&missing)?;
            } else {
                println!(
                    "missing: {}; some steps will be skipped. To install them, add --install",
                    missing.join(" ")
                );
            }
        }
        Ok(Self {
            valgrind: is_present(&VALGRIND),
            musl_gcc: is_present(&MUSL),
            aarch64: AARCH64.iter().all(is_present),
            simulator: is_present(&SIMULATOR),
            c_peers: C_PEERS.iter().all(is_present),
        })
    }
}

fn is_present(tool: &Tool) -> bool {
    if tool.sign.contains('/') {
        Path::new(tool.sign).exists()
    } else {
        on_path(tool.sign).is_some()
    }
}

/// The file that the shell would start for `program`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Installs packages through apt. A machine without apt, or on which we may not use it, is not an error: the steps that need
/// the packages are then skipped and counted.
fn install_packages(packages: &[&str]) -> Result<()> {
    if on_path("apt-get").is_none() {
        println!(
            "missing: {}; there is no apt here to install them with, so some steps will be skipped",
            packages.join(" ")
        );
        return Ok(());
    }
    println!("── install {}", packages.join(" "));
    let root = is_root()?;
    if !root && on_path("sudo").is_none() {
        println!(
            "   neither root nor sudo; as root, run: apt-get update && apt-get install -y {}",
            packages.join(" ")
        );
        return Ok(());
    }
    // Another apt may be at work on the same machine: wait for it rather than fail.
    let common = ["-q", "-o", "DPkg::Lock::Timeout=300"];
    let update = apt(root)
        .args(common)
        .arg("update")
        .status()
        .context("starting apt-get")?;
    if !update.success() {
        println!("   `apt-get update` failed ({update}); going on with the lists that are here");
    }
    // One package after another: one that this distribution does not have must not keep the others away.
    for package in packages {
        let install = apt(root)
            .args(common)
            .args(["install", "-y", "--no-install-recommends", package])
            .status();
        let install = install.context("starting apt-get")?;
        if !install.success() {
            println!(
                "   {package} could not be installed ({install}); the steps that need it will be skipped"
            );
        }
    }
    Ok(())
}

fn apt(root: bool) -> Command {
    let mut command = if root {
        Command::new("apt-get")
    } else {
        let mut command = Command::new("sudo");
        command.args(["-n", "apt-get"]);
        command
    };
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(std::process::Stdio::null());
    command
}

fn is_root() -> Result<bool> {
    let output = Command::new("id")
        .arg("-u")
        .output()
        .context("running `id -u`")?;
    if !output.status.success() {
        bail!(
            "`id -u` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        assert!(on_path("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(on_path("no-program-has-this-name"), None);
    }
}
