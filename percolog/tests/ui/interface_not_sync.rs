// error: E0277
//! A representative can be called by several threads at once: who migrates takes a call along.

use percolog::clustered::{self, Shared};
use std::cell::Cell;

trait Count: Sync {
    fn add(&self);
}

#[cfg(feature = "wrong")]
struct Number(Cell<u64>);
#[cfg(not(feature = "wrong"))]
struct Number(std::sync::Mutex<Cell<u64>>);

impl Count for Number {
    fn add(&self) {}
}

fn main() {
    let number = Number(Cell::new(0).into());
    let object = clustered::create(Shared::new(number, |it| it as &dyn Count));
    let _ = object.call(|it| it.add());
}
