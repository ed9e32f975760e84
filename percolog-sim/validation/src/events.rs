//! Events from many cores, delivered to one that takes them while they come.
//!
//! The first core consumes, all others produce: one event after the other, with some work in between. A core that is alone does both in turn. No producer is ahead of the consumer by more
//! than a window. A consumer that has found few events does something else before it looks again. That, and the window, is the same for all
//! structures; what an operation is, is an event delivered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use percolog::collections::EventQueue;

use super::alone::Alone;
use super::clock;
use super::crew::{self, CrewError, Shift, Work};
use super::locks::Spun;

/// What carries the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// [`EventQueue`].
    Queue,
    /// `crossbeam_channel::unbounded`.
    Channel,
    /// One queue behind a spin lock, as Linux had it: a ticket lock.
    Spun,
}

/// How many events a consumer takes before it looks at the clock, and how many are few.
const BATCH: u64 = 64;

/// Cycles of what a consumer does that has found few: about as long as [`EventQueue`]'s lets itself wait for more.
const PAUSE: u64 = 4000;

/// Cycles after which a producer that is too far ahead looks again.
const HELD_UP: u64 = 1000;

/// How many events a producer may be ahead of the consumer.
const WINDOW: u64 = 512;

/// How many it produces before it looks how far ahead it is.
const BLOCK: u64 = 64;

/// An event: its producer in the upper bits, its number in the lower ones.
const NUMBER_BITS: u32 = 48;

/// Each thread but the first produces events with `work` cycles after each.
///
/// # Errors
/// A thread could not be started, or an event was lost or came out of its producer's order.
pub fn run(shift: Shift, kind: ChannelKind, work: u64) -> Result<Work, CrewError> {
    match kind {
        ChannelKind::Queue => {
            let queue = EventQueue::unbounded();
            percolog_roi::label(&queue, "EventQueue");
            let send = |event| queue.push(event);
            duel(shift, work, &send, || {
                let mut consumer = queue.consumer();
                let queue = &queue;
                move || {
                    // There is no bound, so there are no overflows.
                    let consumer = match &mut consumer {
                        Some(consumer) => consumer,
                        none => none.insert(queue.consumer()?),
                    };
                    consumer.try_next()?.into_event()
                }
            })
        }
        ChannelKind::Channel => {
            let (sender, receiver) = crossbeam_channel::unbounded();
            let send = |event| {
                // The receiver is there for as long as there are producers.
                let _ = sender.send(event);
            };
            duel(shift, work, &send, || || receiver.try_recv().ok())
        }
        ChannelKind::Spun => {
            let queue = Spun::new(VecDeque::new());
            percolog_roi::label(&queue, "queue and its spin lock");
            // What the consumer has taken in one go and not delivered yet. Nobody else looks.
            let taken = Alone(Mutex::new(VecDeque::new()));
            // Whose turn it is does not hang on the thread's number.
            let send = |event| queue.with(0, |queue| queue.push_back(event));
            duel(shift, work, &send, || {
                || {
                    let mut taken = taken.0.lock().unwrap_or_else(PoisonError::into_inner);
                    if taken.is_empty() {
                        queue.with(0, |queue| {
                            let count = queue.len().min(BATCH as usize);
                            taken.extend(queue.drain(..count));
                        });
                    }
                    taken.pop_front()
                }
            })
        }
    }
}

fn duel<R: FnMut() -> Option<u64>>(
    shift: Shift,
    work: u64,
    send: &(impl Fn(u64) + Sync),
    receiver: impl Fn() -> R + Sync,
) -> Result<Work, CrewError> {
    let counts = || -> Vec<_> {
        let counts = (0..shift.threads).map(|_| Alone(AtomicU64::new(0)));
        counts.collect()
    };
    // By producer: how many events it has sent; how many have been delivered in its order; and what it is told of that, once a block, so
    // that those who wait for it do not take the line from the consumer at each event.
    let (sent, delivered, told) = (&counts(), &counts(), &counts());
    // Relaxed, here and below: one thread writes, and for the others it is a hint.
    let deliver = |event: u64| {
        let producer = (event >> NUMBER_BITS) as usize;
        let number = event & ((1 << NUMBER_BITS) - 1);
        // What comes out of order is missing in the end.
        if number == delivered[producer].0.load(Ordering::Relaxed) {
            delivered[producer].0.store(number + 1, Ordering::Relaxed);
            if (number + 1).is_multiple_of(BLOCK) {
                told[producer].0.store(number + 1, Ordering::Relaxed);
            }
        }
    };
    let alone = shift.threads == 1;
    let done = crew::run_counting(shift, |thread| {
        let mut receive = (thread == 0).then(&receiver);
        let mut number = 0_u64;
        move || {
            if let Some(receive) = &mut receive {
                if alone {
                    for _ in 0..BATCH {
                        send(number);
                        number += 1;
                        clock::spin(work);
                    }
                    sent[0].0.store(number, Ordering::Relaxed);
                }
                let mut count = 0;
                while count < BATCH
                    && let Some(event) = receive()
                {
                    deliver(event);
                    count += 1;
                }
                if count < BATCH {
                    clock::spin(PAUSE);
                }
                return count;
            }
            if number.is_multiple_of(BLOCK)
                && number >= told[thread].0.load(Ordering::Relaxed) + WINDOW
            {
                clock::spin(HELD_UP);
                return 0;
            }
            send((thread as u64) << NUMBER_BITS | number);
            number += 1;
            sent[thread].0.store(number, Ordering::Relaxed);
            clock::spin(work);
            0
        }
    })?;
    let mut receive = receiver();
    while let Some(event) = receive() {
        deliver(event);
    }
    let sum = |counts: &[Alone<AtomicU64>]| {
        counts
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .sum()
    };
    done.checked(sum(delivered), sum(sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_does_both() {
        let shift = Shift {
            threads: 1,
            warm_up: 20_000,
            cycles: 400_000,
        };
        for kind in [ChannelKind::Queue, ChannelKind::Channel, ChannelKind::Spun] {
            let work = run(shift, kind, 10).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            assert!(work.all >= 2, "{kind:?}: {work}");
        }
    }

    #[test]
    fn what_is_lost_or_out_of_order_is_an_error() {
        let shift = Shift {
            threads: 3,
            warm_up: 20_000,
            cycles: 200_000,
        };
        let (sender, receiver) = crossbeam_channel::unbounded();
        let send = |event| sender.send(event).expect("somebody receives");
        let right = duel(shift, 100, &send, || || receiver.try_recv().ok());
        right.expect("nothing is lost");
        let lost = duel(
            shift,
            100,
            &|event| {
                if event % 3 != 1 {
                    send(event)
                }
            },
            || || receiver.try_recv().ok(),
        );
        assert!(lost.is_err());
        let twice = duel(shift, 100, &|event| send(event / 2), || {
            || receiver.try_recv().ok()
        });
        assert!(twice.is_err());
    }
}
