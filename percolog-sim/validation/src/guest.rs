//! The workloads by name: what `percolog` runs inside itself when it simulates itself.

use std::fmt;

use super::caches::{self, CacheKind};
use super::crew::{CrewError, Shift, Work};
use super::events::{self, ChannelKind};
use super::locks::{self, LockKind};
use super::logs::{self, ListKind};
use super::requests::{self, Counting};
use super::sharing::{self, ReferenceKind};
use super::stores::{self, Store};

/// A workload and its parameters, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// Contended stores.
    Store(Store),
    /// A serial section under a lock.
    Lock {
        /// Which lock.
        kind: LockKind,
        /// Cycles of the serial section.
        section: u64,
        /// Cycles of everything, on one core.
        total: u64,
    },
    /// Taking and giving back references to one object.
    References {
        /// How they are counted.
        kind: ReferenceKind,
        /// Cycles of everything else.
        work: u64,
    },
    /// Pushing to lists.
    Pushes {
        /// Cycles of everything else.
        work: u64,
        /// Lists that are pushed to, one after the other.
        lists: u64,
    },
    /// Adding to a list and removing from it.
    List {
        /// Which list.
        kind: ListKind,
        /// Cycles after each of the two.
        delay: u64,
    },
    /// Events from all cores but one, delivered to that one.
    Events {
        /// What carries them.
        kind: ChannelKind,
        /// Cycles after each.
        work: u64,
    },
    /// Requests to a cache.
    Cache {
        /// Which cache.
        kind: CacheKind,
        /// How many keys there are.
        keys: u64,
        /// Of a hundred requests, how many set.
        sets: u64,
    },
    /// Counted requests.
    Requests {
        /// How they are counted.
        counting: Counting,
        /// Cycles of one.
        trip: u64,
    },
}

/// Why a workload cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestError {
    /// There is no workload of that name.
    Unknown(String),
    /// A parameter is missing.
    Missing(&'static str),
    /// A parameter is no number, or one that cannot be used.
    Number(String),
    /// A parameter is not known to this workload.
    Extra(String),
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(
                    f,
                    "there is no guest {name:?}; there are {}",
                    names().join(", ")
                )
            }
            Self::Missing(key) => write!(f, "`{key}=NUMBER` is missing"),
            Self::Number(pair) => write!(f, "{pair:?} has no number that can be used"),
            Self::Extra(pair) => write!(f, "{pair:?} is not a parameter of this guest"),
        }
    }
}

impl std::error::Error for GuestError {}

/// Names of workloads and how to make them, with the parameters that [`Parameters::take`] finds.
type Maker = fn(&mut Parameters<'_>) -> Result<Guest, GuestError>;

const GUESTS: [(&str, Maker); 29] = [
    ("store", |_| Ok(Guest::Store(Store::Plain))),
    ("store-atomic", |_| Ok(Guest::Store(Store::Atomic))),
    ("lock-ticket", |parameters| {
        lock(LockKind::Ticket, parameters)
    }),
    ("lock-mcs", |parameters| lock(LockKind::Mcs, parameters)),
    ("references-locked", |parameters| {
        references(ReferenceKind::Locked, parameters)
    }),
    ("references-packed", |parameters| {
        references(ReferenceKind::Packed, parameters)
    }),
    ("references-added", |parameters| {
        references(ReferenceKind::Added, parameters)
    }),
    ("references-rows", |parameters| {
        references(ReferenceKind::Rows, parameters)
    }),
    ("pushes", |parameters| {
        let work = parameters.take("work")?;
        let lists = parameters.take("lists")?;
        Ok(Guest::Pushes { work, lists })
    }),
    ("list-lock-free", |parameters| {
        list(ListKind::LockFree, parameters)
    }),
    ("list-thesis", |parameters| {
        list(ListKind::Thesis, parameters)
    }),
    ("list-basic", |parameters| list(ListKind::Basic, parameters)),
    ("list-compact", |parameters| {
        list(ListKind::Compact, parameters)
    }),
    ("list-batched", |parameters| {
        list(ListKind::Batched, parameters)
    }),
    ("list-global", |parameters| {
        list(ListKind::Global, parameters)
    }),
    ("list-local", |parameters| list(ListKind::Local, parameters)),
    ("events-queue", |parameters| {
        events(ChannelKind::Queue, parameters)
    }),
    ("events-channel", |parameters| {
        events(ChannelKind::Channel, parameters)
    }),
    ("events-spun", |parameters| {
        events(ChannelKind::Spun, parameters)
    }),
    ("cache-stock", |parameters| {
        cache(CacheKind::Stock, parameters)
    }),
    ("cache-stock-once-a-minute", |parameters| {
        cache(CacheKind::StockOnceAMinute, parameters)
    }),
    ("cache-queue-locks", |parameters| {
        cache(CacheKind::QueueLocks, parameters)
    }),
    ("cache-percolog", |parameters| {
        cache(CacheKind::Percolog, parameters)
    }),
    ("cache-endless", |parameters| {
        cache(CacheKind::Endless, parameters)
    }),
    ("requests-locked", |parameters| {
        requests(Counting::Locked, parameters)
    }),
    ("requests-atomic", |parameters| {
        requests(Counting::Atomic, parameters)
    }),
    ("requests-exchanged", |parameters| {
        requests(Counting::Exchanged, parameters)
    }),
    ("requests-packed", |parameters| {
        requests(Counting::Packed, parameters)
    }),
    ("requests-padded", |parameters| {
        requests(Counting::Padded, parameters)
    }),
];

/// The names of all workloads.
#[must_use]
pub fn names() -> Vec<&'static str> {
    GUESTS.iter().map(|(name, _)| *name).collect()
}

fn lock(kind: LockKind, parameters: &mut Parameters<'_>) -> Result<Guest, GuestError> {
    Ok(Guest::Lock {
        kind,
        section: parameters.take("section")?,
        total: parameters.take("total")?,
    })
}

fn references(kind: ReferenceKind, parameters: &mut Parameters<'_>) -> Result<Guest, GuestError> {
    let work = parameters.take("work")?;
    Ok(Guest::References { kind, work })
}

fn list(kind: ListKind, parameters: &mut Parameters<'_>) -> Result<Guest, GuestError> {
    let delay = parameters.take("delay")?;
    Ok(Guest::List { kind, delay })
}

fn events(kind: ChannelKind, parameters: &mut Parameters<'_>) -> Result<Guest, GuestError> {
    let work = parameters.take("work")?;
    Ok(Guest::Events { kind, work })
}

fn cache(kind: CacheKind, parameters: &mut Parameters<'_>) -> Result<Guest, GuestError> {
    Ok(Guest::Cache {
        kind,
        keys: parameters.take_below("keys", 1 << 31)?,
        sets: parameters.take_below("sets", 101)?,
    })
}

fn requests(counting: Counting, parameters: &mut Parameters<'_>) -> Result<Guest, GuestError> {
    let trip = parameters.take("trip")?;
    Ok(Guest::Requests { counting, trip })
}

/// `key=value` pairs that have not been used yet.
struct Parameters<'a>(Vec<&'a str>);

impl Parameters<'_> {
    fn take(&mut self, key: &'static str) -> Result<u64, GuestError> {
        // Far more than anybody simulates, and sums of a few do not overflow.
        self.take_below(key, 1 << 48)
    }

    fn take_below(&mut self, key: &'static str, limit: u64) -> Result<u64, GuestError> {
        let at = self
            .0
            .iter()
            .position(|pair| pair.split_once('=').is_some_and(|(found, _)| found == key))
            .ok_or(GuestError::Missing(key))?;
        let pair = self.0.swap_remove(at);
        pair.split_once('=')
            .and_then(|(_, value)| value.parse().ok())
            .filter(|value| *value < limit)
            .ok_or_else(|| GuestError::Number(pair.to_owned()))
    }
}

impl Guest {
    /// Reads a name and `key=value` pairs, as [`arguments`](Self::arguments) writes them.
    ///
    /// # Errors
    /// The name is unknown, or a parameter is missing, wrong or unknown.
    pub fn parse<'a>(
        name: &str,
        pairs: impl IntoIterator<Item = &'a str>,
    ) -> Result<(Self, Shift), GuestError> {
        let mut parameters = Parameters(pairs.into_iter().collect());
        let (_, make) = GUESTS
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| GuestError::Unknown(name.to_owned()))?;
        let threads = parameters.take("threads")?;
        let shift = Shift {
            threads: usize::try_from(threads)
                .ok()
                .filter(|threads| (1..=4096).contains(threads))
                .ok_or_else(|| GuestError::Number(format!("threads={threads}")))?,
            warm_up: parameters.take("warm_up")?,
            cycles: parameters.take("cycles")?,
        };
        let guest = make(&mut parameters)?;
        match parameters.0.first() {
            None => Ok((guest, shift)),
            Some(extra) => Err(GuestError::Extra((*extra).to_owned())),
        }
    }

    /// The name and the `key=value` pairs that [`parse`](Self::parse) reads.
    #[must_use]
    pub fn arguments(self, shift: Shift) -> Vec<String> {
        let (name, own): (&str, Vec<(&str, u64)>) = match self {
            Self::Store(Store::Plain) => ("store", vec![]),
            Self::Store(Store::Atomic) => ("store-atomic", vec![]),
            Self::Lock {
                kind,
                section,
                total,
            } => {
                let name = match kind {
                    LockKind::Ticket => "lock-ticket",
                    LockKind::Mcs => "lock-mcs",
                };
                (name, vec![("section", section), ("total", total)])
            }
            Self::References { kind, work } => {
                let name = match kind {
                    ReferenceKind::Locked => "references-locked",
                    ReferenceKind::Packed => "references-packed",
                    ReferenceKind::Added => "references-added",
                    ReferenceKind::Rows => "references-rows",
                };
                (name, vec![("work", work)])
            }
            Self::Pushes { work, lists } => ("pushes", vec![("work", work), ("lists", lists)]),
            Self::List { kind, delay } => {
                let name = match kind {
                    ListKind::LockFree => "list-lock-free",
                    ListKind::Thesis => "list-thesis",
                    ListKind::Basic => "list-basic",
                    ListKind::Compact => "list-compact",
                    ListKind::Batched => "list-batched",
                    ListKind::Global => "list-global",
                    ListKind::Local => "list-local",
                };
                (name, vec![("delay", delay)])
            }
            Self::Events { kind, work } => {
                let name = match kind {
                    ChannelKind::Queue => "events-queue",
                    ChannelKind::Channel => "events-channel",
                    ChannelKind::Spun => "events-spun",
                };
                (name, vec![("work", work)])
            }
            Self::Cache { kind, keys, sets } => {
                let name = match kind {
                    CacheKind::Stock => "cache-stock",
                    CacheKind::StockOnceAMinute => "cache-stock-once-a-minute",
                    CacheKind::QueueLocks => "cache-queue-locks",
                    CacheKind::Percolog => "cache-percolog",
                    CacheKind::Endless => "cache-endless",
                };
                (name, vec![("keys", keys), ("sets", sets)])
            }
            Self::Requests { counting, trip } => {
                let name = match counting {
                    Counting::Locked => "requests-locked",
                    Counting::Atomic => "requests-atomic",
                    Counting::Exchanged => "requests-exchanged",
                    Counting::Packed => "requests-packed",
                    Counting::Padded => "requests-padded",
                };
                (name, vec![("trip", trip)])
            }
        };
        let shared = [
            ("threads", shift.threads as u64),
            ("warm_up", shift.warm_up),
            ("cycles", shift.cycles),
        ];
        std::iter::once(name.to_owned())
            .chain(
                shared
                    .into_iter()
                    .chain(own)
                    .map(|(key, value)| format!("{key}={value}")),
            )
            .collect()
    }

    /// Runs the workload, and checks the state that it ends in.
    ///
    /// # Errors
    /// A thread could not be started, or the final state is wrong.
    pub fn run(self, shift: Shift) -> Result<Work, CrewError> {
        match self {
            Self::Store(store) => stores::run(shift, store),
            Self::Lock {
                kind,
                section,
                total,
            } => locks::run(shift, kind, section, total),
            Self::References { kind, work } => sharing::references(shift, kind, work),
            Self::Pushes { work, lists } => sharing::pushes(shift, work, lists),
            Self::List { kind, delay } => logs::run(shift, kind, delay),
            Self::Events { kind, work } => events::run(shift, kind, work),
            Self::Cache { kind, keys, sets } => caches::run(shift, kind, keys, sets),
            Self::Requests { counting, trip } => requests::run(shift, counting, trip),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIFT: Shift = Shift {
        threads: 3,
        warm_up: 20_000,
        cycles: 200_000,
    };

    fn every_guest() -> Vec<Guest> {
        let words = [
            "threads=3",
            "warm_up=1",
            "cycles=2",
            "section=400",
            "total=20000",
            "work=770",
            "lists=3",
            "delay=1000",
            "trip=1193",
            "keys=1000",
            "sets=20",
        ];
        GUESTS
            .iter()
            .map(|(_, make)| {
                make(&mut Parameters(words.to_vec())).expect("all parameters are there")
            })
            .collect()
    }

    #[test]
    fn every_guest_ends_in_the_right_state() {
        for guest in every_guest() {
            let work = guest
                .run(SHIFT)
                .unwrap_or_else(|error| panic!("{guest:?}: {error}"));
            // Each thread makes one operation before, and one at least to see that the time has come.
            assert!(
                work.all >= 6 && work.all >= work.operations,
                "{guest:?}: {work}"
            );
        }
    }

    #[test]
    fn arguments_are_read_as_they_are_written() {
        let mut seen = Vec::new();
        for guest in every_guest() {
            let arguments = guest.arguments(SHIFT);
            let pairs = arguments[1..].iter().map(String::as_str);
            assert_eq!(Guest::parse(&arguments[0], pairs), Ok((guest, SHIFT)));
            seen.push(arguments[0].clone());
        }
        assert_eq!(seen, names());
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let shared = ["threads=3", "warm_up=1", "cycles=2"];
        let parse = |name: &str, more: &[&'static str]| {
            Guest::parse(name, shared.iter().chain(more).copied()).expect_err("refused")
        };
        assert_eq!(parse("stoer", &[]), GuestError::Unknown("stoer".to_owned()));
        assert_eq!(parse("pushes", &[]), GuestError::Missing("work"));
        assert_eq!(
            parse("references-packed", &["work=x"]),
            GuestError::Number("work=x".to_owned())
        );
        assert_eq!(parse("pushes", &["work"]), GuestError::Missing("work"));
        assert_eq!(
            parse("store", &["work=1"]),
            GuestError::Extra("work=1".to_owned())
        );
        assert_eq!(
            Guest::parse("store", ["threads=0", "warm_up=1", "cycles=2"]),
            Err(GuestError::Number("threads=0".to_owned()))
        );
    }
}
