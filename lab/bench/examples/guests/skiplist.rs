//! crossbeam-skiplist: keys of each worker's own are put in and taken out of a large set. No two operations need the same node, so
//! that what they share is what the list has only one of: its length and its random seed.

use crossbeam_skiplist::SkipSet;

use crate::{measure, random};

/// Keys that stay, so that the workers' keys are far apart.
const KEYS: u64 = 20_000;

/// Puts a key in, and takes it out.
pub(crate) fn run() {
    let set: Box<SkipSet<u64>> = Box::new((0..KEYS).map(|n| random(usize::MAX, n)).collect());
    measure(100, 300, |worker, n| {
        let key = random(worker, n);
        set.insert(key);
        set.remove(&key);
    });
    assert_eq!(set.len(), KEYS as usize, "each key was taken out");
}
