//! The time of single operations and of duels, under criterion.
//!
//! `cargo bench -p percolog-bench --bench targets` measures the same against the published targets.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use percolog::reclaim::{Domain, DomainOptions, Link, Owned};
use percolog_bench::append::{self, BATCH};
use percolog_bench::counters::CounterKind;
use percolog_bench::freeing::{PENDING, Payload};
use percolog_bench::runner::Settings;
use percolog_bench::sets::{Load, Pattern, SetKind};

fn single_operations(criterion: &mut Criterion) {
    criterion.bench_function("current", |bencher| bencher.iter(percolog::cpu::current));

    let mut group = criterion.benchmark_group("ordered append");
    // A measured batch has as many appends as fit below the limit; the time is scaled to the number asked for.
    let scaled = |iterations: u64, measure: &dyn Fn(u64) -> Duration| {
        let batches = iterations.div_ceil(BATCH);
        measure(batches).mul_f64(iterations as f64 / (batches * BATCH) as f64)
    };
    group.bench_function("limit", |bencher| {
        bencher.iter_custom(|iterations| scaled(iterations, &append::limit));
    });
    let log = append::note_log();
    group.bench_function("queue", |bencher| {
        bencher
            .iter_custom(|iterations| scaled(iterations, &|batches| append::queued(&log, batches)));
    });
    group.finish();
}

/// How long one duel of a sample runs. Criterion asks for a number of operations; the runner runs for a time and
/// counts: the time is then scaled to the number.
const CELL: Duration = Duration::from_millis(25);

fn duels(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("counter add");
    group.throughput(Throughput::Elements(1));
    for threads in [1, 2] {
        let settings = Settings::new(threads, CELL);
        for kind in CounterKind::ALL {
            group.bench_with_input(
                BenchmarkId::new(kind.name(), threads),
                &settings,
                |bencher, &settings| {
                    bencher.iter_custom(|iterations| {
                        let cell = kind
                            .run(settings, None)
                            .unwrap_or_else(|error| panic!("{error}"));
                        Duration::from_secs_f64(iterations as f64 / cell.rate())
                    });
                },
            );
        }
    }
    group.finish();

    for (name, pattern) in [
        ("set of reused ids", Pattern::Connections),
        ("set of fresh ids", Pattern::FreshIds),
    ] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        for threads in [1, 2] {
            let settings = Settings::new(threads, CELL);
            for kind in SetKind::ALL {
                group.bench_with_input(
                    BenchmarkId::new(kind.name(), threads),
                    &settings,
                    |bencher, &settings| {
                        bencher.iter_custom(|iterations| {
                            let cell = kind
                                .run(settings, Load::updates_only(pattern))
                                .unwrap_or_else(|error| panic!("{error}"));
                            Duration::from_secs_f64(iterations as f64 / cell.rate())
                        });
                    },
                );
            }
        }
        group.finish();
    }
}

fn freeing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read of 127 pending operations");
    group.throughput(Throughput::Elements(PENDING));
    for payload in Payload::ALL {
        group.bench_function(format!("{payload:?}"), |bencher| {
            bencher.iter_custom(|iterations| black_box(payload.time(iterations)));
        });
    }
    group.finish();
}

/// An empty section, and an update as [`percolog_bench::reclaim`] has it: alone, so without anybody to look at.
fn reclaiming(criterion: &mut Criterion) {
    let variants = [
        ("percolog", Domain::new()),
        (
            "percolog, fenced",
            Domain::with(DomainOptions::new().fenced()),
        ),
        (
            "percolog, TSC",
            // SAFETY: the counters are synchronized where the kernel keeps time by them; elsewhere the clock is coarse.
            Domain::with(unsafe { DomainOptions::new().tsc() }),
        ),
    ];
    let mut group = criterion.benchmark_group("section");
    for (name, domain) in &variants {
        group.bench_function(*name, |bencher| bencher.iter(|| drop(domain.enter())));
    }
    let crossbeam = crossbeam_epoch::Collector::new().register();
    group.bench_function("crossbeam-epoch", |bencher| {
        bencher.iter(|| drop(crossbeam.pin()));
    });
    let seize = seize::Collector::new();
    group.bench_function("seize", |bencher| bencher.iter(|| drop(seize.enter())));
    group.finish();

    let mut group = criterion.benchmark_group("retire");
    for (name, domain) in &variants {
        let mut link = Link::new(Owned::new([0_u64; 8]));
        group.bench_function(*name, |bencher| {
            bencher.iter(|| {
                if let Some(old) = link.swap(Some(Owned::new([1; 8]))) {
                    // SAFETY: it was in no other link.
                    unsafe { domain.retire(old) };
                }
            });
        });
        drop(link.take());
    }
    group.finish();
}

criterion_group! {
    name = time;
    // Short: the duels are as noisy as the machine is, and longer samples do not change that.
    config = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = single_operations, duels, freeing, reclaiming
}
criterion_main!(time);
