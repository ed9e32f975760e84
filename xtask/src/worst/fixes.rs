//! Bugs of real projects that were really fixed, each as a small program that is both: as it was, and as it was mended.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::ground::{Ground, Guest};
use super::kept::Confirmed;
use super::pairs::speed;
use super::{measure, page};

/// A program of `percolog-sim/validation/fixes`.
pub(super) struct Fix {
    /// What it is called in the results.
    pub(super) name: &'static str,
    /// The line.
    pub(super) what: &'static str,
    /// What was done about it, with where that is said.
    pub(super) cure: &'static str,
    /// Its file.
    file: &'static str,
    /// What it is linked with, and Debian's package of that.
    library: Option<(&'static str, &'static str)>,
    /// How often each thread does it, in the simulator.
    rounds: u32,
}

/// All of them, in the order of the page.
pub(super) const FIXES: [Fix; 12] = [
    Fix {
        name: "random",
        what: "glibc (C): the lock of `random`",
        cure: "[`random_r`](https://man7.org/linux/man-pages/man3/random_r.3.html), with a state for each thread",
        file: "random.c",
        library: None,
        rounds: 100,
    },
    Fix {
        name: "malloc",
        what: "glibc (C): the lock of its one heap",
        cure: "[arenas](https://sourceware.org/glibc/wiki/MallocInternals), since version 2.10",
        file: "malloc.c",
        library: None,
        rounds: 40,
    },
    Fix {
        name: "localtime",
        what: "glibc (C): the lock of time zones in `localtime_r`",
        cure: "[Redis' `nolocks_localtime`](https://github.com/redis/redis/blob/unstable/src/localtime.c)",
        file: "localtime.c",
        library: None,
        rounds: 60,
    },
    Fix {
        name: "stdio",
        what: "glibc (C): the lock of a log's `FILE`",
        cure: "a log for each thread",
        file: "stdio.c",
        library: None,
        rounds: 60,
    },
    Fix {
        name: "sqlite",
        what: "SQLite (C): the lock of its memory statistics",
        cure: "[`SQLITE_CONFIG_MEMSTATUS`](https://www.sqlite.org/c3ref/c_config_covering_index_scan.html) off",
        file: "sqlite.c",
        library: Some(("-lsqlite3", "libsqlite3-dev")),
        rounds: 60,
    },
    Fix {
        name: "openssl",
        what: "OpenSSL 3.0 (C): looking up a digest for each use",
        cure: "[`EVP_MD_fetch`](https://docs.openssl.org/3.0/man7/crypto/#performance) once",
        file: "openssl.c",
        library: Some(("-lcrypto", "libssl-dev")),
        rounds: 60,
    },
    Fix {
        name: "counters",
        what: "coturn (C): the lock of the counters of sessions and bytes",
        cure: "counters for each thread",
        file: "counters.c",
        library: None,
        rounds: 100,
    },
    Fix {
        name: "rwlock",
        what: "pthreads (C): a lock for readers",
        cure: "reading without, as with [RCU](https://liburcu.org)",
        file: "rwlock.c",
        library: None,
        rounds: 100,
    },
    Fix {
        name: "shared-ptr",
        what: "libstdc++ (C++): the reference count of a `shared_ptr` that is handed on by value",
        cure: "[by reference](https://isocpp.github.io/CppCoreGuidelines/CppCoreGuidelines#Rr-smart)",
        file: "shared_ptr.cc",
        library: None,
        rounds: 200,
    },
    Fix {
        name: "padding",
        what: "InnoDB (C++): counters of several threads in one line",
        cure: "[padded](https://dev.mysql.com/doc/dev/mysql-server/latest/ut0counter_8h.html), each in lines of its own",
        file: "padding.c",
        library: None,
        rounds: 200,
    },
    Fix {
        name: "atomics",
        what: "RocksDB (C++): statistics that all threads add to",
        cure: "[a copy for each core](https://github.com/facebook/rocksdb/blob/main/monitoring/statistics_impl.h)",
        file: "atomics.c",
        library: None,
        rounds: 200,
    },
    Fix {
        name: "cache",
        what: "encoding/json (Go): the lock for readers of its cache of types",
        cure: "[`sync.Map`](https://go.dev/doc/go1.9#sync-map), since Go 1.9",
        file: "cache",
        library: None,
        rounds: 60,
    },
];

impl Fix {
    /// What is looked at: not how the threads come to be.
    fn repeats(&self) -> &'static str {
        if self.file.contains('.') {
            "repeat"
        } else {
            "main.repeat"
        }
    }
}

/// Simulated cores.
const CORES: u64 = 48;
/// Threads, rounds and repetitions of the measurement.
const THREADS: &str = "2";
const ROUNDS: u32 = 2_000;
const TIMES: usize = 9;

/// Compiles it, simulates both, measures both, and says what came of it.
pub(super) fn run(ground: &Ground, fix: &Fix) -> Result<Confirmed> {
    let program = compile(ground, fix)?;
    let guest = |mended| {
        let (cores, rounds) = (CORES.to_string(), fix.rounds.to_string());
        Guest::of(&[&program, &cores, &rounds, mended])
    };
    let region = ["--roi-fn", fix.repeats()];
    let before = measure(ground, CORES, guest("0"), &region)?.report;
    let after = measure(
        ground,
        CORES,
        guest("1"),
        &[&region[..], &["--no-what-if"]].concat(),
    )?
    .report;
    let foretold = page::gain(&before["lines"][0]).context("the worst line has no what-if")?;
    let rounds = (fix.rounds * ROUNDS).to_string();
    let mut ratios = Vec::new();
    for _ in 0..TIMES {
        let time = |mended| seconds(ground, &[&program, THREADS, &rounds, mended]);
        ratios.push(time("0")? / time("1")?);
    }
    ratios.sort_by(f64::total_cmp);
    Ok(Confirmed {
        foretold,
        really: speed(&after)? / speed(&before)?,
        measured: Some(ratios[TIMES / 2]),
    })
}

fn compile(ground: &Ground, fix: &Fix) -> Result<String> {
    let source = Path::new("percolog-sim/validation/fixes").join(fix.file);
    if source.extension().is_none() {
        ground.needs("go", "golang")?;
        let output = ground.path(fix.name).display().to_string();
        let command = ["go", "build", "-trimpath", "-o", &output, "."];
        ground.run(&ground.source(&source), &command)?;
        return Ok(format!("./{}", fix.name));
    }
    let (compiler, package) = match source.extension().and_then(|extension| extension.to_str()) {
        Some("cc") => ("c++", "g++"),
        _ => ("cc", "gcc"),
    };
    ground.needs(compiler, package)?;
    let (source, output) = (ground.source(&source), ground.path(fix.name));
    let (source, output) = (source.display().to_string(), output.display().to_string());
    let mut command = vec![compiler, "-O2", "-g", "-pthread", "-o", &output, &source];
    command.extend(fix.library.map(|(library, _)| library));
    let compiled = ground.run(&ground.folder, &command);
    match fix.library {
        Some((_, package)) => {
            compiled.with_context(|| format!("is {package} missing? apt-get install {package}"))
        }
        None => compiled,
    }?;
    Ok(format!("./{}", fix.name))
}

/// How long a program takes on this machine.
fn seconds(ground: &Ground, command: &[&str]) -> Result<f64> {
    let begin = Instant::now();
    let status = Command::new(command[0])
        .args(&command[1..])
        .current_dir(&ground.folder)
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", command[0]))?;
    if !status.success() {
        bail!("{}: {status}", command.join(" "));
    }
    Ok(begin.elapsed().as_secs_f64())
}
