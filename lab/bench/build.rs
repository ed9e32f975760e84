//! Compiles the peers in C, where they are asked for.

fn main() {
    #[cfg(feature = "c-peers")]
    c_peers();
}

/// Those of liburcu and of Concurrency Kit, against the libraries of the system.
#[cfg(feature = "c-peers")]
fn c_peers() {
    const SOURCES: [&str; 4] = [
        "shim/urcu_memb.c",
        "shim/urcu_mb.c",
        "shim/ck_epoch.c",
        "shim/ck_locks.c",
    ];
    println!("cargo::rerun-if-changed=shim");
    let compiled = cc::Build::new()
        .files(SOURCES)
        // As a program in C would use them: with what their headers inline.
        .opt_level(2)
        .cargo_warnings(false)
        .try_compile("percolog_bench_peers");
    match compiled {
        Ok(()) => {
            for library in ["urcu-memb", "urcu-mb", "urcu-common", "ck"] {
                println!("cargo::rustc-link-lib={library}");
            }
        }
        Err(error) => {
            eprintln!("{error}");
            println!(
                "cargo::error=the feature `c-peers` needs liburcu and Concurrency Kit: apt-get install liburcu-dev libck-dev"
            );
        }
    }
}
