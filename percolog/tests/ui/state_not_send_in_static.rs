// error: E0277
use percolog::oplog::{Logged, Operation};
#[cfg(feature = "wrong")]
use std::rc::Rc as Counted;
#[cfg(not(feature = "wrong"))]
use std::sync::Arc as Counted;

struct Push(u32);

impl Operation<Vec<Counted<u32>>> for Push {
    fn exec(self, all: &mut Vec<Counted<u32>>) {
        all.push(Counted::new(self.0));
    }
}

static LOG: Logged<Vec<Counted<u32>>, Push> = Logged::new(Vec::new());

fn main() {
    LOG.queue(Push(1));
}
