//! The ten programs: how each is made and run, what is known to be in its way, and what its report says.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};

use super::ground::{Ground, Guest};
use super::memcached;

/// A program that nobody here wrote.
pub(crate) struct Program {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// What it is called on the page.
    pub(crate) title: &'static str,
    /// The cores of the machine that it is simulated on.
    pub(crate) cores: u64,
    /// What is known to be in its way.
    pub(crate) known: &'static str,
    /// Who says so.
    pub(crate) source: &'static str,
    /// What the report has to name, if the two are to agree.
    pub(crate) expected: Expected,
    /// What the report says, in a sentence or two.
    pub(crate) story: &'static str,
    /// Makes what is to be simulated.
    pub(crate) guest: fn(&Ground) -> Result<Guest>,
}

/// What a report has to name.
pub(crate) enum Expected {
    /// One of these, in one of its three worst lines.
    One(&'static [&'static str]),
    /// No line that costs more than a twentieth of all waiting.
    Nothing,
}

/// All of them, in the order of the page.
pub(crate) const PROGRAMS: [Program; 10] = [
    Program {
        name: "memcached",
        title: "memcached 1.6.18, 24 workers, values stored by 24 clients",
        cores: 32,
        known: "The locks of which there is but one, or one for each size of values: `lru_locks`, `slabs_lock`, `stats_lock`.",
        source: "memcached's `doc/threads.txt`",
        expected: Expected::One(&["lru_locks", "slabs_lock", "stats_lock"]),
        story: "The clients store values of one size, so that all workers need the same LRU list and the same slab class. The report names \
                their locks, the lock of the statistics, and behind them the counters that those locks protect.",
        guest: memcached::guest,
    },
    Program {
        name: "xz",
        title: "xz 5.4, `-T16`, blocks of 40 kB",
        cores: 16,
        known: "Nothing that is shared: each thread compresses blocks of its own, and there are as many threads as blocks.",
        source: "xz(1), `--threads` and `--block-size`",
        expected: Expected::Nothing,
        story: "No line stands out, as it should be: what limits `xz` is how many blocks the file has.",
        guest: xz,
    },
    Program {
        name: "pigz",
        title: "pigz 2.6, `-p 48`, blocks of 32 kB",
        cores: 48,
        known: "One thread reads, and hands blocks out through one lock, `compress_have`, at which all others wait for work.",
        source: "pigz's `pigz.c` and `yarn.c`",
        expected: Expected::One(&["pthread_cond_wait"]),
        story: "The worst line is the condition variable of that lock; the package has no symbols, so that it is known by its \
                calls alone. It is not worth removing: without it `pigz` would be no faster. Most waiting is spread over very many lines, \
                each of which travels once or twice: the blocks themselves, which a core gets from the one that has read them.",
        guest: pigz,
    },
    Program {
        name: "go",
        title: "go-cache 2.1 (Go), its own benchmarks of concurrent reads",
        cores: 48,
        known: "`sync.RWMutex`: every reader adds to `readerCount`, and takes it away again.",
        source: "[golang/go#17973](https://github.com/golang/go/issues/17973)",
        expected: Expected::One(&["sync/atomic.(*Int32).Add", "RWMutex"]),
        story: "The two worst lines are the reader counts of the two locks that the benchmarks read under: nine tenths of all waiting.",
        guest: go,
    },
    Program {
        name: "rocksdb",
        title: "RocksDB 7.8 (C++), `db_bench` reading at random, block cache of one shard",
        cores: 48,
        known: "The mutex of a shard of `LRUCache`, which every read of a block takes twice.",
        source: "[RocksDB's wiki, Block Cache](https://github.com/facebook/rocksdb/wiki/Block-Cache)",
        expected: Expected::One(&["LRUCacheShard", "lru_cache"]),
        story: "The worst line holds the mutex of the cache's only shard, the next the shard's counters and the head of its list.",
        guest: |ground| rocksdb(ground, "0", "lru_cache"),
    },
    Program {
        name: "python",
        title: "CPython, 16 threads that compute",
        cores: 16,
        known: "The global interpreter lock: one thread runs at a time.",
        source: "CPython's `Python/ceval_gil.h`; [PEP 703](https://peps.python.org/pep-0703/)",
        expected: Expected::One(&["take_gil", "drop_gil", "_PyRuntime"]),
        story: "Cores hardly wait for lines, since all threads but one sleep: what costs is that they sleep. The lines that go from core to \
                core are those of the lock itself.",
        guest: python,
    },
    Program {
        name: "skiplist",
        title: "crossbeam-skiplist 0.1, keys put in and taken out of a set of 20,000",
        cores: 48,
        known: "The list's one length and one random seed, written by every insertion and removal.",
        source: "[crossbeam#1254](https://github.com/crossbeam-rs/crossbeam/pull/1254)",
        expected: Expected::One(&["random_height"]),
        story: "One line is nearly all of the waiting, and every place that uses it is named: the seed in `random_height`, the length, and \
                the height, which every search reads.",
        guest: |ground| ground.bench("skiplist"),
    },
    Program {
        name: "registry",
        title: "prometheus-client 0.25, a counter looked up by its labels",
        cores: 48,
        known: "A family of counters is a map behind an `RwLock`, which each look-up takes; metrics should be looked up once.",
        source: "prometheus-client's `Family`; [cortex#1105](https://github.com/cortexproject/cortex/pull/1105) for Go's client",
        expected: Expected::One(&["RwLock", "raw_rwlock"]),
        story: "The word of the lock is nearly all of the waiting. The counters, which are shared as well, hardly matter beside it.",
        guest: |ground| ground.bench("registry"),
    },
    Program {
        name: "cache",
        title: "moka 0.12, reads that all hit",
        cores: 48,
        known: "Each hit is noted in one queue of the whole cache, whose length is asked for first.",
        source: "[moka#498](https://github.com/moka-rs/moka/issues/498), [lance#7953](https://github.com/lance-format/lance/pull/7953)",
        expected: Expected::One(&["ReadOp", "record_read_op"]),
        story: "The worst line is the queue's end: written by who sends (`start_send` of `ReadOp`), and read by all who ask for its length.",
        guest: |ground| ground.bench("cache"),
    },
    Program {
        name: "regex",
        title: "regex 1.13, one pattern in all threads, captures",
        cores: 48,
        known: "A pattern lends each search memory out of a pool, which all threads share; clones have pools of their own.",
        source: "[regex's documentation](https://docs.rs/regex/1/regex/#sharing-a-regex-across-threads-can-result-in-contention), \
                 [regex#934](https://github.com/rust-lang/regex/issues/934)",
        expected: Expected::One(&["pool.rs"]),
        story: "The pool is the second line. The first is a reference count that nobody has written about: what `captures` returns keeps the \
                names of the groups alive, and so counts in one place of the whole pattern, which clones share. See below.",
        guest: |ground| ground.bench("regex"),
    },
];

fn xz(ground: &Ground) -> Result<Guest> {
    ground.needs("xz", "xz-utils")?;
    ground.text("text", 600_000)?;
    Ok(Guest::of(&[
        "xz",
        "-1",
        "-T16",
        "--block-size=40000",
        "--keep",
        "--force",
        "text",
    ]))
}

fn pigz(ground: &Ground) -> Result<Guest> {
    ground.needs("pigz", "pigz")?;
    ground.text("text", 4_000_000)?;
    Ok(Guest::of(&[
        "pigz", "-1", "-b", "32", "-p", "48", "--keep", "--force", "text",
    ]))
}

fn go(ground: &Ground) -> Result<Guest> {
    ground.needs("go", "golang")?;
    let folder = ground.path("go");
    fs::create_dir_all(&folder).context("making a folder")?;
    let module =
        "module guest\n\ngo 1.21\n\nrequire github.com/patrickmn/go-cache v2.1.0+incompatible\n";
    let program = "package main\n\nimport _ \"github.com/patrickmn/go-cache\"\n\nfunc main() {}\n";
    fs::write(folder.join("go.mod"), module).context("writing go.mod")?;
    fs::write(folder.join("main.go"), program).context("writing main.go")?;
    ground.run(&folder, &["go", "mod", "tidy"])?;
    let output = ground.path("go-cache.test");
    let output = output.display().to_string();
    ground.run(
        &folder,
        &[
            "go",
            "test",
            "-trimpath",
            "-c",
            "-o",
            &output,
            "github.com/patrickmn/go-cache",
        ],
    )?;
    Ok(Guest::of(&[
        "./go-cache.test",
        "-test.run=none",
        "-test.bench=RWMutexMapGetConcurrent|CacheGetConcurrentNot",
        "-test.benchtime=20000x",
        "-test.cpu=48",
    ]))
}

pub(super) fn rocksdb(ground: &Ground, shard_bits: &str, cache: &str) -> Result<Guest> {
    let cache = format!("--cache_type={cache}");
    let shards = format!("--cache_numshardbits={shard_bits}");
    ground.needs("db_bench", "rocksdb-tools")?;
    let _ = fs::remove_dir_all(ground.path("db"));
    let common = [
        "db_bench",
        "--db=db",
        "--num=20000",
        "--compression_type=none",
    ];
    let mut fill = common.to_vec();
    fill.push("--benchmarks=fillrandom");
    ground.run(&ground.folder, &fill)?;
    // Who opens it first tidies up: later runs would not do the same.
    let mut tidy = common.to_vec();
    tidy.extend([
        "--benchmarks=readrandom",
        "--use_existing_db=1",
        "--reads=1",
    ]);
    ground.run(&ground.folder, &tidy)?;
    let mut read = common.to_vec();
    read.extend([
        "--benchmarks=readrandom",
        "--use_existing_db=1",
        "--reads=200",
        "--threads=48",
        "--cache_size=67108864",
        &shards,
        &cache,
        "--progress_reports=false",
    ]);
    Ok(Guest::of(&read))
}

fn python(ground: &Ground) -> Result<Guest> {
    ground.needs("python3", "python3")?;
    let program = "import os\n\
                   import threading\n\
                   \n\
                   \n\
                   def work():\n    \
                       total = 0\n    \
                       for number in range(20000):\n        \
                           total += number & 3\n\
                   \n\
                   \n\
                   threads = [threading.Thread(target=work) for _ in range(os.cpu_count())]\n\
                   for thread in threads:\n    \
                       thread.start()\n\
                   for thread in threads:\n    \
                       thread.join()\n";
    fs::write(ground.path("work.py"), program).context("writing work.py")?;
    // `python3` may be a script that looks for the interpreter.
    let asked = ground.run(
        &ground.folder,
        &["python3", "-c", "import sys; print(sys.executable)"],
    )?;
    let here = ground.path("python3");
    let _ = fs::remove_file(&here);
    symlink(asked.trim(), &here).context("linking to the interpreter")?;
    Ok(Guest::of(&["./python3", "work.py"]))
}
