//! Things in use: every thread acquires and releases, over and over; somebody asks now and then how many are in use.

use std::num::NonZeroU64;

pub use crate::interfaces::Gauge;
use crate::interfaces::Reading;
use crate::runner::{self, Cell, RunError, STEP, Settings, Workload};

/// Who releases what was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The thread that acquired it, at once.
    Pairs,
    /// Another thread: every second one only acquires, the others only release. With one thread: pairs.
    Apart,
}

/// Acquires and releases between two looks at the stop flag; even.
const BLOCK: u64 = 1024;

/// A cell of `G`: one kind of work on a fresh gauge.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Who releases what was acquired.
    pub pattern: Pattern,
    /// After how many of its acquires and releases each thread asks how many are in use.
    pub updates_per_read: Option<NonZeroU64>,
}

impl Load {
    /// Runs one cell on a fresh gauge. An operation is an acquire or a release. Returns also what the gauge took of memory at
    /// its end.
    ///
    /// # Errors
    /// What is in use in the end, or was shown on the way by a gauge that shows moments, is impossible; or a thread could not
    /// be started.
    pub fn run<G: Gauge>(self, settings: Settings) -> Result<(Cell, usize), RunError> {
        let duel = Duel {
            gauge: G::new(),
            load: self,
            threads: settings.threads,
        };
        let cell = runner::run(G::NAME, &duel, settings)?;
        Ok((cell, duel.gauge.bytes(settings.threads)))
    }
}

struct Duel<G> {
    gauge: G,
    load: Load,
    threads: usize,
}

/// One thread of the duel.
struct User {
    work: Work,
    /// Acquires less releases.
    held: i64,
    until_read: u64,
    impossible_reads: u64,
}

#[derive(Clone, Copy)]
enum Work {
    Pairs,
    Acquires,
    Releases,
}

impl<G: Gauge> Duel<G> {
    /// So many updates, with the reads in between.
    #[inline(always)]
    fn many(&self, user: &mut User, updates: u64) -> u64 {
        let mut left = updates;
        while left > 0 {
            let made = self.updates(user, left);
            left -= made;
            self.pass(user, made);
        }
        updates
    }

    fn period(&self) -> u64 {
        // Without reads: not in a thread's life, and even.
        self.load.updates_per_read.map_or(1 << 62, NonZeroU64::get)
    }

    /// With pairs each thread has one thing at the most.
    fn is_possible(&self, in_use: i64) -> bool {
        self.load.pattern == Pattern::Apart
            || G::READING == Reading::FinishedAdds
            || (0..=self.threads as i64).contains(&in_use)
    }

    /// Asks, if it is time to; `updates` were made since the last look.
    #[inline]
    fn pass(&self, user: &mut User, updates: u64) {
        user.until_read = user.until_read.saturating_sub(updates);
        if user.until_read == 0 {
            if !self.is_possible(self.gauge.in_use()) {
                user.impossible_reads += 1;
            }
            user.until_read = self.period();
        }
    }

    /// A run of updates after which nobody asks before its end; all of them, or as many as fit.
    fn updates(&self, user: &mut User, left: u64) -> u64 {
        // Rounded up to whole pairs.
        let run = left.min(user.until_read.saturating_add(1) & !1);
        match user.work {
            Work::Pairs => {
                for _ in 0..run / 2 {
                    self.gauge.acquire();
                    self.gauge.release();
                }
            }
            Work::Acquires => {
                for _ in 0..run {
                    self.gauge.acquire();
                }
                user.held += run as i64;
            }
            Work::Releases => {
                for _ in 0..run {
                    self.gauge.release();
                }
                user.held -= run as i64;
            }
        }
        run
    }
}

impl<G: Gauge> Workload for Duel<G> {
    type Worker = User;
    type Left = User;

    fn worker(&self, thread: usize) -> User {
        let work = match self.load.pattern {
            Pattern::Apart if self.threads > 1 && thread.is_multiple_of(2) => Work::Acquires,
            Pattern::Apart if self.threads > 1 => Work::Releases,
            Pattern::Pairs | Pattern::Apart => Work::Pairs,
        };
        User {
            work,
            held: 0,
            until_read: self.period(),
            impossible_reads: 0,
        }
    }

    fn block(&self, user: &mut User) -> u64 {
        self.many(user, BLOCK)
    }

    fn step(&self, user: &mut User) -> u64 {
        self.many(user, STEP)
    }

    fn leave(&self, user: User) -> User {
        user
    }

    fn settle(&self) {
        std::hint::black_box(self.gauge.in_use());
    }

    fn check(&self, users: &[User]) -> Result<(), String> {
        let impossible: u64 = users.iter().map(|user| user.impossible_reads).sum();
        if impossible > 0 {
            return Err(format!(
                "{impossible} reads showed what cannot have been in use"
            ));
        }
        let expected: i64 = users.iter().map(|user| user.held).sum();
        let found = self.gauge.in_use();
        if found == expected {
            Ok(())
        } else {
            Err(format!("{found} are in use instead of {expected}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{
        AtomicGauge, ContatoriGauge, CounterGauge, LongAdder, ReducerGauge, SloppyGauge,
    };
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    fn settings(threads: usize) -> Settings {
        Settings::until(threads, 2000)
    }

    #[test]
    fn every_gauge_ends_with_what_is_in_use() {
        for pattern in [Pattern::Pairs, Pattern::Apart] {
            for updates_per_read in [None, NonZeroU64::new(100), NonZeroU64::new(1)] {
                let load = Load {
                    pattern,
                    updates_per_read,
                };
                for run in [
                    Load::run::<SloppyGauge>,
                    Load::run::<AtomicGauge>,
                    Load::run::<CounterGauge>,
                    Load::run::<ReducerGauge>,
                    Load::run::<ContatoriGauge>,
                    Load::run::<LongAdder>,
                ] {
                    for threads in [1, 3] {
                        let (cell, bytes) = run(load, settings(threads)).expect("nothing is lost");
                        assert!(cell.operations >= threads as u64 * BLOCK && bytes >= 8);
                    }
                }
            }
        }
    }

    /// Shows one more than there is when asked for the `wrong`th time.
    #[derive(Default)]
    struct Wrong<const WRONG: u64> {
        value: AtomicI64,
        reads: AtomicU64,
    }

    impl<const WRONG: u64> Gauge for Wrong<WRONG> {
        const NAME: &'static str = "wrong";
        const READING: Reading = Reading::OneMoment;

        fn new() -> Self {
            Self::default()
        }

        fn acquire(&self) {
            self.value.fetch_add(1, Ordering::Relaxed);
        }

        fn release(&self) {
            self.value.fetch_sub(1, Ordering::Relaxed);
        }

        fn in_use(&self) -> i64 {
            let reads = 1 + self.reads.fetch_add(1, Ordering::Relaxed);
            self.value.load(Ordering::Relaxed) - i64::from(reads == WRONG)
        }

        fn bytes(&self, _threads: usize) -> usize {
            size_of::<Self>()
        }
    }

    #[test]
    fn an_impossible_answer_is_an_error_and_not_a_figure() {
        let run = |pattern, updates_per_read, run: fn(Load, Settings) -> _| {
            let load = Load {
                pattern,
                updates_per_read: NonZeroU64::new(updates_per_read),
            };
            run(load, settings(1))
        };
        let on_the_way = run(Pattern::Pairs, 64, Load::run::<Wrong<3>>);
        let error = on_the_way.expect_err("-1 cannot be in use").to_string();
        assert!(error.contains("1 reads showed"), "{error}");
        // Nobody asks on the way: the second is the check's.
        let at_the_end = run(Pattern::Apart, 0, Load::run::<Wrong<2>>);
        let error = at_the_end.expect_err("-1 are not in use").to_string();
        assert!(error.contains("-1 are in use instead of 0"), "{error}");
        run(Pattern::Pairs, 64, Load::run::<Wrong<0>>).expect("it is never wrong");
    }

    #[test]
    fn threads_ask_at_the_rate_that_they_are_told() {
        for (updates_per_read, asked) in [
            (1, 512),
            (2, 512),
            (3, 256),
            (100, 10),
            (1024, 1),
            (2048, 0),
        ] {
            let duel = Duel {
                gauge: Wrong::<0>::new(),
                load: Load {
                    pattern: Pattern::Pairs,
                    updates_per_read: NonZeroU64::new(updates_per_read),
                },
                threads: 1,
            };
            let mut user = duel.worker(0);
            assert_eq!(duel.block(&mut user), BLOCK);
            let reads = duel.gauge.reads.load(Ordering::Relaxed);
            assert_eq!(reads, asked, "one in {updates_per_read}");
        }
    }
}
