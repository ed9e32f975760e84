//! Programs written to be hard to simulate: they fork while threads run, die of signals, sleep, wait and execute others.
//! Each is compiled here, runs on a described machine, and must do what it does on a real one. Where QEMU or a compiler
//! is missing, that is said, and nothing is tested.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::PATIENCE;
use crate::common::program::Program;
use crate::common::skip::is_here;
use percolog_sim::machine;
use percolog_sim::report::{Ending, ProcessResult};
use percolog_sim::run::{Run, Simulation, Skip, available};

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;
const SIGTERM: i32 = 15;

/// A program of `tests/guests`.
struct Guest(Program);

impl Guest {
    /// Compiles the program; nothing if that is not possible here.
    fn compile(source: &str) -> Option<Guest> {
        if !is_here(available()) {
            return None;
        }
        let compiler = |folder: &Path| {
            let (compiler, options) = match Path::new(source).extension().and_then(OsStr::to_str) {
                Some("c") => ("cc", &["-O1", "-pthread"][..]),
                Some("cc") => ("c++", &["-O1", "-pthread"][..]),
                _ => ("go", &["build"][..]),
            };
            let mut compiler = Command::new(compiler);
            compiler.args(options);
            if std::env::var_os("HOME").is_none() {
                compiler.env("GOCACHE", folder.join("cache"));
            }
            compiler
        };
        Program::compile(&format!("tests/guests/{source}"), compiler).map(Guest)
    }

    fn folder(&self) -> &Path {
        self.0.path.parent().expect("it lies in one")
    }

    fn run(&self, simulation: Simulation, arguments: &[&str]) -> Outcome {
        let run = simulation
            .capture(true)
            .timeout(PATIENCE)
            .run(&self.0.path, arguments)
            .expect("the simulation leaves a result");
        let run = Outcome(run);
        assert!(!run.0.timed_out, "it hangs: {}", run.said());
        run
    }
}

/// Compiles and runs a program without arguments on 48 cores.
fn run(source: &str) -> Option<Outcome> {
    Some(Guest::compile(source)?.run(on_48_cores(), &[]))
}

fn on_48_cores() -> Simulation {
    Simulation::new(machine::built_in("opteron-48").expect("it is built in"))
}

struct Outcome(Run);

impl Outcome {
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    fn said(&self) -> String {
        format!(
            "{}\n{}{}",
            self.0.status,
            self.stdout(),
            String::from_utf8_lossy(&self.0.stderr)
        )
    }

    /// It ended by itself, with this status, and wrote this.
    #[track_caller]
    fn ended(&self, code: i32, stdout: &str) {
        assert_eq!(self.0.status.code(), Some(code), "{}", self.said());
        assert_eq!(self.stdout(), stdout, "{}", self.said());
        let main = self.first();
        assert_eq!((main.ending, main.exit_code), (Ending::Exit, code));
        assert_eq!(main.unsimulated, [""; 0]);
    }

    /// The process that was started; of the programs that it became, the last.
    #[track_caller]
    fn first(&self) -> &ProcessResult {
        let first = self.0.first;
        let found = self
            .0
            .processes
            .iter()
            .rfind(|process| process.pid == first);
        found.expect("the first process leaves a result")
    }

    /// How many programs ended in this way.
    fn count(&self, ending: Ending) -> usize {
        self.0
            .processes
            .iter()
            .filter(|process| process.ending == ending)
            .count()
    }

    fn is_reproducible(&self) -> bool {
        self.0
            .processes
            .iter()
            .all(|process| process.not_reproducible.is_empty())
    }
}

#[test]
fn a_process_ends_while_its_threads_run_sleep_and_read() {
    let Some(run) = run("exit_running.c") else {
        return;
    };
    run.ended(7, "leaving\n");
    assert_eq!(run.first().threads, 10);
}

#[test]
fn a_threaded_process_forks() {
    let Some(run) = run("fork_threaded.c") else {
        return;
    };
    run.ended(0, "8000 counts, 10 children\n");
    assert_eq!(run.0.processes.len(), 1, "all run on one machine");
    let first = run.first();
    assert_eq!(first.ending, Ending::Exit);
    assert_eq!(first.threads, 5 + 10);
    let [_, children @ ..] = &first.processes[..] else {
        panic!("{:?}", first.processes);
    };
    assert_eq!(children.len(), 10);
    for child in children {
        assert_eq!((child.parent, child.threads), (run.0.first, 1));
    }
}

#[test]
fn a_threaded_process_dies_of_its_own_fault() {
    let Some(guest) = Guest::compile("fatal.c") else {
        return;
    };
    for (how, signal) in [("abort", SIGABRT), ("segv", SIGSEGV)] {
        let run = guest.run(on_48_cores(), &[how]);
        assert_eq!(run.0.status.signal(), Some(signal), "{how}: {}", run.said());
        assert_eq!(
            (run.first().ending, run.first().exit_code),
            (Ending::Signal, 128 + signal)
        );
        assert_eq!(run.first().threads, 8);
    }
}

#[test]
fn a_process_with_48_threads_that_spin_can_be_ended() {
    let Some(guest) = Guest::compile("fatal.c") else {
        return;
    };
    let run = on_48_cores()
        .capture(true)
        .timeout(Duration::from_secs(3))
        .run(&guest.0.path, ["spin"])
        .expect("it leaves a result");
    assert!(run.timed_out, "it spins for ever: {}", run.status);
    assert_eq!(
        run.status.signal(),
        Some(SIGTERM),
        "it ends when it is asked to"
    );
}

#[test]
fn a_deadlock_is_reported_with_those_who_sleep() {
    let Some(guest) = Guest::compile("deadlock.c") else {
        return;
    };
    let run = guest.run(on_48_cores(), &[]);
    let main = run.first();
    assert_eq!(main.ending, Ending::Deadlock, "{}", run.said());
    let whys: Vec<&str> = main
        .sleepers
        .iter()
        .map(|sleeper| sleeper.why.as_str())
        .collect();
    assert_eq!(
        whys, ["futex"; 3],
        "two that wait for each other, and one that waits for both"
    );
    assert!(main.sleepers.iter().all(|sleeper| sleeper.pc != 0));
}

#[test]
fn sleepers_wake_at_their_simulated_times() {
    let Some(run) = run("sleepers.c") else {
        return;
    };
    run.ended(
        0,
        "2 select\n3 poll\n4 semaphore\n5 condition\n6 nanosleep until the wall clock\n7 nanosleep until\n8 usleep\n\
         3600 hour\n",
    );
    let main = run.first();
    let seconds = main.elapsed / main.ticks_per_cycle / u64::from(main.megahertz) / 1_000_000;
    assert_eq!(seconds, 3600);
}

#[test]
fn nobody_misses_a_broadcast() {
    let Some(guest) = Guest::compile("broadcast.c") else {
        return;
    };
    let first = guest.run(on_48_cores(), &[]);
    first.ended(0, "800\n");
    assert!(
        first.is_reproducible(),
        "{:?}",
        first.first().not_reproducible
    );
    let second = guest.run(on_48_cores(), &[]);
    assert_eq!(first.first().elapsed, second.first().elapsed);
    assert_eq!(first.first().whole, second.first().whole);
    // On fewer cores than threads as well.
    let few = machine::built_in("opteron-48")
        .expect("it is built in")
        .with_cores(3);
    let few = guest.run(Simulation::new(few.expect("three cores are some")), &[]);
    few.ended(0, "800\n");
}

#[test]
fn futexes_do_what_the_kernel_does() {
    if let Some(run) = run("futexes.c") {
        run.ended(0, "done\n");
    }
}

#[test]
fn signals_reach_threads_that_sleep_wait_read_or_spin() {
    if let Some(run) = run("signals.c") {
        run.ended(0, "4 handled, results 15\n");
    }
}

#[test]
fn a_thread_finds_its_registers_and_its_word_is_cleared_once() {
    if let Some(run) = run("clone.c") {
        run.ended(0, "300\n");
    }
}

#[test]
fn more_threads_than_cores_share_them() {
    let Some(guest) = Guest::compile("crowd.c") else {
        return;
    };
    for cores in [1, 4, 48] {
        let machine = machine::built_in("opteron-48").expect("it is built in");
        let machine = machine.with_cores(cores).expect("these are some");
        guest
            .run(Simulation::new(machine), &[])
            .ended(0, "1212 200\n");
    }
}

#[test]
fn the_guest_sees_the_described_machine() {
    let Some(guest) = Guest::compile("machine.c") else {
        return;
    };
    let run = guest.run(on_48_cores(), &[]);
    let stdout = run.stdout();
    let lines: Vec<&str> = stdout.lines().collect();
    let [counts, online, random] = lines[..] else {
        panic!("{}", run.said());
    };
    assert_eq!(
        (counts, online),
        ("48 online, 48 configured", "online: 0-47")
    );
    // The same each time, and other with another seed.
    guest.run(on_48_cores(), &[]).ended(0, &stdout);
    let other = guest.run(on_48_cores().seed(2), &[]).stdout();
    assert_ne!(other.lines().next_back(), Some(random));

    let machine = machine::built_in("opteron-48").expect("it is built in");
    let nproc = Simulation::new(machine.with_cores(256).expect("these are some"))
        .capture(true)
        .timeout(PATIENCE)
        .run("nproc", ["--all"; 0])
        .expect("it leaves a result");
    assert_eq!(String::from_utf8_lossy(&nproc.stdout), "256\n");
}

#[test]
fn a_program_that_closes_all_files_and_changes_its_user_is_followed() {
    let Some(guest) = Guest::compile("closes_all.c") else {
        return;
    };
    // Whoever it becomes may run it.
    std::fs::set_permissions(guest.folder(), PermissionsExt::from_mode(0o711))
        .expect("the folder's mode");
    let run = guest.run(on_48_cores(), &[]);
    run.ended(7, "before: 0\nstill there: 0\nafter: 0\n");
    assert_eq!(run.count(Ending::Exec), 1);
    assert_eq!(run.count(Ending::Exit), 1, "it was simulated to its end");
    assert!(run.0.processes[0].unsimulated.is_empty());
}

#[test]
fn executed_programs_are_followed() {
    let Some(guest) = Guest::compile("executes.c") else {
        return;
    };
    let folder = guest.folder();
    let script = folder.join("script");
    std::fs::write(&script, "#!/bin/sh -e\necho script \"$0\" \"$@\"\nexit 6\n").expect("a script");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("its mode");
    let name = folder.to_str().expect("a name in UTF-8");
    let run = guest.run(on_48_cores(), &[name]);
    run.ended(
        9,
        &format!(
            "missing: 1\na folder: 1\nforked: 3\nspawned\nspawned: 4\nsystem: 5\n\
             script {name}/script one two words\nscript: 6\nmyself again\n"
        ),
    );
    assert_eq!(run.count(Ending::Exec), 1, "this one became another");
    let mine = &run.0.processes[0].processes;
    let others = mine.iter().filter(|process| process.executed != 0);
    assert_eq!(others.count(), 5, "and so did four children");
    assert_eq!(run.count(Ending::Exit), 5, "which ended, simulated");

    let run = guest.run(on_48_cores().follow(false), &[name]);
    assert_eq!(run.0.status.code(), Some(9), "{}", run.said());
    let unsimulated: Vec<_> = run
        .0
        .processes
        .iter()
        .flat_map(|process| &process.unsimulated)
        .collect();
    assert_eq!(unsimulated.len(), 4, "{unsimulated:?}");
    assert_eq!(
        run.count(Ending::Exit),
        0,
        "nothing was simulated to its end"
    );
}

#[test]
fn threads_talk_through_the_kernel() {
    let Some(run) = run("pipes.c") else {
        return;
    };
    run.ended(0, "100\n262144\n0 1 1\n");
    assert!(!run.is_reproducible(), "pipes are real");
}

#[test]
fn cpp_threads() {
    if let Some(run) = run("threads.cc") {
        run.ended(0, "48 28 80 1 10\n");
    }
}

#[test]
fn go_routines() {
    if let Some(run) = run("routines.go") {
        run.ended(0, "48 120 800 true\n");
    }
}

#[test]
fn memory_that_forked_processes_share_is_the_same_however_it_came_about() {
    let Some(guest) = Guest::compile("shared.c") else {
        return;
    };
    let file = guest.folder().join("counters");
    let file = file.to_str().expect("a name in UTF-8");
    for (how, sharers) in [
        ("anonymous", 4),
        ("protected", 4),
        ("memfd", 4),
        ("segment", 4),
        ("file", 4),
        // Here only the children use it, and each maps it by itself.
        ("opened", 3),
    ] {
        let run = guest.run(on_48_cores(), &[how, "3", file]);
        assert_eq!(run.0.status.code(), Some(0), "{how}: {}", run.said());
        let summary = run.0.summary();
        assert_eq!(summary.shared_memory, [], "{how}");
        assert_eq!(summary.check(), Ok(()), "{how}");
        let line = &run.first().lines[0];
        assert_eq!(line.spans.len(), 1, "{how}: {line:?}");
        assert!(line.process.is_none(), "{how}: it is nobody's own");
        assert!(line.line > 4096, "{how}");
        // The first use is no move, and the parent has used it before there was anybody else.
        let mine = usize::from(sharers == 4);
        assert_eq!(line.writers.len() + mine, sharers, "{how}: {line:?}");
        assert!(run.is_reproducible(), "{how}");
    }
    for (how, processes) in [
        // Nobody else uses it.
        ("anonymous", "0"),
        ("alone", "3"),
        ("executed", "3"),
        ("opened", "1"),
        // Nobody may change it.
        ("read", "3"),
    ] {
        let run = guest.run(on_48_cores(), &[how, processes, file]);
        assert_eq!(run.0.status.code(), Some(0), "{how}: {}", run.said());
        let summary = run.0.summary();
        assert_eq!(summary.shared_memory, [], "{how} {processes}");
        assert_eq!(summary.check(), Ok(()), "{how} {processes}");
        let writes: u64 = run
            .first()
            .lines
            .iter()
            .map(|line| line.counts.writes)
            .sum();
        assert_eq!(writes, 0, "{how} {processes}");
    }
}

#[test]
fn memory_that_processes_on_machines_of_their_own_share_is_named() {
    let Some(guest) = Guest::compile("shared.c") else {
        return;
    };
    let file = guest.folder().join("counters");
    let file = file.to_str().expect("a name in UTF-8");
    let summary = guest.run(on_48_cores(), &["apart", "3", file]).0.summary();
    let [shared] = &summary.shared_memory[..] else {
        panic!("{:?}", summary.shared_memory);
    };
    assert_eq!(
        (shared.name.as_str(), shared.size),
        (&format!("the file {file}")[..], 64)
    );
    assert_eq!(shared.processes.len(), 3);
    assert!(shared.address > 4096);
    assert!(summary.check().is_err());
}

#[test]
fn processes_on_one_counter_are_as_threads_on_one() {
    let Some(guest) = Guest::compile("siblings.c") else {
        return;
    };
    // On one chip: with several, the order in which the first come decides how far the line travels ever after.
    let on_one_chip = || Simulation::new(machine::built_in("s85-24").expect("it is built in"));
    let figures = |how| {
        let run = guest.run(on_one_chip(), &[how, "16", "500"]);
        run.ended(0, "8000\n");
        assert!(run.is_reproducible(), "{how}");
        let first = run.first();
        let line = &first.lines[0];
        assert_eq!(line.writers.len(), 16, "{how}");
        assert_eq!(first.region.threads, 16, "{how}");
        [
            first.region.elapsed as f64,
            line.counts.transfers() as f64,
            line.counts.stall as f64,
        ]
    };
    let (threads, processes) = (figures("threads"), figures("processes"));
    for (of_threads, of_processes) in threads.into_iter().zip(processes) {
        let ratio = of_processes / of_threads;
        assert!((0.97..=1.03).contains(&ratio), "{threads:?} {processes:?}");
    }
    assert_eq!(figures("processes"), processes, "each time");
    // Also where nothing is simulated until the first of them begins, and where they are held back.
    for simulation in [on_one_chip().skip(Skip::Region), on_one_chip().chaos(true)] {
        let run = guest.run(simulation, &["processes", "4", "200"]);
        run.ended(0, "800\n");
        assert_eq!(run.first().region.threads, 4);
        assert_eq!(run.first().region.operations, 800);
    }
}

#[test]
fn processes_lock_wait_die_and_become_others() {
    let Some(guest) = Guest::compile("processes.c") else {
        return;
    };
    for cores in [1, 3, 48] {
        let machine = machine::built_in("opteron-48").expect("it is built in");
        let run = guest.run(
            Simulation::new(machine.with_cores(cores).expect("it has more")),
            &[],
        );
        run.ended(
            0,
            "locks: 400 6\nthreads: 900 0\nown memory: 1 1 0\ndeaths: 1009 1011 1015\nwaits: 0 1 1\nothers: 6 7\n",
        );
        let first = run.first();
        assert_eq!(first.processes.len(), 19, "{:?}", first.processes);
        let executed = first
            .processes
            .iter()
            .filter(|process| process.executed != 0);
        assert_eq!(executed.count(), 1);
        assert_eq!(
            run.0.processes.len(),
            2,
            "the other program has a machine of its own"
        );
        // Where nobody moves, no line of a process with one thread does.
        let alone = first
            .processes
            .iter()
            .filter(|process| process.threads == 1);
        let alone: Vec<u32> = alone.map(|process| process.pid).collect();
        for line in first.lines.iter().filter(|_| cores == 48) {
            let of_one = line.process.is_some_and(|process| alone.contains(&process));
            assert!(!of_one || line.counts.transfers() == 0, "{line:?}");
        }
    }
}
