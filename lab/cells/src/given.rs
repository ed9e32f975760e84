//! What a program is given: threads, time, and parameters of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use percolog_bench::host;
use percolog_bench::runner::{Pace, Settings};
use percolog_validation::clock::Stopwatch;
use percolog_validation::crew::Shift;

use super::ProgramError;

/// For how long a program works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// By the wall's clock: `milliseconds=`.
    For(Duration),
    /// Of a simulated machine: `warm_up=` and `cycles=`.
    Cycles {
        /// Before anything is counted.
        warm_up: u64,
        /// Counted.
        counted: u64,
    },
}

/// `key=value` pairs, of which a program takes what it knows.
#[derive(Debug)]
pub struct Given {
    /// `threads=`: how many, at least one.
    pub threads: usize,
    /// For how long.
    pub time: Time,
    /// `pinned=1`: each thread stays on one processor.
    pinned: bool,
    left: BTreeMap<String, String>,
}

impl Given {
    /// Reads the pairs, and takes out of them what all programs have.
    ///
    /// # Errors
    /// One is no pair, or there twice; threads or time are missing or no numbers.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, ProgramError> {
        let mut left = BTreeMap::new();
        for pair in pairs {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| ProgramError::Extra(pair.to_owned()))?;
            if left.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(ProgramError::Extra(pair.to_owned()));
            }
        }
        let mut given = Self {
            threads: 1,
            time: Time::For(Duration::ZERO),
            pinned: false,
            left,
        };
        let threads = given.number("threads", 1..=4096)?;
        given.threads = usize::try_from(threads).unwrap_or(1);
        given.time = if given.left.contains_key("milliseconds") {
            Time::For(Duration::from_millis(
                given.number("milliseconds", 1..=600_000)?,
            ))
        } else {
            Time::Cycles {
                warm_up: given.number("warm_up", 0..=1 << 40)?,
                counted: given.number("cycles", 1..=1 << 40)?,
            }
        };
        given.pinned = given.optional_number("pinned", 0..=1)? == Some(1);
        Ok(given)
    }

    /// Takes a number.
    ///
    /// # Errors
    /// It is missing, or not one of these.
    pub fn number(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, ProgramError> {
        self.optional_number(key, range)?
            .ok_or(ProgramError::Missing(key))
    }

    /// Takes a number, if it is there.
    ///
    /// # Errors
    /// It is not one of these.
    pub fn optional_number(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, ProgramError> {
        let Some(value) = self.left.remove(key) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(ProgramError::Wrong {
                key: key.to_owned(),
                value,
                wanted: format!(
                    "a number from {} to {} is needed",
                    range.start(),
                    range.end()
                ),
            }),
        }
    }

    /// Takes the name of one of these.
    ///
    /// # Errors
    /// It is missing, or none of them.
    pub fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, ProgramError> {
        let value = self.left.remove(key).ok_or(ProgramError::Missing(key))?;
        let found = choices.iter().find(|(name, _)| *name == value);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            ProgramError::Wrong {
                key: key.to_owned(),
                value,
                wanted: format!("there are {}", names.join(", ")),
            }
        })
    }

    /// Takes the name of one of these, or the first, if it is missing.
    ///
    /// # Errors
    /// It is none of them.
    pub fn choice_or_first<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, ProgramError> {
        match choices.first() {
            Some((_, first)) if !self.left.contains_key(key) => Ok(*first),
            _ => self.choice(key, choices),
        }
    }

    /// Takes text.
    ///
    /// # Errors
    /// It is missing.
    pub fn text(&mut self, key: &'static str) -> Result<String, ProgramError> {
        self.left.remove(key).ok_or(ProgramError::Missing(key))
    }

    /// All that has not been taken, as pairs: for workloads that read their parameters themselves.
    pub fn rest(&mut self) -> Vec<String> {
        let left = std::mem::take(&mut self.left);
        left.into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    /// Threads and time, for a duel.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let pace = match self.time {
            Time::For(duration) => Pace::For(duration),
            Time::Cycles { warm_up, counted } => {
                // A thread a core.
                host::simulates(self.threads);
                Pace::Cycles { warm_up, counted }
            }
        };
        Settings {
            threads: self.threads,
            pace,
            pinned: self.pinned,
        }
    }

    /// Threads and time, for a crew: milliseconds become cycles of this machine, a fifth more of them to warm up.
    #[must_use]
    pub fn shift(&self) -> Shift {
        let (warm_up, cycles) = match self.time {
            Time::Cycles { warm_up, counted } => (warm_up, counted),
            Time::For(duration) => {
                let time = Stopwatch::start();
                std::thread::sleep(Duration::from_millis(5));
                let cycles = duration.as_nanos() as f64 / time.nanoseconds_of_a_cycle();
                ((cycles / 5.0) as u64, (cycles as u64).max(1))
            }
        };
        Shift {
            threads: self.threads,
            warm_up,
            cycles,
        }
    }

    /// Nothing is to be left.
    ///
    /// # Errors
    /// Something is.
    pub fn finish(mut self) -> Result<(), ProgramError> {
        match self.rest().pop() {
            None => Ok(()),
            Some(extra) => Err(ProgramError::Extra(extra)),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(duration) => write!(f, "milliseconds={}", duration.as_millis()),
            Self::Cycles { warm_up, counted } => write!(f, "warm_up={warm_up} cycles={counted}"),
        }
    }
}
