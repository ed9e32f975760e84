//! Things that are taken and given back, some dozens at a time: by the thread that took them, or by another one.
//!
//! Where others give back, each thread puts what it took into the letter box of the next one, and gives back what it finds in its own.
//! Nobody waits: who finds the next one's letter box full gives back what was in it. The boxes cost one locked exchange for all of a batch.

use std::mem;
use std::sync::{Mutex, PoisonError};

use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};

/// Where things are taken from.
pub trait Source: Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// What is taken.
    type Thing: Send;

    /// With nothing taken.
    fn new() -> Self;

    /// Takes one, for a number.
    fn take(&self, number: u64) -> Self::Thing;

    /// Gives one back. The lowest byte of its number, if that can be told.
    fn give_back(&self, thing: Self::Thing) -> Option<u64>;
}

/// Who gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The thread itself.
    Here,
    /// Another thread.
    Elsewhere,
}

/// Things of a batch.
const BATCH: u64 = 64;

/// Runs one cell. An operation is taking one thing and giving it back.
///
/// # Errors
/// Something else came back than what was taken, or a thread could not be started.
pub fn run<S: Source>(settings: Settings, place: Place) -> Result<Cell, RunError> {
    run_with(S::new(), settings, place)
}

/// The same, with a source of which nothing is taken now.
///
/// # Errors
/// As [`run`].
pub fn run_with<S: Source>(source: S, settings: Settings, place: Place) -> Result<Cell, RunError> {
    let duel = Duel {
        boxes: (0..settings.threads).map(|_| Mailbox::default()).collect(),
        source,
        place,
    };
    runner::run(S::NAME, &duel, settings)
}

/// On lines of its own.
#[repr(align(128))]
struct Mailbox<T>(Mutex<Vec<T>>);

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Mailbox<T> {
    /// Puts these there, and what was there in their place.
    fn exchange(&self, things: &mut Vec<T>) {
        let mut there = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut *there, things);
    }
}

struct Duel<S: Source> {
    // Before the source: some things must not outlive it.
    boxes: Vec<Mailbox<S::Thing>>,
    source: S,
    place: Place,
}

/// A thread, and what it has in its hands; empty between blocks.
struct Hand<T> {
    thread: usize,
    things: Vec<T>,
    wrong: u64,
}

impl<S: Source> Duel<S> {
    fn give_back(&self, hand: &mut Hand<S::Thing>) {
        for thing in hand.things.drain(..) {
            // A thing's number is its place in the batch.
            hand.wrong += u64::from(self.source.give_back(thing).is_some_and(|at| at >= BATCH));
        }
    }

    #[inline(always)]
    fn batch(&self, hand: &mut Hand<S::Thing>, things: u64) -> u64 {
        hand.things
            .extend((0..things).map(|number| self.source.take(number)));
        if self.place == Place::Elsewhere {
            let next = (hand.thread + 1) % self.boxes.len();
            self.boxes[next].exchange(&mut hand.things);
            self.give_back(hand);
            self.boxes[hand.thread].exchange(&mut hand.things);
        }
        self.give_back(hand);
        things
    }
}

impl<S: Source> Workload for Duel<S> {
    type Worker = Hand<S::Thing>;
    /// Things that were not what was taken.
    type Left = u64;

    fn worker(&self, thread: usize) -> Self::Worker {
        Hand {
            thread,
            things: Vec::with_capacity(BATCH as usize),
            wrong: 0,
        }
    }

    fn block(&self, hand: &mut Self::Worker) -> u64 {
        self.batch(hand, BATCH)
    }

    fn step(&self, hand: &mut Self::Worker) -> u64 {
        self.batch(hand, STEP)
    }

    fn leave(&self, hand: Self::Worker) -> u64 {
        hand.wrong
    }

    fn settle(&self) {
        for letter_box in &self.boxes {
            let mut left = Vec::new();
            letter_box.exchange(&mut left);
            for thing in left {
                self.source.give_back(thing);
            }
        }
    }

    fn check(&self, left: &[u64]) -> Result<(), String> {
        match left.iter().sum() {
            0_u64 => Ok(()),
            wrong => Err(format!("{wrong} were not what had been taken")),
        }
    }
}
