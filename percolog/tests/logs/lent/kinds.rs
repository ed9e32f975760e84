//! Kinds of objects, each with a cache of its own.

use crate::common::machine::Machine;
use percolog::cpu::CoreId;
use percolog::oplog::{LogCacheBuilder, LoggedBuilder, Mode};
use percolog::testing::Environment;
use std::sync::{Arc, Mutex, OnceLock};

/// The machine of all tests that move their threads: three slots whose clocks are right.
#[derive(Clone, Copy)]
pub(crate) struct Moved;

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| Machine::exact(&[0, 1, 2]))
}

impl Environment for Moved {
    fn slot(&self) -> CoreId {
        machine().slot()
    }

    fn stamp(&self) -> u64 {
        machine().stamp()
    }
}

/// Where a state goes when it is dropped.
pub(crate) type Grave = Arc<Mutex<Option<Vec<u8>>>>;

/// Numbers in the order in which they took effect.
#[derive(Default, Debug)]
pub(crate) struct Notes {
    pub(crate) all: Vec<u8>,
    pub(crate) grave: Option<Grave>,
}

impl Drop for Notes {
    fn drop(&mut self) {
        if let Some(grave) = &self.grave {
            *grave.lock().expect("nothing panics") = Some(std::mem::take(&mut self.all));
        }
    }
}

/// Appends a number; panics instead of appending 255.
#[derive(Debug)]
pub(crate) struct Note(pub(crate) u8);

impl Note {
    pub(crate) fn write(self, notes: &mut Notes) {
        assert!(self.0 != 255, "on purpose");
        notes.all.push(self.0);
    }
}

/// A kind: a module with its operation, which is a `Note`, and its object.
macro_rules! kind {
    ($name:ident, $environment:ident, $builder:expr) => {
        pub(crate) mod $name {
            #[allow(unused_imports, reason = "for some kinds")]
            use crate::lent::kinds::{Moved, Note, Notes, deferring};
            #[allow(unused_imports, reason = "for some kinds")]
            use percolog::oplog::{
                Cached, Lent, LogCache, LogCacheBuilder, LoggedBuilder, OnDrop, Operation, Policy,
            };
            #[allow(unused_imports, reason = "for some kinds")]
            use percolog::testing::Native;
            use std::sync::OnceLock;

            #[derive(Debug)]
            pub(crate) struct Op(pub(crate) Note);

            impl Operation<Notes> for Op {
                fn exec(self, notes: &mut Notes) {
                    self.0.write(notes);
                }
            }

            // SAFETY: made once.
            unsafe impl Cached<Notes, $environment> for Op {
                fn cache() -> &'static LogCache<Notes, Self, $environment> {
                    static CACHE: OnceLock<LogCache<Notes, Op, $environment>> = OnceLock::new();
                    CACHE.get_or_init(|| $builder.build_in($crate::lent::kinds::make()))
                }
            }

            #[allow(dead_code, reason = "for some kinds")]
            pub(crate) type Object = Lent<Notes, Op, $environment>;

            #[allow(dead_code, reason = "for some kinds")]
            pub(crate) fn cache() -> &'static LogCache<Notes, Op, $environment> {
                <Op as Cached<Notes, $environment>>::cache()
            }
        }
    };
}
pub(crate) use kind;

/// A cache whose objects' updates are always queued.
pub(crate) const fn deferring() -> LogCacheBuilder {
    LogCacheBuilder::new().objects(LoggedBuilder::new().mode(Mode::Deferring))
}

/// An environment.
pub(crate) fn make<E: Made>() -> E {
    E::made()
}

pub(crate) trait Made {
    fn made() -> Self;
}

impl Made for Moved {
    fn made() -> Self {
        Self
    }
}

impl Made for percolog::testing::Native {
    fn made() -> Self {
        Self
    }
}
