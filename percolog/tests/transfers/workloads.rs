//! What is done to a structure while its lines are counted.

use std::hint::black_box;
use std::ops::Range;
use std::sync::{Arc, Once};
use std::thread;

use super::barrier::Barrier;
use super::objects::Shared;

/// What is simulated, on as many threads as there are cores.
pub(crate) type Workload = fn(usize);

/// Updates of each thread that fit into its queue with those that warmed it up: the limit is 128.
const FEW: u64 = 100;

/// Updates in all.
const SUSTAINED: u64 = 100_000;

/// After so many reads both memories of a queue, which reads exchange, have been in use.
const READS_TO_WARM_UP: u64 = 2;

/// Reads after which an update is looked at.
const READS: u64 = 5;

/// An object on lines of its own: what lies beside it is somebody else's business.
#[repr(align(128))]
pub(crate) struct Alone<S>(pub(crate) S);

/// Runs `body` on threads that stay on a core each, all of them until the last is done: a thread that ends writes to memory that
/// others have nearby.
pub(crate) fn on_every_core(threads: usize, body: impl Fn(usize, &Barrier) + Sync) {
    let together = Barrier::new(threads);
    let body = Alone(body);
    thread::scope(|scope| {
        // They begin and end one after the other: those that do so at the same time fight over the allocator's lines, which takes long
        // to simulate.
        let start = |thread| {
            let (together, body, started) = (&together, &body.0, Arc::new(Once::new()));
            let has_started = Arc::clone(&started);
            let handle = scope.spawn(move || {
                percolog_roi::core(thread);
                fetch_stack();
                has_started.call_once(|| ());
                together.wait();
                run(body, thread, together);
                together.wait();
                // Who goes on without having been woken ends a little earlier.
                thread::park();
            });
            started.wait();
            handle
        };
        let all: Vec<_> = (0..threads).map(start).collect();
        for thread in all {
            thread.thread().unpark();
            thread.join().expect("its panic has been reported");
        }
    });
}

/// Bytes of a thread's stack that whatever counts may use.
const STACK: usize = 2048;

/// Whoever makes a thread writes to its stack. Which of those lines what counts comes to, and warming up has not, depends on how the
/// compiler lays out both.
#[inline(never)]
fn fetch_stack() {
    black_box([1_u8; STACK]);
}

/// Calls `body` with its stack where [`fetch_stack`] had its own.
#[inline(never)]
fn run(body: &impl Fn(usize, &Barrier), thread: usize, together: &Barrier) {
    body(thread, together);
}

/// Turns of a loop that takes a core about as long as others take to get a line that it has.
const WORK: u64 = 100;

/// This thread's updates of these numbers. Warming up takes the same way through the code: what a core reads of the program, and how
/// deep its stack goes, is fetched then.
///
/// Nobody does nothing but update. A core that did would update many times for each time that a line comes to it, and be done with
/// them before others have begun: whatever moves lines would move few.
fn update<S: Shared>(object: &S, thread: usize, numbers: Range<u64>) {
    for number in numbers {
        object.update(thread, number);
        // Each turn needs the last one's result, and no memory.
        black_box((0..WORK).fold(number, |result, turn| {
            (result ^ turn).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }));
    }
}

/// How many updates of each thread nobody counts.
const WARM_UP: u64 = 3;

/// The first update of a thread makes its queue, and enters it into a table beside those of others; with the next one, once all are
/// entered, it finds it there. A counter takes one more: by the first ones it becomes hot, and has nothing to enter until it is.
fn warm_up<S: Shared>(object: &S, thread: usize, together: &Barrier) {
    for number in 0..WARM_UP {
        together.alone(|| update(object, thread, number..number + 1));
        together.wait();
    }
}

/// Counts what these updates move.
fn counted<S: Shared>(object: &S, thread: usize, numbers: Range<u64>) {
    let updates = numbers.end - numbers.start;
    percolog_roi::begin();
    update(object, thread, numbers);
    percolog_roi::end(updates);
}

/// Nobody reads, and no queue is full.
pub(crate) fn between_reads<S: Shared>(threads: usize) {
    let Alone(object) = &*Box::new(Alone(S::new(threads)));
    on_every_core(threads, |thread, together| {
        warm_up(object, thread, together);
        counted(object, thread, WARM_UP..WARM_UP + FEW);
    });
    assert_eq!(object.read(), (WARM_UP + FEW) * threads as u64);
}

/// With so many updates between two reads each thread comes to the limit, and its queue grows to what it needs while others merge.
const UPDATES_TO_THE_LIMIT: u64 = 512;

/// 100,000 updates, with the merges that they have to make.
pub(crate) fn sustained<S: Shared>(threads: usize) {
    let Alone(object) = &*Box::new(Alone(S::new(threads)));
    let each = SUSTAINED.div_ceil(threads as u64);
    on_every_core(threads, |thread, together| {
        warm_up(object, thread, together);
        let mut done = WARM_UP;
        for _ in 0..READS_TO_WARM_UP {
            update(object, thread, done..done + UPDATES_TO_THE_LIMIT);
            done += UPDATES_TO_THE_LIMIT;
            // What merges these is nothing that the updates after them need.
            if together.wait().is_leader() {
                object.read();
            }
            together.wait();
        }
        // What the first update after a read needs is counted elsewhere; the second one is the first that has another to absorb.
        update(object, thread, done..done + WARM_UP);
        done += WARM_UP;
        together.wait();
        counted(object, thread, done..done + each);
    });
    let all = 2 * WARM_UP + READS_TO_WARM_UP * UPDATES_TO_THE_LIMIT + each;
    assert_eq!(object.read(), all * threads as u64);
}

/// As many updates, with merges that readers make before any queue is full: how many there are, and of how much, does not depend on
/// how fast anybody is.
pub(crate) fn sustained_for_readers<S: Shared>(threads: usize) {
    let Alone(object) = &*Box::new(Alone(S::new(threads)));
    let reads = SUSTAINED.div_ceil(threads as u64 * FEW);
    on_every_core(threads, |thread, together| {
        for read in 0..READS_TO_WARM_UP + reads {
            let numbers = read * FEW..(read + 1) * FEW;
            let warm = read >= READS_TO_WARM_UP;
            if warm {
                counted(object, thread, numbers);
            } else {
                update(object, thread, numbers);
            }
            if together.wait().is_leader() {
                if warm {
                    percolog_roi::begin();
                }
                object.read();
                if warm {
                    percolog_roi::end(0);
                }
            }
            together.wait();
        }
    });
    let all = (READS_TO_WARM_UP + reads) * FEW;
    assert_eq!(object.read(), all * threads as u64);
}

/// One update of each thread after somebody has read.
pub(crate) fn first_after_a_read<S: Shared>(threads: usize) {
    let Alone(object) = &*Box::new(Alone(S::new(threads)));
    on_every_core(threads, |thread, together| {
        for read in 0..READS_TO_WARM_UP + READS {
            if read < READS_TO_WARM_UP {
                together.alone(|| update(object, thread, read..read + 1));
            } else {
                counted(object, thread, read..read + 1);
            }
            // Another thread reads each time, as whoever read last would find its own lines.
            if together.wait().is_leader() {
                object.read();
            }
            together.wait();
        }
    });
    assert_eq!(object.read(), (READS_TO_WARM_UP + READS) * threads as u64);
}
