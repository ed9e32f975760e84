//! What objects move whose logs a cache lends them.

use std::pin::Pin;

use percolog::oplog::{Lent, Operation};

use super::objects::Shared;
use super::workloads::sustained;
use super::{SUSTAINED_LOG, keeps};

/// One object that all cores update: the worst that can happen to it.
struct Lone(Pin<Box<Line>>);

/// On a line of its own: what lies beside it is somebody else's business.
#[repr(align(128))]
struct Sum(u64);

type Line = Lent<Sum, Add>;

struct Add(u64);

impl Operation<Sum> for Add {
    fn exec(self, sum: &mut Sum) {
        sum.0 += self.0;
    }
}

percolog::log_cache!(Sum, Add);

impl Shared for Lone {
    fn new(_threads: usize) -> Self {
        let object = Self(Lent::boxed(Sum(0)));
        percolog_roi::label(&*object.0, "Lent");
        object
    }

    fn update(&self, _thread: usize, _number: u64) {
        self.0.as_ref().queue(Add(1));
    }

    fn read(&self) -> u64 {
        self.0.synchronize().0
    }
}

#[test]
fn lent_logs_sustained() {
    keeps(sustained::<Lone>, SUSTAINED_LOG);
}
