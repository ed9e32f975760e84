//! Compiles the plugin that QEMU loads, so that it can travel inside the library.
//!
//! Cargo builds no shared library for a dependency, and `cargo install` copies none. The plugin therefore needs
//! nothing but the standard library, and is compiled here by the compiler that compiles everything else, always
//! optimized: an unoptimized simulator is of no use to anybody.

use std::env;
use std::path::PathBuf;
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=src/plugin_root.rs");
    println!("cargo::rerun-if-changed=src/maps.rs");
    println!("cargo::rerun-if-changed=src/plugin");
    println!("cargo::rerun-if-changed=src/model");
    println!("cargo::rustc-check-cfg=cfg(percolog_plugin)");
    println!("cargo::rustc-check-cfg=cfg(percolog_simulator)");

    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    // The plugin reads the registers of an x86-64 guest where QEMU keeps them on an x86-64 host.
    if target("ARCH") != "x86_64" || target("OS") != "linux" {
        return;
    }
    println!("cargo::rustc-cfg=percolog_simulator");

    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
        .join("percolog_plugin.so");
    // QEMU is the host's: whatever C library this crate is built for, the plugin is loaded by the distribution's QEMU.
    let mut compiler = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    compiler
        .args(["--edition", "2024", "--crate-name", "percolog_plugin"])
        .args(["--crate-type", "cdylib", "--cfg", "percolog_plugin"])
        .args(["-C", "opt-level=3", "-C", "codegen-units=1"])
        .args(["-C", "panic=abort", "-C", "strip=symbols"])
        .args(["--cap-lints", "warn", "-o"])
        .arg(&output)
        .arg("src/plugin_root.rs");
    match compiler.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("rustc could not compile the plugin ({status})")),
        Err(error) => fail(&format!("rustc could not be started: {error}")),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1)
}
