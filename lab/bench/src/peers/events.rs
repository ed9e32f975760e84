//! The event queue, the channel that is its kind without one order, and the channel that programs have today.

use std::sync::Mutex;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use percolog::collections::event_queue::Delivery;
use percolog::collections::{EventQueue, channel};

use crate::events::Channel;

/// How long a consumer waits that finds nothing, before it looks whether it is to stop.
const MOMENT: Duration = Duration::from_millis(1);

/// [`EventQueue`].
#[derive(Debug)]
pub struct PercologEvents(EventQueue<u64>);

impl Channel for PercologEvents {
    const NAME: &'static str = "EventQueue";
    type Sender = ();

    fn new() -> Self {
        Self(EventQueue::unbounded())
    }

    fn sender(&self) {}

    #[inline]
    fn send(&self, (): &(), event: u64) {
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

/// [`channel::unbounded`].
#[derive(Debug)]
pub struct PercologChannel(Mutex<channel::Sender<u64>>, Mutex<channel::Receiver<u64>>);

impl Channel for PercologChannel {
    const NAME: &'static str = "collections::channel";
    type Sender = channel::Sender<u64>;

    fn new() -> Self {
        let (sender, receiver) = channel::unbounded();
        Self(Mutex::new(sender), Mutex::new(receiver))
    }

    fn sender(&self) -> channel::Sender<u64> {
        self.0.lock().expect("nothing panics under it").clone()
    }

    #[inline]
    fn send(&self, sender: &channel::Sender<u64>, event: u64) {
        sender.send(event).expect("the receiver is there");
    }

    fn receive(&self, wait: bool, deliver: impl FnMut(u64)) -> u64 {
        let mut receiver = self.1.lock().expect("one thread at a time consumes");
        let count = if wait {
            receiver.wait_drain_for(MOMENT, deliver)
        } else {
            receiver.drain(deliver)
        };
        count as u64
    }
}

/// `crossbeam_channel::unbounded`.
#[derive(Debug)]
pub struct CrossbeamEvents(Sender<u64>, Receiver<u64>);

impl Channel for CrossbeamEvents {
    const NAME: &'static str = "crossbeam-channel";
    type Sender = ();

    fn new() -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded();
        Self(sender, receiver)
    }

    fn sender(&self) {}

    #[inline]
    fn send(&self, (): &(), event: u64) {
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
