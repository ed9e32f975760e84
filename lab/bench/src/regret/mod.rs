//! Regret: how much slower than the best choice something is that was chosen without knowing the load.
//!
//! One sequential state, small or large, is shared by threads that update and read it in any proportion, behind everything that promises the
//! same: locks, a [`Logged`](percolog::oplog::Logged) object as it is and in fixed modes, and replication. The proportion can change while the threads run.

mod states;
mod structures;

use std::marker::PhantomData;
use std::time::{Duration, Instant};

pub use states::{Counts, Highest, Map, State, Sum, Thread};
pub use structures::{
    ADAPTIVE, DEFERRING, EAGER, Log, ParkingMutex, ParkingRwLock, Replicas, Shared, StdMutex,
    StdRwLock,
};

use percolog::oplog::Operation;

use crate::eviction::SplitMix;
use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};

/// How the state is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Of a million operations, how many read.
    pub reads: u32,
    /// After each so long, as many read as updated before, and the other way round.
    pub phase: Option<Duration>,
}

/// Runs one cell on a fresh structure.
///
/// # Errors
/// A read showed what cannot be, or the state was wrong in the end; or a thread could not be started.
pub fn run<S: State, T: Shared<S>>(settings: Settings, load: Load) -> Result<Cell, RunError> {
    let duel = Duel {
        shared: T::new(settings.threads),
        load,
        threads: settings.threads as u64,
        began: Instant::now(),
        state: PhantomData::<fn() -> S>,
    };
    runner::run(T::NAME, &duel, settings)
}

/// Operations between two looks at the stop flag.
const BLOCK: u64 = 256;

struct Duel<S, T> {
    shared: T,
    load: Load,
    threads: u64,
    began: Instant,
    state: PhantomData<fn() -> S>,
}

/// One thread.
struct Client<H> {
    handle: H,
    thread: Thread,
    /// Says what is done, and what is read.
    choice: SplitMix,
    /// Says what is updated: so what a thread has made of the state follows from how many updates it has made.
    change: SplitMix,
    updates: u64,
    /// So many of 2³² operations read.
    reads: u64,
    seen: u64,
    wrong: bool,
}

/// What a thread has done.
struct Did {
    thread: Thread,
    updates: u64,
    /// It has read less than before.
    wrong: bool,
}

fn random(thread: Thread, salt: u64) -> SplitMix {
    SplitMix::new((2 * thread.index + salt).wrapping_mul(0x5851_F42D_4C95_7F2D))
}

impl<S: State, T: Shared<S>> Duel<S, T> {
    fn share_of_reads(&self) -> u64 {
        let of_a_million = match self.load.phase {
            Some(phase) => {
                let phases = self.began.elapsed().as_nanos() / phase.as_nanos().max(1);
                if phases.is_multiple_of(2) {
                    self.load.reads
                } else {
                    1_000_000 - self.load.reads
                }
            }
            None => self.load.reads,
        };
        (u64::from(of_a_million) << 32) / 1_000_000
    }

    #[inline(always)]
    fn some(&self, client: &mut Client<T::Handle>, operations: u64) -> u64 {
        if self.load.phase.is_some() {
            client.reads = self.share_of_reads();
        }
        for _ in 0..operations {
            let drawn = client.choice.draw();
            if drawn & 0xffff_ffff < client.reads {
                let read = self.shared.read(&mut client.handle, drawn);
                client.wrong |= read < client.seen;
                client.seen = read;
            } else {
                let update = S::update(client.thread, client.change.draw(), client.updates);
                self.shared.update(&mut client.handle, update);
                client.updates += 1;
            }
        }
        operations
    }
}

impl<S: State, T: Shared<S>> Workload for Duel<S, T> {
    type Worker = Client<T::Handle>;
    type Left = Did;

    fn worker(&self, index: usize) -> Self::Worker {
        let thread = Thread {
            index: index as u64,
            threads: self.threads,
        };
        Client {
            handle: self.shared.handle(index),
            thread,
            choice: random(thread, 0),
            change: random(thread, 1),
            updates: 0,
            reads: self.share_of_reads(),
            seen: 0,
            wrong: false,
        }
    }

    fn block(&self, client: &mut Self::Worker) -> u64 {
        self.some(client, BLOCK)
    }

    fn step(&self, client: &mut Self::Worker) -> u64 {
        self.some(client, STEP)
    }

    fn leave(&self, client: Self::Worker) -> Did {
        Did {
            thread: client.thread,
            updates: client.updates,
            wrong: client.wrong,
        }
    }

    fn settle(&self) {
        self.shared.show(&mut |_| {});
    }

    fn check(&self, left: &[Did]) -> Result<(), String> {
        if left.iter().any(|did| did.wrong) {
            return Err("a read went back behind an earlier one of its thread".to_owned());
        }
        // What the threads did to different parts of the state, or in any order, done once more by one.
        let mut expected = S::default();
        for did in left {
            let mut own = S::default();
            let mut change = random(did.thread, 1);
            for before in 0..did.updates {
                S::update(did.thread, change.draw(), before).exec(&mut own);
            }
            expected.unite(own);
        }
        let mut right = false;
        self.shared.show(&mut |state| right = expected.is(state));
        right
            .then_some(())
            .ok_or_else(|| "the state is not what the updates make".to_owned())
    }
}
