//! Updaters whose queue is full.

use percolog::cpu::{self, CoreId};
use percolog::oplog::{Cached, Lent, LogCache, LogCacheBuilder, LoggedBuilder, Operation};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

enum Step {
    Count,
    /// Says that it is being executed, and waits.
    Stop(Sender<()>, Receiver<()>),
}

impl Operation<usize> for Step {
    fn exec(self, count: &mut usize) {
        if let Self::Stop(tell, go_on) = self {
            tell.send(()).expect("somebody listens");
            go_on.recv().expect("somebody lets go on");
        }
        *count += 1;
    }
}

// SAFETY: a static.
unsafe impl Cached<usize> for Step {
    fn cache() -> &'static LogCache<usize, Self> {
        static CACHE: LogCache<usize, Step> = LogCacheBuilder::new()
            .objects(
                LoggedBuilder::new()
                    .mode(percolog::oplog::Mode::Deferring)
                    .limit(4)
                    .hard_limit(4),
            )
            .build();
        &CACHE
    }
}

/// Limits are a slot's.
fn stay() {
    cpu::bind(CoreId::new(0));
}

fn stop() -> (Step, Receiver<()>, Sender<()>) {
    let ((tell, told), (let_go_on, go_on)) = (channel(), channel());
    (Step::Stop(tell, go_on), told, let_go_on)
}

#[test]
fn who_waits_for_room_goes_on_when_its_queue_is_taken() {
    stay();
    let object = Lent::<usize, Step>::boxed(0);
    let object = object.as_ref();
    // Left in the batch: it will be executed before the next cut is made, the other one after it.
    let (before, told_before, let_go_on_before) = stop();
    let (behind, told_behind, let_go_on_behind) = stop();
    object.queue(Step::Count);
    object.queue(before);
    assert_eq!(object.drain(1).executed, 1);
    thread::scope(|scope| {
        let merges = scope.spawn(|| {
            stay();
            assert_eq!(*object.synchronize(), 6);
        });
        told_before.recv().expect("it says so");
        let (begin, begun) = channel();
        let updater = scope.spawn(move || {
            stay();
            object.queue(behind);
            (0..3).for_each(|_| object.queue(Step::Count));
            begin.send(()).expect("somebody waits");
            object.queue(Step::Count);
        });
        begun.recv().expect("it says so");
        // So that it does wait. If it came late, it would find room at once: the test would show nothing, and not fail.
        thread::sleep(Duration::from_millis(100));
        let_go_on_before.send(()).expect("it waits");
        told_behind.recv().expect("it says so");
        // The object is still held by who executes what was taken.
        updater.join().expect("no panic");
        assert!(object.try_synchronize().is_err());
        let_go_on_behind.send(()).expect("it waits");
        merges.join().expect("no panic");
    });
    assert_eq!(*object.synchronize(), 7);
}
