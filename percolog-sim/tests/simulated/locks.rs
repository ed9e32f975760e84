//! What is foretold of a program if nobody ever held its lock, and what becomes of it with a lock for each thread.

use crate::common::PATIENCE;
use crate::common::program::Program;
use percolog_sim::machine;
use percolog_sim::run::{Run, Simulation};
use percolog_sim::what_if;

/// Threads and rounds of the guest.
const FEW: usize = 6;
const MANY: usize = 16;
/// Where some wait for what a lock of several words says while it changes hands.
const CROWD: usize = 32;
const ROUNDS: usize = 60;

struct Guest(Program);

impl Guest {
    /// Runs it with so many threads and steps outside of a lock of this kind, one for all or one for each.
    fn run(
        &self,
        simulation: &Simulation,
        (kind, threads): (&str, usize),
        outside: u32,
        own: bool,
    ) -> Run {
        let inside = match kind {
            "c" => 3000,
            "g" => 20,
            "a" => 50,
            _ => 100,
        };
        let numbers = [
            threads.to_string(),
            ROUNDS.to_string(),
            kind.to_owned(),
            outside.to_string(),
            inside.to_string(),
            u8::from(own).to_string(),
        ];
        let run = simulation
            .run(&self.0.path, numbers)
            .expect("the simulation leaves a result");
        assert!(run.status.success(), "{kind}: {}", run.status);
        assert!(!run.timed_out, "{kind} hangs");
        run
    }

    /// How many times as fast it is said to be without its worst object, and whether that is a lock.
    fn foretold(&self, simulation: &Simulation, kind: (&str, usize), outside: u32) -> (f64, bool) {
        let first = self.run(simulation, kind, outside, false);
        let candidates = what_if::worst(&first, &first.summary(), 1);
        let second = self.run(&candidates[0].simulation(simulation), kind, outside, false);
        let found = candidates[0].compare(&first, &second);
        (found.expect("they compare").speedup, candidates[0].is_lock)
    }
}

fn simulation(threads: usize) -> Simulation {
    let machine = machine::built_in("opteron-48")
        .expect("it is built in")
        .with_cores(threads)
        .expect("it has as many");
    Simulation::new(machine).capture(true).timeout(PATIENCE)
}

#[test]
fn a_lock_that_is_never_held_is_worth_what_a_lock_for_each_thread_is() {
    let Some(guest) = Program::guest("locks.c").map(Guest) else {
        return;
    };
    let elapsed = |run: &Run| run.main().expect("it ran").elapsed as f64;
    // pthread_mutex; the same with data that it guards for all, or with a counter beside it that all add to; pthread_spinlock; pthread_rwlock,
    // to write, which is several words; a ticket lock, a lock that backs off.
    for (kind, threads) in [
        ("m", FEW),
        ("g", MANY),
        ("a", MANY),
        ("p", FEW),
        ("w", FEW),
        ("w", CROWD),
        ("t", FEW),
        ("b", FEW),
    ] {
        let simulation = simulation(threads);
        for outside in [100, 400] {
            let (foretold, is_lock) = guest.foretold(&simulation, (kind, threads), outside);
            let shared = elapsed(&guest.run(&simulation, (kind, threads), outside, false));
            let really = shared / elapsed(&guest.run(&simulation, (kind, threads), outside, true));
            assert!(is_lock, "{kind}");
            assert!(really > 1.2, "{kind}: {really}");
            let off = (foretold / really - 1.0).abs();
            // Where it changes hands the most, whoever takes it is taken for who releases it.
            let most = if threads == CROWD { 0.15 } else { 0.1 };
            assert!(
                off < most,
                "{kind} of {threads} with {outside} steps outside: foretold {foretold}, found {really}"
            );
        }
    }
}

#[test]
fn who_waits_for_what_another_makes_is_not_spared_that() {
    let Some(guest) = Program::guest("locks.c").map(Guest) else {
        return;
    };
    // One thread makes, and waits until another has used it up: no lock is in their way.
    let (foretold, _) = guest.foretold(&simulation(FEW), ("c", FEW), 3000);
    assert!((0.8..1.2).contains(&foretold), "{foretold}");
}
