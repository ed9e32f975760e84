//! A guard shows one instant: no effect without its cause, whatever queues absorb meanwhile.
//!
//! The dangerous moments lie inside a merge, between its visits to two slots. A made-up machine opens
//! them: an updater is stopped while it has its slot, the merge waits for that slot, and meanwhile
//! other threads go on.
#![cfg(not(percolog_loom))]

use percolog::collections::Set;
use percolog::cpu::CoreId;
use percolog::oplog::{
    Absorb, AddToken, FullReason, Logged, LoggedBuilder, LoggedFn, Mode, Operation, Policy,
    RemoveToken, token_pair,
};
use percolog::testing::Environment;
use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

thread_local! {
    static SLOT: Cell<u32> = const { Cell::new(0) };
}

/// A machine whose slots are chosen by its threads, and on which one updater can be stopped while it
/// has its slot's queue.
#[derive(Clone, Default)]
struct Machine(Arc<Parts>);

#[derive(Default)]
struct Parts {
    now: AtomicU64,
    stop: Mutex<Option<Stop>>,
}

/// Where an updater is to be stopped, what it says then, and what it waits for.
struct Stop {
    slot: u32,
    stopped: Sender<()>,
    let_go: Receiver<()>,
}

impl Machine {
    /// Stops the next first update on `slot`; returns how to hear of it and how to let it go.
    fn stop_on(&self, slot: u32) -> (Receiver<()>, Sender<()>) {
        let (stopped, hear) = channel();
        let (release, let_go) = channel();
        *self.0.stop.lock().expect("no panic") = Some(Stop {
            slot,
            stopped,
            let_go,
        });
        (hear, release)
    }
}

impl Environment for Machine {
    fn slot(&self) -> CoreId {
        CoreId::new(SLOT.get())
    }

    fn stamp(&self) -> u64 {
        self.0.now.fetch_add(1, Ordering::SeqCst)
    }

    /// Asked by a slot's first update after a merge, which has the slot's queue by then.
    fn chip(&self) -> usize {
        let mut stop = self.0.stop.lock().expect("no panic");
        let here = stop.take_if(|stop| stop.slot == SLOT.get());
        drop(stop);
        if let Some(stop) = here {
            stop.stopped.send(()).expect("the test listens");
            stop.let_go.recv().expect("the test lets go");
        }
        0
    }
}

/// Slots of the histories below. A merge visits them in the order of their dirty marks; `STOPPED`
/// shares the mark of `BEFORE`, and is visited right after it.
const FIRST: u32 = 0;
const BEFORE: u32 = 1;
const STOPPED: u32 = 1025;
const LAST: u32 = 2;

/// Queues from `slot`.
fn queue_on<S, O: Operation<S>>(log: &Logged<S, O, Machine>, slot: u32, operation: O) {
    SLOT.set(slot);
    log.queue(operation);
}

/// Queues from `slot`; whether the slot's queue was not in the hands of a merge.
fn try_queue_on(edits: &Edits, slot: u32, edit: Edit) -> bool {
    SLOT.set(slot);
    match edits.try_queue(edit) {
        Ok(()) => true,
        Err(full) => {
            assert_eq!(full.reason, FullReason::Busy);
            false
        }
    }
}

/// Operations that a queue of these histories holds.
const LIMIT: usize = 4;

/// Runs `meanwhile` while a merge has taken the queues up to `BEFORE` and has not come to `LAST`, and
/// returns what the reader behind that merge saw.
fn in_mid_merge(
    object: &impl Shown,
    machine: &Machine,
    meanwhile: impl FnOnce(),
) -> BTreeSet<&'static str> {
    thread::scope(|scope| {
        SLOT.set(BEFORE);
        for _ in 0..LIMIT {
            object.fill().expect("the queue is not full");
        }
        let (stopped, let_go) = machine.stop_on(STOPPED);
        scope.spawn(move || {
            SLOT.set(STOPPED);
            object.fill().expect("nobody else has the queue");
        });
        stopped.recv().expect("the updater is stopped");
        let reader = scope.spawn(|| {
            SLOT.set(FIRST);
            object.shown()
        });
        // When the queue on `BEFORE` is not full any more, or cannot be had, the merge has been there. It
        // has collected the marks, and goes on to wait for `STOPPED`.
        SLOT.set(BEFORE);
        while object.fill() == Err(FullReason::Limit) {
            thread::yield_now();
        }
        meanwhile();
        let_go.send(()).expect("the updater waits");
        reader.join().expect("the reader does not panic")
    })
}

/// Adds and removes, with nothing absorbed, with the last word on a key replacing the others, or with
/// pairs that cancel.
enum Edit {
    Put(&'static str, bool),
    Open(AddToken, &'static str),
    Close(RemoveToken, &'static str),
    Nothing,
}

impl Edit {
    fn key(&self) -> Option<&'static str> {
        match self {
            Self::Put(key, _) => Some(key),
            _ => None,
        }
    }
}

impl Operation<BTreeSet<&'static str>> for Edit {
    const ABSORBS: bool = true;

    fn exec(self, set: &mut BTreeSet<&'static str>) {
        match self {
            Self::Put(key, true) | Self::Open(_, key) => _ = set.insert(key),
            Self::Put(key, false) | Self::Close(_, key) => _ = set.remove(key),
            Self::Nothing => {}
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Self::Put(key, _) => Absorb::Replace(u64::from(key.as_bytes()[0])),
            Self::Open(birth, _) => Absorb::Add(birth),
            Self::Close(death, _) => Absorb::Remove(death),
            Self::Nothing => Absorb::Never,
        }
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.key().is_some() && self.key() == earlier.key()
    }
}

type Edits = Logged<BTreeSet<&'static str>, Edit, Machine>;

/// Names that are there or not, in a logged structure.
trait Shown: Sync {
    /// Queues something that is not shown, and that nothing replaces.
    fn fill(&self) -> Result<(), FullReason>;

    /// Merges, and tells which names are there.
    fn shown(&self) -> BTreeSet<&'static str>;
}

impl Shown for Edits {
    fn fill(&self) -> Result<(), FullReason> {
        self.try_queue(Edit::Nothing).map_err(|full| full.reason)
    }

    fn shown(&self) -> BTreeSet<&'static str> {
        self.synchronize().clone()
    }
}

/// A set of the shelf, and a number that nothing in it is named by.
struct NamedSet(
    Set<Result<&'static str, u64>, HashSet<Result<&'static str, u64>>, Machine>,
    AtomicU64,
);

impl Shown for NamedSet {
    fn fill(&self) -> Result<(), FullReason> {
        let unnamed = Err(self.1.fetch_add(1, Ordering::Relaxed));
        self.0.try_insert(unnamed).map_err(|full| full.reason)
    }

    fn shown(&self) -> BTreeSet<&'static str> {
        self.0.read().iter().filter_map(|name| name.ok()).collect()
    }
}

fn edits(machine: &Machine) -> Edits {
    Logged::<BTreeSet<&'static str>, Edit>::builder()
        .mode(Mode::Deferring)
        .limit(LIMIT)
        .policy(Policy::Full)
        .build_in(BTreeSet::new(), machine.clone())
}

#[test]
fn a_finished_update_is_found_by_the_next_merge_whichever_slot_it_is_on() {
    // All marks of two words, slots that share the first of them or lie on another page, and the last.
    for slot in (0..130)
        .chain(1020..1030)
        .chain([CoreId::PLACES as u32 - 1])
    {
        let edits = edits(&Machine::default());
        // First on a slot never used, then on one whose queue a merge has taken.
        for key in ["x", "y"] {
            queue_on(&edits, slot, Edit::Put(key, true));
            SLOT.set(FIRST);
            let found = edits.synchronize().contains(key);
            assert!(found, "{key} of slot {slot} is not there");
        }
    }
}

#[test]
fn an_effect_is_not_taken_without_a_cause_on_a_slot_not_yet_marked() {
    let machine = Machine::default();
    let edits = edits(&machine);
    // The effect's slot is marked, so the merge comes there.
    queue_on(&edits, LAST, Edit::Nothing);
    let seen = in_mid_merge(&edits, &machine, || {
        // Behind the merge's back, on a slot whose mark it has looked at.
        queue_on(&edits, FIRST, Edit::Put("cause", true));
        queue_on(&edits, LAST, Edit::Put("effect", true));
    });
    assert!(
        seen.contains("cause") || !seen.contains("effect"),
        "the reader sees {seen:?}"
    );
    assert_eq!(*edits.synchronize(), BTreeSet::from(["cause", "effect"]));
}

#[test]
fn an_effect_is_not_taken_without_a_cause_on_a_slot_already_visited() {
    let machine = Machine::default();
    let edits = edits(&machine);
    queue_on(&edits, FIRST, Edit::Nothing);
    queue_on(&edits, LAST, Edit::Nothing);
    let seen = in_mid_merge(&edits, &machine, || {
        // A slot that the merge has visited stays in its hands until it has all: the cause must wait,
        // and so must the effect.
        if try_queue_on(&edits, FIRST, Edit::Put("cause", true)) {
            queue_on(&edits, LAST, Edit::Put("effect", true));
        }
    });
    assert!(
        seen.contains("cause") || !seen.contains("effect"),
        "the reader sees {seen:?}"
    );
}

/// However often a slot is written, a merge goes there once: writers cannot keep it busy.
#[test]
fn a_merge_visits_a_slot_once_however_busy_its_writers_are() {
    let machine = Machine::default();
    let edits = edits(&machine);
    queue_on(&edits, FIRST, Edit::Put("early", true));
    let seen = in_mid_merge(&edits, &machine, || {
        // If this came through, it would set the slot's mark, and the merge would have to go there once more; and so on for
        // as long as somebody writes.
        assert!(!try_queue_on(&edits, FIRST, Edit::Put("late", true)));
    });
    assert_eq!(seen, BTreeSet::from(["early"]));
    queue_on(&edits, FIRST, Edit::Put("late", true));
    assert_eq!(*edits.synchronize(), BTreeSet::from(["early", "late"]));
}

/// `x` is added on slot A; a merge visits B; `y` is added on B, of which A hears and removes `x`. If the
/// merge then took A, where the removal has met the addition, the reader would see neither: but at any
/// instant one of the two is there.
fn one_of_the_two_is_always_there(add: Edit, remove: Edit) {
    const B: u32 = FIRST;
    const A: u32 = LAST;
    let machine = Machine::default();
    let edits = edits(&machine);
    queue_on(&edits, B, Edit::Nothing);
    queue_on(&edits, A, add);
    let mut kept = Some(remove);
    let seen = in_mid_merge(&edits, &machine, || {
        if try_queue_on(&edits, B, Edit::Put("y", true)) {
            queue_on(&edits, A, kept.take().expect("given above"));
        }
    });
    assert!(!seen.is_empty(), "the reader sees neither x nor y");
    // With all locks held, y had to wait, and is added now.
    if let Some(remove) = kept {
        assert_eq!(seen, BTreeSet::from(["x"]));
        queue_on(&edits, B, Edit::Put("y", true));
        queue_on(&edits, A, remove);
    }
    assert_eq!(*edits.synchronize(), BTreeSet::from(["y"]));
}

#[test]
fn a_removal_that_cancels_does_not_hide_what_made_it() {
    let (birth, death) = token_pair();
    one_of_the_two_is_always_there(Edit::Open(birth, "x"), Edit::Close(death, "x"));
}

/// The same of a set of the shelf.
#[test]
fn one_of_two_keys_that_a_set_always_has_is_always_shown() {
    const B: u32 = FIRST;
    const A: u32 = LAST;
    let machine = Machine::default();
    let builder = LoggedBuilder::new()
        .mode(Mode::Deferring)
        .limit(LIMIT)
        .policy(Policy::Full);
    let set = NamedSet(
        Set::build_in(builder, HashSet::new(), machine.clone()),
        AtomicU64::new(0),
    );
    SLOT.set(B);
    set.fill().expect("nobody else has the queue");
    SLOT.set(A);
    set.0.insert(Ok("x"));
    let mut turned = false;
    let seen = in_mid_merge(&set, &machine, || {
        SLOT.set(B);
        turned = set.0.try_insert(Ok("y")).is_ok();
        if turned {
            SLOT.set(A);
            set.0.remove(Ok("x"));
        }
    });
    assert!(!seen.is_empty(), "the reader sees neither x nor y");
    if !turned {
        assert_eq!(seen, BTreeSet::from(["x"]));
        SLOT.set(B);
        set.0.insert(Ok("y"));
        SLOT.set(A);
        set.0.remove(Ok("x"));
    }
    assert_eq!(set.shown(), BTreeSet::from(["y"]));
}

#[test]
fn a_removal_that_replaces_does_not_hide_what_made_it() {
    one_of_the_two_is_always_there(Edit::Put("x", true), Edit::Put("x", false));
}

/// What is queued, in order: adds and removes of one-letter keys, as `"+x -x"`.
fn every_placement(before: &[&'static str], program: &'static str) {
    const CORES: usize = 3;
    let steps: Vec<(bool, &'static str)> = program
        .split(' ')
        .map(|step| (step.starts_with('+'), &step[1..]))
        .collect();
    for identities in [false, true] {
        for absorb_while_merging in [false, true] {
            for placement in 0..CORES.pow(steps.len() as u32) {
                for read_after in 0..1u32 << steps.len() {
                    let machine = Machine::default();
                    let edits: Edits = Logged::<BTreeSet<&'static str>, Edit>::builder()
                        .mode(Mode::Deferring)
                        .absorb_while_merging(absorb_while_merging)
                        .build_in(before.iter().copied().collect(), machine);
                    let mut model: BTreeSet<&'static str> = before.iter().copied().collect();
                    let mut deaths: Vec<(&'static str, RemoveToken)> = Vec::new();
                    for (at, (add, key)) in steps.iter().copied().enumerate() {
                        let slot = (placement / CORES.pow(at as u32) % CORES) as u32;
                        let known = deaths.iter().position(|(name, _)| *name == key);
                        let edit = match (identities, add, known) {
                            (true, true, _) => {
                                let (birth, death) = token_pair();
                                deaths.push((key, death));
                                Edit::Open(birth, key)
                            }
                            (true, false, Some(known)) => {
                                Edit::Close(deaths.swap_remove(known).1, key)
                            }
                            // What was there before the program has no identity in it.
                            _ => Edit::Put(key, add),
                        };
                        queue_on(&edits, slot, edit);
                        if add {
                            model.insert(key);
                        } else {
                            model.remove(key);
                        }
                        if read_after >> at & 1 == 1 {
                            assert_eq!(*edits.synchronize(), model, "{program}, {placement}");
                        }
                    }
                    assert_eq!(edits.into_inner(), model, "{program}, {placement}");
                }
            }
        }
    }
}

#[test]
fn links_and_unlinks_end_as_they_would_at_once_wherever_they_are_queued() {
    every_placement(&[], "+x -x +y +x -x");
}

#[test]
fn adding_and_removing_what_is_there_leaves_it_absent() {
    // Identities are for what was nowhere before: here the last word on a key counts.
    for (add, remove) in [(0, 0), (0, 1), (1, 0)] {
        for absorb_while_merging in [false, true] {
            let edits: Edits = Logged::<BTreeSet<&'static str>, Edit>::builder()
                .mode(Mode::Deferring)
                .absorb_while_merging(absorb_while_merging)
                .build_in(BTreeSet::from(["x"]), Machine::default());
            queue_on(&edits, add, Edit::Put("x", true));
            queue_on(&edits, remove, Edit::Put("x", false));
            assert!(edits.synchronize().is_empty());
        }
    }
}

#[test]
fn a_key_passed_between_cores_ends_absent() {
    // Add on core 1, remove and add on core 2, remove on core 1.
    let edits: Edits = Logged::<BTreeSet<&'static str>, Edit>::builder()
        .mode(Mode::Deferring)
        .build_in(BTreeSet::new(), Machine::default());
    for (slot, present) in [(1, true), (2, false), (2, true), (1, false)] {
        queue_on(&edits, slot, Edit::Put("x", present));
    }
    assert!(edits.synchronize().is_empty());
    every_placement(&[], "+x -x +x -x");
}

/// Sets one of the two counters.
struct Advance {
    effect: bool,
    to: u64,
}

impl Operation<[u64; 2]> for Advance {
    const ABSORBS: bool = true;
    fn exec(self, state: &mut [u64; 2]) {
        state[usize::from(self.effect)] = self.to;
    }
    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(u64::from(self.effect))
    }
    fn replaces(&self, earlier: &Self) -> bool {
        self.effect == earlier.effect
    }
}

/// One thread makes causes, another hears of each and makes its effect; readers compare. The slots
/// differ by 1, share a mark, or lie on other pages of marks.
#[test]
fn readers_never_see_an_effect_without_its_cause() {
    const PAIRS: u64 = 4_000;
    for (cause_on, effect_on) in [(0, 1), (1, 0), (3, 1027), (700, 5)] {
        let log: Logged<[u64; 2], Advance, Machine> = Logged::<[u64; 2], Advance>::builder()
            .mode(Mode::Deferring)
            .limit(8)
            .build_in([0; 2], Machine::default());
        let caused = AtomicU64::new(0);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for to in 1..=PAIRS {
                    queue_on(&log, cause_on, Advance { effect: false, to });
                    caused.store(to, Ordering::Release);
                }
            });
            scope.spawn(|| {
                let mut last = 0;
                while last < PAIRS {
                    let to = caused.load(Ordering::Acquire);
                    if to == last {
                        thread::yield_now();
                        continue;
                    }
                    queue_on(&log, effect_on, Advance { effect: true, to });
                    last = to;
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                let [cause, effect] = *log.synchronize();
                assert!(effect <= cause, "effect {effect} of cause {cause}");
                let [cause, effect] = *log.read();
                assert!(effect <= cause, "effect {effect} of cause {cause}");
            }
        });
        assert_eq!(log.into_inner(), [PAIRS; 2]);
    }
}

/// The same on the machine as it is, through closures.
#[test]
fn readers_of_closures_never_see_an_effect_without_its_cause() {
    const PAIRS: u64 = 10_000;
    let log: LoggedFn<[u64; 2]> =
        LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), [0; 2]);
    let caused = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for to in 1..=PAIRS {
                log.update(move |state| state[0] = to);
                caused.store(to, Ordering::Release);
            }
        });
        scope.spawn(|| {
            let mut last = 0;
            while last < PAIRS {
                let to = caused.load(Ordering::Acquire);
                if to == last {
                    thread::yield_now();
                    continue;
                }
                log.update(move |state| state[1] = to);
                last = to;
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let [cause, effect] = *log.read();
            assert!(effect <= cause, "effect {effect} of cause {cause}");
        }
    });
    assert_eq!(log.into_inner(), [PAIRS; 2]);
}
