//! A mixture of the user's own: reads and updates of a structure, by keys of which some are wanted more than others, as fast as threads can or so
//! many a second.
//!
//! As fast as they can, what is measured is the rate. *So many a second* is another question: how long does an operation take that is due at a
//! fixed time? Each thread has a timetable, and an operation's time counts from the moment at which it was due, also if the thread was still
//! busy with the one before: what waits behind a slow operation is late, and is counted as late. (A loop that starts its clock only when it
//! gets to an operation leaves exactly those out.)

mod subjects;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

pub use subjects::Subject;

use crate::eviction::{SplitMix, Zipf};
use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};

/// A structure that threads share, as a mixture uses it.
pub trait Shared: Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// What a thread needs to get at it.
    type Handle;

    /// With room for so many keys, half of them there where keys come and go; for so many threads.
    fn new(keys: u64, threads: usize) -> Self;

    /// For a thread, and made on it.
    fn handle(&self, thread: usize) -> Self::Handle;

    /// Reads what is there of the key. Says whether that can be right.
    fn read(&self, handle: &mut Self::Handle, key: u64) -> bool;

    /// Changes what is there of the key.
    fn update(&self, handle: &mut Self::Handle, key: u64);

    /// Brings together what was put off.
    fn settle(&self) {}
}

/// The mixture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// How many keys there are.
    pub keys: u64,
    /// How unevenly they are used: 0 for all alike, 0.99 as YCSB does.
    pub skew: f64,
    /// Of a million operations, how many read.
    pub reads: u32,
    /// Operations a second, of all threads together; none: as fast as they can.
    pub rate: Option<u64>,
}

/// How long operations took that were due at fixed times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Half of them no longer.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
    /// The longest.
    pub longest: u64,
}

/// Runs one cell on a fresh structure.
///
/// # Errors
/// A read showed what cannot be; or a thread could not be started.
pub fn run<S: Shared>(
    settings: Settings,
    load: Load,
) -> Result<(Cell, Option<Lateness>), RunError> {
    let zipf = (load.skew > 0.0).then(|| Zipf::new(load.keys as usize, load.skew));
    let duel = Duel {
        shared: S::new(load.keys, settings.threads),
        load,
        zipf,
        // A thread's share of the timetable.
        every: load
            .rate
            .map(|rate| Duration::from_secs_f64(settings.threads as f64 / rate.max(1) as f64)),
        times: Mutex::new(histogram()),
    };
    let cell = runner::run(S::NAME, &duel, settings)?;
    let times = duel
        .times
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let lateness = load.rate.map(|_| Lateness {
        p50: times.value_at_quantile(0.5),
        p99: times.value_at_quantile(0.99),
        p999: times.value_at_quantile(0.999),
        longest: times.max(),
    });
    Ok((cell, lateness))
}

fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, 1 << 40, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("these bounds are in order: {error}"),
    }
}

/// Operations of a thread before it begins its list again.
const TRACE: usize = 1 << 14;

/// Operations between two looks at the stop flag.
const BLOCK: u64 = 256;

struct Duel<S> {
    shared: S,
    load: Load,
    zipf: Option<Zipf>,
    every: Option<Duration>,
    times: Mutex<Histogram<u64>>,
}

/// One thread.
struct Client<H> {
    handle: H,
    /// A key each, and whether it is read.
    trace: Vec<(u64, bool)>,
    at: usize,
    wrong: u64,
    /// When the next operation is due, and how long earlier ones took.
    due: Option<Instant>,
    times: Histogram<u64>,
}

impl<S: Shared> Duel<S> {
    fn trace(&self, thread: usize) -> Vec<(u64, bool)> {
        let seed = thread as u64 + 1;
        let mut random = SplitMix::new(seed.wrapping_mul(0x5851_F42D_4C95_7F2D));
        let keys = match &self.zipf {
            Some(zipf) => zipf.lookups(seed, TRACE),
            None => (0..TRACE)
                .map(|_| random.draw() % self.load.keys.max(1))
                .collect(),
        };
        keys.into_iter()
            .map(|key| (key, random.draw() % 1_000_000 < u64::from(self.load.reads)))
            .collect()
    }

    #[inline(always)]
    fn operate(&self, client: &mut Client<S::Handle>) {
        let (key, reads) = client.trace[client.at];
        client.at = (client.at + 1) % TRACE;
        if reads {
            client.wrong += u64::from(!self.shared.read(&mut client.handle, key));
        } else {
            self.shared.update(&mut client.handle, key);
        }
    }

    #[inline(always)]
    fn some(&self, client: &mut Client<S::Handle>, operations: u64) -> u64 {
        let Some(every) = self.every else {
            for _ in 0..operations {
                self.operate(client);
            }
            return operations;
        };
        for _ in 0..operations {
            let due = *client.due.get_or_insert_with(Instant::now);
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            self.operate(client);
            let took = due.elapsed().as_nanos();
            client
                .times
                .saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
            client.due = Some(due + every);
        }
        operations
    }
}

impl<S: Shared> Workload for Duel<S> {
    type Worker = Client<S::Handle>;
    type Left = u64;

    fn worker(&self, thread: usize) -> Client<S::Handle> {
        Client {
            handle: self.shared.handle(thread),
            trace: self.trace(thread),
            at: 0,
            wrong: 0,
            due: None,
            times: histogram(),
        }
    }

    fn block(&self, client: &mut Client<S::Handle>) -> u64 {
        // By a timetable a long block would not see the end of the time.
        let operations = if self.every.is_some() { STEP } else { BLOCK };
        self.some(client, operations)
    }

    fn step(&self, client: &mut Client<S::Handle>) -> u64 {
        self.some(client, STEP)
    }

    fn leave(&self, client: Client<S::Handle>) -> u64 {
        let mut all = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        // Cannot fail: all histograms have the same bounds.
        all.add(&client.times)
            .unwrap_or_else(|error| unreachable!("{error}"));
        client.wrong
    }

    fn settle(&self) {
        self.shared.settle();
    }

    fn check(&self, left: &[u64]) -> Result<(), String> {
        match left.iter().sum::<u64>() {
            0 => Ok(()),
            wrong => Err(format!("{wrong} reads showed what cannot be")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Every tenth operation of a thread takes a millisecond.
    struct Slow(AtomicU64);

    impl Shared for Slow {
        const NAME: &'static str = "slow";
        type Handle = ();

        fn new(_: u64, _: usize) -> Self {
            Self(AtomicU64::new(0))
        }

        fn handle(&self, _: usize) {}

        fn read(&self, (): &mut (), key: u64) -> bool {
            key != 3
        }

        fn update(&self, (): &mut (), _: u64) {
            if self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(10) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    const LOAD: Load = Load {
        keys: 3,
        skew: 0.0,
        reads: 0,
        rate: Some(5000),
    };

    #[test]
    fn what_waits_behind_a_slow_operation_is_late() {
        let settings = Settings::until(1, 300);
        let (_, lateness) = run::<Slow>(settings, LOAD).expect("it runs");
        let lateness = lateness.expect("there is a timetable");
        // One of ten is slow itself; of those behind it, due each 0.2 ms, nine more are late.
        assert!(lateness.p50 > 100_000, "{lateness:?}");
        assert!(lateness.longest >= 2_000_000, "{lateness:?}");
    }

    #[test]
    fn a_read_that_cannot_be_right_is_an_error() {
        let settings = Settings::until(1, 2000);
        let reads = |keys| Load {
            keys,
            reads: 1_000_000,
            rate: None,
            skew: 0.99,
        };
        assert!(run::<Slow>(settings, reads(3)).is_ok());
        assert!(run::<Slow>(settings, reads(4)).is_err());
    }

    #[test]
    fn every_subject_runs() {
        for subject in Subject::ALL {
            for (keys, reads) in [(1, 500_000), (1000, 0), (1000, 900_000)] {
                let load = Load {
                    keys,
                    reads,
                    ..LOAD
                };
                let settings = Settings::until(2, 10);
                for load in [
                    load,
                    Load {
                        rate: None,
                        skew: 0.99,
                        ..load
                    },
                ] {
                    let (cell, lateness) = subject.run(settings, load).expect("every subject runs");
                    assert!(cell.operations > 0);
                    assert_eq!(lateness.is_some(), load.rate.is_some());
                }
            }
        }
    }
}
