//! Linearizable: real threads record what they pushed and were given, and a checker looks for an order of all operations in which a
//! plain bounded queue does the same. Histories are short, since checking is exponential, and many.

use crate::common::history::{Done, is_linearizable, record, together};
use crate::common::machine::{Machine, be_moved, stand_on};
use crate::common::seed::seed;
use crate::common::share::share;
use crate::event_queue::plain::Plain;
use percolog::collections::EventQueue;
use percolog::collections::event_queue::{Delivery, EventQueueBuilder};
use percolog::cpu::{self, CoreId};
use percolog::testing::{Environment, Native};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use todc_utils::specifications::Specification;

const THREADS: usize = 3;
const OPERATIONS: usize = 4;
const WINDOWS: usize = 200;

/// The last two share a dirty mark with the first two.
const SLOTS: [u32; 5] = [0, 1, 2, 1024, 1025];

/// So few that windows overflow.
const CAPACITY: usize = 4;

#[derive(Debug, Clone, PartialEq)]
enum Act {
    Push(u8),
    Take(Vec<Delivery<u8>>),
}

struct Sequential<const MERGING: bool>;

impl<const MERGING: bool> Specification for Sequential<MERGING> {
    type State = Plain;
    type Operation = Act;

    fn init() -> Plain {
        Plain::default()
    }

    fn apply(act: &Act, state: &Plain) -> (bool, Plain) {
        let mut state = state.clone();
        match act {
            Act::Push(event) => {
                state.push(*event, CAPACITY, MERGING);
                (true, state)
            }
            Act::Take(seen) => {
                let is_right = state.take() == *seen;
                (is_right, state)
            }
        }
    }
}

fn take<E: Environment>(queue: &EventQueue<u8, E>) -> Option<Act> {
    let mut delivered = Vec::new();
    queue.consumer()?.drain_batch(&mut delivered);
    Some(Act::Take(delivered))
}

fn act<E: Environment>(
    queue: &EventQueue<u8, E>,
    process: usize,
    mine: &mut Vec<Done<Act>>,
    chance: &mut fastrand::Rng,
) {
    let event = chance.u8(..3);
    record(process, mine, || match chance.u8(..8) {
        0..5 => {
            queue.push(event);
            Some(Act::Push(event))
        }
        5 => queue.try_push(event).is_ok().then_some(Act::Push(event)),
        _ => take(queue),
    });
}

/// Some threads that overlap, on a queue that is new; each stays on its slot, or hops before each operation.
fn window<E: Environment + Sync>(
    queue: &EventQueue<u8, E>,
    hopping: bool,
    chance: &mut fastrand::Rng,
) -> Vec<Done<Act>> {
    let mut history = together(THREADS, chance, |process, chance, mine| {
        be_moved(chance.u64(..));
        for _ in 0..OPERATIONS {
            if hopping {
                let slot = SLOTS[chance.usize(..SLOTS.len())];
                stand_on(slot);
                cpu::bind(CoreId::new(slot));
            }
            act(queue, process, mine, chance);
        }
    });
    record(0, &mut history, || take(queue));
    history
}

fn stays_linearizable<const MERGING: bool, E: Environment + Sync>(
    hopping: bool,
    environment: impl Fn() -> E,
) {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(WINDOWS) {
        let builder = EventQueueBuilder::new(CAPACITY).limit(chance.usize(1..=3));
        let queue = if MERGING {
            builder.build_merging_in(environment())
        } else {
            builder.build_in(environment())
        };
        let history = window(&queue, hopping, &mut chance);
        assert!(
            is_linearizable::<Sequential<MERGING>>(&history),
            "no order of operations explains this:\n{history:#?}"
        );
        assert_eq!(queue.stats().clock_violations, 0);
    }
}

#[test]
fn on_this_machine() {
    stays_linearizable::<false, _>(false, || Native);
    stays_linearizable::<true, _>(false, || Native);
}

#[test]
fn on_this_machine_hopping() {
    stays_linearizable::<false, _>(true, || Native);
    stays_linearizable::<true, _>(true, || Native);
}

#[test]
fn with_forced_migration() {
    stays_linearizable::<false, _>(false, || Machine::exact(&SLOTS));
    stays_linearizable::<true, _>(true, || Machine::exact(&SLOTS));
}

/// Clocks differ by less than a hand-off between threads takes.
#[test]
fn with_skew_within_the_bound() {
    let machine = || Machine::skewed(&[0, 1, 2], 100, vec![0, 99, 42]);
    stays_linearizable::<false, _>(false, machine);
    stays_linearizable::<true, _>(false, machine);
}

/// The checker tells good from bad.
#[test]
fn what_no_plain_queue_does_is_not_linearizable() {
    let event = Delivery::Event;
    let wrong = [
        vec![event(2), event(1)],
        vec![event(1)],
        vec![event(1), event(2), event(2)],
        vec![event(1), Delivery::Overflow { lost: 1 }],
    ];
    for seen in wrong {
        let history = [
            (0, 0, 1, Act::Push(1)),
            (1, 2, 3, Act::Push(2)),
            (2, 4, 5, Act::Take(seen)),
        ];
        assert!(!is_linearizable::<Sequential<false>>(
            &history.map(Done::from)
        ));
    }
}

/// A machine on which one push is held up behind its stamp until another event has been pushed and delivered.
struct HeldUp {
    now: AtomicU64,
    /// 0: nobody is to be held up; 1: whoever takes the next stamp; 2: somebody is; 3: not any more.
    stage: AtomicUsize,
}

impl HeldUp {
    fn wait_for(&self, stage: usize) {
        while self.stage.load(Ordering::SeqCst) != stage {
            thread::yield_now();
        }
    }
}

impl Environment for &HeldUp {
    fn slot(&self) -> CoreId {
        cpu::current()
    }

    fn stamp(&self) -> u64 {
        let stamp = self.now.fetch_add(1, Ordering::SeqCst);
        let exchanged = self
            .stage
            .compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst);
        if exchanged.is_ok() {
            self.wait_for(3);
        }
        stamp
    }
}

/// Its stamp is the smaller one, and yet it belongs behind: its push had not returned. What is pushed once it has comes behind both.
#[test]
fn a_push_that_is_held_up_comes_behind_what_was_delivered_meanwhile() {
    let machine = HeldUp {
        now: AtomicU64::new(1),
        stage: AtomicUsize::new(1),
    };
    let queue = EventQueueBuilder::new(10).build_in(&machine);
    let mut delivered = Vec::new();
    thread::scope(|scope| {
        let late = scope.spawn(|| {
            cpu::bind(CoreId::new(1));
            queue.push(1);
        });
        machine.wait_for(2);
        cpu::bind(CoreId::new(0));
        queue.push(2);
        let mut consumer = queue.consumer().expect("there is no other");
        assert_eq!(consumer.drain_batch(&mut delivered), 1);
        machine.stage.store(3, Ordering::SeqCst);
        late.join().expect("it pushes");
        queue.push(3);
        assert_eq!(consumer.drain_batch(&mut delivered), 2);
    });
    assert_eq!(delivered, [2, 1, 3].map(Delivery::Event));
    assert_eq!(queue.stats().clock_violations, 0);
}
