//! The event queue, and the channel that programs have today.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use percolog::collections::EventQueue;
use percolog::collections::event_queue::Delivery;

use crate::events::Channel;

/// How long a consumer waits that finds nothing, before it looks whether it is to stop.
const MOMENT: Duration = Duration::from_millis(1);

/// [`EventQueue`].
#[derive(Debug)]
pub struct PercologEvents(EventQueue<u64>);

impl Channel for PercologEvents {
    const NAME: &'static str = "EventQueue";

    fn new() -> Self {
        Self(EventQueue::unbounded())
    }

    #[inline]
    fn send(&self, event: u64) {
        self.0.push(event);
    }

    fn receive(&self, wait: bool, mut deliver: impl FnMut(u64)) -> u64 {
        let mut consumer = self.0.consumer().expect("one thread at a time consumes");
        let mut count = 0;
        let take = |next| match next {
            Delivery::Event(event) => {
                deliver(event);
                count += 1;
            }
            Delivery::Overflow { .. } => unreachable!("there is no bound"),
        };
        if wait {
            consumer.wait_drain_for(MOMENT, take);
        } else {
            consumer.drain(take);
        }
        count
    }
}

/// `crossbeam_channel::unbounded`.
#[derive(Debug)]
pub struct CrossbeamEvents(Sender<u64>, Receiver<u64>);

impl Channel for CrossbeamEvents {
    const NAME: &'static str = "crossbeam-channel";

    fn new() -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded();
        Self(sender, receiver)
    }

    #[inline]
    fn send(&self, event: u64) {
        self.0.send(event).expect("the receiver is there");
    }

    fn receive(&self, wait: bool, mut deliver: impl FnMut(u64)) -> u64 {
        let mut count = 0;
        if wait && let Ok(first) = self.1.recv_timeout(MOMENT) {
            deliver(first);
            count += 1;
        }
        // Producers who never pause must not keep the consumer from looking whether it is to stop.
        for event in self.1.try_iter().take(4096) {
            deliver(event);
            count += 1;
        }
        count
    }
}
