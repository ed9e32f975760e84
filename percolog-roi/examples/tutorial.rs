//! The program of the tutorial, `docs/tutorial.md`: a small server of pages that gets slower the more cores it has.
//!
//! `tutorial shared` is the server as it was written, `tutorial borrowed` and `tutorial apart` are what becomes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::{env, hint, process, thread};

/// What each worker answers.
const REQUESTS: u64 = 1000;

/// What is needed to answer; all workers have the same.
struct Settings {
    greeting: String,
}

/// What one worker has done.
#[derive(Default)]
struct Tally {
    pages: AtomicU64,
    bytes: AtomicU64,
}

/// The same on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart(Tally);

/// A page: its checksum stands for its text. Some pages are long, others short.
fn render(settings: &Settings, request: u64) -> u64 {
    let mut page = request.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for _ in 0..4 + page % 9 {
        for byte in settings.greeting.bytes() {
            page = page.wrapping_mul(31).wrapping_add(u64::from(byte));
        }
    }
    hint::black_box(page)
}

/// One request, with settings that nobody can take away meanwhile.
fn answer_shared(settings: Arc<Settings>, request: u64, tally: &Tally) {
    answer(&settings, request, tally);
}

/// One request.
fn answer(settings: &Settings, request: u64, tally: &Tally) {
    let page = render(settings, request);
    tally.pages.fetch_add(1, Relaxed);
    tally.bytes.fetch_add(page % 1000, Relaxed);
}

/// Waits until `all` have arrived. It spins, so that all go on at once.
fn meet(all: usize) {
    static ARRIVED: AtomicUsize = AtomicUsize::new(0);
    ARRIVED.fetch_add(1, Relaxed);
    while ARRIVED.load(Relaxed) < all {
        hint::spin_loop();
    }
}

fn main() {
    let step = env::args().nth(1).unwrap_or_default();
    let (borrowed, apart) = match step.as_str() {
        "shared" => (false, false),
        "borrowed" => (true, false),
        "apart" => (true, true),
        _ => {
            eprintln!("usage: tutorial shared|borrowed|apart");
            process::exit(2);
        }
    };
    // As servers do: a worker for each processor.
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let settings = Arc::new(Settings {
        greeting: "Good morning, and welcome.".to_owned(),
    });
    let packed: Vec<Tally> = (0..workers).map(|_| Tally::default()).collect();
    percolog_roi::label(&packed[..], "tallies");
    let spread: Vec<Apart> = (0..workers).map(|_| Apart::default()).collect();
    let work = |worker: usize| {
        let tally = if apart {
            &spread[worker].0
        } else {
            &packed[worker]
        };
        // The first request of each worker warms it up, and does not count.
        for request in 0..=REQUESTS {
            if request == 1 {
                meet(workers);
                percolog_roi::begin();
            }
            let page = request * workers as u64 + worker as u64;
            if borrowed {
                answer(&settings, page, tally);
            } else {
                answer_shared(Arc::clone(&settings), page, tally);
            }
        }
        percolog_roi::end(REQUESTS);
        // A thread that ends writes to memory, which would be in the way of those that still work.
        meet(2 * workers);
    };
    thread::scope(|scope| {
        for worker in 0..workers {
            let work = &work;
            scope.spawn(move || work(worker));
        }
    });
    let tallies = packed.iter().chain(spread.iter().map(|apart| &apart.0));
    let pages: u64 = tallies.map(|tally| tally.pages.load(Relaxed)).sum();
    println!("{workers} workers answered {pages} requests");
}
