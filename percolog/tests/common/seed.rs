//! Where randomness comes from: printed, and settable to see a failure again.

/// The seed in `PERCOLOG_SEED`, or a new one. The harness shows the line when the test fails.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("PERCOLOG_SEED") {
        Ok(text) => text
            .trim()
            .parse()
            .expect("PERCOLOG_SEED is a number in decimal"),
        Err(_) => fastrand::u64(..),
    };
    println!("to see this again: PERCOLOG_SEED={seed}");
    seed
}
