//! From the last drop to the destructor: how long a value outlives its last reference.
//!
//! Each thread makes values and drops them again, one after the other, and goes on until everything that is measured has been
//! destroyed: nothing is hurried at the end. A value notes the time just before its last reference is dropped, and its
//! destructor how long ago that was. What it finds goes to a place of the value's own, so that threads that destroy
//! do not disturb each other.
//!
//! Threads can make garbage faster than it is found; a run in which too much of it has gathered is given up.

use std::fmt;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_epoch as epoch;
use hdrhistogram::Histogram;
use percolog::counter::Counter;
use percolog::refcount::{self, CoreArc};

/// A way to share values that are destroyed at some time after their last reference is gone.
pub trait Lifetime: 'static {
    /// How tables call it.
    const NAME: &'static str;

    /// Makes the value shared, and drops the last reference to it; [`Mortal::is_dropped`] just before that.
    fn share_and_drop(value: Mortal);

    /// Asks for what is dropped to be destroyed; what the user can do.
    fn ask();
}

/// `Arc`, whose last drop destroys.
#[derive(Debug)]
pub struct AtOnce;

impl Lifetime for AtOnce {
    const NAME: &'static str = "Arc";

    #[inline]
    fn share_and_drop(value: Mortal) {
        let value = Arc::new(value);
        value.is_dropped();
        drop(value);
    }

    fn ask() {}
}

/// [`CoreArc`], whose values die in a round.
#[derive(Debug)]
pub struct InRounds;

impl Lifetime for InRounds {
    const NAME: &'static str = "CoreArc";

    #[inline]
    fn share_and_drop(value: Mortal) {
        let value = CoreArc::new(value);
        value.is_dropped();
        drop(value);
    }

    fn ask() {
        refcount::reclaim();
    }
}

/// `crossbeam-epoch`'s deferred destruction, with its default collector: what is retired is destroyed two epochs later.
#[derive(Debug)]
pub struct Deferred;

impl Lifetime for Deferred {
    const NAME: &'static str = "crossbeam-epoch";

    #[inline]
    fn share_and_drop(value: Mortal) {
        let guard = epoch::pin();
        let value = epoch::Owned::new(value).into_shared(&guard);
        // SAFETY: it was made two lines above, and the guard keeps it.
        unsafe { value.deref() }.is_dropped();
        // SAFETY: nobody else can find it, and any thread may destroy it.
        unsafe { guard.defer_destroy(value) };
    }

    fn ask() {
        epoch::pin().flush();
    }
}

/// How fast threads drop, and whether somebody asks.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From one drop of a thread to its next one; as fast as it can if zero.
    pub between_drops: Duration,
    /// After how long one of the threads [asks](Lifetime::ask), again and again.
    pub between_asks: Option<Duration>,
}

/// How many values can be measured in a run.
pub const MOST: usize = 1 << 19;

/// A run that was given up: more than [`MORE_THAN_A_BACKLOG`] values were dropped and not destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runaway {
    /// How values were shared.
    pub structure: &'static str,
}

impl fmt::Display for Runaway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "given up: more than {MORE_THAN_A_BACKLOG} values were dropped with {} and not destroyed",
            self.structure
        )
    }
}

impl std::error::Error for Runaway {}

/// With so many values that are dropped and not destroyed, a run is given up.
pub const MORE_THAN_A_BACKLOG: i64 = 1 << 20;

/// Values that are made and not destroyed.
static ALIVE: Counter = Counter::new();

/// Drops of a thread between two looks at how many are alive.
const DROPS_A_LOOK: u32 = 4096;

/// What destructors found: zero for a value that lives, otherwise nanoseconds, and one more.
///
/// In a static, because values that are destroyed late must find it.
fn found() -> &'static [AtomicU64] {
    static FOUND: OnceLock<Box<[AtomicU64]>> = OnceLock::new();
    FOUND.get_or_init(|| (0..MOST).map(|_| AtomicU64::new(0)).collect())
}

/// Nanoseconds since the first call.
fn now() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let elapsed = BEGIN.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// A value that knows when its last reference was dropped.
#[derive(Debug)]
pub struct Mortal {
    /// Where its destructor puts what it finds; `None` for values that only keep things going.
    place: Option<&'static AtomicU64>,
    dropped: AtomicU64,
}

impl Mortal {
    fn new(place: Option<&'static AtomicU64>) -> Self {
        ALIVE.increment();
        Self {
            place,
            dropped: AtomicU64::new(0),
        }
    }

    /// Notes the time: the next thing that is done is dropping the last reference.
    #[inline]
    pub fn is_dropped(&self) {
        // Relaxed: whoever destroys the value comes after the drop of its last reference.
        self.dropped.store(now(), Ordering::Relaxed);
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let elapsed = now().saturating_sub(*self.dropped.get_mut());
            // Release pairs with the Acquire in `Own::are_destroyed`.
            place.store(elapsed + 1, Ordering::Release);
        }
        ALIVE.decrement();
    }
}

/// How many nanoseconds passed from the last drop to the destructor of `values` values of each of `threads` threads.
///
/// Runs one at a time. Together no more than [`MOST`] values are measured.
///
/// # Errors
/// More was dropped than is destroyed, over and over.
pub fn measure<L: Lifetime>(
    threads: usize,
    values: usize,
    pace: Pace,
) -> Result<Histogram<u64>, Runaway> {
    measure_within::<L>(threads, values, pace, MORE_THAN_A_BACKLOG)
}

/// [`measure`], given up with `most` values that are dropped and not destroyed.
fn measure_within<L: Lifetime>(
    threads: usize,
    values: usize,
    pace: Pace,
    most: i64,
) -> Result<Histogram<u64>, Runaway> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let threads = threads.max(1);
    let values = values.clamp(1, (MOST / threads).max(1));
    let measured = &found()[..(threads * values).min(MOST)];
    for place in measured {
        // Relaxed: starting the threads orders it before what they do. Whatever was measured here earlier is destroyed.
        place.store(0, Ordering::Relaxed);
    }
    let start = Barrier::new(threads);
    let given_up = Given {
        up: AtomicBool::new(false),
        most,
    };
    thread::scope(|scope| {
        for (thread, places) in measured.chunks(values).enumerate() {
            let (start, given_up) = (&start, &given_up);
            scope.spawn(move || {
                start.wait();
                let pace = Pace {
                    // One of them is enough.
                    between_asks: pace.between_asks.filter(|_| thread == 0),
                    ..pace
                };
                go_on::<L>(places, pace, given_up);
            });
        }
    });
    let result = match given_up.up.into_inner() {
        true => Err(Runaway { structure: L::NAME }),
        false => Ok(distribution(measured)),
    };
    // Whoever comes next begins with nothing left.
    while ALIVE.sum() != 0 {
        L::ask();
        thread::yield_now();
    }
    drop(one);
    result
}

/// Whether a run is given up, and when it is.
struct Given {
    up: AtomicBool,
    most: i64,
}

impl Given {
    /// Looks at how much has gathered.
    fn look(&self) {
        if ALIVE.sum() > self.most {
            // Relaxed: it carries no data.
            self.up.store(true, Ordering::Relaxed);
        }
    }
}

/// Makes and drops values until those that have a place are destroyed, or the run is given up.
fn go_on<L: Lifetime>(places: &'static [AtomicU64], pace: Pace, given: &Given) {
    let begin = Instant::now();
    let mut next_drop = begin;
    let mut next_ask = pace.between_asks.map(|between| begin + between);
    let mut left = places.iter();
    let mut own = Own {
        places,
        destroyed: 0,
    };
    let mut until_look = DROPS_A_LOOK;
    // Relaxed: see the store.
    while !given.up.load(Ordering::Relaxed) {
        until_look -= 1;
        if until_look == 0 {
            until_look = DROPS_A_LOOK;
            given.look();
        }
        let place = left.next();
        if place.is_none() && own.are_destroyed() {
            return;
        }
        L::share_and_drop(Mortal::new(place));
        if let (Some(at), Some(between)) = (next_ask, pace.between_asks)
            && Instant::now() >= at
        {
            L::ask();
            next_ask = Some(Instant::now() + between);
        }
        if !pace.between_drops.is_zero() {
            // Not asleep: what a sleep takes is the system's.
            next_drop += pace.between_drops;
            while Instant::now() < next_drop {
                hint::spin_loop();
            }
        }
    }
}

/// What one thread waits for.
struct Own {
    places: &'static [AtomicU64],
    /// As many of the first ones are known to be destroyed.
    destroyed: usize,
}

impl Own {
    fn are_destroyed(&mut self) -> bool {
        while let Some(place) = self.places.get(self.destroyed) {
            // Acquire pairs with the Release in the destructor.
            if place.load(Ordering::Acquire) == 0 {
                return false;
            }
            self.destroyed += 1;
        }
        true
    }
}

/// Three significant digits of what was found, up to a minute; what took longer is shown as that.
fn distribution(found: &[AtomicU64]) -> Histogram<u64> {
    let mut times = match Histogram::new_with_bounds(1, 60_000_000_000, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("these bounds are in order: {error}"),
    };
    for place in found {
        // Relaxed: the threads have been joined, and all has been seen destroyed.
        times.saturating_record(place.load(Ordering::Relaxed).saturating_sub(1));
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Pace = Pace {
        between_drops: Duration::ZERO,
        between_asks: None,
    };

    #[test]
    fn every_measured_value_is_destroyed_and_in_the_distribution_once() {
        for (name, run) in [
            (
                AtOnce::NAME,
                measure_within::<AtOnce> as fn(_, _, _, _) -> _,
            ),
            (InRounds::NAME, measure_within::<InRounds>),
            (Deferred::NAME, measure_within::<Deferred>),
        ] {
            for threads in [1, 3] {
                let times: Result<Histogram<u64>, Runaway> = run(threads, 500, FAST, 100_000);
                match times {
                    Ok(times) => assert_eq!(times.len(), 500 * threads as u64, "{name}"),
                    // Whoever destroys can have lost its processor to those who drop.
                    Err(Runaway { structure }) => assert_eq!((structure, threads), (name, 3)),
                }
            }
        }
    }

    /// Keeps what is dropped until somebody asks.
    struct OnDemand;

    static KEPT: Mutex<Vec<Mortal>> = Mutex::new(Vec::new());

    impl Lifetime for OnDemand {
        const NAME: &'static str = "on demand";

        fn share_and_drop(value: Mortal) {
            value.is_dropped();
            KEPT.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(value);
        }

        fn ask() {
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    #[test]
    fn a_run_in_which_nothing_is_destroyed_is_given_up_and_leaves_nothing() {
        let given_up = measure_within::<OnDemand>(2, 100, FAST, 10_000);
        let runaway = given_up.expect_err("nobody asks");
        assert_eq!(runaway.structure, "on demand");
        assert!(runaway.to_string().starts_with("given up: more than"));
        let asked = Pace {
            between_asks: Some(Duration::ZERO),
            ..FAST
        };
        let times = measure_within::<OnDemand>(1, 100, asked, 10_000);
        assert_eq!(times.expect("somebody asks each time").len(), 100);
    }

    #[test]
    fn it_ends_also_where_threads_are_slow_or_ask() {
        let pace = Pace {
            between_drops: Duration::from_micros(1),
            between_asks: Some(Duration::from_micros(50)),
        };
        for run in [measure::<AtOnce>, measure::<InRounds>, measure::<Deferred>] {
            assert_eq!(run(1, 100, pace).expect("each is destroyed").len(), 100);
        }
        // Nothing is no measurement, and more than there is room for is not measured.
        assert_eq!(
            measure::<AtOnce>(0, 0, FAST).map(|times| times.len()),
            Ok(1)
        );
    }

    #[test]
    fn a_value_that_lives_is_waited_for() {
        static PLACES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
        let mut own = Own {
            places: &PLACES,
            destroyed: 0,
        };
        let (first, second) = (Mortal::new(Some(&PLACES[0])), Mortal::new(Some(&PLACES[1])));
        second.is_dropped();
        drop(second);
        assert!(!own.are_destroyed());
        first.is_dropped();
        let (kept, after) = (now(), Arc::new(first));
        drop(after);
        assert!(own.are_destroyed() && now() >= kept);
        assert_eq!(distribution(&PLACES).len(), 2);
    }

    #[test]
    fn the_distribution_is_that_of_the_times_found() {
        let found: Vec<_> = (1..=100)
            .map(|time| AtomicU64::new(1000 * time + 1))
            .collect();
        let times = distribution(&found);
        assert_eq!(
            (times.len(), times.max()),
            (100, times.highest_equivalent(100_000))
        );
        assert!(times.equivalent(times.value_at_quantile(0.5), 50_000));
        // Nanoseconds, and one more: a destructor that took none is found nevertheless.
        assert_eq!(distribution(&[AtomicU64::new(1)]).max(), 0);
    }
}
