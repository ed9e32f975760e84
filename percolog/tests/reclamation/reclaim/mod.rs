//! Parallel sections under load, and in every situation that they have been known to get wrong.
//!
//! # What the published implementation gets wrong
//!
//! `ps`, the library that came with Wang, Stamler and Parmer's *Parallel Sections*: facts about its code
//! as published, and the tests that show that it is otherwise here. `skew` stands for
//! `percolog/src/reclaim/tests/skew.rs`, `models` for `percolog/src/reclaim/models.rs` (every
//! interleaving, `--cfg percolog_loom`), `tests` for `percolog/src/reclaim/tests.rs`; what has no prefix
//! stands in this folder.
//!
//! | there | here |
//! |---|---|
//! | The stamp of a look at another core is taken after its two times were read. A reader that enters in between is missed, and the error is published: memory is reclaimed too early. | `skew::a_reader_that_enters_during_a_scan_is_not_overlooked`, `models::a_bound_holds_up_to_the_time_before_the_scan`, `models::what_another_thread_found_out_holds`, `models::what_another_thread_remembers_holds` |
//! | No fence stands between the unlinking of an object and the stamp of its free. | `models::a_section_keeps_what_it_found_coarse_clock`, `models::a_section_keeps_what_it_found_fine_clock`, the litmus tests |
//! | Ties are unsafe: an object whose stamp equals the quiescent one is reclaimed. | `stalled::a_tie_is_not_quiescence`, `models::a_tie_is_not_quiescent` |
//! | Being inside is a comparison of two stamps: who enters again at the tick of its last exit looks as if it were outside. | `stalled::entering_again_at_once_is_entering` |
//! | One core alone never reclaims anything: 100,000 of 100,000 objects stayed. | `stalled::one_thread_alone_reclaims`, `stalled::one_object_is_enough_to_collect` |
//! | The number of frees before a look at the others rises with every failure and never falls: 102,400 objects stayed for a million operations after a stalled reader had left. | `stalled::what_has_gathered_behind_a_stalled_reader_goes_away` |
//! | One place for each core. A nested section that is left ends the outer one. | `tests::the_own_section_counts_and_nests`, `sections::sections_of_several_domains_interleave` |
//! | A thread that is moved in a section leaves another core's. | `sections::readers_are_moved_between_processors_all_the_time` |
//! | A thread that loses its processor in a section shares the place with the next one on that core. | `sections::eight_threads_on_two_processors` |
//! | A core whose number is not below the configured maximum is written out of bounds. | Records are numbered, not cores, and there are as many as are needed: `threads::ten_thousand_short_lived_threads`, `threads::idle_threads_are_not_looked_at_until_they_come_back` |
//! | Each core remembers the times of every other one: memory and work grow with the square of the number of cores. | One number for each thread, and parked threads cost nothing: `threads::idle_threads_are_not_looked_at_until_they_come_back` |
//! | Custom grace periods are described, and not in the code. | `limits::a_grace_period_that_does_not_elapse_keeps_everything_and_holds_up_nobody`, `limits::a_grace_period_may_use_its_domain` |
//! | Remote frees are drained only when the owner allocates. | There is no allocator here: a thread destroys what it has retired. |
//!
//! What is known of its namespaces stands in `percolog/tests/reclamation/namespace/mod.rs`; what is known of its slabs concerns nothing that is here.
#![cfg(not(percolog_loom))]

mod forked;
mod limits;
mod objects;
mod pool;
mod sections;
mod stack;
mod stalled;
mod threads;

use percolog::reclaim::{DomainClock, DomainOptions, Optimizations};

/// The options of a domain that tells the time by this clock.
fn by(clock: DomainClock) -> DomainOptions {
    match clock {
        // SAFETY: where the kernel keeps time by the counter, it keeps the processors' synchronized; elsewhere the clock is coarse.
        DomainClock::Tsc => unsafe { DomainOptions::new().tsc() },
        _ => DomainOptions::new(),
    }
}

/// Both clocks, both barriers, all optimizations and each switched off.
fn each_setting(test: impl Fn(DomainOptions)) {
    let switches = [
        |_: &mut Optimizations| {},
        |optimizations: &mut Optimizations| optimizations.exit_without_clock = false,
        |optimizations: &mut Optimizations| optimizations.borrow_quiescence = false,
        |optimizations: &mut Optimizations| optimizations.remember_threads = false,
        |optimizations: &mut Optimizations| optimizations.spread_scans = false,
    ];
    for clock in [DomainClock::Coarse, DomainClock::Tsc] {
        for switch in switches {
            let mut optimizations = Optimizations::ALL;
            switch(&mut optimizations);
            let options = by(clock).optimizations(optimizations);
            for options in [options, options.fenced()] {
                println!("{options:?}");
                test(options);
            }
        }
    }
}

/// The processors that this process may use.
#[cfg(target_os = "linux")]
fn processors() -> Vec<usize> {
    // SAFETY: a set of processors is plain data, and the kernel fills the one it is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        // Of the process's first thread, which no test binds.
        if libc::sched_getaffinity(libc::getpid(), size, &raw mut set) != 0 {
            return vec![0];
        }
        (0..libc::CPU_SETSIZE as usize)
            .filter(|processor| libc::CPU_ISSET(*processor, &set))
            .collect()
    }
}

/// Moves a thread of this process to some of the processors; whether the system did it.
#[cfg(target_os = "linux")]
fn bind(thread: libc::pid_t, to: &[usize]) -> bool {
    // SAFETY: as in `processors`; the kernel only reads the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for processor in to {
            libc::CPU_SET(*processor, &mut set);
        }
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

/// From now on the calling thread has two processors.
fn on_two_processors() {
    #[cfg(target_os = "linux")]
    {
        let processors = processors();
        // Best effort: with one processor there is nothing to do, and without the right nothing to be done.
        bind(0, &processors[..processors.len().min(2)]);
    }
}

/// The table above names tests that there are.
#[test]
fn every_test_in_the_table_exists() {
    let sources = [
        ("limits", include_str!("limits.rs")),
        ("sections", include_str!("sections.rs")),
        ("stalled", include_str!("stalled.rs")),
        ("threads", include_str!("threads.rs")),
        ("models", include_str!("../../../src/reclaim/models.rs")),
        ("skew", include_str!("../../../src/reclaim/tests/skew.rs")),
        ("tests", include_str!("../../../src/reclaim/tests.rs")),
    ];
    let mut named = 0;
    for line in include_str!("mod.rs").lines() {
        let Some(row) = line.strip_prefix("//! | ") else {
            continue;
        };
        for (module, test) in row.split('`').filter_map(|word| word.split_once("::")) {
            let source = sources.iter().find(|(name, _)| *name == module);
            let (_, source) = source.unwrap_or_else(|| panic!("there is no module {module}"));
            assert!(
                source.contains(&format!("fn {test}(")),
                "there is no test {module}::{test}"
            );
            named += 1;
        }
    }
    assert!(named > 10, "the table is not found");
}
