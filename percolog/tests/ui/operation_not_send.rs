// error: E0277
use percolog::oplog::{Logged, Operation};
#[cfg(feature = "wrong")]
use std::rc::Rc as Counted;
#[cfg(not(feature = "wrong"))]
use std::sync::Arc as Counted;

struct Push(Counted<u32>);

impl Operation<Vec<u32>> for Push {
    fn exec(self, all: &mut Vec<u32>) {
        all.push(*self.0);
    }
}

fn main() {
    let log = Logged::new(Vec::new());
    log.queue(Push(Counted::new(1)));
}
