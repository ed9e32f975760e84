//! What an object takes of memory: before anybody uses it, and after all threads have.
//!
//! The kernel says how much of the process's memory is really there, before and after: what the allocator adds is in it, and what is
//! reserved and not touched is not. Each thread has a slot of its own, as on a machine of so many cores, and all of them live until
//! the memory has been looked at. What belongs to the threads, and not to an object, is there before: all have used another object of
//! the kind.

mod subjects;

pub use subjects::MemoryKind;

use std::hint::black_box;
use std::sync::{Barrier, OnceLock, PoisonError, RwLock};
use std::{fmt, fs, io, thread};

use percolog::cpu::{self, CoreId};

/// An object that is measured.
pub trait Subject: Send + Sync {
    /// One that nobody has used.
    fn idle() -> Self;

    /// Used by a thread, for the so many-th time.
    fn touch(&self, thread: u64, turn: u64);
}

/// Bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Before anybody has used it.
    pub idle: f64,
    /// After each thread has.
    pub hot: f64,
}

/// Why there is no figure.
#[derive(Debug)]
pub enum MemoryError {
    /// A thread could not be started.
    Spawn(io::Error),
    /// The system does not say how much memory is there.
    Unknown(io::Error),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn(source) => write!(f, "could not start all threads: {source}"),
            Self::Unknown(source) => {
                write!(
                    f,
                    "the system does not say how much memory is there: {source}"
                )
            }
        }
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spawn(source) | Self::Unknown(source) => Some(source),
        }
    }
}

/// How often a thread uses an object: as often as makes a counter hot, and fills a queue and its index.
const TURNS: u64 = 256;

/// A thread's stack.
const STACK: usize = 256 << 10;

/// Bytes of memory of this process that are really there.
fn resident() -> io::Result<u64> {
    // Not `status`, whose figure lags behind what threads have touched lately.
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    // Not `Rss`, in which the program's own text is, as far as it has run.
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map(|kibibytes| kibibytes * 1024)
        .ok_or_else(|| io::Error::other("it does not say `Anonymous`"))
}

/// Makes so many objects, and lets so many threads use all of them.
///
/// # Errors
/// A thread could not be started, or the system does not say how much memory is there.
pub fn measure<S: Subject>(threads: usize, objects: usize) -> Result<Found, MemoryError> {
    let first = S::idle();
    let all: OnceLock<Vec<S>> = OnceLock::new();
    // What the threads wait for, one after the other: that all have used the first object; that the others are there; that all have used
    // those; and that the memory has been looked at.
    let steps: [Barrier; 4] = std::array::from_fn(|_| Barrier::new(threads + 1));
    let stay = |thread: usize| {
        cpu::bind(CoreId::new(thread as u32));
        let touch = |object: &S| (0..TURNS).for_each(|turn| object.touch(thread as u64, turn));
        touch(&first);
        steps[0].wait();
        steps[1].wait();
        all.get().into_iter().flatten().for_each(touch);
        steps[2].wait();
        steps[3].wait();
    };
    // Whether threads are to work: known once it is known whether all of them could be had, as barriers would wait for ever otherwise.
    let works: RwLock<bool> = RwLock::new(false);
    thread::scope(|scope| {
        let mut undecided = works.write().unwrap_or_else(PoisonError::into_inner);
        for thread in 0..threads {
            let (stay, works) = (&stay, &works);
            let builder = thread::Builder::new().stack_size(STACK);
            let spawned = builder.spawn_scoped(scope, move || {
                if *works.read().unwrap_or_else(PoisonError::into_inner) {
                    stay(thread);
                }
            });
            // The others find that they are not to work.
            spawned.map_err(MemoryError::Spawn)?;
        }
        *undecided = true;
        drop(undecided);
        steps[0].wait();
        // Twice: what the first time takes, the next one has.
        let before = resident().and_then(|_| resident());
        let made: Vec<S> = (0..objects).map(|_| S::idle()).collect();
        black_box(all.get_or_init(|| made));
        let idle = resident();
        steps[1].wait();
        steps[2].wait();
        let hot = resident();
        steps[3].wait();
        let before = before.map_err(MemoryError::Unknown)?;
        let each = |after: io::Result<u64>| {
            let after = after.map_err(MemoryError::Unknown)?;
            Ok(after.saturating_sub(before) as f64 / objects.max(1) as f64)
        };
        Ok(Found {
            idle: each(idle)?,
            hot: each(hot)?,
        })
    })
}
