//! Everything at once: threads of random lives, on random processors and slots, on several objects.
//!
//! Each thread numbers its updates of each object. Whatever happens, a reader sees a beginning of each
//! thread's numbers, in order and each once, and never less than it saw before; and at the end
//! everything is there.
#![cfg(not(percolog_loom))]

use crate::common::seed::seed;
use percolog::cpu::{self, CoreId};
use percolog::oplog::{
    Absorb, AddToken, Logged, LoggedFn, Mode, Operation, Policy, RemoveToken, token_pair,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What an object knows of its writers: how many numbers of each it has seen, all in order.
#[derive(Clone, Default)]
struct Progress {
    next: BTreeMap<u64, u64>,
    /// Whether a number came too early, too late or again.
    broken: Option<(u64, u64)>,
    /// Bytes of memory that operations owned.
    bytes: usize,
}

impl Progress {
    fn see(&mut self, writer: u64, number: u64) {
        let next = self.next.entry(writer).or_default();
        if *next != number {
            self.broken.get_or_insert((writer, number));
        }
        *next = number + 1;
    }

    fn check(&self) {
        assert_eq!(self.broken, None, "a writer and the number out of order");
    }
}

/// The next number of a writer, with some memory that the merging thread frees or hands back.
struct Number {
    writer: u64,
    number: u64,
    memory: Vec<u8>,
}

impl Operation<Progress> for Number {
    fn exec(self, progress: &mut Progress) {
        progress.bytes += self.memory.len();
        progress.see(self.writer, self.number);
    }
    fn exec_keeping(self, progress: &mut Progress) -> Option<Self> {
        let keep = self.number.is_multiple_of(2);
        let back = keep.then(|| Self {
            memory: self.memory.clone(),
            ..self
        });
        self.exec(progress);
        back
    }
}

/// The last number of a writer; entries that come and go around it leave nothing.
enum Latest {
    Number { writer: u64, number: u64 },
    Begin(AddToken),
    End(RemoveToken),
}

/// The last number of each writer, and what has begun and not ended.
#[derive(Clone, Default)]
struct Board {
    last: BTreeMap<u64, u64>,
    begun: BTreeMap<u64, ()>,
    backwards: bool,
}

impl Operation<Board> for Latest {
    const ABSORBS: bool = true;
    fn exec(self, board: &mut Board) {
        match self {
            Self::Number { writer, number } => {
                let before = board.last.insert(writer, number);
                board.backwards |= before.is_some_and(|before| before >= number);
            }
            Self::Begin(birth) => _ = board.begun.insert(birth.id(), ()),
            Self::End(death) => board.backwards |= board.begun.remove(&death.id()).is_none(),
        }
    }
    fn absorb(&self) -> Absorb<'_> {
        match self {
            Self::Number { writer, .. } => Absorb::Replace(*writer),
            Self::Begin(birth) => Absorb::Add(birth),
            Self::End(death) => Absorb::Remove(death),
        }
    }
    fn replaces(&self, earlier: &Self) -> bool {
        matches!(
            (self, earlier),
            (Self::Number { writer, .. }, Self::Number { writer: other, .. }) if writer == other
        )
    }
}

struct World {
    /// Usual limits, small ones, and none.
    logs: [Logged<Progress, Number>; 3],
    closures: LoggedFn<Progress>,
    board: Logged<Board, Latest>,
    writers: AtomicU64,
    /// What each writer has queued in all: for the logs, the closures and the board.
    queued: Mutex<BTreeMap<u64, [u64; 5]>>,
    processors: Vec<usize>,
}

/// One life: some operations, then the end.
fn live(world: &World, mut chance: fastrand::Rng) {
    let writer = world.writers.fetch_add(1, Ordering::Relaxed);
    let mut queued = [0; 5];
    let mut seen: [BTreeMap<u64, u64>; 5] = Default::default();
    let mut deaths: Vec<RemoveToken> = Vec::new();
    for _ in 0..chance.u32(..300) {
        match chance.u8(..40) {
            0 => cpu::bind(CoreId::new([0, 1, 2, 70, 1025, 8193][chance.usize(..6)])),
            1 => cpu::unbind(),
            2 if !world.processors.is_empty() => {
                let processor = world.processors[chance.usize(..world.processors.len())];
                cpu::set_affinity(processor).expect("the process may run there");
            }
            3 => thread::yield_now(),
            _ => {}
        }
        let at = chance.usize(..5);
        match at {
            0..3 => use_log(
                &world.logs[at],
                writer,
                &mut queued[at],
                &mut seen[at],
                &mut chance,
            ),
            3 => use_closures(
                &world.closures,
                writer,
                &mut queued[3],
                &mut seen[3],
                &mut chance,
            ),
            _ => use_board(
                &world.board,
                writer,
                &mut queued[4],
                &mut seen[4],
                &mut deaths,
                &mut chance,
            ),
        }
    }
    // Nothing of this life may stay on the board but its numbers.
    for death in deaths {
        world.board.queue(Latest::End(death));
    }
    let mut all = world.queued.lock().expect("no panic");
    all.insert(writer, queued);
}

/// Checks what a reader sees against what it saw before, and its own updates.
fn look(numbers: &BTreeMap<u64, u64>, seen: &mut BTreeMap<u64, u64>, writer: u64, queued: u64) {
    for (writer, number) in seen.iter() {
        assert!(
            numbers.get(writer) >= Some(number),
            "writer {writer} went back"
        );
    }
    assert_eq!(numbers.get(&writer).copied().unwrap_or(0), queued);
    seen.clone_from(numbers);
}

fn use_log(
    log: &Logged<Progress, Number>,
    writer: u64,
    queued: &mut u64,
    seen: &mut BTreeMap<u64, u64>,
    chance: &mut fastrand::Rng,
) {
    let operation = |number| Number {
        writer,
        number,
        memory: log
            .spent()
            .map_or_else(|| vec![0; 16], |spent| spent.memory),
    };
    let mut see = |progress: &Progress| {
        progress.check();
        look(&progress.next, seen, writer, *queued);
    };
    match chance.u8(..24) {
        0 => see(&log.synchronize()),
        1 => see(&log.read()),
        2 => log.with(|progress| see(progress)),
        3 => {
            if let Ok(guard) = log.try_read() {
                see(&guard);
            }
        }
        4 => {
            if let Ok(guard) = log.synchronize_for(Duration::from_micros(chance.u64(..200))) {
                see(&guard);
                // Not `queue`: others may have filled the slot's queue to the hard limit meanwhile.
                if log.try_queue(operation(*queued)).is_ok() {
                    *queued += 1;
                    let shown = guard.next.get(&writer).copied().unwrap_or(0);
                    assert_eq!(shown + 1, *queued, "while the guard is held, updates wait");
                }
            }
        }
        5 => {
            log.drain(chance.usize(..50));
        }
        6 => {
            let many = chance.u64(..40);
            log.extend((0..many).map(|more| operation(*queued + more)));
            *queued += many;
        }
        7 => *queued += u64::from(log.try_queue(operation(*queued)).is_ok()),
        8 => drop(log.stats()),
        _ => {
            log.queue(operation(*queued));
            *queued += 1;
        }
    }
}

fn use_closures(
    log: &LoggedFn<Progress>,
    writer: u64,
    queued: &mut u64,
    seen: &mut BTreeMap<u64, u64>,
    chance: &mut fastrand::Rng,
) {
    let number = *queued;
    let queued_one = match chance.u8(..12) {
        0 => {
            let guard = log.read();
            guard.check();
            look(&guard.next, seen, writer, number);
            false
        }
        1 => {
            log.update_boxed(move |progress| progress.see(writer, number));
            true
        }
        2 => log
            .try_update(move |progress: &mut Progress| progress.see(writer, number))
            .is_ok(),
        _ => {
            log.update(move |progress| progress.see(writer, number));
            true
        }
    };
    *queued += u64::from(queued_one);
}

fn use_board(
    board: &Logged<Board, Latest>,
    writer: u64,
    queued: &mut u64,
    seen: &mut BTreeMap<u64, u64>,
    deaths: &mut Vec<RemoveToken>,
    chance: &mut fastrand::Rng,
) {
    match chance.u8(..12) {
        0 => {
            let guard = board.read();
            assert!(!guard.backwards);
            look(&guard.last, seen, writer, *queued);
            for death in deaths.iter() {
                assert!(
                    guard.begun.contains_key(&death.id()),
                    "begun, and not ended"
                );
            }
        }
        1..4 => {
            let (birth, death) = token_pair();
            board.queue(Latest::Begin(birth));
            deaths.push(death);
        }
        4..7 => {
            if !deaths.is_empty() {
                let death = deaths.swap_remove(chance.usize(..deaths.len()));
                board.queue(Latest::End(death));
            }
        }
        7 => {
            board.drain(chance.usize(..20));
        }
        _ => {
            *queued += 1;
            let number = *queued;
            board.queue(Latest::Number { writer, number });
        }
    }
}

#[test]
fn everything_at_once() {
    const LIVES: usize = 400;
    const AT_ONCE: usize = 6;
    let chance = Mutex::new(fastrand::Rng::with_seed(seed()));
    let builder = Logged::<Progress, Number>::builder;
    let world = World {
        logs: [
            builder().mode(Mode::Restless).build(Progress::default()),
            builder()
                .mode(Mode::Deferring)
                .limit(3)
                .hard_limit(100)
                .build(Progress::default()),
            builder()
                .policy(Policy::Grow)
                .mode(Mode::Deferring)
                .build(Progress::default()),
        ],
        closures: LoggedFn::default(),
        board: Logged::<Board, Latest>::builder()
            .mode(Mode::Deferring)
            .limit(8)
            .build(Board::default()),
        writers: AtomicU64::new(0),
        queued: Mutex::default(),
        processors: cpu::allowed_cpus().unwrap_or_default(),
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                for _ in 0..LIVES / AT_ONCE {
                    let chance = chance.lock().expect("no panic").fork();
                    thread::scope(|scope| {
                        scope.spawn(|| live(&world, chance));
                    });
                }
            });
        }
    });
    let World {
        logs,
        closures,
        board,
        queued,
        ..
    } = world;
    let queued = queued.into_inner().expect("no panic");
    let of = |at: usize| -> BTreeMap<u64, u64> {
        queued
            .iter()
            .map(|(writer, queued)| (*writer, queued[at]))
            .filter(|(_, queued)| *queued != 0)
            .collect()
    };
    for (at, log) in logs.into_iter().enumerate() {
        let progress = log.into_inner();
        progress.check();
        assert_eq!(progress.next, of(at));
        assert_eq!(
            progress.bytes as u64,
            16 * progress.next.values().sum::<u64>()
        );
    }
    let progress = closures.into_inner();
    progress.check();
    assert_eq!(progress.next, of(3));
    let board = board.into_inner();
    assert!(!board.backwards);
    assert_eq!(board.last, of(4));
    assert!(board.begun.is_empty());
}
