//! Bounded caches: `percolog::collections::Cache` beside `quick_cache` and `moka`, in one run, with the same hash.
//!
//! `cargo bench -p percolog-bench --bench hits`; `-- --json` for programs, `-- --quick` for shorter and fewer cells, `-- --only NAME` for
//! one cache.
//!
//! Keys have 16 bytes and values 32, as in §5.2 of Q. Wang, T. Stamler and G. Parmer, *Parallel Sections: Scaling System-Level
//! Data-Structures*, and are chosen as YCSB does by default: Zipf with an exponent of 0.99. *Ample* caches have room for all keys, and have
//! them from the start: what is compared is lookups and replacements. The others have room for a tenth of the keys, and a
//! lookup that finds nothing sets its key, as a program would; what is compared is also which keys are kept.

#[path = "../quick_cache/mod.rs"]
mod quick;

use std::hash::{Hash, Hasher};
use std::process::ExitCode;
use std::time::Duration;

use percolog::collections::Cache;
use percolog::reclaim::Domain;
use percolog_bench::eviction::zipf;
use percolog_bench::hash::{BuildIdHasher, mix};
use percolog_bench::host::Host;
use percolog_bench::runner::{Figure, Settings, Workload, run};

/// So many keys there are.
const KEYS: usize = 200_000;

/// Lookups of each thread before it begins again.
const TRACE: usize = 1 << 20;

/// Numbers of threads.
const THREADS: [usize; 3] = [1, 2, 8];

/// How many of a hundred operations are sets.
const SETS: [u32; 4] = [0, 10, 20, 50];

/// Operations between two looks at the clock.
const BLOCK: usize = 256;

/// 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key([u64; 2]);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
        state.write_u64(self.0[1]);
    }
}

impl Key {
    fn of(number: u64) -> Self {
        Self([mix(number), number])
    }
}

/// 32 bytes.
type Value = [u64; 4];

fn value(key: Key) -> Value {
    [key.0[0], key.0[1], 0, 0]
}

/// A cache of keys and values.
trait Peer: Sync + Sized {
    const NAME: &'static str;

    /// With room for so many.
    fn new(items: usize) -> Self;

    /// The value, copied out.
    fn get(&self, key: Key) -> Option<Value>;

    fn set(&self, key: Key, value: Value);

    /// Does what it has put off.
    fn settle(&self) {}
}

static DOMAIN: Domain = Domain::new();

struct Ours(Cache<'static, Key, Value, BuildIdHasher>);

impl Peer for Ours {
    const NAME: &'static str = "percolog";

    fn new(items: usize) -> Self {
        let bytes = items * Cache::<Key, Value>::ITEM_BYTES;
        let builder = Cache::<Key, Value>::builder(bytes).hasher(BuildIdHasher::default());
        Self(builder.build(&DOMAIN).expect("there is memory"))
    }

    #[inline]
    fn get(&self, key: Key) -> Option<Value> {
        self.0.observe(&key, |value| *value)
    }

    #[inline]
    fn set(&self, key: Key, value: Value) {
        self.0.set(key, value).expect("there is memory");
    }
}

struct Quick(quick::Quick<Key, Value>);

impl Peer for Quick {
    const NAME: &'static str = quick::NAME;

    fn new(items: usize) -> Self {
        Self(quick::quick(items))
    }

    #[inline]
    fn get(&self, key: Key) -> Option<Value> {
        self.0.get(&key)
    }

    #[inline]
    fn set(&self, key: Key, value: Value) {
        self.0.insert(key, value);
    }
}

struct Moka(moka::sync::Cache<Key, Value, BuildIdHasher>);

impl Peer for Moka {
    const NAME: &'static str = "moka";

    fn new(items: usize) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(items as u64);
        Self(builder.build_with_hasher(BuildIdHasher::default()))
    }

    #[inline]
    fn get(&self, key: Key) -> Option<Value> {
        self.0.get(&key)
    }

    #[inline]
    fn set(&self, key: Key, value: Value) {
        self.0.insert(key, value);
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

/// What one cell runs.
#[derive(Clone, Copy)]
struct Mix {
    sets: u32,
    /// There is room for all keys.
    ample: bool,
}

impl Mix {
    fn all() -> impl Iterator<Item = Self> {
        [true, false]
            .into_iter()
            .flat_map(|ample| SETS.map(|sets| Self { sets, ample }))
    }

    fn items(self) -> usize {
        // Hashes choose the lists, or shards, of which some get more than others.
        if self.ample { KEYS * 2 } else { KEYS / 10 }
    }
}

struct Duel<'a, P> {
    peer: P,
    mix: Mix,
    traces: &'a [Vec<u64>],
}

/// A thread, and what it has met.
struct Worker<'a> {
    trace: &'a [u64],
    at: usize,
    lookups: u64,
    hits: u64,
    wrong: u64,
}

impl<'a, P: Peer> Workload for Duel<'a, P> {
    type Worker = Worker<'a>;
    /// Lookups, hits, and wrong values.
    type Left = [u64; 3];

    fn worker(&self, thread: usize) -> Worker<'a> {
        Worker {
            trace: &self.traces[thread % self.traces.len()],
            at: thread / self.traces.len() * TRACE / 7,
            lookups: 0,
            hits: 0,
            wrong: 0,
        }
    }

    fn block(&self, worker: &mut Worker<'a>) -> u64 {
        for _ in 0..BLOCK {
            let key = Key::of(worker.trace[worker.at % TRACE]);
            worker.at += 1;
            // Spread evenly, and not in step with anything in the trace.
            if (worker.at as u32).wrapping_mul(37) % 100 < self.mix.sets {
                self.peer.set(key, value(key));
                continue;
            }
            worker.lookups += 1;
            match self.peer.get(key) {
                Some(found) => {
                    worker.hits += 1;
                    worker.wrong += u64::from(found != value(key));
                }
                None if self.mix.ample => {}
                None => self.peer.set(key, value(key)),
            }
        }
        BLOCK as u64
    }

    fn leave(&self, worker: Worker<'a>) -> [u64; 3] {
        [worker.lookups, worker.hits, worker.wrong]
    }

    fn settle(&self) {
        self.peer.settle();
    }

    fn check(&self, left: &[[u64; 3]]) -> Result<(), String> {
        match left.iter().map(|[_, _, wrong]| wrong).sum() {
            0_u64 => Ok(()),
            wrong => Err(format!("{wrong} values of other keys")),
        }
    }
}

/// A cell's rates, and its hit ratio.
struct Measured {
    cache: &'static str,
    mix: Mix,
    threads: usize,
    rates: Vec<f64>,
    hit_percent: f64,
}

fn measure<P: Peer>(
    mix: Mix,
    settings: Settings,
    traces: &[Vec<u64>],
    into: &mut Measured,
) -> Result<(), String> {
    let peer = P::new(mix.items());
    if mix.ample {
        for number in 0..KEYS as u64 {
            peer.set(Key::of(number), value(Key::of(number)));
        }
    } else {
        // Warm: so many lookups that nearly every place was taken several times.
        for number in &traces[0][..TRACE / 2] {
            let key = Key::of(*number);
            if peer.get(key).is_none() {
                peer.set(key, value(key));
            }
        }
    }
    peer.settle();
    // What one thread finds with a fixed trace does not depend on how fast it is.
    let mut found = 0;
    if into.rates.is_empty() {
        let looked = &traces[1][..TRACE / 4];
        for number in looked {
            let key = Key::of(*number);
            if peer.get(key).is_some() {
                found += 1;
            } else if !mix.ample {
                peer.set(key, value(key));
            }
        }
        into.hit_percent = 100.0 * f64::from(found) / looked.len() as f64;
    }
    let duel = Duel { peer, mix, traces };
    let cell = run(P::NAME, &duel, settings).map_err(|error| error.to_string())?;
    into.rates.push(cell.rate());
    Ok(())
}

fn main() -> ExitCode {
    let (mut json, mut short, mut benchmarking, mut only) = (false, false, false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--quick" => short = true,
            // What cargo passes to every benchmark.
            "--bench" => benchmarking = true,
            "--only" => only = arguments.next(),
            other => {
                eprintln!(
                    "hits: unknown argument {other:?}; there are --json, --quick and --only NAME"
                );
                return ExitCode::from(2);
            }
        }
    }
    // `cargo test --all-targets`: see that every cell works.
    let (rounds, duration) = match (benchmarking, short) {
        (false, _) => (1, Duration::from_millis(1)),
        (true, true) => (3, Duration::from_millis(100)),
        (true, false) => (7, Duration::from_millis(400)),
    };
    let traces: Vec<Vec<u64>> = (0..2)
        .map(|seed| zipf(seed + 1, KEYS, 0.99, TRACE))
        .collect();
    type Measure = fn(Mix, Settings, &[Vec<u64>], &mut Measured) -> Result<(), String>;
    let peers: [(&str, Measure); 3] = [
        (Ours::NAME, measure::<Ours>),
        (Quick::NAME, measure::<Quick>),
        (Moka::NAME, measure::<Moka>),
    ];
    let chosen = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let mut cells = Vec::new();
    for mix in Mix::all() {
        for threads in THREADS {
            let wanted = match (benchmarking, short) {
                (false, _) => threads == 2 && mix.sets == 10,
                (true, true) => threads <= 2,
                (true, false) => true,
            };
            if !wanted {
                continue;
            }
            let mut row: Vec<(Measure, Measured)> = peers
                .iter()
                .filter(|(name, _)| chosen(name))
                .map(|(cache, measure)| {
                    let cell = Measured {
                        cache,
                        mix,
                        threads,
                        rates: Vec::new(),
                        hit_percent: 0.0,
                    };
                    (*measure, cell)
                })
                .collect();
            // One after the other, again and again, so that what else the machine does hits all of them.
            for _ in 0..rounds {
                for (measure, cell) in &mut row {
                    let settings = Settings { threads, duration };
                    if let Err(error) = measure(mix, settings, &traces, cell) {
                        eprintln!("hits: {error}");
                        return ExitCode::FAILURE;
                    }
                }
            }
            for (_, cell) in row {
                if !json {
                    show(&cell);
                }
                cells.push(cell);
            }
        }
    }
    if json {
        show_json(&cells);
    }
    ExitCode::SUCCESS
}

fn room(mix: Mix) -> &'static str {
    if mix.ample { "ample" } else { "tenth" }
}

fn show(cell: &Measured) {
    let Some(figure) = Figure::of(&cell.rates) else {
        return;
    };
    println!(
        "{:<6} {:>3} % sets, {} threads: {:<12} {:>7.2} M/s ({:.2} to {:.2}), {:6.2} % hits",
        room(cell.mix),
        cell.mix.sets,
        cell.threads,
        cell.cache,
        figure.median / 1e6,
        figure.slowest / 1e6,
        figure.fastest / 1e6,
        cell.hit_percent,
    );
}

fn show_json(cells: &[Measured]) {
    let host = Host::describe();
    let rows: Vec<_> = cells
        .iter()
        .filter_map(|cell| {
            let figure = Figure::of(&cell.rates)?;
            Some(serde_json::json!({
                "cache": cell.cache,
                "room": room(cell.mix),
                "percent_sets": cell.mix.sets,
                "threads": cell.threads,
                "operations_per_second": figure.median,
                "slowest": figure.slowest,
                "fastest": figure.fastest,
                "hit_percent": cell.hit_percent,
            }))
        })
        .collect();
    println!(
        "{:#}",
        serde_json::json!({
            "processor": host.processor,
            "cpus": host.cpus,
            "keys": KEYS,
            "skew": 0.99,
            "key_bytes": size_of::<Key>(),
            "value_bytes": size_of::<Value>(),
            "cells": rows,
        })
    );
}
