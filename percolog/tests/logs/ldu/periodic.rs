//! The timer.

use percolog::ldu::{Bag, Deferred, Entry};
use percolog::oplog::{Drain, DrainThread, Drained};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

#[test]
fn what_is_pending_is_merged_with_nobody_reading() {
    static ALWAYS: Deferred<Bag<u32>> = Deferred::new(Bag::new());
    let counted = Arc::new(Deferred::new(Bag::new()));
    let timer = DrainThread::every(Duration::from_millis(1)).unwrap();
    timer.add(&counted);
    timer.add_static(&ALWAYS);
    let entries = [1, 2].map(Entry::new);
    ALWAYS.insert(&entries[0]).unwrap();
    counted.insert(&entries[1]).unwrap();
    while ALWAYS.stats().executed + counted.stats().executed < 2 {
        std::thread::yield_now();
    }
    // The timer does not keep what only it has.
    drop(counted);
    while entries[1].is_linked() {
        std::thread::yield_now();
    }
    drop(timer);
    // Off: by hand from here on.
    ALWAYS.remove(&entries[0]).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(ALWAYS.stats().pending, 1);
    assert!(ALWAYS.synchronize().is_empty());
}

/// Tells each time it is drained.
struct Bell(Sender<()>);

impl Drain for Bell {
    fn drain(&self, _budget: usize) -> Drained {
        let _ = self.0.send(());
        Deferred::new(Bag::<()>::new()).drain(0)
    }
}

#[test]
fn a_timer_can_be_dropped_at_once_and_objects_added_late() {
    drop(DrainThread::every(Duration::from_secs(3600)).unwrap());
    let timer = DrainThread::every(Duration::ZERO).unwrap();
    let (sender, bells) = channel();
    let bell = Arc::new(Bell(sender));
    timer.add(&bell);
    for _ in 0..3 {
        bells.recv().unwrap();
    }
    drop((timer, bell));
    // Nobody is left who could ring.
    while bells.recv().is_ok() {}
}
