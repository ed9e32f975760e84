//! Implementations that are wrong, each in its own way: all are caught.

use super::*;
use crate::subsystem::events;
use std::collections::BTreeSet;

/// What a wrong implementation does differently from a plain one that is right.
trait Mistake: Default + Send + Sync {
    fn enter(&self, plain: &Plain, entry: Entry) {
        plain.enter(entry);
    }
    fn leave(&self, plain: &Plain, key: Key) {
        plain.leave(key);
    }
    fn read(&self, plain: &Plain, argument: u64) -> Vec<Entry> {
        plain.read(argument)
    }
}

type Plain = OfFile<Locked>;

/// A right implementation with a mistake put in.
#[derive(Default)]
struct Wrong<M> {
    plain: Plain,
    mistake: M,
}

impl<M: Mistake + 'static> SharedObject for Wrong<M> {
    type Arrival = Entry;
    type Departure = Key;
    type View = Vec<Entry>;
    fn life(entry: Entry) -> (Entry, Key) {
        (entry, entry.key())
    }
    fn enter(&self, entry: Entry) {
        self.mistake.enter(&self.plain, entry);
    }
    fn leave(&self, key: Key) {
        self.mistake.leave(&self.plain, key);
    }
    fn read(&self, argument: u64) -> Vec<Entry> {
        self.mistake.read(&self.plain, argument)
    }
    fn view(&self) -> Vec<Entry> {
        self.plain.view()
    }
    fn expected(entries: &[Entry]) -> Vec<Entry> {
        entries.to_vec()
    }
}

/// Forgets one arrival in a hundred.
#[derive(Default)]
struct LosesArrivals(AtomicU64);
impl Mistake for LosesArrivals {
    fn enter(&self, plain: &Plain, entry: Entry) {
        // Relaxed: a count of its own.
        if self.0.fetch_add(1, Ordering::Relaxed) % 100 != 99 {
            plain.enter(entry);
        }
    }
}

/// Forgets one departure in a hundred.
#[derive(Default)]
struct LosesDepartures(AtomicU64);
impl Mistake for LosesDepartures {
    fn leave(&self, plain: &Plain, key: Key) {
        // Relaxed: a count of its own.
        if self.0.fetch_add(1, Ordering::Relaxed) % 100 != 99 {
            plain.leave(key);
        }
    }
}

/// Carries a departure out only when the next one comes.
#[derive(Default)]
struct LagsBehind(Mutex<Option<Key>>);
impl Mistake for LagsBehind {
    fn leave(&self, plain: &Plain, key: Key) {
        if let Some(earlier) = self.0.lock().expect("sound").replace(key) {
            plain.leave(earlier);
        }
    }
}

/// Tells of one mapping less than a truncate cuts.
#[derive(Default)]
struct HidesTheLast;
impl Mistake for HidesTheLast {
    fn read(&self, plain: &Plain, length: u64) -> Vec<Entry> {
        let mut seen = plain.read(length);
        seen.pop();
        seen
    }
}

/// Looks, but does not cut.
#[derive(Default)]
struct OnlyLooks;
impl Mistake for OnlyLooks {
    fn read(&self, plain: &Plain, length: u64) -> Vec<Entry> {
        let mut copy = IntervalMap::new();
        for mapping in plain.view() {
            copy.add(mapping);
        }
        copy.overlapping(length..u64::MAX)
    }
}

/// Panics in the middle.
#[derive(Default)]
struct Panics(AtomicU64);
impl Mistake for Panics {
    fn enter(&self, plain: &Plain, entry: Entry) {
        // Relaxed: a count of its own.
        assert!(
            self.0.fetch_add(1, Ordering::Relaxed) < 50,
            "fifty is enough"
        );
        plain.enter(entry);
    }
}

fn is_caught<M: Mistake + 'static>(trace: &Trace) {
    let load = Load::new(trace, Subsystem::Files, None);
    for threads in [1, 2, 8] {
        let result = check_object::<Wrong<M>>(&load, threads, &|_| ());
        assert!(
            matches!(result, Err(ReplayError::Differs { .. })),
            "not caught: {result:?}"
        );
    }
}

#[test]
fn a_wrong_implementation_is_caught() {
    let trace = family(5, 200);
    is_caught::<LosesArrivals>(&trace);
    is_caught::<LosesDepartures>(&trace);
    is_caught::<LagsBehind>(&trace);
    is_caught::<HidesTheLast>(&trace);
    is_caught::<OnlyLooks>(&trace);
}

#[test]
fn a_wrong_implementation_is_caught_on_the_recorded_trace() {
    let trace = Trace::bundled().expect("the bundled trace");
    is_caught::<LosesArrivals>(&trace);
    is_caught::<LosesDepartures>(&trace);
    is_caught::<LagsBehind>(&trace);
}

#[test]
fn what_is_left_is_caught_when_timing() {
    let load = Load::new(&family(5, 200), Subsystem::Files, None);
    let result = time_object::<Wrong<LosesDepartures>>(&load, &once(2), &|_| ());
    assert!(
        matches!(result, Err(ReplayError::Differs { .. })),
        "{result:?}"
    );
}

/// A queue that forgets one notification in a hundred when somebody takes what has come.
#[derive(Default)]
struct Forgets(events::Locked);

impl SharedObject for Forgets {
    type Arrival = Entry;
    type Departure = events::Stays;
    type View = events::Delivery;
    fn life(entry: Entry) -> (Entry, events::Stays) {
        events::Locked::life(entry)
    }
    fn enter(&self, entry: Entry) {
        self.0.enter(entry);
    }
    fn leave(&self, departure: events::Stays) {
        self.0.leave(departure);
    }
    fn read(&self, argument: u64) -> events::Delivery {
        let mut taken = self.0.read(argument);
        taken.0.retain(|entry| entry.identity % 100 != 99);
        taken
    }
    fn view(&self) -> events::Delivery {
        self.0.view()
    }
    fn expected(entries: &[Entry]) -> events::Delivery {
        events::Locked::expected(entries)
    }
    fn taken(view: &events::Delivery) -> Option<&[Entry]> {
        events::Locked::taken(view)
    }
}

#[test]
fn what_a_read_forgets_is_missed() {
    for truncate_every in [None, every(20)] {
        let load = Load::new(&family(5, 200), Subsystem::Events, truncate_every);
        let result = time_object::<Forgets>(&load, &once(2), &|_| ());
        assert!(
            matches!(result, Err(ReplayError::Differs { .. })),
            "{result:?}"
        );
        time_object::<events::Locked>(&load, &once(2), &|_| ()).expect("nothing is missed");
    }
}

#[test]
fn a_panic_ends_the_replay_and_nobody_waits_for_ever() {
    let load = Load::new(&family(5, 200), Subsystem::Files, None);
    for threads in [1, 2, 8] {
        let panicked = ReplayError::Panicked("fifty is enough".to_owned());
        assert_eq!(
            check_object::<Wrong<Panics>>(&load, threads, &|_| ()),
            Err(panicked.clone())
        );
        assert_eq!(
            time_object::<Wrong<Panics>>(&load, &once(threads), &|_| ()),
            Err(panicked)
        );
    }
}

/// Insists that an entry comes before it goes: a parent enters the copies of its mappings, its child removes them,
/// often on another thread.
#[derive(Default)]
struct Insists {
    present: Mutex<BTreeSet<u32>>,
}

impl SharedObject for Insists {
    type Arrival = u32;
    type Departure = u32;
    type View = ();
    fn life(entry: Entry) -> (u32, u32) {
        (entry.identity, entry.identity)
    }
    fn enter(&self, identity: u32) {
        // Lets a child that does not wait get ahead.
        std::thread::yield_now();
        assert!(
            self.present.lock().expect("sound").insert(identity),
            "came twice"
        );
    }
    fn leave(&self, identity: u32) {
        assert!(
            self.present.lock().expect("sound").remove(&identity),
            "went before it came"
        );
    }
    fn read(&self, _: u64) {}
    fn view(&self) {}
    fn expected(_: &[Entry]) {}
}

#[test]
fn children_wait_for_their_parents() {
    let trace = family(11, 2000);
    for subsystem in Subsystem::ALL {
        if subsystem == Subsystem::Events {
            // Nothing leaves.
            continue;
        }
        let load = Load::new(&trace, subsystem, None);
        for threads in [3, 8, 40] {
            let schedule = schedule::Schedule::new(&load.plan, threads);
            assert!(
                schedule.waiters.len() >= 10,
                "{subsystem}: {} waits test too little",
                schedule.waiters.len()
            );
            time_object::<Insists>(&load, &once(threads), &|_| ()).expect("order");
        }
    }
}

/// Panics on its own account, then takes every other disorder for a panic, too.
#[derive(Default)]
struct PanicsFirst(Insists);

/// Arrivals so far, of all objects.
static ARRIVALS: AtomicU64 = AtomicU64::new(0);

impl SharedObject for PanicsFirst {
    type Arrival = u32;
    type Departure = u32;
    type View = ();
    fn life(entry: Entry) -> (u32, u32) {
        Insists::life(entry)
    }
    fn enter(&self, identity: u32) {
        // Relaxed: a count of its own.
        assert!(ARRIVALS.fetch_add(1, Ordering::Relaxed) != 500, "the first");
        self.0.enter(identity);
    }
    fn leave(&self, identity: u32) {
        self.0.leave(identity);
    }
    fn read(&self, _: u64) {}
    fn view(&self) {}
    fn expected(_: &[Entry]) {}
}

#[test]
fn the_first_panic_is_told_of_and_not_what_follows_from_it() {
    let load = Load::new(&family(11, 2000), Subsystem::Files, None);
    assert_eq!(
        time_object::<PanicsFirst>(&load, &once(8), &|_| ()),
        Err(ReplayError::Panicked("the first".to_owned()))
    );
}
