//! Waiting for what other threads have to do first.

use std::thread;
use std::time::Duration;

/// Whether it is so in the end. Whoever has to do something for it may wait long for a processor, so there are tries enough for a
/// minute on an idle machine, and for more on a busy one.
pub(crate) fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    (0..60_000).any(|round| {
        let so = is_so();
        match round {
            _ if so => {}
            0..1000 => thread::yield_now(),
            _ => thread::sleep(Duration::from_millis(1)),
        }
        so
    })
}
