//! What the simulator must not change: its figures do not depend on how far a core may run ahead, and a second run
//! gives the same ones. And its own claim is checked, that it knows the address of each access before it happens.
//!
//! The guests are parts of this very program, which runs itself under the simulator.

use std::arch::asm;
use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::PATIENCE;
use crate::common::program::Program;
use crate::common::skip::is_here;
use crate::common::verified::addresses_compared;
use percolog_sim::machine;
use percolog_sim::model::{Machine, TICKS_PER_CYCLE};
use percolog_sim::report::ProcessResult;
use percolog_sim::run::{Run, Simulation, available};

/// Names the guest that the program is to be.
const GUEST: &str = "PERCOLOG_SIM_TEST_GUEST";

/// Runs a guest on the Opteron; nothing where that is not possible.
fn simulate(guest: &str, adjust: impl Fn(Simulation) -> Simulation) -> Option<Run> {
    let opteron = machine::built_in("opteron-48").expect("it is built in");
    simulate_on(opteron, guest, adjust)
}

/// Runs a guest on a machine.
fn simulate_on(
    machine: Machine,
    guest: &str,
    adjust: impl Fn(Simulation) -> Simulation,
) -> Option<Run> {
    if !is_here(available()) {
        return None;
    }
    let simulation = adjust(Simulation::new(machine))
        .env(GUEST, guest)
        .capture(true)
        .timeout(PATIENCE);
    let program = std::env::current_exe().expect("this program");
    let run = simulation
        .run(program, ["--exact", "exactness::guest", "--test-threads=1"])
        .expect("the simulation leaves a result");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    Some(run)
}

/// A machine on which lines come from far.
struct Far {
    transfer: u64,
    probe: u64,
}

const FAR: Far = Far {
    transfer: 2_000,
    probe: 1_000,
};

/// Cycles that an interrupt takes, where it takes any; and how many there are.
const INTERRUPT: u64 = 5_000;
const INTERRUPTS: u64 = 20;

/// How many lines each of four threads fetches from one memory.
const LINES: u64 = 400;

/// Memory that nobody has touched, for good.
fn fresh(size: usize) -> *mut u8 {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses where.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, kind, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    memory.cast()
}

/// A page of memory.
struct Page(*mut libc::c_void);

impl Page {
    const SIZE: usize = 4096;

    fn map() -> Self {
        Self(fresh(Self::SIZE).cast())
    }

    /// One of the calls with which the kernel interrupts other cores: they may have a translation of what is taken away here, or
    /// have to pass a barrier.
    fn interrupt(&self, number: u64) {
        const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
        // SAFETY: this page and the other one are mapped, and nobody refers to what is in them.
        unsafe {
            match number % 4 {
                0 => assert_eq!(libc::madvise(self.0, Self::SIZE, libc::MADV_DONTNEED), 0),
                1 => assert_eq!(libc::munmap(Self::map().0, Self::SIZE), 0),
                2 => assert_eq!(libc::mprotect(self.0, Self::SIZE, libc::PROT_READ), 0),
                // Whether the kernel has it makes no difference.
                _ => drop(libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0)),
            }
        }
    }
}

/// What the processor's clock says.
fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _rdtsc() }
}

/// Adds one as optimized programs do it: if the exchange fails, it is repeated at once with what was found. Returns what was
/// there before.
fn increment_by_exchange(value: &AtomicU64) -> u64 {
    let seen;
    // SAFETY: the instructions use the value, atomically, and the registers that are named.
    unsafe {
        asm!(
            "mov rax, [{value}]",
            "2:",
            "lea {next}, [rax + 1]",
            "lock cmpxchg [{value}], {next}",
            "jne 2b",
            value = in(reg) value.as_ptr(),
            next = out(reg) _,
            out("rax") seen,
        );
    }
    seen
}

/// Spins for so many cycles of the described machine, without touching memory that is shared.
fn delay(cycles: u64) {
    let begin = tsc();
    while tsc() - begin < cycles {
        spin_loop();
    }
}

/// A number below a power of two that looks drawn by lot, and is always the same for the same `seed`.
fn upto(power: u64, seed: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - power.trailing_zeros())
}

/// Starts threads on cores of their own, which do their work together, each `operations` times.
fn crew(threads: usize, operations: u64, work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        for number in 0..threads {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                percolog_roi::core(number);
                work(number);
                barrier.wait();
                percolog_roi::begin();
                for _ in 0..operations {
                    work(number);
                }
                percolog_roi::end(operations);
            });
        }
    });
}

#[repr(align(64))]
#[derive(Default)]
struct Line<T>(T);

#[derive(Default)]
struct TicketLock {
    current: AtomicU32,
    next: AtomicU32,
}

/// Not a test of its own: what runs under the simulator.
#[test]
fn guest() {
    let Ok(guest) = std::env::var(GUEST) else {
        return;
    };
    match guest.as_str() {
        "contended" => {
            let shared = Line(AtomicU64::new(0));
            // Threads that come back at once stay in the order of their first turns, whatever that was: a lap around the chips
            // is then a tenth shorter or longer for the whole run. So each pauses, and comes back behind others.
            crew(24, 300, |_| {
                let turn = shared.0.fetch_add(1, Ordering::Relaxed);
                delay(upto(2_048, turn));
            });
        }
        "apart" => {
            let own: Vec<Line<AtomicU64>> = (0..24).map(|_| Line::default()).collect();
            crew(24, 300, |number| {
                own[number].0.fetch_add(1, Ordering::Relaxed);
            });
        }
        "ticket" => {
            let lock = Line(TicketLock::default());
            // Pauses differ here too, and the lock is busy half of the time: where it is nearly always busy, one long queue
            // outlasts the whole run, and few things are counted.
            crew(6, 200, |_| {
                let mine = lock.0.next.fetch_add(1, Ordering::Relaxed);
                while lock.0.current.load(Ordering::Acquire) != mine {}
                delay(400);
                lock.0
                    .current
                    .store(mine.wrapping_add(1), Ordering::Release);
                delay(7_000 + upto(4_096, u64::from(mine)));
            });
        }
        "pair" => {
            // One hurries, the other does not: the line moves at the pace of the slower.
            let shared = Line(AtomicU64::new(0));
            crew(2, 150, |number| {
                shared.0.fetch_add(1, Ordering::Relaxed);
                delay(700 * number as u64);
            });
        }
        "published" => {
            // Pauses of one length would beat against each other: which reads find a new value is then decided once, by the
            // first turns. These differ, and there are enough of them for the share of such reads to settle.
            let value = Line(AtomicU64::new(0));
            crew(9, 2_000, |number| {
                if number == 0 {
                    let written = value.0.fetch_add(1, Ordering::Release);
                    delay(400 + upto(1_024, written));
                } else {
                    let read = value.0.load(Ordering::Acquire);
                    delay(100 + 50 * number as u64 + upto(256, read ^ (number as u64) << 32));
                }
            });
        }
        "mixed" => {
            let lock = std::sync::Mutex::new(Vec::new());
            crew(6, 12, |number| {
                let own: Vec<u64> = (0..50).map(|i| i * number as u64).collect();
                lock.lock()
                    .expect("nobody panics")
                    .push(own.iter().sum::<u64>());
            });
        }
        "beside" => {
            // One line is written and read, the other one of its pair is one core's own.
            #[repr(align(128))]
            struct Pair(Line<AtomicU64>, Line<AtomicU64>);
            let Pair(shared, own) = &Pair(Line::default(), Line::default());
            // Its owner runs alone for long, and most accesses in between are to other lines.
            crew(3, 40, |number| {
                if number < 2 {
                    thread::sleep(Duration::from_micros(50));
                }
                match number {
                    0 => _ = shared.0.fetch_add(1, Ordering::Relaxed),
                    1 => _ = shared.0.load(Ordering::Relaxed),
                    _ => (0..2_000).for_each(|_| _ = own.0.fetch_add(1, Ordering::Relaxed)),
                }
            });
        }
        "interrupted" | "undisturbed" => {
            let (ready, done) = (Line(AtomicBool::new(false)), Line(AtomicBool::new(false)));
            thread::scope(|scope| {
                scope.spawn(|| {
                    let page = Page::map();
                    ready.0.store(true, Ordering::Release);
                    delay(20 * INTERRUPT);
                    for number in 0..INTERRUPTS {
                        delay(2 * INTERRUPT);
                        page.interrupt(number);
                    }
                    done.0.store(true, Ordering::Relaxed);
                });
                while !ready.0.load(Ordering::Acquire) {
                    spin_loop();
                }
                let mut last = tsc();
                let mut interrupts = 0;
                while !done.0.load(Ordering::Relaxed) {
                    let now = tsc();
                    interrupts += u64::from(now - last >= INTERRUPT);
                    last = now;
                }
                let expected = if guest == "interrupted" {
                    INTERRUPTS
                } else {
                    0
                };
                assert_eq!(interrupts, expected);
            });
        }
        "streamed" => {
            let lines = LINES as usize;
            crew(4, LINES, |number| {
                // Each touches memory that nobody has touched before.
                thread_local!(static MEMORY: Cell<(usize, *mut u8)> = const { Cell::new((0, std::ptr::null_mut())) });
                let (next, mut memory) = MEMORY.get();
                if memory.is_null() {
                    memory = fresh(64 * (lines + 1));
                }
                // SAFETY: it is this thread's, and long enough.
                unsafe { memory.add(64 * next).write_volatile(number as u8) };
                MEMORY.set((next + 1, memory));
            });
        }
        "rounds" => {
            let memory = fresh(64 * 2 * ROUND) as usize;
            let both = Line(AtomicU64::new(0));
            crew(2, (ROUND * ROUNDS) as u64, |number| {
                // Each goes round in memory of its own, and both read one line all the time.
                thread_local!(static STEP: Cell<usize> = const { Cell::new(0) });
                let step = STEP.replace(STEP.get() + 1);
                both.0.load(Ordering::Relaxed);
                let at = memory + 64 * (number * ROUND + step % ROUND);
                // SAFETY: the memory is there, and nobody writes it.
                unsafe { (at as *const u8).read_volatile() };
            });
        }
        "retried" => {
            let shared = Line(AtomicU64::new(0));
            crew(12, 200, |number| {
                let seen = increment_by_exchange(&shared.0);
                delay(upto(512, seen ^ (number as u64) << 32));
            });
        }
        "taken" => {
            let (clock, done) = (Line(AtomicU64::new(0)), Line(AtomicBool::new(false)));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.0.load(Ordering::Relaxed) {
                        clock.0.store(tsc(), Ordering::Relaxed);
                    }
                });
                while clock.0.load(Ordering::Relaxed) == 0 {}
                let wrong = (0..200).find_map(|round| {
                    delay(5 * FAR.transfer + upto(256, round));
                    let asked = tsc();
                    let seen = clock.0.load(Ordering::Relaxed);
                    let due = asked + FAR.probe / 2..asked + FAR.probe + 100;
                    (!due.contains(&seen)).then_some((asked, seen))
                });
                // Before anything is said of it: the other thread goes on until then.
                done.0.store(true, Ordering::Relaxed);
                assert_eq!(
                    wrong, None,
                    "when it asked, and when what it saw was written"
                );
            });
        }
        other => panic!("there is no guest `{other}`"),
    }
}

fn main_process(run: &Run) -> &ProcessResult {
    run.main().expect("a process was simulated")
}

/// Whether two figures differ by no more than 3 %.
#[track_caller]
fn agree(what: &str, one: u64, other: u64) {
    let (low, high) = (one.min(other), one.max(other));
    assert!(
        (high - low) * 100 <= high * 3,
        "{what}: {one} and {other} differ by more than 3 %"
    );
}

#[test]
fn how_far_a_core_runs_ahead_does_not_matter() {
    for guest in ["contended", "pair", "published", "ticket"] {
        let mut figures = Vec::new();
        for cycles in [0, 100, 1000] {
            let Some(run) = simulate(guest, |simulation| simulation.run_ahead(cycles)) else {
                return;
            };
            let region = &main_process(&run).region;
            figures.push((region.elapsed, region.counts.transfers()));
        }
        for &(elapsed, transfers) in &figures[1..] {
            agree(&format!("{guest}: elapsed"), figures[0].0, elapsed);
            agree(&format!("{guest}: transfers"), figures[0].1, transfers);
        }
    }
}

#[test]
fn what_is_taken_was_used_until_the_probe_came() {
    let mut machine = Machine::flat("far", 2);
    machine.transfer = vec![FAR.transfer as u32];
    machine.probe = vec![FAR.probe as u32];
    for run_ahead in [0, 1000] {
        let adjust = |simulation: Simulation| simulation.run_ahead(run_ahead);
        if simulate_on(machine.clone(), "taken", adjust).is_none() {
            return;
        }
    }
}

#[test]
fn an_exchange_that_failed_succeeds_when_it_is_repeated() {
    let Some(run) = simulate("retried", |simulation| simulation) else {
        return;
    };
    let region = &main_process(&run).region;
    let (operations, transfers) = (region.operations, region.counts.transfers());
    assert_eq!(operations, 12 * 200);
    // Nobody else is told of as its user before it has come: each finds what another has written.
    let counter = main_process(&run)
        .lines
        .iter()
        .max_by_key(|line| line.counts.writes)
        .expect("a line moved");
    assert!(
        counter.true_events > operations && counter.false_events <= 12,
        "{} and {}",
        counter.true_events,
        counter.false_events
    );
    // It reads, asks for the line, and fails at most once; were the line lost again as soon as another asks for it, it would fail
    // as often as there are cores that wait.
    assert!(
        transfers >= operations && transfers <= 3 * operations,
        "{transfers} of {operations}"
    );
}

#[test]
fn cores_that_fetch_from_one_memory_wait_for_each_other() {
    const OCCUPANCY: u32 = 600;
    let elapsed = |occupancy, run_ahead| {
        let mut machine = Machine::flat("streams", 4);
        machine.memory_occupancy = occupancy;
        let run = simulate_on(machine, "streamed", |simulation| {
            simulation.run_ahead(run_ahead)
        })?;
        Some(main_process(&run).region.elapsed / TICKS_PER_CYCLE)
    };
    let Some(unlimited) = elapsed(0, 1000) else {
        return;
    };
    let limited = |run_ahead| elapsed(OCCUPANCY, run_ahead).expect("it ran a moment ago");
    let all = 4 * LINES * u64::from(OCCUPANCY);
    let (close, far) = (limited(0), limited(1000));
    assert!(unlimited < all * 3 / 4, "{unlimited} of {all}");
    assert!((all..all * 5 / 4).contains(&close), "{close} of {all}");
    agree("however far they run ahead", close, far);
}

/// How many lines a thread goes round in, and how often.
const ROUND: usize = 512;
const ROUNDS: usize = 16;

#[test]
fn what_a_chip_has_no_room_for_comes_from_memory_again() {
    let from_memory = |chips, kib: u64| {
        let mut machine = Machine::flat("rounds", 2);
        (machine.chips, machine.cores_per_chip) = (chips, 2 / chips);
        (machine.transfer, machine.memory) = (vec![100, 100], vec![100, 100]);
        machine.probe = vec![50, 50];
        machine.hops = (0..chips)
            .map(|from| (0..chips).map(|to| u8::from(from != to)).collect())
            .collect();
        machine.last_level_cache = kib << 10;
        let run = simulate_on(machine, "rounds", |simulation| simulation)?;
        let process = main_process(&run);
        // What both use all the time stays.
        let lines = process.lines.iter();
        let most = lines.map(|line| line.counts.memory).max().unwrap_or(0);
        assert!(most <= 4, "{most} times from memory");
        Some(process.region.counts.memory)
    };
    let Some(unlimited) = from_memory(1, 0) else {
        return;
    };
    let rounds = |chips, kib| from_memory(chips, kib).expect("it ran a moment ago");
    // 32 KiB each: both fit, or one does.
    let (large, small, apart) = (rounds(1, 128), rounds(1, 48), rounds(2, 48));
    let all = (2 * ROUND * (ROUNDS - 1)) as u64;
    assert!(unlimited == 0 && large < all / 6, "{unlimited}, {large}");
    assert!(small > all / 2, "{small} of {all}");
    // Some sets have more than their share.
    assert!(apart < all / 6, "{apart} of {all}");
}

#[test]
fn who_takes_memory_away_interrupts_the_others() {
    for (guest, interrupt) in [("interrupted", INTERRUPT), ("undisturbed", 0)] {
        let mut machine = Machine::flat("interrupts", 2);
        machine.costs.interrupt = interrupt * TICKS_PER_CYCLE;
        if simulate_on(machine, guest, |simulation| simulation).is_none() {
            return;
        }
    }
}

#[test]
fn a_prefetcher_of_pairs_lets_two_lines_be_shared_as_one() {
    let run = |prefetches| {
        let mut machine = Machine::flat("pairs", 3);
        machine.adjacent_line_prefetch = prefetches;
        let run = simulate_on(machine, "beside", |simulation| simulation)?;
        let process = main_process(&run);
        let lines = process.lines.iter();
        let own = lines.filter(|line| line.writers == [2]);
        let upgrades = own.map(|line| (line.counts.upgrades, line.true_events));
        Some(upgrades.max().unwrap_or_default())
    };
    let Some(without) = run(false) else {
        return;
    };
    let with = run(true).expect("it ran a moment ago");
    assert!(without.0 <= 1 && with.0 >= 38, "{without:?}, {with:?}");
    assert_eq!(with.1, 0, "nobody but its writer uses it");
}

#[test]
fn an_update_of_a_shared_line_moves_it_and_one_of_ones_own_does_not() {
    let Some(shared) = simulate("contended", |simulation| simulation) else {
        return;
    };
    let region = &main_process(&shared).region;
    let (operations, writes) = (region.operations, region.counts.writes);
    assert_eq!(operations, 24 * 300);
    // A core that is asked by nobody meanwhile may update twice; that happens at the beginning and the end only.
    assert!(
        writes * 10 >= operations * 9 && writes <= operations + 24,
        "{writes} of {operations}"
    );

    let apart = simulate("apart", |simulation| simulation).expect("it ran a moment ago");
    let region = &main_process(&apart).region;
    // What the threads share (the barrier, the loop's bounds) is read once after the barrier was written.
    assert!(region.counts.writes <= 24, "{:?}", region.counts);
    // The threads come out of the barrier one after the other, which takes its time in both.
    assert!(region.elapsed * 3 < main_process(&shared).region.elapsed);
}

/// Runs a spin lock on the first cores of an Opteron, once with a loop that is recognized as a spin, and once with one that is executed.
/// The figures of the two are the same; returns the instructions that were executed.
fn spin_both_ways(cores: usize, threads: &str, run_ahead: u64) -> Option<[u64; 2]> {
    let program = Program::guest("rounds.c")?;
    let mut machine = machine::built_in("opteron-48")
        .expect("it is built in")
        .with_cores(cores)
        .expect("it has as many");
    // What is executed of a slice takes its time.
    machine.time_slice /= 10;
    let simulation = Simulation::new(machine)
        .run_ahead(run_ahead)
        .timeout(PATIENCE);
    let [one, other] = ["same", "adds"].map(|how| {
        let run = simulation
            .run(&program.path, [threads, "10", how])
            .expect("the simulation leaves a result");
        assert!(run.status.success(), "{how}: {}", run.status);
        let process = main_process(&run);
        (process.region, process.instructions)
    });
    assert_eq!(one.0.counts.transfers(), other.0.counts.transfers());
    assert_eq!(one.0.elapsed, other.0.elapsed);
    Some([one.1, other.1])
}

#[test]
fn rounds_of_a_spin_that_are_not_executed_take_as_long_as_those_that_are() {
    for run_ahead in [0, 100] {
        let Some([skipped, all]) = spin_both_ways(12, "12", run_ahead) else {
            return;
        };
        // Threads wait for the lock, and for the line while the others have it: none of that is executed.
        assert!(skipped * 5 < all, "{skipped} of {all}");
    }
}

#[test]
fn rounds_of_a_spin_to_the_end_of_its_slice_take_as_long_as_if_they_were_executed() {
    for run_ahead in [0, 100] {
        let Some([skipped, all]) = spin_both_ways(2, "3", run_ahead) else {
            return;
        };
        // Whoever may run ahead is noticed to spin a little later.
        assert!(skipped * 5 < all, "{skipped} of {all}");
    }
}

#[test]
fn a_second_run_gives_the_same_figures() {
    let figures = || {
        let run = simulate("mixed", |simulation| simulation)?;
        let process = main_process(&run);
        assert_eq!(process.not_reproducible, [""; 0]);
        assert_eq!(process.forced, 0);
        Some(format!(
            "{:?} {:?} {:?} {:?} {} {}",
            process.whole,
            process.region,
            process.cores_detail,
            process.lines,
            process.elapsed,
            process.instructions
        ))
    };
    let Some(first) = figures() else {
        return;
    };
    assert_eq!(Some(first), figures());
}

#[test]
fn addresses_are_known_before_the_access() {
    let Some(run) = simulate("mixed", |simulation| simulation.verify(true)) else {
        return;
    };
    let said = String::from_utf8_lossy(&run.stderr);
    let compared = addresses_compared(&said);
    assert!(compared > 100_000, "{compared} addresses were compared");
}
