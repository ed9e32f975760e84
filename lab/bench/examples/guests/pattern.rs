//! regex: the workers search for one pattern. A [`Regex`] lends each search memory to write to, out of a pool; and what a search
//! returns keeps the pattern's names alive.

use regex::{CaptureLocations, Regex};
use std::cell::RefCell;

use crate::{measure, random, workers};

/// Something with captures, so that a search needs memory to write to.
const PATTERN: &str = r"(?i)\b(get|put|post)\s+/([a-z0-9_/]+)\s+(\d{3})\b";

const WARM: u64 = 30;
const COUNTED: u64 = 200;

/// All workers have the same pattern.
pub(crate) fn shared() {
    let pattern = pattern();
    measure(WARM, COUNTED, |worker, n| search(&pattern, worker, n));
}

/// Each worker has a clone, as the documentation advises.
pub(crate) fn cloned() {
    let clones = vec![pattern(); workers()];
    measure(WARM, COUNTED, |worker, n| {
        search(&clones[worker], worker, n)
    });
}

/// All workers have the same pattern, and each has somewhere to write what was found.
pub(crate) fn read() {
    let pattern = pattern();
    measure(WARM, COUNTED, |worker, n| search_into(&pattern, worker, n));
}

/// The same with clones.
pub(crate) fn read_cloned() {
    let clones = vec![pattern(); workers()];
    measure(WARM, COUNTED, |worker, n| {
        search_into(&clones[worker], worker, n);
    });
}

fn pattern() -> Regex {
    Regex::new(PATTERN).expect("it is a pattern")
}

fn line(worker: usize, n: u64) -> &'static str {
    const LINES: [&str; 4] = [
        "10.0.0.7 GET /index/main 200 1043",
        "10.0.0.9 post /login 302 12",
        "10.0.0.7 PUT /files/a_7/b 201 99310",
        "10.0.0.3 get /favicon 404 0",
    ];
    LINES[random(worker, n) as usize % LINES.len()]
}

fn search(pattern: &Regex, worker: usize, n: u64) {
    let found = pattern.captures(line(worker, n));
    assert_eq!(found.expect("each line matches")[3].len(), 3);
}

fn search_into(pattern: &Regex, worker: usize, n: u64) {
    thread_local!(static FOUND: RefCell<Option<CaptureLocations>> = const { RefCell::new(None) });
    FOUND.with_borrow_mut(|found| {
        let found = found.get_or_insert_with(|| pattern.capture_locations());
        pattern
            .captures_read(found, line(worker, n))
            .expect("each line matches");
        let (from, to) = found.get(3).expect("so does its last part");
        assert_eq!(to - from, 3);
    });
}
