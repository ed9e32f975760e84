use super::*;
use crate::loops;
use crate::subsystem::rmap::{IntervalMap, Locked, OfFile};
use crate::subsystem::{Entry, Key, SharedObject};
use crate::trace::Trace;
use crate::trace::plan::{self, Update};
use family::family;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

mod family;
mod mistakes;

/// Every pair of a subsystem and an implementation that there is.
fn pairs() -> impl Iterator<Item = (Subsystem, Implementation)> {
    Subsystem::ALL.into_iter().flat_map(|subsystem| {
        Implementation::ALL
            .into_iter()
            .filter(move |implementation| implementation.serves(subsystem))
            .map(move |implementation| (subsystem, implementation))
    })
}

/// A single counted pass.
fn once(threads: usize) -> Settings {
    Settings {
        threads,
        budget: Duration::ZERO,
        work: 0,
    }
}

fn every(events: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(events)
}

fn agrees_on_the_recorded_trace(subsystem: Subsystem) {
    let trace = Trace::bundled().expect("the bundled trace");
    let load = Load::new(&trace, subsystem, None);
    for implementation in Implementation::ALL {
        if !implementation.serves(subsystem) {
            continue;
        }
        for threads in [1, 2, 3, 8] {
            let report = check(&load, implementation, threads, &|_| ()).expect("agreement");
            assert_eq!(report.threads, threads);
            assert_eq!(report.events, trace.events().len());
            assert!(report.comparisons >= report.events as u64 / 1000);
        }
    }
}

// One test each, so that they run beside one another.

#[test]
fn files_agree_with_the_model_on_the_recorded_trace() {
    agrees_on_the_recorded_trace(Subsystem::Files);
}

#[test]
fn memory_agrees_with_the_model_on_the_recorded_trace() {
    agrees_on_the_recorded_trace(Subsystem::Memory);
}

#[test]
fn names_agree_with_the_model_on_the_recorded_trace() {
    agrees_on_the_recorded_trace(Subsystem::Names);
}

#[test]
fn open_files_agree_with_the_model_on_the_recorded_trace() {
    agrees_on_the_recorded_trace(Subsystem::OpenFiles);
}

#[test]
fn events_agree_with_the_model_on_the_recorded_trace() {
    agrees_on_the_recorded_trace(Subsystem::Events);
}

#[test]
fn every_pair_agrees_with_the_model_on_made_up_families() {
    let mut mapped_truncates = 0;
    for seed in 1..=12 {
        let trace = family(seed, 60);
        mapped_truncates += trace.info().truncates_of_mapped;
        for (subsystem, implementation) in pairs() {
            let load = Load::new(&trace, subsystem, every(seed * 7 % 40));
            for threads in [1, 2, 5] {
                check(&load, implementation, threads, &|_| ()).unwrap_or_else(|error| {
                    panic!("{subsystem}, {implementation}, {threads} threads: {error}")
                });
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
    for (subsystem, implementation) in pairs() {
        let load = Load::new(&trace, subsystem, None);
        check(&load, implementation, 40, &|_| ()).expect("agreement");
        let report = time(&load, implementation, &once(40), &|_| ()).expect("a time");
        assert_eq!(report.passes, 1);
        let report = guest(&load, implementation, 40, 0).expect("a pass");
        assert_eq!(report.updates, load.updates());
    }
}

#[test]
fn timing_counts_what_the_trace_holds() {
    let trace = family(7, 100);
    let info = trace.info();
    for (subsystem, implementation) in pairs() {
        let load = Load::new(&trace, subsystem, None);
        if subsystem == Subsystem::Files {
            assert_eq!(load.updates(), info.subsystems[0].updates());
            assert_eq!(load.reads(), info.counts.truncate);
        }
        for threads in [1, 3] {
            let settings = Settings {
                threads,
                budget: Duration::from_millis(5),
                work: 10,
            };
            let report = time(&load, implementation, &settings, &|_| ()).expect("a time");
            assert_eq!(report.events, trace.events().len());
            assert_eq!(report.updates, load.updates());
            assert_eq!(report.reads, load.reads());
            assert_eq!(report.passes as usize, report.pass_times.len());
            assert_eq!(report.pass_times.iter().sum::<Duration>(), report.elapsed);
            assert!(report.elapsed >= Duration::from_millis(5));
            assert!(report.events_per_second() > 0.0);
            assert!(report.median_events_per_second() > 0.0);
        }
    }
}

#[test]
fn what_the_logs_did_is_told_for_one_pass() {
    let load = Load::new(&family(7, 100), Subsystem::Files, None);
    for threads in [1, 3] {
        let settings = Settings {
            budget: Duration::from_millis(5),
            ..once(threads)
        };
        let statistics = |implementation| {
            let report = time(&load, implementation, &settings, &|_| ()).expect("a time");
            report.statistics
        };
        assert_eq!(statistics(Implementation::Mutex), None);
        let plain = statistics(Implementation::Oplog).expect("it has logs");
        assert_eq!((plain.executed, plain.absorbed), (load.updates(), 0));
        assert!(plain.merges > 0);
        let absorbing = statistics(Implementation::OplogAbsorb).expect("it has logs");
        assert_eq!(absorbing.executed + absorbing.absorbed, load.updates());
        assert!(absorbing.absorbed > 0);
    }
}

#[test]
fn reads_come_after_every_so_many_events() {
    let trace = family(7, 100);
    for subsystem in Subsystem::ALL {
        let own = Load::new(&trace, subsystem, None);
        let more = Load::new(&trace, subsystem, every(10));
        assert_eq!(own.updates(), more.updates());
        let added = more.reads() - own.reads();
        let expected = trace.events().len() as u64 / 10;
        assert!(
            // There may have been nothing to look at at first.
            (expected - 5..=expected).contains(&added),
            "{subsystem}: {added} reads, not {expected}"
        );
    }
}

/// Whoever enters leaves, but for notifications, which wait for somebody to take them.
#[test]
fn what_enters_leaves() {
    let recorded = Trace::bundled().expect("the bundled trace");
    for trace in (1..10).map(|seed| family(seed, 100)).chain([recorded]) {
        for subsystem in Subsystem::ALL {
            let plan = plan::Plan::of(&trace, subsystem, None);
            let mut inside = BTreeSet::new();
            for update in plan.updates() {
                match *update {
                    Update::Enter { object, entry } => {
                        assert!(inside.insert((object, entry.identity)), "came twice");
                    }
                    Update::Leave { object, entry } => {
                        assert!(inside.remove(&(object, entry.identity)), "did not come");
                    }
                    Update::Read { .. } => {}
                }
            }
            match subsystem {
                Subsystem::Events => assert_eq!(inside.len(), plan.entries()),
                _ => assert!(inside.is_empty(), "{subsystem}: {} stay", inside.len()),
            }
        }
    }
}

#[test]
fn the_busiest_objects_are_named() {
    let trace = Trace::bundled().expect("the bundled trace");
    let load = Load::new(&trace, Subsystem::Files, None);
    let busiest = load.busiest();
    assert_eq!(busiest.len(), 5);
    assert!(
        busiest.iter().any(|(name, _)| name.starts_with("libc")),
        "{busiest:?}"
    );
    assert!(busiest.is_sorted_by(|one, next| one.1 >= next.1));
}

#[test]
fn absurd_numbers_of_threads_are_refused() {
    let load = Load::new(&family(1, 3), Subsystem::Files, None);
    for threads in [0, MAX_THREADS + 1, usize::MAX] {
        let refused = ReplayError::Threads(threads);
        assert_eq!(
            check(&load, Implementation::Mutex, threads, &|_| ()),
            Err(refused.clone())
        );
        assert_eq!(
            time(&load, Implementation::Mutex, &once(threads), &|_| ()),
            Err(refused.clone())
        );
        assert_eq!(
            guest(&load, Implementation::Mutex, threads, 0),
            Err(refused)
        );
    }
}

#[test]
fn what_nobody_has_made_is_refused_with_what_there_is() {
    let trace = family(1, 3);
    let mut refused = 0;
    for subsystem in Subsystem::ALL {
        let load = Load::new(&trace, subsystem, None);
        for implementation in Implementation::ALL {
            if implementation.serves(subsystem) {
                continue;
            }
            refused += 1;
            let error = not_made(subsystem, implementation);
            assert_eq!(check(&load, implementation, 1, &|_| ()), Err(error.clone()));
            assert_eq!(
                time(&load, implementation, &once(1), &|_| ()),
                Err(error.clone())
            );
            assert_eq!(guest(&load, implementation, 1, 0), Err(error.clone()));
            let text = error.to_string();
            for made in Implementation::ALL {
                let named = text.split([' ', ',']).any(|word| word == made.name());
                assert_eq!(
                    named,
                    made == implementation || made.serves(subsystem),
                    "{text}"
                );
            }
        }
    }
    assert!(refused > 0, "nothing is refused any more: not needed");
}

#[test]
fn progress_ends_where_it_said_it_would() {
    let trace = family(2, 50);
    let load = Load::new(&trace, Subsystem::Files, None);
    let last = Mutex::new(None);
    check(&load, Implementation::Mutex, 2, &|progress: Progress| {
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

/// How long a pass takes when each update and each event takes one tick and nothing else takes time.
fn ticks(plan: &plan::Plan, schedule: &schedule::Schedule) -> usize {
    let threads = schedule.shares.len();
    let mut clocks = vec![0; threads];
    let mut opened = vec![0; schedule.waiters.len()];
    let mut next = vec![0; threads];
    for (event, &thread) in schedule.thread_of.iter().enumerate() {
        let turn = schedule.shares[thread]
            .turns
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
    let plan = plan::Plan::of(&trace, Subsystem::Files, None);
    let all = ticks(&plan, &schedule::Schedule::new(&plan, 1));
    assert_eq!(all, plan.steps().len() + plan.updates().len());
    for (threads, at_least) in [(2, 1.8), (3, 2.5), (8, 5.0)] {
        let schedule = schedule::Schedule::new(&plan, threads);
        let speed_up = all as f64 / ticks(&plan, &schedule) as f64;
        assert!(
            speed_up >= at_least,
            "{threads} threads are {speed_up:.2} times as fast as one"
        );
        let shares = &schedule.shares;
        let turns = || shares.iter().flat_map(|share| &share.turns);
        assert_eq!(
            turns().map(|turn| turn.calls).sum::<usize>(),
            plan.updates().len()
        );
        assert_eq!(
            shares.iter().map(|share| share.events).sum::<u64>(),
            plan.steps().len() as u64
        );
    }
}

#[test]
fn processes_that_loop_have_threads_of_their_own_with_their_children() {
    for (processes, threads) in [(48, 48), (6, 6), (48, 12), (2, 1)] {
        let trace = loops::fork_exit(processes, 12, 30).expect("a sound trace");
        let plan = plan::Plan::of(&trace, Subsystem::Files, None);
        let schedule = schedule::Schedule::new(&plan, threads);
        // Tasks and processes are the same here: by number, the thread that it is on.
        let mut thread_of = vec![None; plan.processes()];
        for (step, &thread) in plan.steps().iter().zip(&schedule.thread_of) {
            thread_of[step.process as usize] = Some(thread);
        }
        let mut loops_on = vec![0; threads];
        for process in 1..=processes {
            loops_on[thread_of[process as usize].expect("it has events")] += 1;
        }
        let each = processes as usize / threads;
        assert_eq!(loops_on, vec![each; threads]);
        for child in processes + 1..plan.processes() as u32 {
            let parent = plan.parent(child).expect("somebody started it");
            assert_eq!(thread_of[child as usize], thread_of[parent as usize]);
        }
    }
}

#[test]
fn a_plan_holds_so_many_entries_and_no_more() {
    let trace = family(4, 100);
    let entries = trace.info().subsystems[0].entered as usize;
    let plan = |entries| {
        let most = plan::Most::of_entries(entries);
        plan::Plan::new(&trace, Subsystem::Files, None, most)
    };
    assert!(plan(entries).is_ok());
    assert!(plan(entries - 1).is_err());
}
