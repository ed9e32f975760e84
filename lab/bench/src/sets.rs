//! The set duel: the set of open connections, changed by every thread, asked rarely.
//!
//! Two streams of changes, each the same for all structures:
//!
//! * [`Pattern::Connections`]: ids are reused like file descriptors. Most connections are short; one change in 64
//!   concerns a connection that stays open for thousands of changes. An id that opens and closes again between two
//!   reads never has to reach the set.
//! * [`Pattern::FreshIds`]: each connection has a new id, spread over all 64 bits, and closes 1024 changes of the
//!   same kind later. Nothing in a queue of 128 ever meets its partner, so nothing absorbs: a workload to lose.
//!
//! Besides, 10,000 connections are open all the time, so that the set is as deep as a server's.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU64;

pub use crate::interfaces::SetPeer;
use crate::peers::{AbsorbingSet, Dash, HashedSet, LoggedSet, MutexSet, OrderedSet};
use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};
use percolog_validation::hash::mix;

/// The sets that stand beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// `Mutex<BTreeSet<u64>>`: what most programs have today.
    Mutex,
    /// A [`percolog::oplog::Logged`] set of plain operations.
    Logged,
    /// A [`percolog::oplog::Logged`] set whose operations absorb.
    Absorbing,
    /// A [`percolog::collections::Set`] in order.
    Ordered,
    /// A [`percolog::collections::Set`] that hashes.
    Hashed,
    /// `dashmap::DashSet`, its answers ignored.
    Dash,
}

impl SetKind {
    /// All of them, what the user has today first.
    pub const ALL: [Self; 6] = [
        Self::Mutex,
        Self::Logged,
        Self::Absorbing,
        Self::Ordered,
        Self::Hashed,
        Self::Dash,
    ];

    /// How tables call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => MutexSet::NAME,
            Self::Logged => LoggedSet::NAME,
            Self::Absorbing => AbsorbingSet::NAME,
            Self::Ordered => OrderedSet::NAME,
            Self::Hashed => HashedSet::NAME,
            Self::Dash => Dash::NAME,
        }
    }

    /// Runs one cell of `load` on a fresh set.
    ///
    /// # Errors
    /// The final set or an answer was wrong, or a thread could not be started.
    pub fn run(self, settings: Settings, load: Load) -> Result<Cell, RunError> {
        match self {
            Self::Mutex => run_peer::<MutexSet>(settings, load),
            Self::Logged => run_peer::<LoggedSet>(settings, load),
            Self::Absorbing => run_peer::<AbsorbingSet>(settings, load),
            Self::Ordered => run_peer::<OrderedSet>(settings, load),
            Self::Hashed => run_peer::<HashedSet>(settings, load),
            Self::Dash => run_peer::<Dash>(settings, load),
        }
    }
}

/// Which ids the threads open and close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Ids are reused; most are open for a short time.
    Connections,
    /// Each id is new, and spread widely.
    FreshIds,
}

/// What a read asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Is the id that this thread changed last in the set? Every answer is checked.
    Contains,
    /// How many ids are in the set?
    Count,
}

/// Whether each change has to tell at once what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Nobody asks: a change may wait.
    Ignored,
    /// The thread needs the answer, and each is checked. A log has to merge for every one of them.
    Used,
}

/// A stream of changes with reads in between.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Which ids change.
    pub pattern: Pattern,
    /// Each thread reads after this many of its changes; never, if `None`.
    pub changes_per_read: Option<NonZeroU64>,
    /// What a read asks.
    pub question: Question,
    /// Whether changes themselves have to answer.
    pub answers: Answers,
}

impl Load {
    /// A stream without reads, other than the final one.
    #[must_use]
    pub fn updates_only(pattern: Pattern) -> Self {
        Self {
            pattern,
            changes_per_read: None,
            question: Question::Contains,
            answers: Answers::Ignored,
        }
    }
}

/// Connections that are open all the time.
const IDLE: u64 = 10_000;

/// Where the ids of idle connections begin: above all reused ids. Fresh ids are hashes and meet neither.
const FIRST_IDLE: u64 = 1 << 32;

/// Changes between two looks at the stop flag.
const BLOCK: u64 = 64;

fn idle() -> BTreeSet<u64> {
    (FIRST_IDLE..FIRST_IDLE + IDLE).collect()
}

fn run_peer<P: SetPeer>(settings: Settings, load: Load) -> Result<Cell, RunError> {
    let threads = settings.threads as u64;
    match load.pattern {
        Pattern::Connections => {
            run_stream::<P, _>(settings, load, |thread| Connections::new(thread, threads))
        }
        Pattern::FreshIds => run_stream::<P, _>(settings, load, FreshIds::new),
    }
}

fn run_stream<P: SetPeer, S: Stream>(
    settings: Settings,
    load: Load,
    stream: impl Fn(u64) -> S + Sync,
) -> Result<Cell, RunError> {
    let duel = SetDuel {
        set: P::with(idle()),
        load,
        stream,
    };
    runner::run(P::NAME, &duel, settings)
}

/// One change of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Open(u64),
    Close(u64),
}

/// One thread's changes, and what they leave open.
trait Stream: Send {
    fn next(&mut self) -> Change;
    fn still_open(&self) -> Vec<u64>;
}

/// Ids reused like file descriptors; thread `t` of `n` owns the ids `t`, `t + n`, `t + 2n`, ….
struct Connections {
    random: u64,
    /// Which of the thread's 64 ids are open.
    open: u64,
    thread: u64,
    threads: u64,
}

impl Connections {
    /// Ids that change in 63 of 64 steps; the other 16 of 64 ids stay as they are for about a thousand steps.
    const SHORT: u64 = 48;

    fn new(thread: u64, threads: u64) -> Self {
        Self {
            // Never zero, where xorshift would stay.
            random: mix(thread + 1) | 1,
            open: 0,
            thread,
            threads,
        }
    }

    fn id(&self, slot: u64) -> u64 {
        slot * self.threads + self.thread
    }
}

impl Stream for Connections {
    #[inline]
    fn next(&mut self) -> Change {
        // Marsaglia's xorshift: three shifts, so that drawing costs next to nothing beside the change itself.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let draw = self.random >> 16;
        let slot = if draw.is_multiple_of(64) {
            Self::SHORT + (draw >> 6) % (64 - Self::SHORT)
        } else {
            (draw >> 6) % Self::SHORT
        };
        self.open ^= 1 << slot;
        if self.open & (1 << slot) != 0 {
            Change::Open(self.id(slot))
        } else {
            Change::Close(self.id(slot))
        }
    }

    fn still_open(&self) -> Vec<u64> {
        (0..64)
            .filter(|slot| self.open & (1 << slot) != 0)
            .map(|slot| self.id(slot))
            .collect()
    }
}

/// New ids only, each closed after 1024 later ones have opened.
struct FreshIds {
    thread: u64,
    opened: u64,
    open: VecDeque<u64>,
}

impl FreshIds {
    const OPEN: usize = 1024;

    fn new(thread: u64) -> Self {
        Self {
            thread,
            opened: 0,
            open: VecDeque::with_capacity(Self::OPEN + 1),
        }
    }
}

impl Stream for FreshIds {
    #[inline]
    fn next(&mut self) -> Change {
        if self.open.len() > Self::OPEN
            && let Some(oldest) = self.open.pop_front()
        {
            return Change::Close(oldest);
        }
        // An odd multiplier maps the lower 63 bits one to one: ids of different threads or turns never meet. The highest
        // bit keeps them apart from idle connections.
        let turn = self.thread << 40 | self.opened;
        let id = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 63;
        self.opened += 1;
        self.open.push_back(id);
        Change::Open(id)
    }

    fn still_open(&self) -> Vec<u64> {
        self.open.iter().copied().collect()
    }
}

struct SetDuel<P, F> {
    set: P,
    load: Load,
    stream: F,
}

/// One thread of the duel.
struct Client<S> {
    stream: S,
    until_read: u64,
    wrong_answers: u64,
}

impl<P, F> SetDuel<P, F> {
    fn changes_per_read(&self) -> u64 {
        self.load.changes_per_read.map_or(u64::MAX, NonZeroU64::get)
    }
}

impl<P: SetPeer, S: Stream, F: Fn(u64) -> S + Sync> SetDuel<P, F> {
    /// So many changes, with the reads in between.
    #[inline(always)]
    fn changes(&self, client: &mut Client<S>, changes: u64) -> u64 {
        for _ in 0..changes {
            let change = client.stream.next();
            match (self.load.answers, change) {
                (Answers::Ignored, Change::Open(id)) => self.set.open(id),
                (Answers::Ignored, Change::Close(id)) => self.set.close(id),
                // Streams open what is closed and close what is open, so every answer is known to be yes.
                (Answers::Used, Change::Open(id)) => {
                    client.wrong_answers += u64::from(!self.set.open_and_tell(id));
                }
                (Answers::Used, Change::Close(id)) => {
                    client.wrong_answers += u64::from(!self.set.close_and_tell(id));
                }
            }
            client.until_read -= 1;
            if client.until_read == 0 {
                client.until_read = self.changes_per_read();
                if !answers_rightly(&self.set, self.load.question, change) {
                    client.wrong_answers += 1;
                }
            }
        }
        changes
    }
}

impl<P: SetPeer, S: Stream, F: Fn(u64) -> S + Sync> Workload for SetDuel<P, F> {
    type Worker = Client<S>;
    type Left = Client<S>;

    fn worker(&self, thread: usize) -> Client<S> {
        Client {
            stream: (self.stream)(thread as u64),
            until_read: self.changes_per_read(),
            wrong_answers: 0,
        }
    }

    fn block(&self, client: &mut Client<S>) -> u64 {
        self.changes(client, BLOCK)
    }

    fn step(&self, client: &mut Client<S>) -> u64 {
        self.changes(client, STEP)
    }

    fn leave(&self, client: Client<S>) -> Client<S> {
        client
    }

    fn settle(&self) {
        self.set.settle();
    }

    fn check(&self, clients: &[Client<S>]) -> Result<(), String> {
        let wrong: u64 = clients.iter().map(|client| client.wrong_answers).sum();
        if wrong > 0 {
            return Err(format!(
                "{wrong} answers missed the asker's own last change"
            ));
        }
        let mut expected = idle();
        for client in clients {
            expected.extend(client.stream.still_open());
        }
        let found = self.set.contents();
        if found == expected {
            return Ok(());
        }
        Err(format!(
            "{} ids are missing from the final set, {} should have been removed",
            expected.difference(&found).count(),
            found.difference(&expected).count()
        ))
    }
}

/// Reads once, and says whether the answer can be right: only this thread changes its ids.
fn answers_rightly<P: SetPeer>(set: &P, question: Question, change: Change) -> bool {
    match (question, change) {
        (Question::Contains, Change::Open(id)) => set.contains(id),
        (Question::Contains, Change::Close(id)) => !set.contains(id),
        (Question::Count, _) => set.count() as u64 >= IDLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a stream into a plain set; each change must really change it.
    fn replay(mut stream: impl Stream, changes: usize) -> (BTreeSet<u64>, Vec<u64>) {
        let mut set = BTreeSet::new();
        for _ in 0..changes {
            match stream.next() {
                Change::Open(id) => assert!(set.insert(id), "{id} was open"),
                Change::Close(id) => assert!(set.remove(&id), "{id} was not open"),
            }
        }
        (set, stream.still_open())
    }

    #[test]
    fn streams_open_what_is_closed_and_close_what_is_open() {
        let (set, open) = replay(Connections::new(1, 4), 100_000);
        assert_eq!(set, open.into_iter().collect());
        assert!(!set.is_empty());
        let (set, open) = replay(FreshIds::new(3), 100_000);
        assert_eq!(set, open.into_iter().collect());
        assert!(set.len() >= FreshIds::OPEN);
    }

    #[test]
    fn threads_and_idle_connections_share_no_id() {
        let mut seen = idle();
        let mut total = seen.len();
        for thread in 0..4 {
            let mut reused = BTreeSet::new();
            let mut connections = Connections::new(thread, 4);
            let mut fresh = FreshIds::new(thread);
            let mut new = BTreeSet::new();
            for _ in 0..10_000 {
                if let Change::Open(id) = connections.next() {
                    reused.insert(id);
                }
                if let Change::Open(id) = fresh.next() {
                    new.insert(id);
                }
            }
            assert_eq!(reused.len(), 64);
            total += reused.len() + new.len();
            seen.extend(reused);
            seen.extend(new);
        }
        assert_eq!(seen.len(), total);
    }

    #[test]
    fn some_connections_stay_open_for_a_while() {
        let mut connections = Connections::new(0, 1);
        let long = (0..64_000)
            .filter(|_| {
                let (Change::Open(id) | Change::Close(id)) = connections.next();
                id >= Connections::SHORT
            })
            .count();
        assert!((500..2000).contains(&long), "{long} changes of 64,000");
    }
}
