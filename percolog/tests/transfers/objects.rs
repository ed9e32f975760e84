//! The structures whose lines are counted: percolog's, and what one writes without thinking of lines.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use percolog::collections::event_queue::Delivery;
use percolog::collections::{EventQueue, Registry, channel};
use percolog::counter::{Counter, SloppyCounter};
use percolog::oplog::{Absorb, Logged, LoggedBuilder, Mode, Operation, RemoveToken, token_pair};

/// A structure that counts its updates.
pub(crate) trait Shared: Sync {
    /// For that many threads.
    fn new(threads: usize) -> Self;
    /// The thread's update of that number.
    fn update(&self, thread: usize, number: u64);
    /// How many updates were made.
    fn read(&self) -> u64;
}

/// `Logged::queue` with operations that all have to be executed.
pub(crate) struct Logs(Logged<u64, Add>);

struct Add(u64);

impl Operation<u64> for Add {
    fn exec(self, sum: &mut u64) {
        *sum += self.0;
    }
}

impl Shared for Logs {
    fn new(_threads: usize) -> Self {
        let object = Self(LoggedBuilder::new().mode(Mode::Deferring).build(0));
        percolog_roi::label(&object.0, "Logged");
        object
    }

    fn update(&self, _thread: usize, _number: u64) {
        self.0.queue(Add(1));
    }

    fn read(&self) -> u64 {
        *self.0.synchronize()
    }
}

/// The same of a log that learns whether to log.
pub(crate) struct Learning(Logged<u64, Add>);

impl Shared for Learning {
    fn new(_threads: usize) -> Self {
        let object = Self(Logged::new(0));
        percolog_roi::label(&object.0, "Logged");
        object
    }

    fn update(&self, _thread: usize, _number: u64) {
        self.0.queue(Add(1));
    }

    fn read(&self) -> u64 {
        *self.0.synchronize()
    }
}

/// `Logged::queue` with operations of which the last one on each key counts.
pub(crate) struct Absorbing(Logged<Vec<u64>, Set>);

/// How often the thread has updated.
struct Set {
    thread: usize,
    updates: u64,
}

impl Operation<Vec<u64>> for Set {
    const ABSORBS: bool = true;

    fn exec(self, updates: &mut Vec<u64>) {
        updates[self.thread] = self.updates;
    }

    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(self.thread as u64)
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.thread == earlier.thread
    }
}

impl Shared for Absorbing {
    fn new(threads: usize) -> Self {
        let object = Self(
            LoggedBuilder::new()
                .mode(Mode::Deferring)
                .build(vec![0; threads]),
        );
        percolog_roi::label(&object.0, "Logged");
        object
    }

    fn update(&self, thread: usize, number: u64) {
        self.0.queue(Set {
            thread,
            updates: number + 1,
        });
    }

    fn read(&self) -> u64 {
        self.0.synchronize().iter().sum()
    }
}

/// `EventQueue::push`. Whoever reads is the consumer for that time.
pub(crate) struct Events {
    queue: EventQueue<u64>,
    /// What consumers have been given, or told that it was lost.
    delivered: Padded<AtomicU64>,
}

impl Shared for Events {
    fn new(_threads: usize) -> Self {
        let object = Self {
            // So few that what is merged while nobody consumes does not become the main thing.
            queue: EventQueue::new(10_000),
            delivered: Padded(AtomicU64::new(0)),
        };
        percolog_roi::label(&object.queue, "EventQueue");
        object
    }

    fn update(&self, _thread: usize, number: u64) {
        self.queue.push(number);
    }

    fn read(&self) -> u64 {
        let mut consumer = self.queue.consumer().expect("one thread reads at a time");
        let mut count = 0;
        consumer.drain(|next| match next {
            Delivery::Event(_) => count += 1,
            Delivery::Overflow { lost } => count += lost,
        });
        self.delivered.0.fetch_add(count, Ordering::Relaxed) + count
    }
}

/// `channel::Sender::send`, with a sender for each thread.
pub(crate) struct Senders {
    /// Nobody but the thread locks its own.
    senders: Vec<Padded<Mutex<channel::Sender<u64>>>>,
    receiver: Padded<Mutex<(channel::Receiver<u64>, u64)>>,
}

impl Shared for Senders {
    fn new(threads: usize) -> Self {
        let (sender, receiver) = channel::unbounded();
        Self {
            senders: (0..threads)
                .map(|_| Padded(Mutex::new(sender.clone())))
                .collect(),
            receiver: Padded(Mutex::new((receiver, 0))),
        }
    }

    fn update(&self, thread: usize, number: u64) {
        let sender = self.senders[thread].0.lock().expect("no sender panics");
        sender.send(number).expect("the receiver is there");
    }

    fn read(&self) -> u64 {
        let mut receiver = self.receiver.0.lock().expect("no reader panics");
        let (receiver, received) = &mut *receiver;
        *received += receiver.drain(drop) as u64;
        *received
    }
}

/// `std::sync::mpsc::channel`: what programs have today where `EventQueue` or `channel` would do.
pub(crate) struct Channel {
    sender: mpsc::Sender<u64>,
    receiver: Mutex<mpsc::Receiver<u64>>,
    received: Padded<AtomicU64>,
}

impl Shared for Channel {
    fn new(_threads: usize) -> Self {
        let (sender, receiver) = mpsc::channel();
        Self {
            sender,
            receiver: Mutex::new(receiver),
            received: Padded(AtomicU64::new(0)),
        }
    }

    fn update(&self, _thread: usize, number: u64) {
        self.sender.send(number).expect("the receiver is there");
    }

    fn read(&self) -> u64 {
        let receiver = self.receiver.lock().expect("no reader panics");
        let count = receiver.try_iter().count() as u64;
        self.received.0.fetch_add(count, Ordering::Relaxed) + count
    }
}

/// `Registry`: an update registers an entry with the number of updates of its thread, and unregisters the one before.
pub(crate) struct Registered {
    registry: Registry<u64>,
    /// What ends the thread's last entry; nobody else looks at it.
    last: Vec<Padded<Mutex<Option<RemoveToken>>>>,
}

impl Shared for Registered {
    fn new(threads: usize) -> Self {
        let object = Self {
            registry: Registry::new(),
            last: (0..threads).map(|_| Padded(Mutex::new(None))).collect(),
        };
        percolog_roi::label(&object.registry, "Registry");
        object
    }

    fn update(&self, thread: usize, number: u64) {
        let (birth, death) = token_pair();
        self.registry.register_as(birth, number + 1);
        let mut last = self.last[thread].0.lock().expect("no panic under the lock");
        if let Some(earlier) = last.replace(death) {
            self.registry.unregister(earlier);
        }
    }

    fn read(&self) -> u64 {
        self.registry
            .list()
            .iter()
            .map(|(_, updates)| *updates)
            .sum()
    }
}

/// `Counter::add`.
pub(crate) struct Counted(Counter);

impl Shared for Counted {
    fn new(_threads: usize) -> Self {
        let object = Self(Counter::new());
        percolog_roi::label(&object.0, "Counter");
        object
    }

    fn update(&self, _thread: usize, _number: u64) {
        self.0.add(1);
    }

    fn read(&self) -> u64 {
        u64::try_from(self.0.sum()).expect("only added to")
    }
}

/// `SloppyCounter`: each update acquires one and releases two, so that what is in use tells how many there were.
pub(crate) struct Spared(SloppyCounter);

impl Shared for Spared {
    fn new(_threads: usize) -> Self {
        // More than the updates between two reads leave.
        let object = Self(SloppyCounter::new(1000));
        percolog_roi::label(&object.0, "SloppyCounter");
        object
    }

    fn update(&self, _thread: usize, _number: u64) {
        self.0.acquire(1);
        self.0.release(2);
    }

    fn read(&self) -> u64 {
        u64::try_from(-self.0.in_use()).expect("more is released than acquired")
    }
}

/// The same with each thread's spares beside those of others.
pub(crate) struct PackedSpares(Vec<AtomicI64>);

impl Shared for PackedSpares {
    fn new(threads: usize) -> Self {
        let object = Self((0..threads).map(|_| AtomicI64::new(0)).collect());
        percolog_roi::label(&object.0[..], "spares");
        object
    }

    fn update(&self, thread: usize, _number: u64) {
        // One writer each, as with `SloppyCounter`.
        for change in [-1, 2] {
            let spares = self.0[thread].load(Ordering::Relaxed);
            self.0[thread].store(spares + change, Ordering::Relaxed);
        }
    }

    fn read(&self) -> u64 {
        let all: i64 = self
            .0
            .iter()
            .map(|spares| spares.load(Ordering::Relaxed))
            .sum();
        u64::try_from(all).expect("more is released than acquired")
    }
}

/// How values that threads write to, one each, lie beside each other: all that differs between what keeps the bounds and what does not.
pub(crate) trait Place<T>: Sync {
    fn new(value: T) -> Self;
    fn get(&self) -> &T;
}

/// As the language puts them: several in a line.
pub(crate) struct Packed<T>(T);

/// Each on lines of its own.
#[repr(align(128))]
pub(crate) struct Padded<T>(T);

impl<T: Sync> Place<T> for Packed<T> {
    fn new(value: T) -> Self {
        Self(value)
    }

    fn get(&self) -> &T {
        &self.0
    }
}

impl<T: Sync> Place<T> for Padded<T> {
    fn new(value: T) -> Self {
        Self(value)
    }

    fn get(&self) -> &T {
        &self.0
    }
}

/// A counter for each thread.
pub(crate) struct Counters<P>(Vec<P>);

pub(crate) type PackedCounters = Counters<Packed<AtomicI64>>;
pub(crate) type PaddedCounters = Counters<Padded<AtomicI64>>;

impl<P: Place<AtomicI64>> Shared for Counters<P> {
    fn new(threads: usize) -> Self {
        let counters: Vec<_> = (0..threads).map(|_| P::new(AtomicI64::new(0))).collect();
        percolog_roi::label(&counters[..], "counters");
        Self(counters)
    }

    fn update(&self, thread: usize, _number: u64) {
        // As `Counter` does it: the thread is the only one that writes here.
        let counter = self.0[thread].get();
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        let sum: i64 = self
            .0
            .iter()
            .map(|counter| counter.get().load(Ordering::Relaxed))
            .sum();
        u64::try_from(sum).expect("only added to")
    }
}

/// A queue for each thread: the least that does what `Logged` does.
pub(crate) struct Queues<P, M> {
    queues: Vec<P>,
    /// Whether there are entries, by thread. Written under the queue's lock, read without it.
    marks: Vec<M>,
    state: Alone<Mutex<u64>>,
    /// Stands for the clock, without its cost: here only lines are counted.
    stamp: u64,
}

pub(crate) type PackedQueues = Queues<Packed<Queue>, Packed<AtomicBool>>;
pub(crate) type PaddedQueues = Queues<Padded<Queue>, Padded<AtomicBool>>;

/// A line that neither variant shares with the queues.
#[repr(align(128))]
struct Alone<T>(T);

/// As many as `Logged` has by default.
const LIMIT: usize = 128;

/// What one thread has queued: 24 bytes, and the entries elsewhere.
pub(crate) struct Queue {
    lock: AtomicBool,
    /// Under the lock.
    length: AtomicUsize,
    /// Under the lock. Made by the thread whose queue it is, so that nobody else has had the lines.
    entries: UnsafeCell<Option<Box<Entries>>>,
}

/// On lines of their own in both variants.
#[repr(align(128))]
struct Entries([Entry; LIMIT]);

/// A stamp and an amount, where the queue is so long.
type Entry = MaybeUninit<(u64, u64)>;

// SAFETY: the entries are only touched by whoever holds the lock.
unsafe impl Sync for Queue {}

impl Queue {
    fn new() -> Self {
        Self {
            lock: AtomicBool::new(false),
            length: AtomicUsize::new(0),
            entries: UnsafeCell::new(None),
        }
    }

    /// Runs `body` with the queue locked.
    fn locked<R>(&self, body: impl FnOnce(&mut [Entry; LIMIT]) -> R) -> R {
        // Acquire: pairs with the Release store of whoever had the lock before.
        while self.lock.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: the lock is held, so nobody else has the entries.
        let entries = unsafe { &mut *self.entries.get() }
            .get_or_insert_with(|| Box::new(Entries([const { MaybeUninit::uninit() }; LIMIT])));
        let result = body(&mut entries.0);
        // Release: whoever takes the lock next sees the entries as they are now.
        self.lock.store(false, Ordering::Release);
        result
    }
}

impl<P: Place<Queue>, M: Place<AtomicBool>> Queues<P, M> {
    /// Merges all queues if it is still necessary once nobody else does.
    fn merge(&self, necessary: impl FnOnce() -> bool) -> u64 {
        let mut state = self.state.0.lock().expect("no panic under the lock");
        if !necessary() {
            return *state;
        }
        for (queue, mark) in self.queues.iter().zip(&self.marks) {
            let (queue, mark) = (queue.get(), mark.get());
            if mark.load(Ordering::Relaxed) {
                queue.locked(|entries| {
                    // Relaxed, here and below: under the lock.
                    mark.store(false, Ordering::Relaxed);
                    let length = queue.length.swap(0, Ordering::Relaxed);
                    for entry in &entries[..length] {
                        // SAFETY: each of the first `length` entries has been written.
                        let (_, amount) = unsafe { entry.assume_init() };
                        *state += amount;
                    }
                });
            }
        }
        *state
    }
}

impl<P: Place<Queue>, M: Place<AtomicBool>> Shared for Queues<P, M> {
    fn new(threads: usize) -> Self {
        let queues: Vec<_> = (0..threads).map(|_| P::new(Queue::new())).collect();
        let marks: Vec<_> = (0..threads)
            .map(|_| M::new(AtomicBool::new(false)))
            .collect();
        percolog_roi::label(&queues[..], "queues");
        percolog_roi::label(&marks[..], "marks");
        Self {
            queues,
            marks,
            state: Alone(Mutex::new(0)),
            stamp: 1,
        }
    }

    fn update(&self, thread: usize, _number: u64) {
        let queue = self.queues[thread].get();
        loop {
            let queued = queue.locked(|entries| {
                let length = queue.length.load(Ordering::Relaxed);
                let Some(entry) = entries.get_mut(length) else {
                    return false;
                };
                entry.write((self.stamp, 1));
                queue.length.store(length + 1, Ordering::Relaxed);
                if length == 0 {
                    self.marks[thread].get().store(true, Ordering::Relaxed);
                }
                true
            });
            if queued {
                return;
            }
            self.merge(|| queue.length.load(Ordering::Relaxed) == LIMIT);
        }
    }

    fn read(&self) -> u64 {
        self.merge(|| true)
    }
}
