//! What the examples that show something before and after have in common.

use std::env;
use std::process::exit;
use std::thread;

/// Whether it is to be done as before, and on how many threads.
pub(crate) fn arguments() -> (bool, u64) {
    let words: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (before, threads) = match words.as_slice() {
        [] => (false, Some(4)),
        ["before"] => (true, Some(4)),
        ["after"] => (false, Some(4)),
        ["before", threads] => (true, threads.parse().ok()),
        ["after", threads] => (false, threads.parse().ok()),
        _ => (false, None),
    };
    match threads {
        Some(threads @ 1..=1024) => (before, threads),
        _ => {
            eprintln!("error: say `before` or `after`, and a number of threads from 1 to 1024");
            exit(2);
        }
    }
}

/// Runs `work` on so many threads, and waits for all of them.
pub(crate) fn on(threads: u64, work: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}
