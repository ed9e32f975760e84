//! A small server: its workers answer requests, each with the settings that all of them share.

use std::fmt::Write;

use std::sync::Arc;

/// What each request needs to know. On a line of memory of its own, so that its readers do not wait for the reference count.
#[repr(align(64))]
pub(super) struct Settings {
    greeting: String,
}

/// Reads the settings, once, when the server starts.
pub(super) fn settings() -> Arc<Settings> {
    Arc::new(Settings {
        greeting: "Good morning, and welcome to the page that you asked for.".to_owned(),
    })
}

/// Answers one request. In a server of this kind it is a task of its own, and so has its own reference.
fn answer(settings: Arc<Settings>, request: u64, page: &mut String) {
    page.clear();
    page.push_str(&settings.greeting);
    for row in 0..10 {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "{row}: {}", request + row);
    }
}

/// What a worker does: it answers requests, and says how many bytes it sent.
pub(super) fn work(settings: &Arc<Settings>, requests: std::ops::Range<u64>) -> usize {
    let mut page = String::with_capacity(4096);
    let mut sent = 0;
    for request in requests {
        answer(Arc::clone(settings), request, &mut page);
        sent += page.len();
    }
    sent
}
