//! Instructions cost what the machine's file says, class by class, and the guest's clock shows it: a program that pays
//! for its clock on the real machine pays for it on the described one.
//!
//! The guest is a part of this very program, which runs itself under the simulator. The same loops run natively too, on
//! whatever processor this is: with `--nocapture` the table that comes out shows how far a file's figures are from it.
//! Nothing is asserted of those.

use std::arch::asm;
use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::common::PATIENCE;
use crate::common::skip::is_here;
use percolog_sim::machine;
use percolog_sim::model::{Costs, Machine, TICKS_PER_CYCLE, Ticks, Units};
use percolog_sim::run::{Simulation, available};

/// Names the guest that the program is to be.
const GUEST: &str = "PERCOLOG_SIM_TEST_COSTS";

/// How often a loop comes round.
const ROUNDS: u64 = 500;
/// How many instructions more the longer of two loops has. The rest of the loops is the same, so that what the loop
/// itself and the two looks at the clock cost cancels out.
const MORE: u64 = 8;

/// A loop that repeats one piece of code.
struct Class {
    name: &'static str,
    /// What the loop takes by the processor's clock with one repetition, and with [`MORE`] than that.
    short: fn() -> u64,
    long: fn() -> u64,
    /// What each repetition costs on a described machine.
    expected: Expected,
}

use Expected::{Alone, Beside};

/// What a piece of code costs.
enum Expected {
    /// The same wherever it stands: nothing else is executed meanwhile.
    Alone(fn(&Costs) -> Ticks),
    /// So many instructions, which keep a unit busy for so long.
    Beside(u64, fn(&Units) -> Ticks),
}

impl Expected {
    /// By how much [`MORE`] repetitions make each round of a loop longer.
    fn difference(&self, costs: &Costs) -> Ticks {
        match *self {
            Expected::Alone(cost) => MORE * cost(costs),
            Expected::Beside(instructions, busy) => {
                let round = |times: u64| {
                    // The loop itself has two.
                    let issued = times * instructions + 2;
                    let issue = match costs.width {
                        0 => issued * costs.plain,
                        width => (issued * TICKS_PER_CYCLE).div_ceil(u64::from(width)),
                    };
                    issue.max(times * busy(&costs.units))
                };
                round(1 + MORE) - round(1)
            }
        }
    }
}

impl Class {
    /// How much longer the longer loop takes, at best of so many times.
    fn difference(&self, times: usize) -> u64 {
        // The first time, lines are fetched and code is translated. Later it is the same each time, unless the program's other
        // thread, which waits for this one, comes to its core or asks for a line meanwhile.
        let best = |run: fn() -> u64| (0..times).map(|_| run()).min().unwrap_or(0);
        best(self.long).saturating_sub(best(self.short))
    }
}

/// A class by its name, a piece of code and what that costs. The code may use `rax`, `rcx`, `rdx`, `r11`, the address of a
/// line in `r9`, `xmm0`, `xmm1`, and `rbx`, which is saved.
macro_rules! loop_of {
    ($name:literal, $code:literal, $expected:expr) => {{
        fn cycles<const TIMES: u64>() -> u64 {
            let mut line = Line::default();
            // SAFETY: every x86-64 processor has the instructions around the loop. The loop writes nothing but the line
            // and the registers that are named here; `rbx` is as it was when it ends.
            unsafe {
                _mm_lfence();
                let begin = _rdtsc();
                _mm_lfence();
                asm!(
                    "mov r10, rbx",
                    // QEMU ends a block where a page does: no loop is longer than this.
                    ".p2align 8",
                    "2:",
                    ".rept {times}",
                    $code,
                    ".endr",
                    "dec r8",
                    "jnz 2b",
                    "mov rbx, r10",
                    times = const TIMES,
                    inout("r8") ROUNDS => _,
                    in("r9") &raw mut line,
                    inout("rax") 1_u64 => _,
                    out("rcx") _,
                    out("rdx") _,
                    out("r10") _,
                    out("r11") _,
                    out("xmm0") _,
                    out("xmm1") _,
                );
                _mm_lfence();
                _rdtsc() - begin
            }
        }
        Class {
            name: $name,
            short: cycles::<1>,
            long: cycles::<{ 1 + MORE }>,
            expected: $expected,
        }
    }};
}

#[repr(align(64))]
#[derive(Default)]
struct Line(#[allow(dead_code, reason = "used by its address")] [u64; 8]);

const CLASSES: [Class; 17] = [
    loop_of!("plain", "add rax, rax", Beside(1, |_| 0)),
    loop_of!("load", "mov rcx, [r9]", Beside(1, |units| units.load)),
    loop_of!("store", "mov [r9], rcx", Beside(1, |units| units.store)),
    loop_of!(
        "multiply",
        "imul rcx, rax, 3",
        Beside(1, |units| units.multiply)
    ),
    loop_of!(
        "divide",
        "mov rax, 1000000\nxor edx, edx\nmov rcx, 33\ndiv rcx",
        Beside(4, |units| units.divide)
    ),
    loop_of!(
        "float",
        "movapd xmm0, xmm1\naddsd xmm0, xmm1",
        Beside(2, |units| units.float)
    ),
    loop_of!(
        "divide float",
        "mov r11, 1\ncvtsi2sd xmm1, r11\nmovapd xmm0, xmm1\ndivsd xmm0, xmm1",
        Beside(4, |units| units.float_divide)
    ),
    loop_of!(
        "locked",
        "lock add qword ptr [r9], 1",
        Alone(|costs| costs.locked)
    ),
    // No prefix: an exchange with memory is always locked.
    loop_of!("exchange", "xchg [r9], rcx", Alone(|costs| costs.locked)),
    loop_of!("mfence", "mfence", Alone(|costs| costs.fence)),
    // What `rdtscp` has more than `rdtsc` is that it waits for what is before it.
    loop_of!(
        "lfence",
        "lfence",
        Alone(|costs| (costs.rdtscp - costs.rdtsc).max(costs.plain))
    ),
    loop_of!("rdtsc", "rdtsc", Alone(|costs| costs.rdtsc)),
    loop_of!("rdtscp", "rdtscp", Alone(|costs| costs.rdtscp)),
    // How a stamp is taken.
    loop_of!("lfence+rdtsc", "lfence\nrdtsc", Alone(|costs| costs.rdtscp)),
    loop_of!("pause", "pause", Alone(|costs| costs.pause)),
    loop_of!("cpuid", "cpuid", Alone(|costs| costs.cpuid)),
    // getppid, which does next to nothing.
    loop_of!(
        "syscall",
        "mov eax, 110\nsyscall",
        Alone(|costs| 2 * costs.plain + costs.syscall)
    ),
];

/// Reads a word until it has the value, at most as often as it takes `step` to count `rounds` down: for ever, if `step` is
/// nothing. Then its registers are the same each time.
fn wait_for(word: &AtomicU64, value: u64, rounds: u64, step: u64) {
    // SAFETY: every x86-64 processor has the instructions, which read a word that lives and write the named register.
    unsafe {
        asm!(
            "2:",
            "cmp [{word}], {value}",
            "je 3f",
            "sub {rounds}, {step}",
            "jnz 2b",
            "3:",
            word = in(reg) word.as_ptr(),
            value = in(reg) value,
            rounds = inout(reg) rounds => _,
            step = in(reg) step,
        );
    }
}

/// Instructions in each round of [`wait_for`].
const PER_ROUND: u64 = 4;
/// Its rounds, when it counts.
const COUNTED: u64 = 10_000;

/// Two threads wait for each other, each in a loop that spins. Then one goes through the very same loop, counting, while
/// the other has enough to do. Returns how long the counting took.
fn spin_then_count() -> u64 {
    #[repr(align(64))]
    struct Ball(AtomicU64);
    let ball = Ball(AtomicU64::new(0));
    let ball = &ball.0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..10 {
                wait_for(ball, 2 * turn, 1, 0);
                ball.store(2 * turn + 1, Ordering::Release);
            }
            // SAFETY: every x86-64 processor has the instruction.
            let now = || unsafe { _rdtsc() };
            let begin = now();
            while now() - begin < 10 * COUNTED {}
        });
        for turn in 0..10 {
            wait_for(ball, 2 * turn + 1, 1, 0);
            if turn < 9 {
                ball.store(2 * turn + 2, Ordering::Release);
            }
        }
        // SAFETY: every x86-64 processor has the instruction.
        let now = || unsafe { _rdtsc() };
        let begin = now();
        wait_for(ball, u64::MAX, COUNTED, 1);
        now() - begin
    })
}

/// Not a test of its own: what runs under the simulator.
#[test]
fn guest() {
    let Ok(guest) = std::env::var(GUEST) else {
        return;
    };
    // The name of the test stands on this line.
    println!();
    match guest.as_str() {
        "classes" => {
            for class in &CLASSES {
                println!("{} = {}", class.name, class.difference(4));
            }
        }
        "counting" => println!("counting = {}", spin_then_count()),
        other => panic!("there is no guest `{other}`"),
    }
}

/// What a guest printed on a machine; nothing where it cannot be simulated.
fn simulate(machine: &Machine, guest: &str) -> Option<Figures> {
    if !is_here(available()) {
        return None;
    }
    let program = std::env::current_exe().expect("this program");
    let run = Simulation::new(machine.clone())
        .env(GUEST, guest)
        .capture(true)
        .timeout(PATIENCE)
        .run(
            program,
            ["--exact", "costs::guest", "--test-threads=1", "--nocapture"],
        )
        .expect("the simulation leaves a result");
    let stdout = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(
        run.status.success(),
        "{guest}: {}\n{stdout}{}",
        run.status,
        String::from_utf8_lossy(&run.stderr)
    );
    Some(Figures(stdout))
}

/// Lines `name = cycles`, among others.
pub(crate) struct Figures(pub(crate) String);

impl Figures {
    pub(crate) fn get(&self, name: &str) -> u64 {
        let found = self.0.lines().find_map(|line| {
            let (before, cycles) = line.split_once(" = ")?;
            (before == name).then_some(cycles)
        });
        let cycles = found.unwrap_or_else(|| panic!("no `{name}` in {}", self.0));
        cycles.parse().expect("a number")
    }
}

#[test]
fn each_class_of_instructions_costs_what_the_machine_file_says() {
    const TIMES: u64 = ROUNDS * MORE;
    let mut columns = Vec::new();
    for name in ["epyc-128", "opteron-48"] {
        let machine = machine::built_in(name).expect("it is built in");
        let Some(found) = simulate(&machine, "classes") else {
            return;
        };
        for class in &CLASSES {
            let cycles = found.get(class.name);
            let expected = class.expected.difference(&machine.costs) * ROUNDS / TICKS_PER_CYCLE;
            // The clock shows whole cycles, and was looked at four times; and the first round is in a block with what stands
            // before the loop, so that it takes at most a round more or less.
            assert!(
                cycles.abs_diff(expected) <= 2 + expected / ROUNDS,
                "{} on {name}: {cycles} cycles for {TIMES}, not {expected}",
                class.name
            );
        }
        columns.push((name, found));
    }

    let per_cycle = ticks_of_the_clock_in_a_cycle();
    print!("{:13} {:>12}", "cycles of", "this machine");
    columns.iter().for_each(|(name, _)| print!(" {name:>12}"));
    println!();
    for class in &CLASSES {
        let native = class.difference(20);
        print!(
            "{:13} {:12.2}",
            class.name,
            native as f64 / TIMES as f64 / per_cycle
        );
        for (_, found) in &columns {
            print!(" {:12.2}", found.get(class.name) as f64 / TIMES as f64);
        }
        println!();
    }
}

#[test]
fn a_loop_that_counts_takes_all_its_rounds() {
    let machine = machine::built_in("opteron-48").expect("it is built in");
    let Some(figures) = simulate(&machine, "counting") else {
        return;
    };
    let found = figures.get("counting");
    let least = COUNTED * PER_ROUND * machine.costs.plain / TICKS_PER_CYCLE;
    // Nobody takes the line meanwhile: what comes in addition is the clock.
    assert!(
        (least..least + 1000).contains(&found),
        "{found} cycles for {COUNTED} rounds of {PER_ROUND} instructions"
    );
}

/// The processor's clock counts at a rate of its own. A multiplication that waits for the last one's result takes three
/// cycles on every x86-64 processor of the last fifteen years.
pub(crate) fn ticks_of_the_clock_in_a_cycle() -> f64 {
    let multiply = loop_of!(
        "multiply",
        "imul rax, rax",
        Beside(1, |units| units.multiply)
    );
    multiply.difference(2000).max(1) as f64 / (ROUNDS * MORE * 3) as f64
}
