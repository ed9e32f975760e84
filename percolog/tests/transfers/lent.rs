//! What objects move whose logs a cache lends them.

use std::pin::Pin;

use percolog::oplog::{Lent, LogCacheBuilder, LoggedBuilder, Mode, Operation};

use super::objects::Shared;
use super::workloads::{between_reads, first_after_a_read, sustained};
use super::{AFTER_A_READ, CORES, LARGE, SUSTAINED_LOG, keeps, keeps_on};

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

// With room for as many operations as the limit: what a log that grows has to ask of the allocator is the allocator's business.
percolog::log_cache!(
    Sum,
    Add,
    LogCacheBuilder::new()
        .room(128)
        .objects(LoggedBuilder::new().mode(Mode::Deferring))
);

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
fn lent_logs_between_reads() {
    keeps(between_reads::<Lone>, 0.0);
}

/// The object's word, the place with the log in it, and the memory of its entries.
#[test]
fn lent_logs_after_a_read() {
    keeps(first_after_a_read::<Lone>, AFTER_A_READ);
}

/// While one of 256 threads merges, the logs of others grow, from memory of the allocator that many threads have in common: how many
/// lines that moves depends on where things happen to lie.
const GROWTH: f64 = 0.3;

#[test]
fn lent_logs_sustained() {
    for &cores in CORES.iter() {
        let growth = if cores == LARGE { GROWTH } else { 0.0 };
        keeps_on(&[cores], sustained::<Lone>, SUSTAINED_LOG + growth);
    }
}
