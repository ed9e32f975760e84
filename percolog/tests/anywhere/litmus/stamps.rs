//! The stamps of queues: who knows of an update takes a larger stamp than that update has.
//!
//! The published log takes its stamps with a lock in hand, and its argument for their order needs that of x86's memory. Here
//! the argument is another one, and holds on both processors. An update's stamp is written to its queue before the update
//! is over, and cannot be written before it was read; whoever learns that the update is over has a load for
//! that, which acquires, and reads the clock behind it (`cpu::clock::stamp`: `lfence; rdtsc`, or an addition to the
//! counter that all share, where the processor's own is not trusted). Each of these lines is left out once.

use crate::litmus::classics::check;
use crate::litmus::machine::Counter;
use crate::litmus::program::Order::{self, Acquire, Relaxed, Release};
use crate::litmus::program::{Place, Program, Register, Thread, Word};
use crate::litmus::shapes::{Classic, classic};

/// Where stamps come from.
#[derive(Clone, Copy)]
enum Clock {
    /// `rdtsc`, with or without `lfence` before it.
    Counter { lfence: bool },
    /// A word to which every stamp adds.
    Shared,
}

/// One update, and another one by a thread that was told of it.
#[derive(Clone, Copy)]
struct Stamps {
    clock: Clock,
    /// Whether the stamp is in the queue before the update is over.
    queued: bool,
    /// How the first thread says that its update is over, and how the second one hears of it.
    told: Order,
    heard: Order,
    /// By how much the clocks of two processors may differ and the stamps still count as being in order.
    margin: Word,
}

const RIGHT: Stamps = Stamps {
    clock: Clock::Counter { lfence: true },
    queued: true,
    told: Release,
    heard: Acquire,
    margin: 0,
};

const SHARED: Stamps = Stamps {
    clock: Clock::Shared,
    ..RIGHT
};

fn stamp(thread: &mut Thread, clock: Clock, next: Place, name: &'static str) -> Register {
    match clock {
        Clock::Counter { lfence } => {
            if lfence {
                thread.lfence();
            }
            thread.stamp(name)
        }
        Clock::Shared => thread.update(next, |next| next + 1, Relaxed, name),
    }
}

/// In question: that the second stamp is smaller, although the second thread was told.
fn effect_before_cause(stamps: Stamps) -> Classic {
    let Stamps { clock, .. } = stamps;
    let mut program = Program::default();
    let [queue, over, next] = ["queue", "over", "next"].map(|name| program.place(name, 0));
    let cause = program.thread("first", |thread| {
        let cause = stamp(thread, clock, next, "cause");
        if stamps.queued {
            thread.store(queue, cause, Relaxed);
        }
        thread.store(over, 1, stamps.told);
        cause
    });
    let (told, effect) = program.thread("second", |thread| {
        let told = thread.load(over, stamps.heard, "told");
        (told, stamp(thread, clock, next, "effect"))
    });
    classic(program, move |end| {
        end.got(told) == Some(1)
            && end
                .got(cause)
                .zip(end.got(effect))
                .is_some_and(|(cause, effect)| effect + stamps.margin < cause)
    })
}

#[test]
fn an_effect_is_never_stamped_before_its_cause() {
    let unfenced = Stamps {
        clock: Clock::Counter { lfence: false },
        ..RIGHT
    };
    let unqueued = |stamps| Stamps {
        queued: false,
        ..stamps
    };
    let untold = Stamps {
        told: Relaxed,
        ..SHARED
    };
    let unheard = Stamps {
        heard: Relaxed,
        ..SHARED
    };
    let rows = vec![
        ("counter", "- ", RIGHT),
        ("counter without lfence", "+ ", unfenced),
        ("counter, stamp not queued", "+ ", unqueued(RIGHT)),
        ("shared", "--", SHARED),
        // What x86 keeps in order by itself, and ARM does not.
        ("shared, not released", "-+", untold),
        ("shared, not acquired", "-+", unheard),
    ];
    let row = |(name, verdicts, stamps)| (name, verdicts, effect_before_cause(stamps));
    check(
        rows.into_iter().map(row).collect(),
        Counter { pace: 2, skew: 0 },
    );
    // Counters that differ break it by no more than they differ: that is what merges look for.
    let within = Stamps { margin: 1, ..RIGHT };
    check(
        vec![
            row(("counter, skewed", "+ ", RIGHT)),
            row(("counter, skewed, margin", "- ", within)),
        ],
        Counter { pace: 3, skew: 1 },
    );
}
