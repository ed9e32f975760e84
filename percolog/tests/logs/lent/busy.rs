//! Writers that never pause.

use percolog::cpu::CoreId;
use percolog::oplog::{
    Cached, FullReason, Lent, LogCache, LogCacheBuilder, LoggedBuilder, Operation, Policy,
};
use percolog::testing::Environment;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Where an updater stops: it says so, and waits.
struct Stop {
    stopped: Sender<()>,
    let_go: Receiver<()>,
}

thread_local! {
    static SLOT: Cell<u32> = const { Cell::new(0) };
    static STOP: Cell<Option<Stop>> = const { Cell::new(None) };
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Operations that a queue may hold.
const LIMIT: usize = 4;

/// A machine on which a thread that is to be stopped gets a stamp from long ago, and is stopped when it asks for a better
/// one, which it does with its place locked.
struct Stopping {
    now: AtomicU64,
}

impl Environment for Stopping {
    fn slot(&self) -> CoreId {
        CoreId::new(SLOT.get())
    }

    fn stamp(&self) -> u64 {
        if let Some(stop) = STOP.take() {
            if ASKED.replace(ASKED.get() + 1) == 0 {
                STOP.set(Some(stop));
                return 0;
            }
            stop.stopped.send(()).expect("the test listens");
            stop.let_go.recv().expect("the test lets go");
        }
        self.now.fetch_add(1, Ordering::SeqCst)
    }
}

struct Push(u32);

impl Operation<Vec<u32>> for Push {
    fn exec(self, all: &mut Vec<u32>) {
        all.push(self.0);
    }
}

// SAFETY: a static.
unsafe impl Cached<Vec<u32>, Stopping> for Push {
    fn cache() -> &'static LogCache<Vec<u32>, Self, Stopping> {
        static CACHE: LogCache<Vec<u32>, Push, Stopping> = LogCacheBuilder::new()
            .places(1)
            .objects(
                LoggedBuilder::new()
                    .mode(percolog::oplog::Mode::Deferring)
                    .limit(LIMIT)
                    .policy(Policy::Full),
            )
            .build_in(Stopping {
                now: AtomicU64::new(1),
            });
        &CACHE
    }
}

/// However busy the writers of a slot are, a merge that has been there does not go there again, and ends.
#[test]
fn a_merge_visits_a_slot_once_however_busy_its_writers_are() {
    let object = Lent::<Vec<u32>, Push, Stopping>::boxed(Vec::new());
    let object = object.as_ref();
    // A merge visits the slots of this test in ascending order.
    for slot in [0, 1, 0, 0, 0] {
        SLOT.set(slot);
        object.queue(Push(slot));
    }
    thread::scope(|scope| {
        // Closed if this fails, and then nobody waits any more.
        let (stopped, hear) = channel();
        let (release, let_go) = channel();
        scope.spawn(move || {
            SLOT.set(1);
            STOP.set(Some(Stop { stopped, let_go }));
            object.queue(Push(2));
        });
        hear.recv().expect("the updater stops");
        let reader = scope.spawn(move || {
            SLOT.set(2);
            object.synchronize().clone()
        });
        // The queue on slot 0 is full until the merge has been there; it then goes on to wait for slot 1.
        SLOT.set(0);
        let refusal = || object.try_queue(Push(4)).map_err(|full| full.reason);
        let after = loop {
            match refusal() {
                Err(FullReason::Limit) => thread::yield_now(),
                outcome => break outcome,
            }
        };
        // If an update came through now, the merge would have to go to slot 0 once more; and so on for as long as
        // somebody writes.
        assert_eq!(after, Err(FullReason::Busy));
        for _ in 0..100 {
            assert_eq!(refusal(), Err(FullReason::Busy));
        }
        release.send(()).expect("the updater waits");
        let seen = reader.join().expect("the reader does not panic");
        assert_eq!(seen, [0, 1, 0, 0, 0, 2]);
    });
    object.queue(Push(5));
    assert_eq!(object.synchronize().last(), Some(&5));
}
