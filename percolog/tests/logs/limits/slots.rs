//! Which slot a thread uses, and that none is lost.

use crate::limits::{Push, Pushes};
use percolog::cpu::{self, CoreId};
use percolog::oplog::{LoggedBuilder, LoggedFn, Mode};
use std::sync::{Arc, Mutex};
use std::thread;

#[test]
fn thread_exit_loses_nothing() {
    /// Queues when its thread has nearly gone.
    struct Last(Arc<Pushes>, u32);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.queue(Push(self.1));
        }
    }
    thread_local! {
        static LAST: Mutex<Option<Last>> = const { Mutex::new(None) };
    }
    let log = Arc::new(Pushes::default());
    for group in 0..100 {
        let threads: Vec<_> = (0..10)
            .map(|at| {
                let log = Arc::clone(&log);
                thread::spawn(move || {
                    let number = 2 * (group * 10 + at);
                    LAST.with(|last| {
                        *last.lock().expect("no panic") = Some(Last(Arc::clone(&log), number + 1));
                    });
                    log.queue(Push(number));
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
    }
    let mut all = log.synchronize().clone();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..2000));
}

#[test]
fn any_number_is_a_slot() {
    let log: LoggedFn<Vec<u32>> =
        LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), Vec::new());
    let slots = [0, 5000, 8191, 8192, 100_000, u32::MAX - 1, u32::MAX];
    for round in 0..3 {
        for slot in slots {
            cpu::bind(CoreId::new(slot));
            log.update(move |all| all.push(slot));
        }
        assert_eq!(log.synchronize().len(), (round + 1) * slots.len());
    }
    cpu::unbind();
    assert!(log.into_inner().chunks(slots.len()).all(|all| all == slots));
}

/// What the process was told by its environment is what it does. The next test runs this one.
#[test]
fn the_environment_is_obeyed() {
    let cores = std::env::var("PERCOLOG_CORES").ok();
    let slots = std::env::var("PERCOLOG_SLOTS").ok();
    let chosen = cores
        .as_deref()
        .and_then(|cores| cores.parse::<usize>().ok())
        .filter(|cores| (1..=CoreId::PLACES).contains(cores));
    match chosen {
        Some(cores) => assert_eq!(cpu::count(), cores),
        None => assert_eq!(
            cpu::count(),
            thread::available_parallelism().map_or(1, usize::from)
        ),
    }
    let rseq_off = std::env::var("GLIBC_TUNABLES").is_ok_and(|value| value.contains("rseq=0"));
    if slots.as_deref() == Some("thread") || rseq_off {
        assert_eq!(cpu::slot_source(), cpu::SlotSource::Thread);
    }
    let mut unusable = Vec::new();
    if cores.is_some() && chosen.is_none() {
        unusable.push("PERCOLOG_CORES");
    }
    if slots.is_some_and(|slots| slots != "thread") {
        unusable.push("PERCOLOG_SLOTS");
    }
    let reported = cpu::invalid_variables();
    assert!(
        reported.iter().map(|variable| variable.name).eq(unusable),
        "{reported:?}"
    );
    for variable in reported {
        let text = variable.to_string();
        assert!(
            text.contains(variable.name) && text.contains(variable.expected),
            "{text}"
        );
        assert!(!text.contains('\n'));
    }
}

#[test]
fn slots_come_from_where_the_environment_says() {
    const TESTS: [&str; 4] = [
        "limits::slots::the_environment_is_obeyed",
        "limits::slots::thread_exit_loses_nothing",
        "limits::slots::any_number_is_a_slot",
        "limits::policies::merging_keeps_queues_short",
    ];
    for variables in [
        &[("PERCOLOG_SLOTS", "thread")][..],
        &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
        &[("PERCOLOG_CORES", "3")],
        &[("PERCOLOG_CORES", "0"), ("PERCOLOG_SLOTS", "socket")],
        &[("PERCOLOG_CORES", "8193")],
        &[("PERCOLOG_CORES", "many")],
    ] {
        let output = std::process::Command::new(std::env::current_exe().expect("it runs"))
            .arg("--exact")
            .args(TESTS)
            .env_remove("PERCOLOG_CORES")
            .env_remove("PERCOLOG_SLOTS")
            .envs(variables.iter().copied())
            .output()
            .expect("a test program can be started");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("4 passed"),
            "with {variables:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
