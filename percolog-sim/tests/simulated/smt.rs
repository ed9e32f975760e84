//! Hardware threads of a core: they have its lines in common, and slow each other down.

use crate::common::PATIENCE;
use crate::common::program::Program;
use percolog_sim::model::{Costs, Machine};
use percolog_sim::run::{Run, Simulation};

const ROUNDS: usize = 2000;
/// Half as long again while both threads of a core execute.
const SLOWDOWN: u32 = Costs::ALONE * 3 / 2;

struct Guest(Program);

impl Guest {
    fn compile() -> Option<Guest> {
        Program::guest("smt.c").map(Guest)
    }

    /// Runs it on so many cores of two threads.
    fn run(&self, cores: usize, threads: usize, what: &str, run_ahead: u64) -> Run {
        let mut machine = Machine::flat("smt", cores);
        machine.threads_per_core = 2;
        machine.costs.smt_slowdown = SLOWDOWN;
        let simulation = Simulation::new(machine)
            .run_ahead(run_ahead)
            .capture(true)
            .timeout(PATIENCE);
        let arguments = [threads.to_string(), what.to_owned(), ROUNDS.to_string()];
        let run = simulation
            .run(&self.0.path, arguments)
            .expect("the simulation leaves a result");
        assert!(run.status.success(), "{what}: {}", run.status);
        assert!(!run.timed_out, "{what} hangs");
        run
    }
}

/// How long the threads worked, from the first to the last.
fn elapsed(run: &Run) -> f64 {
    run.main().expect("it ran").region.elapsed as f64
}

fn said(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn threads_of_a_core_slow_each_other_down_and_those_of_two_do_not() {
    let Some(guest) = Guest::compile() else {
        return;
    };
    for run_ahead in [0, 100, 1000] {
        let alone = elapsed(&guest.run(2, 1, "work", run_ahead));
        for (cores, threads, expected) in [(2, 2, 1.0), (1, 2, 1.5), (2, 4, 1.5)] {
            let slower = elapsed(&guest.run(cores, threads, "work", run_ahead)) / alone;
            assert!(
                (0.97..1.03).contains(&(slower / expected)),
                "{threads} threads on {cores} cores, {run_ahead} ahead: {slower} and not {expected}"
            );
        }
    }
}

#[test]
fn what_threads_of_a_core_share_goes_nowhere() {
    let Some(guest) = Guest::compile() else {
        return;
    };
    let transfers = |run: &Run| run.main().expect("it ran").region.counts.transfers();
    let together = guest.run(1, 2, "count", 100);
    assert_eq!(transfers(&together), 0);
    let counted = format!("{} counted, 2 processors, 2 allowed\n", 2 * ROUNDS);
    assert_eq!(said(&together), counted);
    let apart = guest.run(2, 2, "count", 100);
    assert!(
        transfers(&apart) as usize > ROUNDS / 10,
        "{}",
        transfers(&apart)
    );
    assert!(said(&apart).ends_with(" 4 processors, 4 allowed\n"));
}

#[test]
fn who_spins_sees_what_the_other_thread_of_its_core_writes() {
    let Some(guest) = Guest::compile() else {
        return;
    };
    for run_ahead in [0, 100, 1000] {
        for (cores, threads) in [(1, 2), (2, 4), (2, 3)] {
            let run = guest.run(cores, threads, "pass", run_ahead);
            let counted = format!("{} counted,", threads * ROUNDS);
            assert!(said(&run).starts_with(&counted), "{}", said(&run));
            // A word that is passed on within a core costs instructions only, however far its threads may be apart.
            if (cores, threads) == (1, 2) {
                let cycle = run.main().expect("it ran").ticks_per_cycle as f64;
                let each = elapsed(&run) / cycle / (2 * ROUNDS) as f64;
                assert!(each < 30.0, "{each} cycles with threads {run_ahead} apart");
            }
        }
    }
}
