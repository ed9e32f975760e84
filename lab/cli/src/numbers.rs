//! Numbers from the command line.

/// As many as a replay accepts. More than anyone can mean: each needs a stack, and the figures would say nothing.
const MOST_THREADS: usize = percolog_papers::replay::MAX_THREADS;

/// A number of threads from the command line.
pub(crate) fn thread_count(text: &str) -> Result<usize, String> {
    let count: usize = text
        .trim()
        .parse()
        .map_err(|_| format!("a number from 1 to {MOST_THREADS} is needed"))?;
    match count {
        0 => Err("at least one thread is needed".to_owned()),
        1..=MOST_THREADS => Ok(count),
        _ => Err(format!("at most {MOST_THREADS} threads can be measured")),
    }
}
