use super::*;
use crate::rmap::{IntervalMap, Key, Locked, Mapping, ReverseMap};
use crate::trace::{Action, Description, Event, File, FileKind, Trace};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PAGE: u64 = 4096;

/// A family of processes with everything that a trace can hold: copies, shared spaces that are left by
/// exec, threads, cuts, truncates of mapped files. `seed` chooses.
fn family(seed: u64, processes: u32) -> Trace {
    let mut state = seed | 1;
    let mut random = move |below: u64| {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut events = Vec::new();
    let mut alive = vec![0];
    let mut born = 1;
    let mut time = 0;
    while !alive.is_empty() {
        time += random(50);
        let chosen = random(alive.len() as u64) as usize;
        let process = alive[chosen];
        let pages = |count: u64| (count + 1) * PAGE;
        let action = match random(20) {
            0..=7 => Action::Map {
                address: pages(random(40)),
                length: pages(random(8)),
                file: random(4) as u32,
                offset: random(10) * PAGE,
            },
            8..=11 => Action::Unmap {
                address: pages(random(40)),
                length: pages(random(8)),
            },
            12..=14 if born < processes => {
                born += 1;
                alive.push(born - 1);
                Action::Fork {
                    child: born - 1,
                    shared: random(3) == 0,
                }
            }
            15 | 16 => Action::Exec {
                program: (random(4) > 0).then(|| (random(4) as u32, pages(random(6)))),
            },
            17 | 18 => Action::Truncate {
                file: random(4) as u32,
                length: random(8 * PAGE),
            },
            _ if alive.len() > 1 || born == processes => {
                alive.swap_remove(chosen);
                Action::Exit
            }
            _ => continue,
        };
        events.push(Event {
            time,
            process,
            action,
        });
    }
    let file = File {
        kind: FileKind::Library,
        name: String::new(),
    };
    let description = Description {
        page_size: PAGE,
        ..Description::default()
    };
    Trace::new(description, vec![file; 4], events).expect("a sound trace")
}

fn agrees_on_the_recorded_trace(structure: Structure) {
    let trace = Trace::bundled().expect("the bundled trace");
    for threads in [1, 2, 3, 8] {
        let report = check(&trace, structure, threads, &|_| ()).expect("agreement");
        assert_eq!(report.threads, threads);
        assert_eq!(report.events, trace.events().len());
        assert_eq!(report.reads, trace.header().counts.truncate);
        assert!(report.comparisons >= report.reads + report.events as u64 / 1000);
        assert!(report.mappings_compared > 10_000, "{report:?}");
    }
}

// One test each, so that they run beside one another.

#[test]
fn the_mutex_agrees_with_the_model_on_the_recorded_trace() {
    agrees_on_the_recorded_trace(Structure::Mutex);
}

#[test]
fn logged_agrees_with_the_model_on_the_recorded_trace() {
    agrees_on_the_recorded_trace(Structure::Logged);
}

#[test]
fn logged_absorbing_agrees_with_the_model_on_the_recorded_trace() {
    agrees_on_the_recorded_trace(Structure::LoggedAbsorbing);
}

#[test]
fn every_structure_agrees_with_the_model_on_made_up_families() {
    let mut mapped_truncates = 0;
    for seed in 1..=12 {
        let trace = family(seed, 60);
        mapped_truncates += trace.info().truncates_of_mapped;
        for structure in Structure::ALL {
            for threads in [1, 2, 5] {
                check(&trace, structure, threads, &|_| ()).expect("agreement");
            }
        }
    }
    assert!(
        mapped_truncates > 100,
        "only {mapped_truncates}: the families test too little"
    );
}

#[test]
fn more_threads_than_processes_and_cores_do_no_harm() {
    let trace = family(3, 5);
    for structure in Structure::ALL {
        check(&trace, structure, 40, &|_| ()).expect("agreement");
        let report = time(&trace, structure, 40, Duration::ZERO, &|_| ()).expect("a time");
        assert_eq!(report.passes, 1);
    }
}

#[test]
fn timing_counts_what_the_trace_holds() {
    let trace = family(7, 100);
    let info = trace.info();
    for structure in Structure::ALL {
        for threads in [1, 3] {
            let report = time(
                &trace,
                structure,
                threads,
                Duration::from_millis(5),
                &|_| (),
            )
            .expect("a time");
            assert_eq!(report.events, trace.events().len());
            assert_eq!(report.updates, info.additions + info.removals);
            assert_eq!(report.reads, info.counts.truncate);
            assert_eq!(report.passes as usize, report.pass_times.len());
            assert_eq!(report.pass_times.iter().sum::<Duration>(), report.elapsed);
            assert!(report.elapsed >= Duration::from_millis(5));
            assert!(report.events_per_second() > 0.0);
            assert!(report.median_events_per_second() > 0.0);
        }
    }
}

#[test]
fn absurd_numbers_of_threads_are_refused() {
    let trace = family(1, 3);
    for threads in [0, MAX_THREADS + 1, usize::MAX] {
        let refused = ReplayError::Threads(threads);
        assert_eq!(
            check(&trace, Structure::Mutex, threads, &|_| ()),
            Err(refused.clone())
        );
        assert_eq!(
            time(&trace, Structure::Mutex, threads, Duration::ZERO, &|_| ()),
            Err(refused)
        );
    }
}

#[test]
fn progress_ends_where_it_said_it_would() {
    let trace = family(2, 50);
    let last = Mutex::new(None);
    check(&trace, Structure::Mutex, 2, &|progress: Progress| {
        *last.lock().expect("sound") = Some(progress);
    })
    .expect("agreement");
    let events = trace.events().len() as u64;
    assert_eq!(
        last.into_inner().expect("sound"),
        Some(Progress {
            done: events,
            total: events
        })
    );
}

#[test]
fn names_come_back() {
    for structure in Structure::ALL {
        assert_eq!(structure.to_string().parse(), Ok(structure));
    }
    assert_eq!(
        "mutexx".parse::<Structure>(),
        Err(UnknownStructure("mutexx".to_owned()))
    );
}

/// What a wrong implementation does differently.
trait Mistake: Default + Send + Sync {
    fn add(&self, map: &Locked, mapping: Mapping) {
        map.add(mapping);
    }
    fn remove(&self, map: &Locked, key: Key) {
        map.remove(key);
    }
    fn truncate(&self, map: &Locked, length: u64) -> Vec<Mapping> {
        map.truncate(length)
    }
}

/// A right implementation with a mistake put in.
#[derive(Default)]
struct Wrong<M> {
    map: Locked,
    mistake: M,
}

impl<M: Mistake> ReverseMap for Wrong<M> {
    type Addition = Mapping;
    type Removal = Key;
    fn identity(mapping: Mapping) -> (Mapping, Key) {
        (mapping, mapping.key())
    }
    fn add(&self, mapping: Mapping) {
        self.mistake.add(&self.map, mapping);
    }
    fn remove(&self, key: Key) {
        self.mistake.remove(&self.map, key);
    }
    fn truncate(&self, length: u64) -> Vec<Mapping> {
        self.mistake.truncate(&self.map, length)
    }
    fn mappings(&self) -> Vec<Mapping> {
        self.map.mappings()
    }
}

/// Forgets one addition in a hundred.
#[derive(Default)]
struct LosesAdditions(AtomicU64);
impl Mistake for LosesAdditions {
    fn add(&self, map: &Locked, mapping: Mapping) {
        // Relaxed: a count of its own.
        if self.0.fetch_add(1, Ordering::Relaxed) % 100 != 99 {
            map.add(mapping);
        }
    }
}

/// Forgets one removal in a hundred.
#[derive(Default)]
struct LosesRemovals(AtomicU64);
impl Mistake for LosesRemovals {
    fn remove(&self, map: &Locked, key: Key) {
        // Relaxed: a count of its own.
        if self.0.fetch_add(1, Ordering::Relaxed) % 100 != 99 {
            map.remove(key);
        }
    }
}

/// Carries a removal out only when the next one comes.
#[derive(Default)]
struct LagsBehind(Mutex<Option<Key>>);
impl Mistake for LagsBehind {
    fn remove(&self, map: &Locked, key: Key) {
        if let Some(earlier) = self.0.lock().expect("sound").replace(key) {
            map.remove(earlier);
        }
    }
}

/// Tells of one mapping less than a truncate cuts.
#[derive(Default)]
struct HidesTheLast;
impl Mistake for HidesTheLast {
    fn truncate(&self, map: &Locked, length: u64) -> Vec<Mapping> {
        let mut seen = map.truncate(length);
        seen.pop();
        seen
    }
}

/// Looks, but does not cut.
#[derive(Default)]
struct OnlyLooks;
impl Mistake for OnlyLooks {
    fn truncate(&self, map: &Locked, length: u64) -> Vec<Mapping> {
        let copy: IntervalMap =
            map.mappings()
                .into_iter()
                .fold(IntervalMap::new(), |mut map, mapping| {
                    map.add(mapping);
                    map
                });
        copy.overlapping(length..u64::MAX)
    }
}

/// Panics in the middle.
#[derive(Default)]
struct Panics(AtomicU64);
impl Mistake for Panics {
    fn add(&self, map: &Locked, mapping: Mapping) {
        // Relaxed: a count of its own.
        assert!(
            self.0.fetch_add(1, Ordering::Relaxed) < 50,
            "fifty is enough"
        );
        map.add(mapping);
    }
}

fn is_caught<M: Mistake>(trace: &Trace) {
    for threads in [1, 2, 8] {
        let result = check_map::<Wrong<M>>(trace, threads, &|_| ());
        assert!(
            matches!(result, Err(ReplayError::Differs { .. })),
            "not caught: {result:?}"
        );
    }
}

#[test]
fn a_wrong_implementation_is_caught() {
    let trace = family(5, 200);
    is_caught::<LosesAdditions>(&trace);
    is_caught::<LosesRemovals>(&trace);
    is_caught::<LagsBehind>(&trace);
    is_caught::<HidesTheLast>(&trace);
    is_caught::<OnlyLooks>(&trace);
}

#[test]
fn a_wrong_implementation_is_caught_on_the_recorded_trace() {
    let trace = Trace::bundled().expect("the bundled trace");
    is_caught::<LosesAdditions>(&trace);
    is_caught::<LosesRemovals>(&trace);
    is_caught::<LagsBehind>(&trace);
}

#[test]
fn what_is_left_mapped_is_caught_when_timing() {
    let trace = family(5, 200);
    let result = time_map::<Wrong<LosesRemovals>>(&trace, 2, Duration::ZERO, &|_| ());
    assert!(
        matches!(result, Err(ReplayError::Differs { .. })),
        "{result:?}"
    );
}

#[test]
fn a_panic_ends_the_replay_and_nobody_waits_for_ever() {
    let trace = family(5, 200);
    for threads in [1, 2, 8] {
        let panicked = ReplayError::Panicked("fifty is enough".to_owned());
        assert_eq!(
            check_map::<Wrong<Panics>>(&trace, threads, &|_| ()),
            Err(panicked.clone())
        );
        assert_eq!(
            time_map::<Wrong<Panics>>(&trace, threads, Duration::ZERO, &|_| ()),
            Err(panicked)
        );
    }
}

/// Insists that a mapping is added before it is removed: a parent enters the copies of its mappings, its
/// child removes them, often on another thread.
#[derive(Default)]
struct Insists {
    present: Mutex<std::collections::BTreeSet<u32>>,
}

impl ReverseMap for Insists {
    type Addition = Mapping;
    type Removal = Key;
    fn identity(mapping: Mapping) -> (Mapping, Key) {
        (mapping, mapping.key())
    }
    fn add(&self, mapping: Mapping) {
        // Lets a child that does not wait get ahead.
        std::thread::yield_now();
        assert!(
            self.present.lock().expect("sound").insert(mapping.identity),
            "added twice"
        );
    }
    fn remove(&self, key: Key) {
        assert!(
            self.present.lock().expect("sound").remove(&key.identity),
            "removed before it was added"
        );
    }
    fn truncate(&self, _: u64) -> Vec<Mapping> {
        Vec::new()
    }
    fn mappings(&self) -> Vec<Mapping> {
        Vec::new()
    }
}

#[test]
fn children_wait_for_their_parents() {
    let trace = family(11, 2000);
    for threads in [2, 3, 8] {
        let plan = plan::Plan::of(&trace);
        let schedule = schedule::Schedule::new(&plan, threads);
        assert!(
            schedule.waiters.len() > 20,
            "{} waits test too little",
            schedule.waiters.len()
        );
        time_map::<Insists>(&trace, threads, Duration::ZERO, &|_| ()).expect("order");
    }
}

/// How long a pass takes when each update and each event takes one tick and nothing else takes time.
fn ticks(plan: &plan::Plan, schedule: &schedule::Schedule) -> usize {
    let mut clocks = vec![0; schedule.turns.len()];
    let mut opened = vec![0; schedule.waiters.len()];
    let mut next = vec![0; schedule.turns.len()];
    for (event, &thread) in schedule.thread_of.iter().enumerate() {
        let turn = schedule.turns[thread]
            .get(next[thread])
            .filter(|turn| turn.event == event);
        if let Some(gate) = turn.and_then(|turn| turn.waits_for) {
            clocks[thread] = clocks[thread].max(opened[gate]);
        }
        clocks[thread] += 1 + plan.updates_of(event).len();
        if let Some(turn) = turn {
            next[thread] += 1;
            for gate in turn.opens.clone() {
                opened[gate] = clocks[thread];
            }
        }
    }
    clocks.into_iter().max().unwrap_or(0)
}

#[test]
fn work_is_shared_out_and_threads_seldom_wait() {
    let trace = Trace::bundled().expect("the bundled trace");
    let plan = plan::Plan::of(&trace);
    let all = ticks(&plan, &schedule::Schedule::new(&plan, 1));
    assert_eq!(all, plan.steps().len() + plan.updates().len());
    for (threads, at_least) in [(2, 1.8), (3, 2.5), (8, 5.0)] {
        let schedule = schedule::Schedule::new(&plan, threads);
        let speed_up = all as f64 / ticks(&plan, &schedule) as f64;
        assert!(
            speed_up >= at_least,
            "{threads} threads are {speed_up:.2} times as fast as one"
        );
        let calls: usize = schedule.turns.iter().flatten().map(|turn| turn.calls).sum();
        assert_eq!(calls, plan.updates().len());
    }
}

#[test]
fn a_plan_holds_so_many_mappings_and_no_more() {
    let trace = family(4, 100);
    let additions = trace.info().additions as usize;
    assert!(plan::Plan::new(&trace, additions).is_some());
    assert!(plan::Plan::new(&trace, additions - 1).is_none());
}

/// Panics on its own account, then takes every other disorder for a panic, too.
#[derive(Default)]
struct PanicsFirst(Insists);

/// Additions so far, of all maps.
static ADDITIONS: AtomicU64 = AtomicU64::new(0);

impl ReverseMap for PanicsFirst {
    type Addition = Mapping;
    type Removal = Key;
    fn identity(mapping: Mapping) -> (Mapping, Key) {
        (mapping, mapping.key())
    }
    fn add(&self, mapping: Mapping) {
        // Relaxed: a count of its own.
        assert!(
            ADDITIONS.fetch_add(1, Ordering::Relaxed) != 500,
            "the first"
        );
        self.0.add(mapping);
    }
    fn remove(&self, key: Key) {
        self.0.remove(key);
    }
    fn truncate(&self, _: u64) -> Vec<Mapping> {
        Vec::new()
    }
    fn mappings(&self) -> Vec<Mapping> {
        Vec::new()
    }
}

#[test]
fn the_first_panic_is_told_of_and_not_what_follows_from_it() {
    let trace = family(11, 2000);
    assert_eq!(
        time_map::<PanicsFirst>(&trace, 8, Duration::ZERO, &|_| ()),
        Err(ReplayError::Panicked("the first".to_owned()))
    );
}
