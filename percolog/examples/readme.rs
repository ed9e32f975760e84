//! The program of the README, run by four threads.

use percolog::counter::Counter;
use percolog::oplog::LoggedFn;
use std::collections::BTreeMap;

static HITS: Counter = Counter::new();
static VISITS: LoggedFn<BTreeMap<u32, u64>> = LoggedFn::new(BTreeMap::new());

fn serve(page: u32) {
    HITS.increment(); // a plain add, no lock prefix
    VISITS.update(move |visits| *visits.entry(page).or_default() += 1); // an append on this core
}

fn report() {
    println!("{} hits", HITS.sum()); // exact
    println!("{:?}", *VISITS.synchronize()); // every finished update, in order
}

fn main() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (0..1000).for_each(|request| serve((thread + request) % 3)));
        }
    });
    report();
    assert_eq!(HITS.sum(), 4000);
    assert_eq!(VISITS.synchronize().values().sum::<u64>(), 4000);
}
