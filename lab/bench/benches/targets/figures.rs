//! What is measured, against what, and what is asked of it.

use std::fmt;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use percolog::cpu;
use percolog_bench::append::{self, BATCH};
use percolog_bench::counters::CounterKind;
use percolog_bench::freeing::{PENDING, Payload};
use percolog_bench::host::Host;
use percolog_bench::runner::{Cell, Figure, RunError, Settings};
use percolog_bench::sets::{Answers, Load, Pattern, SetKind};

use crate::{
    Effort, Measured, clustered, dhash, entries, events, in_use, latency, lifetimes, maps, names,
    objects, pages, reads, reclaim, reducers, references, sweeps,
};

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    MillionsASecond,
    ReadsAnUpdate,
    Bytes,
    Kilobytes,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::MillionsASecond => "million/s",
            Self::ReadsAnUpdate => "reads/update",
            Self::Bytes => "bytes",
            Self::Kilobytes => "KiB",
        }
    }

    pub(crate) fn show(self, value: f64) -> String {
        match self {
            _ if value.is_infinite() => "never".to_owned(),
            Self::Nanoseconds if value >= 1e7 => format!("{:.1} ms", value / 1e6),
            Self::Nanoseconds if value >= 1e4 => format!("{:.1} µs", value / 1e3),
            Self::Nanoseconds => format!("{value:.2} ns"),
            Self::MillionsASecond => format!("{value:.1} M/s"),
            Self::ReadsAnUpdate => format!("{value:.0e}"),
            Self::Bytes => format!("{value} bytes"),
            Self::Kilobytes => format!("{value:.0} KiB"),
        }
    }
}

/// What is asked of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The measured value itself is at most this.
    ValueAtMost(f64),
    /// The ratio of the measured value to the one beside it is at most this.
    RatioAtMost(f64),
    /// The ratio of the measured value to the one beside it is at least this.
    RatioAtLeast(f64),
    /// Nothing: the figure is published.
    None,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValueAtMost(bound) => write!(f, "≤ {bound} ns"),
            Self::RatioAtMost(bound) => write!(f, "≤ {bound}×"),
            Self::RatioAtLeast(bound) => write!(f, "≥ {bound}×"),
            Self::None => Ok(()),
        }
    }
}

/// What a figure stands beside, measured in the same run.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) name: String,
    pub(crate) value: f64,
}

/// One figure.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) measured: f64,
    pub(crate) unit: Unit,
    pub(crate) beside: Option<Beside>,
    pub(crate) target: Target,
    pub(crate) remark: String,
}

impl Line {
    pub(crate) fn published(name: impl Into<String>, measured: f64, unit: Unit) -> Self {
        Self {
            name: name.into(),
            measured,
            unit,
            beside: None,
            target: Target::None,
            remark: String::new(),
        }
    }

    pub(crate) fn beside(mut self, name: impl Into<String>, value: f64) -> Self {
        self.beside = Some(Beside {
            name: name.into(),
            value,
        });
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    pub(crate) fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = remark.into();
        self
    }

    pub(crate) fn ratio(&self) -> Option<f64> {
        self.beside
            .as_ref()
            .map(|beside| self.measured / beside.value)
    }

    /// Whether the target is met; `None` if there is none.
    pub(crate) fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::ValueAtMost(bound) => Some(self.measured <= bound),
            Target::RatioAtMost(bound) => Some(self.ratio()? <= bound),
            Target::RatioAtLeast(bound) => Some(self.ratio()? >= bound),
            Target::None => None,
        }
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "published",
        }
    }
}

/// A part of the figures, and how they are measured.
type Group = (&'static str, fn(Effort) -> Measured);

const GROUPS: [Group; 21] = [
    ("operations", |effort| Ok(single_operations(effort))),
    ("counters", counters),
    ("reads", reads::all),
    ("sloppy", in_use::all),
    ("reducers", reducers::all),
    ("references", |effort| {
        let mut lines = references::all(effort)?;
        lines.extend(lifetimes::all(effort));
        Ok(lines)
    }),
    ("memory", |_| Ok(memory())),
    ("sets", sets),
    ("answers", answers),
    ("shelf", sets_of_the_shelf),
    ("entries", entries::all),
    ("events", events::all),
    ("maps", maps::all),
    ("namespace", names::all),
    ("slab", objects::all),
    ("clustered", clustered::all),
    ("dhash", dhash::all),
    ("pages", pages::all),
    ("ratios", sweeps::read_ratios),
    ("freeing", |effort| {
        let mut lines = freeing(effort);
        lines.extend(latency::at_the_limit(effort));
        Ok(lines)
    }),
    ("reclaim", reclaim::all),
];

/// The names of the groups.
pub(crate) fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.into_iter().map(|(name, _)| name)
}

/// Measures everything, or the one group that is asked for.
pub(crate) fn measure(effort: Effort, only: Option<&str>) -> Measured {
    // Asking for the kernel's barrier takes it milliseconds, once in a process: they are no cell's.
    let _ = cpu::barrier::mode();
    let mut lines = Vec::new();
    for (name, group) in GROUPS {
        if only.is_none_or(|only| only == name) {
            lines.extend(group(effort)?);
        }
    }
    Ok(lines)
}

/// The median of `samples`, taken in turns by all of `measures` so that a slow moment meets them alike.
pub(crate) fn medians<const N: usize>(samples: usize, measures: [&dyn Fn() -> f64; N]) -> [f64; N] {
    let mut taken: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(samples));
    for _ in 0..samples {
        for (measure, taken) in measures.iter().zip(&mut taken) {
            taken.push(measure());
        }
    }
    taken.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    })
}

pub(crate) fn nanoseconds_each(elapsed: Duration, operations: u64) -> f64 {
    elapsed.as_secs_f64() * 1e9 / operations as f64
}

fn single_operations(effort: Effort) -> Vec<Line> {
    const BATCHES: u64 = 2000;
    const CALLS: u64 = 2_000_000;
    let log = append::note_log();
    let [limit, queued, current] = medians(
        effort.samples,
        [
            &|| nanoseconds_each(append::limit(BATCHES), BATCHES * BATCH),
            &|| nanoseconds_each(append::queued(&log, BATCHES), BATCHES * BATCH),
            &|| {
                let started = Instant::now();
                for _ in 0..CALLS {
                    std::hint::black_box(cpu::current());
                }
                nanoseconds_each(started.elapsed(), CALLS)
            },
        ],
    );
    vec![
        Line::published(
            "ordered append: queue of 24 bytes",
            queued,
            Unit::Nanoseconds,
        )
        .beside("a fenced stamp and a 32-byte append", limit)
        .target(Target::RatioAtMost(1.35)),
        Line::published("current()", current, Unit::Nanoseconds).target(Target::ValueAtMost(1.0)),
    ]
}

/// The figures of several contestants, whose cells take turns.
pub(crate) fn duel<const N: usize>(
    effort: Effort,
    threads: usize,
    contestants: [&dyn Fn(Settings) -> Result<Cell, RunError>; N],
) -> Result<[Figure; N], RunError> {
    let settings = Settings::new(threads, effort.cell);
    let mut rates: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(effort.cells));
    for _ in 0..effort.cells {
        for (contestant, rates) in contestants.iter().zip(&mut rates) {
            rates.push(contestant(settings)?.rate());
        }
    }
    // A contestant without a cell cannot be: `Effort` asks for one at least.
    Ok(rates.map(|rates| {
        Figure::of(&rates).unwrap_or(Figure {
            median: f64::NAN,
            slowest: f64::NAN,
            fastest: f64::NAN,
        })
    }))
}

/// How many threads work in the groups that go up to what the machine has: one, two, and more where there are processors.
pub(crate) fn up_to_the_machine() -> impl Iterator<Item = usize> {
    let cpus = Host::describe().cpus;
    [1, 2, 4, 8, 16]
        .into_iter()
        .filter(move |&threads| threads <= cpus.max(2))
}

/// "1 thread", "2 threads".
pub(crate) fn on(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// How rates of reads are called in the names of figures.
pub(crate) fn one_read_in(updates: Option<NonZeroU64>) -> String {
    match updates.map(NonZeroU64::get) {
        None => "no reads".to_owned(),
        Some(1_000_000) => "a read in 10⁶".to_owned(),
        Some(updates) => format!("a read in {updates}"),
    }
}

/// The rates of reads that counters are measured with: none, 10⁻⁶, 10⁻³, and one in a hundred.
pub(crate) const READS: [Option<NonZeroU64>; 4] = [
    None,
    NonZeroU64::new(1_000_000),
    NonZeroU64::new(1000),
    NonZeroU64::new(100),
];

pub(crate) fn millions(figure: Figure) -> f64 {
    figure.median / 1e6
}

fn counters(effort: Effort) -> Measured {
    let run = |kind: CounterKind| move |settings| kind.run(settings, None);
    let (atomic, ours, contatori) = (
        run(CounterKind::Atomic),
        run(CounterKind::Percolog),
        run(CounterKind::Contatori),
    );
    let mut lines = Vec::new();
    for threads in [1, 2, 8] {
        let [today, ours, peer] = duel(effort, threads, [&atomic, &ours, &contatori])?;
        if threads == 1 {
            lines.push(
                Line::published(
                    "Counter add, 1 thread",
                    ours.nanoseconds(1),
                    Unit::Nanoseconds,
                )
                .beside("AtomicU64", today.nanoseconds(1))
                .target(Target::ValueAtMost(2.0)),
            );
        }
        let line = Line::published(
            format!("Counter adds, {threads} threads"),
            millions(ours),
            Unit::MillionsASecond,
        );
        let against_today = if threads == 2 {
            Target::RatioAtLeast(4.0)
        } else {
            Target::None
        };
        if threads > 1 {
            lines.push(
                line.beside("AtomicU64", millions(today))
                    .target(against_today),
            );
        }
        lines.push(
            Line::published(
                format!(
                    "Counter adds, {threads} thread{}",
                    if threads == 1 { "" } else { "s" }
                ),
                millions(ours),
                Unit::MillionsASecond,
            )
            .beside("contatori", millions(peer)),
        );
    }
    Ok(lines)
}

fn sets(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for (title, pattern) in [
        ("reused ids", Pattern::Connections),
        ("fresh ids", Pattern::FreshIds),
    ] {
        let run = |kind: SetKind| move |settings| kind.run(settings, Load::updates_only(pattern));
        let (mutex, logged, absorbing, dash) = (
            run(SetKind::Mutex),
            run(SetKind::Logged),
            run(SetKind::Absorbing),
            run(SetKind::Dash),
        );
        let judged = pattern == Pattern::Connections;
        for threads in [1, 2, 8] {
            let [mutex, logged, absorbing, dash] =
                duel(effort, threads, [&mutex, &logged, &absorbing, &dash])?;
            let plural = if threads == 1 { "" } else { "s" };
            for (name, figure, at_two) in
                [("Logged", logged, 1.5), ("with absorption", absorbing, 3.0)]
            {
                let target = match threads {
                    // Half the mutex's rate is twice its time.
                    1 => Target::RatioAtLeast(0.5),
                    2 if judged => Target::RatioAtLeast(at_two),
                    _ => Target::None,
                };
                lines.push(
                    Line::published(
                        format!("set, {title}: {name}, {threads} thread{plural}"),
                        millions(figure),
                        Unit::MillionsASecond,
                    )
                    .beside("Mutex<BTreeSet>", millions(mutex))
                    .target(target),
                );
            }
            lines.push(
                Line::published(
                    format!("set, {title}: best log, {threads} thread{plural}"),
                    millions(logged).max(millions(absorbing)),
                    Unit::MillionsASecond,
                )
                .beside("DashSet, answers ignored", millions(dash)),
            );
        }
    }
    Ok(lines)
}

/// The workload that a log cannot win: every change has to tell what it found, and so has to merge.
fn answers(effort: Effort) -> Measured {
    let load = Load {
        answers: Answers::Used,
        ..Load::updates_only(Pattern::Connections)
    };
    let run = |kind: SetKind| move |settings| kind.run(settings, load);
    let mut lines = Vec::new();
    for threads in [1, 2] {
        let [mutex, logged, dash] = duel(
            effort,
            threads,
            [
                &run(SetKind::Mutex),
                &run(SetKind::Logged),
                &run(SetKind::Dash),
            ],
        )?;
        let plural = if threads == 1 { "" } else { "s" };
        for (name, peer) in [("Mutex<BTreeSet>", mutex), ("DashSet", dash)] {
            lines.push(
                Line::published(
                    format!("set, answers used: Logged, {threads} thread{plural}"),
                    millions(logged),
                    Unit::MillionsASecond,
                )
                .beside(name, millions(peer)),
            );
        }
    }
    Ok(lines)
}

/// `collections::Set` beside the sharded set: changes whose answer nobody uses, and changes that have to answer, where a merge for
/// each of them loses.
fn sets_of_the_shelf(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for (title, pattern, answers) in [
        ("reused ids", Pattern::Connections, Answers::Ignored),
        ("fresh ids", Pattern::FreshIds, Answers::Ignored),
        ("answers used", Pattern::Connections, Answers::Used),
    ] {
        let load = Load {
            answers,
            ..Load::updates_only(pattern)
        };
        let run = |kind: SetKind| move |settings| kind.run(settings, load);
        for threads in [1, 2, 8] {
            let [ordered, hashed, dash] = duel(
                effort,
                threads,
                [
                    &run(SetKind::Ordered),
                    &run(SetKind::Hashed),
                    &run(SetKind::Dash),
                ],
            )?;
            let plural = if threads == 1 { "" } else { "s" };
            for (kind, ours) in [(SetKind::Ordered, ordered), (SetKind::Hashed, hashed)] {
                lines.push(
                    Line::published(
                        format!("{title}: {}, {threads} thread{plural}", kind.name()),
                        millions(ours),
                        Unit::MillionsASecond,
                    )
                    .beside("DashSet", millions(dash)),
                );
            }
        }
    }
    Ok(lines)
}

/// What a counter takes of memory.
fn memory() -> Vec<Line> {
    let ours = size_of::<percolog::counter::Counter>() as f64;
    [
        ("AtomicU64", size_of::<std::sync::atomic::AtomicU64>()),
        (
            "contatori",
            size_of::<contatori::counters::unsigned::Unsigned>(),
        ),
    ]
    .into_iter()
    .map(|(name, size)| {
        Line::published("a Counter's size", ours, Unit::Bytes)
            .beside(name, size as f64)
            .remark("each thread that adds to a Counter keeps 16 bytes more for it")
    })
    .collect()
}

fn freeing(effort: Effort) -> Vec<Line> {
    const READS: u64 = 200;
    let time = |payload: Payload| move || nanoseconds_each(payload.time(READS), READS * PENDING);
    let (plain, owning, returning) = (
        time(Payload::Plain),
        time(Payload::Owning),
        time(Payload::Returning),
    );
    let [plain, owning, returning] = medians(effort.samples, [&plain, &owning, &returning]);
    vec![
        Line::published(
            "reader, one operation that owns text",
            owning,
            Unit::Nanoseconds,
        )
        .beside("an operation that owns nothing", plain),
        Line::published(
            "reader, the same handed back when spent",
            returning,
            Unit::Nanoseconds,
        )
        .beside("an operation that owns nothing", plain),
    ]
}
