//! Random programs on one thread against the sequential model: the same reads, the same end, and an
//! account that adds up.
#![cfg(not(percolog_loom))]

use percolog::cpu::CoreId;
use percolog::oplog::{
    Absorb, AddToken, FullReason, Logged, Mode, OnDrop, Operation, Policy, RemoveToken, token_pair,
};
use percolog::testing::Environment;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Registers, entries that are opened and closed once, and notes in order.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    registers: BTreeMap<u8, u8>,
    open: BTreeSet<u64>,
    notes: Vec<u8>,
}

impl State {
    fn put(&mut self, key: u8, value: u8) {
        self.registers.insert(key, value);
    }

    fn open(&mut self, id: u64) {
        self.open.insert(id);
    }

    fn close(&mut self, id: u64) {
        self.open.remove(&id);
    }

    fn note(&mut self, value: u8) {
        self.notes.push(value);
    }
}

/// An update; the queue absorbs what it can if `ABSORBS`.
#[derive(Debug)]
enum Update<const ABSORBS: bool> {
    Put(u8, u8),
    Open(AddToken),
    Close(RemoveToken),
    Note(u8),
}

impl<const ABSORBS: bool> Operation<State> for Update<ABSORBS> {
    const ABSORBS: bool = ABSORBS;

    fn exec(self, state: &mut State) {
        match self {
            Self::Put(key, value) => state.put(key, value),
            Self::Open(birth) => state.open(birth.id()),
            Self::Close(death) => state.close(death.id()),
            Self::Note(value) => state.note(value),
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            // Hashes collide, also with the numbers of entries.
            Self::Put(key, _) => Absorb::Replace(u64::from(key % 2)),
            Self::Open(birth) => Absorb::Add(birth),
            Self::Close(death) => Absorb::Remove(death),
            Self::Note(_) => Absorb::Never,
        }
    }

    fn replaces(&self, earlier: &Self) -> bool {
        matches!((self, earlier), (Self::Put(key, _), Self::Put(other, _)) if key == other)
    }
}

/// The program's slot and clock.
#[derive(Clone, Default)]
struct Machine(Rc<(Cell<u32>, Cell<u64>)>);

impl Environment for Machine {
    fn slot(&self) -> CoreId {
        CoreId::new(self.0.0.get())
    }

    fn stamp(&self) -> u64 {
        let stamp = self.0.1.get();
        self.0.1.set(stamp + 1);
        stamp
    }

    fn chip(&self) -> usize {
        self.0.0.get() as usize % 3
    }
}

/// An update to come.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Put(u8, u8),
    Open,
    /// Closes the entry that waits for it at this place, if any does.
    Close(usize),
    /// Makes an entry that is closed before it is opened: it stays.
    CloseThenOpen,
    Note(u8),
}

#[derive(Clone, Debug)]
enum Step {
    Queue(Plan),
    TryQueue(Plan),
    Extend(Vec<Plan>),
    MoveTo(u32),
    Synchronize,
    TrySynchronize,
    Read,
    With,
    Drain(usize),
    GetMut,
}

fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        4 => (0..4u8, any::<u8>()).prop_map(|(key, value)| Plan::Put(key, value)),
        2 => Just(Plan::Open),
        2 => any::<usize>().prop_map(Plan::Close),
        1 => Just(Plan::CloseThenOpen),
        2 => any::<u8>().prop_map(Plan::Note),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => plan().prop_map(Step::Queue),
        3 => plan().prop_map(Step::TryQueue),
        2 => prop::collection::vec(plan(), 0..40).prop_map(Step::Extend),
        // Slots that share a dirty mark, and that share a place.
        6 => prop::sample::select(vec![0, 1, 2, 64, 1024, 8193])
            .prop_map(Step::MoveTo),
        1 => Just(Step::Synchronize),
        1 => Just(Step::TrySynchronize),
        1 => Just(Step::Read),
        1 => Just(Step::With),
        2 => (0..8usize).prop_map(Step::Drain),
        1 => Just(Step::GetMut),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    limit: usize,
    hard_limit: usize,
    policy: Policy,
    absorb_while_merging: bool,
    mode: Mode,
}

fn limits() -> impl Strategy<Value = Limits> {
    (
        1..=8usize,
        0..8usize,
        prop::sample::select(vec![
            Policy::Merge,
            Policy::Grow,
            Policy::Full,
            Policy::Discard,
        ]),
        any::<bool>(),
        prop::sample::select(vec![
            Mode::Deferring,
            Mode::Deferring,
            Mode::Eager,
            Mode::Restless,
        ]),
    )
        .prop_map(|(limit, more, policy, absorb_while_merging, mode)| Limits {
            limit,
            hard_limit: limit + more,
            policy,
            absorb_while_merging,
            mode,
        })
}

/// A logged state and its sequential model.
struct Pair<const ABSORBS: bool> {
    log: Logged<State, Update<ABSORBS>, Machine>,
    model: State,
    machine: Machine,
    policy: Policy,
    /// Rights to close entries that have been opened.
    deaths: Vec<RemoveToken>,
    /// Operations that were not handed back.
    accepted: u64,
}

impl<const ABSORBS: bool> Pair<ABSORBS> {
    fn new(limits: Limits) -> Self {
        let machine = Machine::default();
        Self {
            log: Logged::<State, Update<ABSORBS>>::builder()
                .limit(limits.limit)
                .hard_limit(limits.hard_limit)
                .policy(limits.policy)
                .absorb_while_merging(limits.absorb_while_merging)
                .mode(limits.mode)
                .build_in(State::default(), machine.clone()),
            model: State::default(),
            machine,
            policy: limits.policy,
            deaths: Vec::new(),
            accepted: 0,
        }
    }

    /// The updates of a plan, each with what it does to the model.
    fn updates(&mut self, plan: Plan) -> Vec<(Update<ABSORBS>, Effect)> {
        match plan {
            Plan::Put(key, value) => vec![(Update::Put(key, value), Effect::Put(key, value))],
            Plan::Note(value) => vec![(Update::Note(value), Effect::Note(value))],
            Plan::Open => {
                let (birth, death) = token_pair();
                self.deaths.push(death);
                let effect = Effect::Open(birth.id());
                vec![(Update::Open(birth), effect)]
            }
            Plan::Close(_) if self.deaths.is_empty() => vec![],
            Plan::Close(at) => {
                let death = self.deaths.swap_remove(at % self.deaths.len());
                let effect = Effect::Close(death.id());
                vec![(Update::Close(death), effect)]
            }
            Plan::CloseThenOpen => {
                let (birth, death) = token_pair();
                let id = birth.id();
                vec![
                    (Update::Close(death), Effect::Close(id)),
                    (Update::Open(birth), Effect::Open(id)),
                ]
            }
        }
    }

    fn take_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Put(key, value) => self.model.put(key, value),
            Effect::Open(id) => self.model.open(id),
            Effect::Close(id) => self.model.close(id),
            Effect::Note(value) => self.model.note(value),
        }
    }

    /// Queues one operation and tells the model, unless it was refused or discarded.
    fn update(&mut self, update: Update<ABSORBS>, effect: Effect, never_wait: bool) {
        if never_wait || self.policy == Policy::Full {
            match self.log.try_queue(update) {
                Ok(()) => self.take_effect(effect),
                Err(full) => {
                    assert_eq!(full.reason, FullReason::Limit);
                    return;
                }
            }
        } else {
            let discarded = self.log.stats().discarded;
            self.log.queue(update);
            if self.log.stats().discarded == discarded {
                self.take_effect(effect);
            } else {
                assert_eq!(self.policy, Policy::Discard);
            }
        }
        self.accepted += 1;
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Queue(plan) => {
                for (at, (update, effect)) in self.updates(plan).into_iter().enumerate() {
                    // The parts of a plan are queued on different slots.
                    let slot = &self.machine.0.0;
                    slot.set(slot.get() ^ at as u32);
                    self.update(update, effect, false);
                }
            }
            Step::TryQueue(plan) => {
                for (update, effect) in self.updates(plan) {
                    self.update(update, effect, true);
                }
            }
            Step::Extend(plans) => {
                // Full panics in mid-way, and the model could not tell what Discard drops.
                if matches!(self.policy, Policy::Full | Policy::Discard) {
                    return;
                }
                let (updates, effects): (Vec<_>, Vec<_>) = plans
                    .into_iter()
                    .flat_map(|plan| self.updates(plan))
                    .unzip();
                self.accepted += updates.len() as u64;
                self.log.extend(updates);
                effects
                    .into_iter()
                    .for_each(|effect| self.take_effect(effect));
            }
            Step::MoveTo(slot) => self.machine.0.0.set(slot),
            Step::Synchronize => assert_eq!(*self.log.synchronize(), self.model),
            Step::TrySynchronize => {
                let guard = self.log.try_synchronize().expect("nobody else is there");
                assert_eq!(*guard, self.model);
            }
            Step::Read => {
                let first = self.log.read();
                assert_eq!(*first, self.model);
                drop(first);
                // Of a clean object this time.
                assert_eq!(*self.log.try_read().expect("nobody else"), self.model);
            }
            Step::With => {
                let seen = self.log.with(|state| {
                    state.note(0);
                    state.clone()
                });
                self.model.note(0);
                assert_eq!(seen, self.model);
            }
            Step::Drain(budget) => {
                let before = self.log.stats();
                let drained = self.log.drain(budget);
                let after = self.log.stats();
                assert!(drained.executed <= budget);
                assert_eq!(drained.executed as u64, after.executed - before.executed);
                assert_eq!(drained.finished, after.pending == 0);
            }
            Step::GetMut => assert_eq!(*self.log.get_mut(), self.model),
        }
    }

    fn check_account(&self) {
        let stats = self.log.stats();
        assert_eq!(
            self.accepted,
            stats.executed + stats.absorbed + stats.discarded + stats.pending as u64,
            "{stats:?}"
        );
        assert_eq!(stats.clock_violations, 0);
        if !ABSORBS {
            assert_eq!(stats.absorbed, 0);
        }
        if self.policy != Policy::Discard {
            assert_eq!(stats.discarded, 0);
        }
        if self.policy != Policy::Merge {
            assert_eq!(stats.updater_merges, 0);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Effect {
    Put(u8, u8),
    Open(u64),
    Close(u64),
    Note(u8),
}

fn behaves<const ABSORBS: bool>(limits: Limits, program: Vec<Step>) {
    let mut pair = Pair::<ABSORBS>::new(limits);
    for step in program {
        pair.run(step);
        pair.check_account();
    }
    assert_eq!(pair.log.into_inner(), pair.model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_do_what_they_would_do_at_once(
        limits in limits(),
        program in prop::collection::vec(step(), 0..80),
    ) {
        behaves::<false>(limits, program);
    }

    #[test]
    fn absorbing_programs_do_what_they_would_do_at_once(
        limits in limits(),
        program in prop::collection::vec(step(), 0..80),
    ) {
        behaves::<true>(limits, program);
    }

    #[test]
    fn what_is_pending_is_applied_when_the_object_is_dropped(
        limits in limits(),
        slots in prop::collection::vec(0..3u32, 0..30),
        apply: bool,
    ) {
        /// Notes its number where the test finds it.
        struct Note(u32, std::sync::Arc<std::sync::Mutex<Vec<u32>>>);
        impl Operation<()> for Note {
            fn exec(self, (): &mut ()) {
                self.1.lock().expect("no panic").push(self.0);
            }
        }
        let notes = std::sync::Arc::default();
        let machine = Machine::default();
        let log: Logged<(), Note, Machine> = Logged::<(), Note>::builder().mode(Mode::Deferring)
            .limit(limits.limit)
            .policy(Policy::Grow)
            .on_drop(if apply { OnDrop::Apply } else { OnDrop::Discard })
            .build_in((), machine.clone());
        let count = slots.len() as u32;
        for (number, slot) in slots.into_iter().enumerate() {
            machine.0.0.set(slot);
            log.queue(Note(number as u32, std::sync::Arc::clone(&notes)));
        }
        drop(log);
        let expected: Vec<u32> = if apply { (0..count).collect() } else { Vec::new() };
        prop_assert_eq!(&*notes.lock().expect("no panic"), &expected);
        prop_assert_eq!(std::sync::Arc::strong_count(&notes), 1, "operations are dropped once");
    }
}
