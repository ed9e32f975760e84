//! What the page-fault path promises, for each choice of its objects.

mod model;
mod objects;
mod programs;
mod threads;

use super::Choice;

/// Runs `f` on each choice, which a failure then names.
fn with_each_choice(f: impl Fn(Choice)) {
    for choice in Choice::all() {
        println!("{choice}");
        f(choice);
    }
}

/// Random numbers: Marsaglia's xorshift.
struct Numbers(u64);

impl Numbers {
    /// From a seed, which is printed.
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}
