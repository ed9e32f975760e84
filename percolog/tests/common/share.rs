//! How much of its work a test does.

/// So much of what a test does by itself; for tools under which programs are slow, the percentage in
/// `PERCOLOG_WORK`.
pub(crate) fn share(of: usize) -> usize {
    let percent = match std::env::var("PERCOLOG_WORK") {
        Ok(text) => text.trim().parse().expect("PERCOLOG_WORK is a percentage"),
        Err(_) => 100,
    };
    (of * percent / 100).max(1)
}
