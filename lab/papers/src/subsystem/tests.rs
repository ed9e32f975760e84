//! Every implementation of every subsystem against a plain sequential model, and under threads.

use super::*;
use proptest::prelude::*;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

/// Every pair that exists, with what `visitor` makes of it.
fn for_each_pair<V: Visitor<Output = ()>>(mut visitor: impl FnMut(Subsystem, Implementation) -> V) {
    let mut pairs = 0;
    for subsystem in Subsystem::ALL {
        for implementation in Implementation::ALL {
            let visited = visit(
                subsystem,
                implementation,
                visitor(subsystem, implementation),
            );
            assert_eq!(visited.is_some(), implementation.serves(subsystem));
            pairs += usize::from(visited.is_some());
        }
    }
    assert_eq!(pairs, 9 + 9 + 5 + 9 + 4);
}

/// The entries of an object, by identity.
#[derive(Clone, Debug, Default)]
struct Model(BTreeMap<u32, Entry>);

impl Model {
    fn extend(&mut self, entries: &[Entry]) {
        self.0
            .extend(entries.iter().map(|entry| (entry.identity, *entry)));
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.0.values().copied().collect();
        entries.sort_unstable();
        entries
    }

    /// What a read is about, after which the model is as the read leaves it.
    fn read(&mut self, subsystem: Subsystem, argument: u64) -> Vec<Entry> {
        let all = self.entries();
        match subsystem {
            Subsystem::Files => {
                for entry in self.0.values_mut() {
                    entry.end = entry.end.min(argument);
                }
                self.0.retain(|_, entry| entry.offset < entry.end);
                all.into_iter()
                    .filter(|entry| entry.end > argument)
                    .collect()
            }
            Subsystem::Memory => all
                .into_iter()
                .filter(|entry| (entry.offset..entry.end).contains(&argument))
                .collect(),
            Subsystem::Names | Subsystem::OpenFiles => all,
            Subsystem::Events => {
                self.0.clear();
                all
            }
        }
    }
}

/// An entry as the subsystem has them.
fn entry(subsystem: Subsystem, identity: u32, process: u32, place: u64) -> Entry {
    let (offset, end) = match subsystem {
        Subsystem::Files | Subsystem::Memory => {
            let offset = 4096 * (place % 8);
            (offset, offset + 4096 * (1 + place / 8 % 4))
        }
        Subsystem::OpenFiles => (place % 5, 0),
        Subsystem::Names | Subsystem::Events => (0, 0),
    };
    Entry {
        offset,
        identity,
        end,
        process,
    }
}

/// What one thread does in a history.
#[derive(Clone, Debug)]
enum Step {
    Enter {
        process: u32,
        place: u64,
    },
    /// The one at this index, of those whose departure is left.
    Leave(usize),
    Read(u64),
    View,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..3_u32, 0..64_u64).prop_map(|(process, place)| Step::Enter { process, place }),
        3 => any::<usize>().prop_map(Step::Leave),
        1 => (0..48_u64).prop_map(|argument| Step::Read(1024 * argument)),
        1 => Just(Step::View),
    ];
    prop::collection::vec(step, 0..120)
}

/// One thread, compared with the model at every look.
struct Sequentially<'a> {
    subsystem: Subsystem,
    steps: &'a [Step],
}

impl Visitor for Sequentially<'_> {
    type Output = ();

    fn visit<O: SharedObject>(self) {
        let Sequentially { subsystem, steps } = self;
        let object = O::default();
        let mut model = Model::default();
        let mut departures = Vec::new();
        let mut identity = 0;
        for step in steps {
            match *step {
                Step::Enter { process, place } => {
                    let entry = entry(subsystem, identity, process, place);
                    let (arrival, departure) = O::life(entry);
                    object.enter(arrival);
                    model.0.insert(identity, entry);
                    departures.push((identity, departure));
                    identity += 1;
                }
                Step::Leave(which) if subsystem != Subsystem::Events && !departures.is_empty() => {
                    let (identity, departure) = departures.swap_remove(which % departures.len());
                    object.leave(departure);
                    model.0.remove(&identity);
                }
                Step::Leave(_) => {}
                Step::Read(argument) => {
                    let seen = object.read(argument);
                    assert_eq!(seen, O::expected(&model.read(subsystem, argument)));
                }
                Step::View => assert_eq!(object.view(), O::expected(&model.entries())),
            }
        }
        assert_eq!(object.view(), O::expected(&model.entries()));
        assert_eq!(
            object.view(),
            O::expected(&model.entries()),
            "a view changes nothing"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_single_thread_sees_what_the_model_has(steps in steps()) {
        for_each_pair(|subsystem, _| Sequentially { subsystem, steps: &steps });
    }
}

/// Threads that enter entries, take away their own, and hand the rest on to be taken away by the next thread, while
/// another one reads all the time.
struct Concurrently {
    subsystem: Subsystem,
    /// What each read is given.
    argument: fn(u32) -> u64,
}

const THREADS: u32 = 3;
const ROUNDS: u32 = 150;
/// Entries that are there before the threads begin and stay.
const PERMANENT: u32 = 5;

/// What a read must show of what is there all the time, whatever else comes and goes.
fn witness(subsystem: Subsystem, argument: u64, seen: &dyn Any, permanent: &[Entry]) {
    if let Some(count) = seen.downcast_ref::<u64>() {
        assert!(*count >= permanent.len() as u64, "{count} references");
    } else if let Some(seen) = seen.downcast_ref::<Vec<Entry>>() {
        assert!(seen.is_sorted_by(|a, b| a.key() < b.key()), "{seen:?}");
        let mut expected = Model::default();
        expected.extend(permanent);
        if subsystem != Subsystem::Files {
            for entry in expected.read(subsystem, argument) {
                assert!(seen.contains(&entry), "{entry:?} is missing in {seen:?}");
            }
        }
    } else {
        panic!("a kind of view that nothing is known of");
    }
}

impl Visitor for Concurrently {
    type Output = ();

    fn visit<O: SharedObject>(self) {
        let Concurrently {
            subsystem,
            argument,
        } = self;
        let object = &O::default();
        let identities = &AtomicU32::new(0);
        let working = &AtomicBool::new(true);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
            .map(|_| mpsc::channel::<O::Departure>())
            .unzip();
        let together = &Barrier::new(THREADS as usize + 1);

        let make = move |process: u32, place: u64| {
            let identity = identities.fetch_add(1, Ordering::Relaxed);
            let entry = entry(subsystem, identity, process, place);
            (entry, O::life(entry))
        };
        let mut left: Vec<Entry> = (0..PERMANENT)
            .map(|place| {
                let (entry, (arrival, _)) = make(THREADS, u64::from(place * 3));
                object.enter(arrival);
                entry
            })
            .collect();
        let permanent = &left.clone();
        let stay: Vec<Entry> = thread::scope(|scope| {
            let mut workers = Vec::new();
            for (thread, inbox) in (0..THREADS).zip(receivers) {
                let next = senders[(thread as usize + 1) % THREADS as usize].clone();
                workers.push(scope.spawn(move || {
                    let mut stay = Vec::new();
                    together.wait();
                    for round in 0..ROUNDS {
                        let place = u64::from(round * 7 + thread);
                        // Comes and goes.
                        let (_, (arrival, departure)) = make(thread, place);
                        object.enter(arrival);
                        object.leave(departure);
                        // As of a fork: entered here, taken away by the child.
                        let (_, (arrival, departure)) = make(thread, place / 3);
                        object.enter(arrival);
                        next.send(departure).expect("everybody waits for everybody");
                        if round % 16 == 0 {
                            let (entry, (arrival, _)) = make(thread, place / 2);
                            object.enter(arrival);
                            stay.push(entry);
                        }
                        inbox
                            .try_iter()
                            .for_each(|departure| object.leave(departure));
                    }
                    drop(next);
                    inbox.iter().for_each(|departure| object.leave(departure));
                    stay
                }));
            }
            drop(senders);
            let reader = scope.spawn(move || {
                together.wait();
                let mut read = 0;
                while working.load(Ordering::Relaxed) {
                    let argument = argument(read);
                    let seen = object.read(argument);
                    witness(subsystem, argument, &seen, permanent);
                    read += 1;
                    thread::yield_now();
                }
            });
            let stay = workers
                .into_iter()
                .flat_map(|worker| worker.join().expect("nothing panics"))
                .collect();
            working.store(false, Ordering::Relaxed);
            reader.join().expect("nothing panics");
            stay
        });

        // What has been cut depends on when; the shortest cut at the end makes it the same for all.
        left.extend(stay);
        let mut model = Model::default();
        model.extend(&left);
        if subsystem == Subsystem::Files {
            object.read(argument(0));
            model.read(subsystem, argument(0));
        }
        assert_eq!(object.view(), O::expected(&model.entries()));
    }
}

/// Events never leave by themselves: they have tests of their own.
fn concurrently(subsystem: Subsystem, argument: fn(u32) -> u64) {
    for implementation in Implementation::ALL {
        if subsystem != Subsystem::Events {
            let visitor = Concurrently {
                subsystem,
                argument,
            };
            visit(subsystem, implementation, visitor);
        }
    }
}

#[test]
fn what_is_left_of_a_file_is_what_nobody_took_away() {
    concurrently(Subsystem::Files, |_| u64::MAX);
}

#[test]
fn what_is_left_of_a_file_that_is_cut_is_cut() {
    // The first is the shortest.
    concurrently(Subsystem::Files, |read| {
        4096 * [3, 9, 6, 4][read as usize % 4]
    });
}

#[test]
fn what_is_left_of_memory_is_what_nobody_took_away() {
    concurrently(Subsystem::Memory, |read| 4096 * u64::from(read % 12));
}

#[test]
fn what_is_left_of_open_files_is_what_nobody_took_away() {
    concurrently(Subsystem::OpenFiles, |_| 0);
}

#[test]
fn what_is_left_of_references_is_what_nobody_gave_back() {
    concurrently(Subsystem::Names, |_| 0);
}

/// Threads that add mappings, of which they remove every other one, while two others truncate the file to nothing.
struct Emptied;

impl Visitor for Emptied {
    type Output = ();

    fn visit<O: SharedObject>(self) {
        let object = &O::default();
        let working = &AtomicBool::new(true);
        let (tell, told) = mpsc::channel::<O::View>();
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for thread in 0..2 {
                workers.push(scope.spawn(move || {
                    for round in 0..400 {
                        let identity = thread * 400 + round;
                        let place = u64::from(round % 60);
                        let (arrival, departure) =
                            O::life(entry(Subsystem::Files, identity, thread, place));
                        object.enter(arrival);
                        if identity % 2 == 1 {
                            object.leave(departure);
                        }
                    }
                }));
            }
            for _ in 0..2 {
                let tell = tell.clone();
                scope.spawn(move || {
                    while working.load(Ordering::Relaxed) {
                        let _ = tell.send(object.read(0));
                        thread::yield_now();
                    }
                });
            }
            for worker in workers {
                worker.join().expect("nothing panics");
            }
            working.store(false, Ordering::Relaxed);
        });
        let _ = tell.send(object.read(0));
        drop(tell);
        assert_eq!(object.view(), O::expected(&[]));

        let mut cut = BTreeSet::new();
        for view in told {
            let view: &dyn Any = &view;
            for mapping in view.downcast_ref::<Vec<Entry>>().expect("mappings") {
                assert!(cut.insert(mapping.identity), "{mapping:?} was cut twice");
            }
        }
        for identity in (0..800).step_by(2) {
            assert!(cut.contains(&identity), "{identity} was lost");
        }
    }
}

#[test]
fn every_mapping_that_stays_is_cut_exactly_once() {
    for implementation in Implementation::ALL {
        visit(Subsystem::Files, implementation, Emptied);
    }
}

/// What comes and goes on one thread, then one that stays, then a look.
struct Counting;

impl Visitor for Counting {
    type Output = Option<LogStats>;

    fn visit<O: SharedObject>(self) -> Option<LogStats> {
        let object = O::default();
        for identity in 0..100 {
            let (arrival, departure) = O::life(entry(Subsystem::Files, identity, 0, 0));
            object.enter(arrival);
            object.leave(departure);
        }
        let (arrival, _) = O::life(entry(Subsystem::Files, 100, 0, 0));
        object.enter(arrival);
        object.view();
        object.statistics()
    }
}

#[test]
fn logs_tell_what_they_have_done() {
    for subsystem in [Subsystem::Files, Subsystem::Memory, Subsystem::OpenFiles] {
        let done = |implementation| {
            let stats: LogStats = visit(subsystem, implementation, Counting)??;
            Some((stats.executed, stats.absorbed))
        };
        assert_eq!(done(Implementation::Oplog), Some((201, 0)));
        assert_eq!(done(Implementation::OplogAbsorb), Some((1, 200)));
        // Each of them is looked at, once, whatever has become of it.
        assert_eq!(done(Implementation::LduGlobal), Some((101, 0)));
        assert_eq!(done(Implementation::LduPerCore), Some((101, 0)));
        assert_eq!(done(Implementation::PerCpu), None);
    }
    let stats = visit(Subsystem::Events, Implementation::Oplog, Counting).flatten();
    assert_eq!(stats.map(|stats| stats.executed), Some(101));
    // A counter has no logs.
    let stats = visit(Subsystem::Names, Implementation::Oplog, Counting);
    assert!(stats.is_some_and(|stats| stats.is_none()));
}
