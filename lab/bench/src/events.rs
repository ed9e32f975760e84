//! Events from many threads, delivered to one that consumes them while they come.
//!
//! The first thread of a cell consumes, all others produce (the only one does both, one block after the other); what has not been delivered when they stop is delivered in the final read, so
//! every event that is counted was delivered. Each event says whose it is and which one: every producer's come in its order, or the
//! cell is an error.
//!
//! No producer runs ahead of the consumer by more than a window, or a structure without a bound would be measured by how fast memory can be
//! had. Structures are asked for nothing for that: the window is kept beside them, and looked at once a block.

use std::hint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::runner::{self, Cell, RunError, Settings, Workload};

/// What carries events.
pub trait Channel: Sync + Sized {
    /// How tables call it.
    const NAME: &'static str;

    /// What a thread that sends has of its own.
    type Sender;

    /// With no events in it, and without a bound.
    fn new() -> Self;

    /// For a thread that sends.
    fn sender(&self) -> Self::Sender;

    /// Appends an event.
    fn send(&self, sender: &Self::Sender, event: u64);

    /// Calls `deliver` with events that have come, in order, and returns how many there were; waits a moment for the first if `wait`. Only
    /// one thread at a time calls this.
    fn receive(&self, wait: bool, deliver: impl FnMut(u64)) -> u64;
}

/// Runs one cell on a fresh channel: one consumer, and a producer less than there are threads. With one thread that is both.
///
/// # Errors
/// An event was lost, came twice or out of order, or a thread could not be started.
pub fn run<C: Channel>(settings: Settings) -> Result<Cell, RunError> {
    run_pausing::<C>(settings, Duration::ZERO)
}

/// The same with a consumer that has something else to do between any two times that it takes what has come.
///
/// # Errors
/// As [`run`].
pub fn run_pausing<C: Channel>(settings: Settings, pause: Duration) -> Result<Cell, RunError> {
    let duel = Duel {
        channel: C::new(),
        delivered: (0..settings.threads).map(|_| Padded::default()).collect(),
        wrong: Mutex::new(None),
        pause,
    };
    runner::run(C::NAME, &duel, settings)
}

/// Events between two looks at the stop flag and the window.
const BLOCK: u64 = 256;

/// How far a producer may be ahead of the consumer.
const WINDOW: u64 = 64 * BLOCK;

/// An event: its producer in the upper bits, its number in the lower ones.
const NUMBER_BITS: u32 = 48;

#[repr(align(128))]
#[derive(Default)]
struct Padded(AtomicU64);

struct Duel<C> {
    channel: C,
    /// By producer: how many of its events have been delivered. The consumer alone writes.
    delivered: Vec<Padded>,
    wrong: Mutex<Option<String>>,
    pause: Duration,
}

/// A thread's number, how many events it has produced, and what it sends them with.
struct Worker<S> {
    thread: usize,
    produced: u64,
    sender: S,
}

impl<C: Channel> Duel<C> {
    fn produce(&self, worker: &mut Worker<C::Sender>) {
        let producer = (worker.thread as u64) << NUMBER_BITS;
        for _ in 0..BLOCK {
            self.channel
                .send(&worker.sender, producer | worker.produced);
            worker.produced += 1;
        }
    }

    fn deliver(&self, wait: bool) -> u64 {
        self.channel.receive(wait, |event| {
            let producer = (event >> NUMBER_BITS) as usize;
            let number = event & ((1 << NUMBER_BITS) - 1);
            let delivered = &self.delivered[producer].0;
            // Relaxed, here and below: one thread writes, and for the others it is a hint.
            let expected = delivered.load(Ordering::Relaxed);
            if number != expected {
                let mut wrong = self.wrong.lock().expect("nothing panics under it");
                wrong.get_or_insert_with(|| {
                    format!("event {number} of producer {producer} came where {expected} belongs")
                });
            }
            delivered.store(number + 1, Ordering::Relaxed);
        })
    }
}

impl<C: Channel> Workload for Duel<C> {
    type Worker = Worker<C::Sender>;
    type Left = (usize, u64);

    fn worker(&self, thread: usize) -> Worker<C::Sender> {
        Worker {
            thread,
            produced: 0,
            sender: self.channel.sender(),
        }
    }

    fn block(&self, worker: &mut Worker<C::Sender>) -> u64 {
        if self.delivered.len() == 1 {
            self.produce(worker);
            self.deliver(false);
            return BLOCK;
        }
        if worker.thread == 0 {
            self.deliver(true);
            if !self.pause.is_zero() {
                let began = Instant::now();
                while began.elapsed() < self.pause {
                    hint::spin_loop();
                }
            }
            // What counts is counted where it is produced, as everything is delivered in the end.
            return 0;
        }
        let delivered = self.delivered[worker.thread].0.load(Ordering::Relaxed);
        if worker.produced - delivered > WINDOW {
            thread::yield_now();
            return 0;
        }
        self.produce(worker);
        BLOCK
    }

    fn leave(&self, worker: Worker<C::Sender>) -> (usize, u64) {
        (worker.thread, worker.produced)
    }

    fn settle(&self) {
        while self.deliver(false) != 0 {}
    }

    fn check(&self, left: &[(usize, u64)]) -> Result<(), String> {
        if let Some(wrong) = self.wrong.lock().expect("nothing panics under it").take() {
            return Err(wrong);
        }
        for (thread, produced) in left {
            let delivered = self.delivered[*thread].0.load(Ordering::Relaxed);
            if delivered != *produced {
                return Err(format!("{delivered} of {produced} were delivered"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{CrossbeamEvents, PercologChannel, PercologEvents};

    #[test]
    fn every_peer_delivers_what_is_produced_in_order() {
        for threads in [1, 2, 4] {
            let settings = Settings::new(threads, Duration::from_millis(2));
            for run in [
                run::<PercologEvents>,
                run::<PercologChannel>,
                run::<CrossbeamEvents>,
            ] {
                let cell = run(settings).expect("every event is delivered, in order");
                assert!(cell.operations >= BLOCK);
            }
        }
    }

    /// Gives the events of every batch in the wrong order.
    struct Backwards(Mutex<Vec<u64>>);

    impl Channel for Backwards {
        const NAME: &'static str = "backwards";
        type Sender = ();

        fn new() -> Self {
            Self(Mutex::default())
        }

        fn sender(&self) {}

        fn send(&self, (): &(), event: u64) {
            self.0.lock().expect("nothing panics").push(event);
        }

        fn receive(&self, _wait: bool, mut deliver: impl FnMut(u64)) -> u64 {
            let mut count = 0;
            while let Some(event) = self.0.lock().expect("nothing panics").pop() {
                deliver(event);
                count += 1;
            }
            count
        }
    }

    #[test]
    fn the_wrong_order_is_an_error() {
        let settings = Settings::new(2, Duration::from_millis(2));
        assert!(run::<Backwards>(settings).is_err());
    }
}
