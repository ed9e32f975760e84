//! How much of its work a test does.

/// A quarter of what a test can do, or all of it where all that there is to be tested is tested (`PERCOLOG_TESTS=full`). For tools under
/// which programs are slow, the percentage in `PERCOLOG_WORK`.
pub(crate) fn share(of: usize) -> usize {
    let percent = match std::env::var("PERCOLOG_WORK") {
        Ok(text) => text.trim().parse().expect("PERCOLOG_WORK is a percentage"),
        Err(_) if std::env::var_os("PERCOLOG_TESTS").is_some_and(|tests| tests == "full") => 100,
        Err(_) => 25,
    };
    (of * percent / 100).max(1)
}
