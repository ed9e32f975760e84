// error: E0505
//! A request is inside of a counter that is there.

use percolog::requests::{RequestCounter, Requests};

fn main() {
    let counter = RequestCounter::new();
    let pass = counter.enter();
    #[cfg(feature = "wrong")]
    drop(counter);
    drop(pass);
}
