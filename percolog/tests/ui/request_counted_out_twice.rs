// error: E0133
//! Whoever leaves in the place of a pass says that there is one: nobody else does it by way of what the trait is built on.

use percolog::requests::{RequestCounter, Requests};

fn leave<C: Requests>(counter: &C) {
    #[cfg(feature = "wrong")]
    counter.count_out();
    let _ = counter.state();
}

fn main() {
    leave(&RequestCounter::new());
}
