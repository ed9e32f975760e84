//! Hostile interleavings: the examples are found, their seeds reproduce, what is right survives, and nothing hangs.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

use crate::common::PATIENCE;
use crate::common::program::Program;
use crate::common::skip::is_here;
use percolog_sim::assert::{Assertion, MeasureError};
use percolog_sim::chaos::{Failure, How, Search, Searched};
use percolog_sim::machine;
use percolog_sim::run::{Simulation, available};

/// More runs than any example needs, whichever seed they begin with.
const PLENTY: u64 = 300;

/// One of the examples.
struct Example(Program);

impl Example {
    /// Nothing if programs cannot be simulated here.
    fn compile(name: &str) -> Option<Example> {
        if !is_here(available()) {
            return None;
        }
        let compiler = |_: &Path| {
            let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
            let mut compiler = Command::new(compiler);
            compiler.args(["--edition", "2024", "-O"]);
            compiler
        };
        Program::compile(&format!("examples/{name}.rs"), compiler).map(Example)
    }

    /// Runs on so many cores.
    fn search(&self, cores: usize, arguments: &[&str], how: impl Fn(Search) -> Search) -> Searched {
        let machine = machine::built_in("opteron-48").expect("it is built in");
        let machine = machine.with_cores(cores).expect("these are some");
        how(Search::new(Simulation::new(machine)))
            .run(&self.0.path, arguments, |_| ())
            .expect("it can be simulated")
    }
}

/// Finds the example's mistake, and finds it again.
fn is_found_and_reproduced(name: &str, cores: usize) {
    let Some(example) = Example::compile(name) else {
        return;
    };
    let found = example.search(cores, &[], |search| search.runs(PLENTY));
    let failure = found.failure.expect("it is found");
    let seed = failure.seed.expect("it does not fail by itself");
    assert_eq!(failure.how, How::Exited(1));
    assert_eq!(found.not_reproducible, [""; 0]);
    assert!(found.delays > 0 && found.points > found.delays);
    let again = || example.search(cores, &[], |search| search.seed(seed).runs(1));
    let (first, second) = (again(), again());
    for other in [&first, &second] {
        let other = other.failure.as_ref().expect("it fails again");
        assert_eq!(
            (other.seed, other.how, &other.stdout, &other.stderr),
            (Some(seed), failure.how, &failure.stdout, &failure.stderr)
        );
    }
    assert_eq!(first.points, second.points, "it is the same run");
    assert_eq!(first.delays, second.delays, "it is the same run");
}

/// Nothing is wrong with this one, and it is tried in different ways.
fn survives(name: &str, cores: usize, arguments: &[&str]) {
    let Some(example) = Example::compile(name) else {
        return;
    };
    let found = example.search(cores, arguments, |search| search.runs(12));
    assert!(found.failure.is_none(), "{:?}", found.failure);
    assert_eq!(found.runs, 12);
    assert!(found.interleavings >= found.runs - 3, "{found:?}");
    assert!(found.delays > 0, "{found:?}");
}

#[test]
fn a_lost_update_is_found_and_its_seed_reproduces_it() {
    is_found_and_reproduced("lost_update", 4);
}

#[test]
fn an_aba_is_found_and_its_seed_reproduces_it() {
    is_found_and_reproduced("aba", 4);
}

#[test]
fn a_lost_update_is_found_where_threads_share_cores() {
    is_found_and_reproduced("lost_update", 2);
}

#[test]
fn a_counter_that_loses_nothing_survives() {
    survives("lost_update", 4, &["--fixed"]);
}

#[test]
fn a_stack_with_a_tag_survives() {
    survives("aba", 3, &["--fixed"]);
}

#[test]
fn what_fails_by_itself_is_said_to() {
    if !is_here(available()) {
        return;
    }
    let search = Search::new(Simulation::new(
        machine::built_in("opteron-48").expect("it is built in"),
    ));
    let found = search.run("false", [""; 0], |_| ()).expect("it runs");
    let failure = found.failure.expect("it fails");
    assert_eq!((failure.seed, failure.how), (None, How::Exited(1)));
    assert_eq!(found.runs, 0);
    let found = search
        .expect_status(1)
        .runs(2)
        .run("false", [""; 0], |_| ())
        .expect("it runs");
    assert!(found.failure.is_none(), "that is how it should end");
    assert_eq!(found.runs, 2);
}

/// What the workload of a test comes to; nothing where there is no simulator.
#[track_caller]
fn failure_of(cores: usize, workload: impl FnOnce()) -> Option<Failure> {
    // A mistake makes it wait for ever, which shows as a deadlock; the patience is for what nobody thought of.
    let assertion = Assertion::on(cores).timeout(PATIENCE);
    match assertion.search(PLENTY, workload) {
        Ok(searched) => Some(searched.failure.expect("it is found")),
        Err(MeasureError::Unavailable(missing)) => {
            is_here(Err(missing));
            None
        }
        Err(MeasureError::Inside) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_failed_assertion_of_a_test_is_found_with_its_message() {
    let failure = failure_of(3, || {
        let counter = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let before = counter.load(Ordering::SeqCst);
                    counter.store(before + 1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(counter.into_inner(), 3, "one was lost");
    });
    if let Some(failure) = failure {
        assert_eq!(failure.how, How::Exited(101));
        assert!(failure.stderr.contains("one was lost"), "{failure:?}");
    }
}

#[test]
fn locks_in_two_orders_deadlock() {
    let failure = failure_of(2, || {
        fn both(first: &Mutex<i32>, second: &Mutex<i32>) {
            for _ in 0..100 {
                let first = first.lock().expect("no panic");
                let second = second.lock().expect("no panic");
                std::hint::black_box(*first + *second);
            }
        }
        let (one, other) = (Mutex::new(1), Mutex::new(2));
        thread::scope(|scope| {
            scope.spawn(|| both(&one, &other));
            scope.spawn(|| {
                // Long after the other one.
                for turn in 0..2_000 {
                    std::hint::black_box(turn);
                }
                both(&other, &one);
            });
        });
    });
    if let Some(failure) = failure {
        assert_eq!(failure.how, How::Deadlocked);
        assert!(failure.sleepers.len() >= 3, "{:?}", failure.sleepers);
    }
}

#[test]
fn a_wake_up_that_comes_too_early_is_lost() {
    let failure = failure_of(2, || {
        let (lock, there) = (Mutex::new(()), Condvar::new());
        let are_set = [const { AtomicBool::new(false) }; 40];
        thread::scope(|scope| {
            scope.spawn(|| {
                for is_set in &are_set {
                    // The mistake: it is not asked under the lock.
                    while !is_set.load(Ordering::SeqCst) {
                        let guard = lock.lock().expect("no panic");
                        drop(there.wait(guard).expect("no panic"));
                    }
                }
            });
            scope.spawn(|| {
                for is_set in &are_set {
                    for turn in 0..500 {
                        std::hint::black_box(turn);
                    }
                    is_set.store(true, Ordering::SeqCst);
                    there.notify_one();
                }
            });
        });
    });
    if let Some(failure) = failure {
        assert_eq!(failure.how, How::Deadlocked);
    }
}

#[test]
fn threads_that_spin_on_each_other_come_to_an_end() {
    // Each strategy once.
    percolog_sim::assert_survives_chaos(4, 5, || {
        // Neither of these waits in a way that the simulator knows: one exchanges, the other counts its turns.
        let (taken, turn, count) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..4 {
                let (taken, turn, count) = (&taken, &turn, &count);
                scope.spawn(move || {
                    let mut waited = 0_u64;
                    for round in 0..3 {
                        while turn.load(Ordering::SeqCst) != 4 * round + number {
                            waited += 1;
                        }
                        turn.fetch_add(1, Ordering::SeqCst);
                        while taken.swap(true, Ordering::SeqCst) {}
                        let before = count.load(Ordering::SeqCst);
                        count.store(before + 1, Ordering::SeqCst);
                        taken.store(false, Ordering::SeqCst);
                    }
                    std::hint::black_box(waited);
                });
            }
        });
        assert_eq!(count.into_inner(), 12);
    });
}

#[test]
fn threads_that_wait_in_loops_are_left_to_wait() {
    let hand_round = || {
        let turns = [const { AtomicU64::new(0) }; 4];
        turns[0].store(1, Ordering::SeqCst);
        thread::scope(|scope| {
            for number in 0..4 {
                let turns = &turns;
                scope.spawn(move || {
                    for _ in 0..5 {
                        while turns[number].load(Ordering::SeqCst) == 0 {}
                        turns[number].store(0, Ordering::SeqCst);
                        turns[(number + 1) % 4].store(1, Ordering::SeqCst);
                    }
                });
            }
        });
    };
    match Assertion::on(4).search(10, hand_round) {
        Ok(searched) => {
            assert!(searched.failure.is_none(), "{:?}", searched.failure);
            // Some hundred for each run, and not one for each round of a loop.
            assert!(searched.points < 10 * 5_000, "{searched:?}");
        }
        Err(MeasureError::Unavailable(missing)) => {
            is_here(Err(missing));
        }
        Err(MeasureError::Inside) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn several_in_one_test_are_each_their_own() {
    for cores in [1, 2] {
        percolog_sim::assert_survives_chaos(cores, 2, || {
            let counter = AtomicU64::new(0);
            thread::scope(|scope| {
                for _ in 0..cores {
                    scope.spawn(|| counter.fetch_add(1, Ordering::Relaxed));
                }
            });
            assert_eq!(counter.into_inner(), cores as u64);
        });
    }
}
