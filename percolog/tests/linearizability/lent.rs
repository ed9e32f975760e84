//! Lists whose logs a cache lends them, with others around them that need the same places.

use crate::common::machine::Machine;
use crate::common::model::Model;
use crate::structures::{ListModel, Push, Subject};
use percolog::cpu::CoreId;
use percolog::oplog::{
    Cached, Lent, LogCache, LogCacheBuilder, LoggedBuilder, Mode, OnDrop, Operation, Policy,
};
use percolog::testing::{Environment, Native};
use std::pin::Pin;
use std::sync::OnceLock;

/// The machine whose threads are moved, for caches, of which there is one a kind.
#[derive(Clone, Copy)]
pub(crate) struct Moved;

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| Machine::exact(&crate::SLOTS))
}

impl Environment for Moved {
    fn slot(&self) -> CoreId {
        machine().slot()
    }
    fn stamp(&self) -> u64 {
        machine().stamp()
    }
}

/// What a list can do, whichever its kind.
pub(crate) trait Item: Operation<Vec<u8>> + Cached<Vec<u8>, Self::On> {
    type On: Environment + Sync + 'static;
    fn item(value: u8) -> Self;
}

macro_rules! kind {
    ($name:ident, $environment:ident, $builder:expr) => {
        pub(crate) struct $name(u8);

        impl Operation<Vec<u8>> for $name {
            fn exec(self, list: &mut Vec<u8>) {
                list.push(self.0);
            }
        }

        // SAFETY: made once.
        unsafe impl Cached<Vec<u8>, $environment> for $name {
            fn cache() -> &'static LogCache<Vec<u8>, Self, $environment> {
                static CACHE: OnceLock<LogCache<Vec<u8>, $name, $environment>> = OnceLock::new();
                CACHE.get_or_init(|| $builder.build_in($environment))
            }
        }

        impl Item for $name {
            type On = $environment;
            fn item(value: u8) -> Self {
                Self(value)
            }
        }
    };
}

const SMALL: LoggedBuilder = LoggedBuilder::new()
    .mode(Mode::Restless)
    .limit(2)
    .hard_limit(3);

kind!(
    Here,
    Native,
    LogCacheBuilder::new().places(1).objects(SMALL)
);
kind!(
    Elsewhere,
    Moved,
    LogCacheBuilder::new()
        .places(1)
        .objects(LoggedBuilder::new().mode(Mode::Deferring))
);
kind!(Adapting, Moved, LogCacheBuilder::new().places(1));
kind!(
    FewLogs,
    Moved,
    LogCacheBuilder::new().places(8).logs(1).objects(SMALL)
);
kind!(
    Growing,
    Moved,
    LogCacheBuilder::new().places(2).objects(
        LoggedBuilder::new()
            .mode(Mode::Deferring)
            .policy(Policy::Grow)
            .on_drop(OnDrop::Discard)
    )
);

type Boxed<O> = Pin<Box<Lent<Vec<u8>, O, <O as Item>::On>>>;

/// A list, and others that are in its way.
pub(crate) struct Crowded<O: Item> {
    list: Boxed<O>,
    others: Vec<Boxed<O>>,
}

impl<O: Item> Crowded<O> {
    pub(crate) fn new() -> Self {
        Self {
            list: Lent::boxed(Vec::new()),
            others: (0..3).map(|_| Lent::boxed(Vec::new())).collect(),
        }
    }

    fn crowd(&self, chance: &mut fastrand::Rng) {
        let other = &self.others[chance.usize(..self.others.len())];
        match chance.u8(..6) {
            0 => {
                // In somebody's hands while the list is updated.
                let guard = other.try_synchronize();
                self.others[0].as_ref().try_queue(O::item(0)).ok();
                drop(guard);
            }
            1..4 => other.as_ref().queue(O::item(0)),
            _ => {}
        }
    }
}

impl<O: Item> Subject for Crowded<O> {
    type Model = ListModel;
    fn update(&self, chance: &mut fastrand::Rng) -> Option<<ListModel as Model>::Update> {
        self.crowd(chance);
        let value = chance.u8(..100);
        let list = self.list.as_ref();
        if chance.u8(..4) == 0 {
            list.try_queue(O::item(value)).ok()?;
        } else {
            list.queue(O::item(value));
        }
        Some(Push(value))
    }
    fn read(&self, chance: &mut fastrand::Rng) -> Option<<ListModel as Model>::State> {
        match chance.u8(..5) {
            0 => Some(self.list.with(|list| list.clone())),
            1 => Some(self.list.synchronize().clone()),
            2 => self.list.try_synchronize().ok().map(|list| list.clone()),
            3 => self.list.try_read().ok().map(|list| list.clone()),
            _ => Some(self.list.read().clone()),
        }
    }
    fn pay(&self, budget: usize) {
        drop(self.others[budget % self.others.len()].synchronize());
    }
    fn clear(&self) {
        self.list.synchronize().clear();
        for other in &self.others {
            other.synchronize().clear();
        }
    }
    fn clock_violations(&self) -> u64 {
        <O as Cached<Vec<u8>, O::On>>::cache()
            .stats()
            .clock_violations
    }
}
