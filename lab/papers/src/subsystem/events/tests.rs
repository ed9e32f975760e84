//! The order of notifications.

use super::{Delivery, LockFree, Locked, LoggedQueue, PerCpu};
use crate::subsystem::{Entry, SharedObject};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

fn event(process: u32, identity: u32) -> Entry {
    Entry {
        offset: 0,
        identity,
        end: 0,
        process,
    }
}

/// Reads until `working` is over, and once more.
fn read_all<O: SharedObject<View = Delivery>>(queue: &O, working: &AtomicBool) -> Vec<Entry> {
    let mut taken = Vec::new();
    loop {
        // Acquire: with the release of who has joined the threads that append.
        let last = !working.load(Ordering::Acquire);
        if taken.len() % 3 == 0 {
            // A look in between takes nothing and loses nothing.
            let _ = queue.view();
        }
        taken.extend(queue.read(0).0);
        if last {
            return taken;
        }
        thread::yield_now();
    }
}

/// Each thread appends for itself: each process's notifications come in its order, all of them once.
fn keeps_each_process_in_order<O>()
where
    O: SharedObject<Arrival = Entry, View = Delivery>,
{
    let queue = &O::default();
    let working = &AtomicBool::new(true);
    let taken = thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|process| {
                scope.spawn(move || {
                    for number in 0..2000 {
                        queue.enter(event(process, number));
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| read_all(queue, working));
        for worker in workers {
            worker.join().expect("nothing panics");
        }
        working.store(false, Ordering::Release);
        reader.join().expect("nothing panics")
    });
    let mut of_process: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for event in taken {
        of_process
            .entry(event.process)
            .or_default()
            .push(event.identity);
    }
    for process in 0..3 {
        assert!(of_process[&process].iter().copied().eq(0..2000));
    }
}

/// A token goes round, and who has it appends: the notifications come in the order of the token's way.
fn keeps_the_order_of_who_told_whom<O>()
where
    O: SharedObject<Arrival = Entry, View = Delivery>,
{
    const TURNS: u32 = 1500;
    let queue = &O::default();
    let working = &AtomicBool::new(true);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel::<u32>()).unzip();
    senders[0].send(0).expect("nobody has hung up");
    let taken = thread::scope(|scope| {
        let workers: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(process, inbox)| {
                let next = senders[(process + 1) % 3].clone();
                scope.spawn(move || {
                    for turn in inbox {
                        if turn < TURNS {
                            queue.enter(event(process as u32, turn));
                        }
                        // The token goes round once more, so that everybody hears of the end.
                        let alone = next.send(turn + 1).is_err();
                        if turn >= TURNS || alone {
                            return;
                        }
                    }
                })
            })
            .collect();
        drop(senders);
        let reader = scope.spawn(|| read_all(queue, working));
        for worker in workers {
            worker.join().expect("nothing panics");
        }
        working.store(false, Ordering::Release);
        reader.join().expect("nothing panics")
    });
    assert!(taken.iter().map(|event| event.identity).eq(0..TURNS));
}

macro_rules! order_of {
    ($($module:ident: $queue:ident;)*) => {$(
        mod $module {
            use super::*;

            #[test]
            fn keeps_each_process_in_order() {
                super::keeps_each_process_in_order::<$queue>();
            }

            #[test]
            fn keeps_the_order_of_who_told_whom() {
                super::keeps_the_order_of_who_told_whom::<$queue>();
            }
        }
    )*};
}

order_of! {
    locked: Locked;
    percpu: PerCpu;
    lock_free: LockFree;
    logged: LoggedQueue;
}

#[test]
fn deliveries_are_compared_process_by_process() {
    let delivery = |events: &[(u32, u32)]| {
        Delivery(
            events
                .iter()
                .map(|&(process, identity)| event(process, identity))
                .collect(),
        )
    };
    let one = delivery(&[(1, 0), (2, 1), (1, 2)]);
    assert_eq!(one, delivery(&[(2, 1), (1, 0), (1, 2)]));
    assert_ne!(one, delivery(&[(1, 2), (2, 1), (1, 0)]));
    assert_ne!(one, delivery(&[(1, 0), (2, 1)]));
    assert_ne!(one, delivery(&[(1, 0), (2, 1), (1, 2), (1, 2)]));
}
