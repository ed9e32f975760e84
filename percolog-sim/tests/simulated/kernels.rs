//! How far what a machine's file says of instructions is from a processor: small programs on one thread, simulated and run
//! natively, in cycles. With `--nocapture` the table comes out, for whatever processor this is; in `docs/validation.md` it
//! stands for one. Nothing is asserted of the native times.
//!
//! All of them work in the first cache, and repeat themselves, so that a processor foresees their branches: what it waits for
//! beyond that is not modelled.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hint::black_box;

use crate::common::PATIENCE;
use crate::common::skip::is_here;
use crate::costs::{Figures, ticks_of_the_clock_in_a_cycle};
use percolog_sim::machine;
use percolog_sim::model::{Machine, TICKS_PER_CYCLE, Units};
use percolog_sim::run::{Simulation, available};

/// Set in the process that is the guest.
const GUEST: &str = "PERCOLOG_SIM_TEST_KERNELS";

/// A name, and a piece of work that is the same each time.
type Kernel = (&'static str, fn() -> u64);

const KERNELS: [Kernel; 14] = [
    ("sort numbers", || {
        let mut numbers: Vec<u32> = (0..1024_u32).map(mixed).collect();
        numbers.sort_unstable();
        u64::from(numbers[7])
    }),
    ("binary search", || {
        let numbers: Vec<u32> = (0..1024).collect();
        let found = (0..256_u32).map(|at| numbers.binary_search(&(mixed(at) & 1023)));
        found.filter(Result::is_ok).count() as u64
    }),
    ("look up in a hash map", || {
        let map: HashMap<u32, u32> = (0..128).map(|key| (key, mixed(key))).collect();
        let sum = |sum: u64, key: u32| sum + u64::from(map[&(mixed(key) & 127)]);
        (0..512).fold(0, sum)
    }),
    ("look up in a B-tree", || {
        let map: BTreeMap<u32, u32> = (0..128).map(|key| (key, mixed(key))).collect();
        let sum = |sum: u64, key: u32| sum + u64::from(map[&(mixed(key) & 127)]);
        (0..512).fold(0, sum)
    }),
    ("format numbers", || {
        let mut text = String::new();
        (0..256_u32).for_each(|number| {
            let _ = write!(text, "{},", mixed(number));
        });
        text.len() as u64
    }),
    ("parse numbers", || {
        const TEXT: &str = "17,4711,90125,42,1984,65536,7,31337,2718281,314159";
        let parsed = (0..50).flat_map(|_| TEXT.split(','));
        parsed.map(|number| number.parse().unwrap_or(0_u64)).sum()
    }),
    ("search text", || {
        let text =
            "all that is gold does not glitter, not all those who wander are lost ".repeat(20);
        let found =
            ["lost", "glitter", "crown", "wander are"].map(|part| text.matches(part).count());
        found.iter().sum::<usize>() as u64
    }),
    ("allocate and free", || {
        let boxes: Vec<Box<[u64; 6]>> = (0..256).map(|at| Box::new([at; 6])).collect();
        boxes.iter().map(|numbers| numbers[3]).sum()
    }),
    ("sieve", || {
        let mut composite = [false; 4096];
        for number in 2..64 {
            if !composite[number] {
                (number * number..4096)
                    .step_by(number)
                    .for_each(|multiple| composite[multiple] = true);
            }
        }
        composite.iter().filter(|is| !**is).count() as u64
    }),
    ("hash bytes", || {
        (0..4096_u64).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ (byte & 255)).wrapping_mul(0x100_0000_01b3)
        })
    }),
    ("greatest divisors", || {
        let divisor = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let pair = |at: u32| {
            divisor(
                u64::from(mixed(at)) << 20 | 7,
                u64::from(mixed(at + 1)) << 9 | 1,
            )
        };
        (0..64).map(pair).sum()
    }),
    ("digits", || {
        let base = black_box(10);
        let sum = |mut number: u32| {
            let mut sum = 0;
            while number != 0 {
                sum += number % base;
                number /= base;
            }
            u64::from(sum)
        };
        (0..256).map(|at| sum(mixed(at))).sum()
    }),
    ("multiply matrices", || {
        let (a, b) = ([[1.5_f64; 16]; 16], [[2.5_f64; 16]; 16]);
        let (a, b) = (black_box(a), black_box(b));
        let mut c = [[0.0; 16]; 16];
        for i in 0..16 {
            for (j, cell) in c[i].iter_mut().enumerate() {
                *cell = (0..16).map(|k| a[i][k] * b[k][j]).sum();
            }
        }
        black_box(c)[3][4] as u64
    }),
    ("distances", || {
        let points: Vec<(f64, f64)> = (0..64_u32)
            .map(|at| {
                (
                    f64::from(mixed(at) & 1023),
                    f64::from(mixed(at + 64) & 1023),
                )
            })
            .collect();
        let mut sum = 0.0;
        for (x, y) in &points {
            for (u, v) in &points {
                let distance = ((x - u).powi(2) + (y - v).powi(2) + 1.0).sqrt();
                sum += 1.0 / distance;
            }
        }
        sum as u64
    }),
];

/// Numbers without an order.
fn mixed(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x7feb_352d);
    let number = (number ^ number >> 15).wrapping_mul(0x846c_a68b);
    number ^ number >> 16
}

/// What a kernel takes by the processor's clock, at best of so many times.
fn time(kernel: fn() -> u64, times: usize) -> u64 {
    let once = |_| {
        // SAFETY: every x86-64 processor has the instructions.
        let now = || unsafe {
            std::arch::x86_64::_mm_lfence();
            std::arch::x86_64::_rdtsc()
        };
        let begin = now();
        black_box(kernel());
        now() - begin
    };
    (0..times).map(once).min().unwrap_or(0)
}

/// Not a test of its own: what runs under the simulator.
#[test]
fn guest() {
    if std::env::var_os(GUEST).is_none() {
        return;
    }
    // The name of the test stands on this line.
    println!();
    for (name, kernel) in KERNELS {
        println!("{name} = {}", time(kernel, 3));
    }
}

/// What the guest printed on a machine; nothing where it cannot be simulated.
fn simulate(machine: &Machine) -> Option<Figures> {
    if !is_here(available()) {
        return None;
    }
    let run = Simulation::new(machine.clone())
        .env(GUEST, "all")
        .capture(true)
        .timeout(PATIENCE)
        .run(
            std::env::current_exe().expect("this program"),
            [
                "--exact",
                "kernels::guest",
                "--test-threads=1",
                "--nocapture",
            ],
        )
        .expect("the simulation leaves a result");
    assert!(run.status.success(), "{}", run.status);
    Some(Figures(String::from_utf8_lossy(&run.stdout).into_owned()))
}

/// A machine with the width and the units of this one's core, if it is one of Intel's, of the generation of 2023: as LLVM's scheduling
/// model for Sapphire Rapids has them; what a division takes was measured by itself (`costs::`). Other cores are taken for the described.
fn like_this_processor(mut machine: Machine) -> Machine {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if about.contains("GenuineIntel") {
        let cycles = |sixteenths: u64| sixteenths * TICKS_PER_CYCLE / 16;
        machine.costs.width = 6;
        machine.costs.units = Units {
            load: cycles(5),
            store: cycles(8),
            branch: cycles(8),
            multiply: cycles(16),
            divide: cycles(10 * 16),
            float: cycles(8),
            float_divide: cycles(4 * 16),
        };
    }
    machine
}

#[test]
fn what_needs_a_slow_unit_takes_longer() {
    let with = machine::built_in("epyc-128").expect("it is built in");
    let mut without = with.clone();
    without.costs.units = Units::default();
    let (Some(with), Some(without)) = (simulate(&with), simulate(&without)) else {
        return;
    };
    // Nothing becomes faster by units that have to be waited for, and what divides most becomes much slower.
    for (name, _) in KERNELS {
        assert!(with.get(name) >= without.get(name), "{name}");
    }
    for name in ["greatest divisors", "digits"] {
        assert!(with.get(name) > 2 * without.get(name), "{name}");
    }
    // 64 times 64 roots, and as many quotients.
    let busy = 2
        * 64
        * 64
        * machine::built_in("epyc-128")
            .expect("as before")
            .costs
            .units
            .float_divide;
    assert!(with.get("distances") >= busy / TICKS_PER_CYCLE);

    let like_this = like_this_processor(machine::built_in("epyc-128").expect("as before"));
    let mut plain = like_this.clone();
    plain.costs.units = Units::default();
    let (Some(with), Some(without)) = (simulate(&like_this), simulate(&plain)) else {
        return;
    };
    let per_cycle = ticks_of_the_clock_in_a_cycle();
    println!(
        "{:22} {:>12} {:>16} {:>16}",
        "cycles", "this machine", "width", "width and units"
    );
    for (name, kernel) in KERNELS {
        let native = time(kernel, 2000) as f64 / per_cycle;
        let against = |figures: &Figures| {
            let cycles = figures.get(name) as f64;
            format!("{cycles:.0} ({:.2})", cycles / native)
        };
        println!(
            "{name:22} {native:12.0} {:>16} {:>16}",
            against(&without),
            against(&with)
        );
    }
}
