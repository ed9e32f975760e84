//! The structures under test: a register, a set, sums, a list, and a book of entries that are opened and
//! closed once; logged, with and without absorption.

use crate::common::model::Model;
use percolog::collections::{self, SetState};
use percolog::oplog::{
    Absorb, AddToken, Combined, Logged, LoggedFn, Operation, RemoveToken, token_pair,
};
use percolog::testing::Environment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// A logged structure that picks random operations.
pub(crate) trait Subject: Sync {
    type Model: Model;
    /// Makes an update and says which; `None` if it was refused.
    fn update(&self, chance: &mut fastrand::Rng) -> Option<<Self::Model as Model>::Update>;
    /// Reads everything; `None` if somebody else had it.
    fn read(&self, chance: &mut fastrand::Rng) -> Option<<Self::Model as Model>::State>;
    /// Pays for some pending operations.
    fn pay(&self, budget: usize);
    /// Empties the structure.
    fn clear(&self);
    fn clock_violations(&self) -> u64;
}

/// Queues in one of the ways there are; whether the operation was taken.
fn queue<S, O: Operation<S>, E: Environment>(
    log: &Logged<S, O, E>,
    chance: &mut fastrand::Rng,
    operation: O,
) -> bool {
    match chance.u8(..4) {
        0 => log.try_queue(operation).is_ok(),
        1 => {
            log.extend([operation]);
            true
        }
        _ => {
            log.queue(operation);
            true
        }
    }
}

/// Reads in one of the ways there are.
fn look<S: Sync, O: Operation<S>, E: Environment, R>(
    log: &Logged<S, O, E>,
    chance: &mut fastrand::Rng,
    f: impl FnOnce(&S) -> R,
) -> Option<R> {
    match chance.u8(..5) {
        0 => Some(log.with(|state| f(state))),
        1 => Some(f(&log.synchronize())),
        2 => log.try_synchronize().ok().map(|guard| f(&guard)),
        3 => log.try_read().ok().map(|guard| f(&guard)),
        _ => Some(f(&log.read())),
    }
}

macro_rules! subject {
    () => {
        fn pay(&self, budget: usize) {
            self.0.drain(budget);
        }

        fn clear(&self) {
            *self.0.synchronize() = Default::default();
        }

        fn clock_violations(&self) -> u64 {
            self.0.stats().clock_violations
        }
    };
}

pub(crate) struct RegisterModel;

impl Model for RegisterModel {
    type State = u8;
    type Update = u8;
    fn apply(update: &u8, state: &mut u8) {
        *state = *update;
    }
}

/// Writes to the register; what was written before does not matter any more.
pub(crate) struct Write<const ABSORBS: bool>(u8);

impl<const ABSORBS: bool> Operation<u8> for Write<ABSORBS> {
    const ABSORBS: bool = ABSORBS;
    fn exec(self, state: &mut u8) {
        *state = self.0;
    }
    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(0)
    }
    fn replaces(&self, _: &Self) -> bool {
        true
    }
}

pub(crate) struct Register<const ABSORBS: bool, E: Environment>(
    pub(crate) Logged<u8, Write<ABSORBS>, E>,
);

impl<const ABSORBS: bool, E: Environment + Sync> Subject for Register<ABSORBS, E> {
    type Model = RegisterModel;
    fn update(&self, chance: &mut fastrand::Rng) -> Option<u8> {
        let value = chance.u8(..100);
        queue(&self.0, chance, Write(value)).then_some(value)
    }
    fn read(&self, chance: &mut fastrand::Rng) -> Option<u8> {
        look(&self.0, chance, |state| *state)
    }
    subject!();
}

pub(crate) struct SetModel;

/// Whether a key is to be in the set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<const ABSORBS: bool> {
    key: u8,
    present: bool,
}

impl Model for SetModel {
    type State = BTreeSet<u8>;
    type Update = Put<false>;
    fn apply(update: &Put<false>, state: &mut BTreeSet<u8>) {
        update.exec(state);
    }
}

impl<const ABSORBS: bool> Operation<BTreeSet<u8>> for Put<ABSORBS> {
    const ABSORBS: bool = ABSORBS;
    fn exec(self, state: &mut BTreeSet<u8>) {
        if self.present {
            state.insert(self.key);
        } else {
            state.remove(&self.key);
        }
    }
    fn absorb(&self) -> Absorb<'_> {
        // A bad hash, so that `replaces` has to decide.
        Absorb::Replace(u64::from(self.key % 2))
    }
    fn replaces(&self, earlier: &Self) -> bool {
        self.key == earlier.key
    }
}

pub(crate) struct Set<const ABSORBS: bool, E: Environment>(
    pub(crate) Logged<BTreeSet<u8>, Put<ABSORBS>, E>,
);

impl<const ABSORBS: bool, E: Environment + Sync> Subject for Set<ABSORBS, E> {
    type Model = SetModel;
    fn update(&self, chance: &mut fastrand::Rng) -> Option<Put<false>> {
        let (key, present) = (chance.u8(..3), chance.bool());
        queue(&self.0, chance, Put { key, present }).then_some(Put { key, present })
    }
    fn read(&self, chance: &mut fastrand::Rng) -> Option<BTreeSet<u8>> {
        look(&self.0, chance, Clone::clone)
    }
    subject!();
}

pub(crate) struct SumsModel;

/// So much more under a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct More<const ORDERED: bool> {
    key: u8,
    amount: u64,
}

impl Model for SumsModel {
    type State = BTreeMap<u8, u64>;
    type Update = More<false>;
    fn apply(update: &More<false>, state: &mut BTreeMap<u8, u64>) {
        update.exec(state);
    }
}

impl<const ORDERED: bool> Operation<BTreeMap<u8, u64>> for More<ORDERED> {
    const ABSORBS: bool = true;
    const ORDERED: bool = ORDERED;
    fn exec(self, state: &mut BTreeMap<u8, u64>) {
        *state.entry(self.key).or_default() += self.amount;
    }
    fn absorb(&self) -> Absorb<'_> {
        // A bad hash, so that `combine` has to decide.
        Absorb::Combine(u64::from(self.key % 2))
    }
    fn combine(&mut self, later: Self) -> Combined<Self> {
        if self.key != later.key {
            return Combined::Apart(later);
        }
        self.amount += later.amount;
        Combined::One
    }
}

pub(crate) struct Sums<const ORDERED: bool, E: Environment>(
    pub(crate) Logged<BTreeMap<u8, u64>, More<ORDERED>, E>,
);

impl<const ORDERED: bool, E: Environment + Sync> Subject for Sums<ORDERED, E> {
    type Model = SumsModel;
    fn update(&self, chance: &mut fastrand::Rng) -> Option<More<false>> {
        let (key, amount) = (chance.u8(..3), chance.u64(1..10));
        queue(&self.0, chance, More { key, amount }).then_some(More { key, amount })
    }
    fn read(&self, chance: &mut fastrand::Rng) -> Option<BTreeMap<u8, u64>> {
        look(&self.0, chance, Clone::clone)
    }
    subject!();
}

/// The set of the shelf.
pub(crate) struct SetOfTheShelf<S: SetState<u8>, E: Environment>(
    pub(crate) collections::Set<u8, S, E>,
);

impl<S, E: Environment + Sync> Subject for SetOfTheShelf<S, E>
where
    S: SetState<u8> + Default + Clone + Send + Sync + IntoIterator<Item = u8>,
{
    type Model = SetModel;
    fn update(&self, chance: &mut fastrand::Rng) -> Option<Put<false>> {
        let (key, present) = (chance.u8(..3), chance.bool());
        let taken = match (chance.u8(..6), present) {
            (0, true) => self.0.try_insert(key).is_ok(),
            (0, false) => self.0.try_remove(key).is_ok(),
            (1, true) => {
                self.0.insert_now(key);
                true
            }
            (1, false) => {
                self.0.remove_now(&key);
                true
            }
            (_, true) => {
                self.0.insert(key);
                true
            }
            (_, false) => {
                self.0.remove(key);
                true
            }
        };
        taken.then_some(Put { key, present })
    }
    fn read(&self, chance: &mut fastrand::Rng) -> Option<BTreeSet<u8>> {
        let seen = match chance.u8(..4) {
            0 => self.0.try_read().ok()?.clone(),
            1 => self.0.try_synchronize().ok()?.clone(),
            2 => self.0.synchronize().clone(),
            _ => self.0.read().clone(),
        };
        Some(seen.into_iter().collect())
    }
    subject!();
}

pub(crate) struct ListModel;

/// Appends to the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push(pub(crate) u8);

impl Model for ListModel {
    type State = Vec<u8>;
    type Update = Push;
    fn apply(update: &Push, state: &mut Vec<u8>) {
        update.exec(state);
    }
}

impl Operation<Vec<u8>> for Push {
    fn exec(self, state: &mut Vec<u8>) {
        state.push(self.0);
    }
}

pub(crate) struct List<E: Environment>(pub(crate) Logged<Vec<u8>, Push, E>);

impl<E: Environment + Sync> Subject for List<E> {
    type Model = ListModel;
    fn update(&self, chance: &mut fastrand::Rng) -> Option<Push> {
        let push = Push(chance.u8(..));
        queue(&self.0, chance, push).then_some(push)
    }
    fn read(&self, chance: &mut fastrand::Rng) -> Option<Vec<u8>> {
        look(&self.0, chance, Clone::clone)
    }
    subject!();
}

/// The list again, its updates being closures.
pub(crate) struct ClosureList(pub(crate) LoggedFn<Vec<u8>>);

impl Subject for ClosureList {
    type Model = ListModel;
    fn update(&self, chance: &mut fastrand::Rng) -> Option<Push> {
        let push = Push(chance.u8(..));
        match chance.u8(..3) {
            0 => self.0.update_boxed(move |list| list.push(push.0)),
            1 => {
                let pushed = self
                    .0
                    .try_update(move |list: &mut Vec<u8>| list.push(push.0));
                return pushed.is_ok().then_some(push);
            }
            _ => self.0.update(move |list| list.push(push.0)),
        }
        Some(push)
    }
    fn read(&self, chance: &mut fastrand::Rng) -> Option<Vec<u8>> {
        Some(match chance.u8(..3) {
            0 => self.0.read().clone(),
            1 => self.0.with(|list| list.clone()),
            _ => self.0.synchronize().clone(),
        })
    }
    subject!();
}

pub(crate) struct BookModel;

/// An entry of the book, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Opened(u64),
    Closed(u64),
}

impl Model for BookModel {
    type State = BTreeSet<u64>;
    type Update = Entry;
    fn apply(update: &Entry, state: &mut BTreeSet<u64>) {
        match update {
            Entry::Opened(id) => assert!(state.insert(*id)),
            Entry::Closed(id) => {
                state.remove(id);
            }
        }
    }
}

pub(crate) enum Edit {
    Open(AddToken),
    Close(RemoveToken),
}

impl Operation<BTreeSet<u64>> for Edit {
    const ABSORBS: bool = true;
    fn exec(self, state: &mut BTreeSet<u64>) {
        match self {
            Self::Open(birth) => assert!(state.insert(birth.id())),
            Self::Close(death) => {
                state.remove(&death.id());
            }
        }
    }
    fn absorb(&self) -> Absorb<'_> {
        match self {
            Self::Open(birth) => Absorb::Add(birth),
            Self::Close(death) => Absorb::Remove(death),
        }
    }
}

/// A set of identities that are added once and removed once, by any thread.
pub(crate) struct Book<E: Environment>(
    pub(crate) Logged<BTreeSet<u64>, Edit, E>,
    pub(crate) Mutex<Vec<RemoveToken>>,
);

impl<E: Environment + Sync> Subject for Book<E> {
    type Model = BookModel;
    fn update(&self, chance: &mut fastrand::Rng) -> Option<Entry> {
        let mut deaths = self.1.lock().expect("no panic");
        if !deaths.is_empty() && chance.u8(..3) != 0 {
            let at = chance.usize(..deaths.len());
            let death = deaths.swap_remove(at);
            drop(deaths);
            let id = death.id();
            self.0.queue(Edit::Close(death));
            return Some(Entry::Closed(id));
        }
        let (birth, death) = token_pair();
        let id = birth.id();
        // Mostly someone hears of the entry when it has been opened; sometimes before, and may close
        // it first, which closes nothing.
        if chance.u8(..4) == 0 {
            deaths.push(death);
            drop(deaths);
            self.0.queue(Edit::Open(birth));
        } else {
            drop(deaths);
            self.0.queue(Edit::Open(birth));
            self.1.lock().expect("no panic").push(death);
        }
        Some(Entry::Opened(id))
    }
    fn read(&self, chance: &mut fastrand::Rng) -> Option<BTreeSet<u64>> {
        look(&self.0, chance, Clone::clone)
    }
    subject!();
}
