//! Everything at once: all calls from all threads, which come and go, and recorders that do. Nothing is lost, nothing is left
//! behind, and whatever the metrics are called, Prometheus reads each scrape to its end.

use metrics::{Key, Label, Unit, with_local_recorder};
use percolog_metrics::{Bounds, Recorder, RecorderHandle, Value};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;

/// Counts the bytes that are in use.
struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: a count that is read when all threads have been joined.
        LIVE.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("storm", metrics::Level::INFO, None);

const THREADS: u64 = 6;
const ROUNDS: u64 = 300;

/// Names and values as nobody should choose them.
const HOSTILE: [&str; 12] = [
    "",
    "\0",
    "a\0b\n# TYPE it counter",
    "\n",
    "\"} 1\nevil 2",
    "\\",
    "\\\"",
    "le",
    "__name__",
    "\u{feff}\u{2028}\u{202e}",
    "9",
    "{}",
];

/// What one thread records in a round, by macros and handles of every kind.
fn record(thread: u64, round: u64) {
    let hostile = HOSTILE[(round % 12) as usize];
    metrics::counter!("rounds").increment(1);
    metrics::counter!("by", "value" => hostile).increment(2);
    metrics::counter!("most").absolute(round);
    metrics::gauge!("open").increment(0.25);
    metrics::gauge!("open").increment(3.0);
    metrics::gauge!("open").decrement(3.0);
    metrics::gauge!("last").set(thread as f64);
    metrics::gauge!("odd").set(f64::NAN);
    metrics::gauge!("odd").increment(f64::INFINITY);
    metrics::histogram!("size").record(round as f64);
    metrics::histogram!("size", "le" => hostile).record_many(0.5, 3);
    metrics::histogram!("odd_size").record(f64::NAN);
    metrics::describe_counter!("rounds", Unit::Count, hostile.to_owned());
    let odd = [
        Label::new(hostile, hostile),
        Label::new("k", round.to_string()),
    ];
    let key = Key::from_parts(hostile, odd.to_vec());
    metrics::with_recorder(|recorder| {
        recorder.register_counter(&key, &METADATA).increment(1);
        recorder.register_gauge(&key, &METADATA).set(1.0);
        recorder.register_histogram(&key, &METADATA).record(1.0);
    });
}

/// Threads that come and go record to a recorder, some of them panic on the way, and one scrapes.
fn storm() -> RecorderHandle {
    let recorder = Recorder::builder()
        .bounds(Bounds::new([1.0, 100.0]).expect("increasing"))
        .build();
    let handle = recorder.handle();
    let mut threads = Vec::new();
    for thread in 0..THREADS {
        let recorder = recorder.clone();
        threads.push(thread::spawn(move || {
            for round in 0..ROUNDS {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    with_local_recorder(&recorder, || {
                        record(thread, round);
                        if round % 50 == 7 {
                            std::panic::resume_unwind(Box::new("the program is wrong"));
                        }
                    });
                }));
                assert_eq!(result.is_err(), round % 50 == 7);
                if round % 100 == 0 {
                    let recorder = recorder.clone();
                    let short = move || with_local_recorder(&recorder, || record(thread, round));
                    thread::spawn(short).join().expect("it only records");
                }
            }
        }));
    }
    let mut rounds = 0;
    while threads.iter().any(|thread| !thread.is_finished()) {
        check(&handle.render());
        if let Some(Value::Counter(now)) = handle.snapshot().get("rounds", &[]) {
            assert!(*now >= rounds, "{now} after {rounds}");
            rounds = *now;
        }
    }
    for thread in threads {
        thread.join().expect("its panics are caught");
    }
    handle
}

/// Every line is one that Prometheus reads, and no series is there twice.
fn check(text: &str) {
    assert!(!text.contains('\0'), "Prometheus takes it for the end");
    let mut series = HashSet::new();
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let (labels, value) = line.rsplit_once(' ').expect("a value behind the series");
        let is_number = matches!(value, "NaN" | "+Inf" | "-Inf") || value.parse::<f64>().is_ok();
        assert!(is_number, "{line}");
        let name = labels.split('{').next().unwrap_or_default();
        let fits = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | ':');
        assert!(
            !name.is_empty()
                && name.chars().all(fits)
                && !name.starts_with(|sign: char| sign.is_ascii_digit()),
            "{line}"
        );
        assert!(is_label_set(&labels[name.len()..]), "{line}");
        assert!(series.insert(labels.to_owned()), "twice: {line}");
    }
}

/// `{key="value",…}`, or nothing.
fn is_label_set(text: &str) -> bool {
    let Some(mut rest) = text.strip_prefix('{') else {
        return text.is_empty();
    };
    let mut keys = HashSet::new();
    loop {
        let Some((key, value)) = rest.split_once("=\"") else {
            return false;
        };
        let fits = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        if key.is_empty() || !key.chars().all(fits) || !keys.insert(key) {
            return false;
        }
        let mut escaped = false;
        let end = value.char_indices().find(|&(_, sign)| {
            let ends = sign == '"' && !escaped;
            escaped = sign == '\\' && !escaped;
            ends
        });
        let Some((end, _)) = end else { return false };
        match &value[end + 1..] {
            "}" => return true,
            more => match more.strip_prefix(',') {
                Some(more) => rest = more,
                None => return false,
            },
        }
    }
}

#[test]
fn a_storm_loses_nothing_and_leaves_nothing_behind() {
    let once = || {
        let handle = storm();
        let seen = handle.snapshot();
        let all = THREADS * (ROUNDS + ROUNDS / 100);
        assert_eq!(seen.get("rounds", &[]), Some(&Value::Counter(all)));
        assert_eq!(seen.get("most", &[]), Some(&Value::Counter(ROUNDS - 1)));
        assert_eq!(seen.get("open", &[]), Some(&Value::Gauge(all as f64 / 4.0)));
        let by: u64 = HOSTILE
            .iter()
            .filter_map(|value| match seen.get("by", &[("value", value)]) {
                Some(Value::Counter(count)) => Some(*count),
                _ => None,
            })
            .sum();
        assert_eq!(by, 2 * all);
        match seen.get("size", &[]) {
            Some(Value::Histogram(size)) => {
                assert_eq!(size.count(), all);
                assert_eq!(size.cumulative().last(), Some((f64::INFINITY, all)));
            }
            other => panic!("{other:?}"),
        }
        check(&handle.render());
    };
    // What is made once stays: rows for as many threads as there were at a time, names of the tests' harness.
    once();
    once();
    let before = LIVE.load(Ordering::Relaxed);
    for _ in 0..3 {
        once();
    }
    let more = LIVE.load(Ordering::Relaxed) - before;
    // A storm's own metrics take some megabytes.
    assert!(more < 200_000, "{more} bytes are left of three storms");
}
