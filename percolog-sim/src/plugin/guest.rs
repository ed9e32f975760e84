//! What the guest sees of the machine: the described one, not the host.

use crate::model::{CoreSet, Machine, Processor};
use crate::plugin::files::Redirects;
use crate::plugin::follow::Emulator;
use crate::plugin::memory;
use crate::plugin::numbers::{EFAULT, EINVAL};
use crate::plugin::random::Random;
use crate::plugin::registers::{Register, Registers};
use crate::plugin::settings::Settings;
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::{Call, Step};
use crate::plugin::thread::Sleep;

/// What is kept for the guest.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Where its random bytes come from.
    random: Random,
    /// The files that it sees in the place of others.
    pub(crate) redirects: Redirects,
    /// How this process was started.
    pub(crate) emulator: Emulator,
    /// Whether it was forked while there were other threads, which it does not have.
    had_threads: bool,
    /// What it does at each signal: the first word of its last `struct sigaction`.
    handlers: [u64; SIGNALS],
}

/// Signals are numbered from 1 to 64.
const SIGNALS: usize = 65;

impl Guest {
    /// What the settings say.
    pub(crate) fn new(settings: &Settings) -> Guest {
        Guest {
            random: Random::new(settings.seed),
            redirects: Redirects::new(&settings.files),
            emulator: Emulator::of_this_process(settings),
            had_threads: false,
            handlers: [0; SIGNALS],
        }
    }

    /// What a child has that is forked now; `alone` says whether this process has one thread.
    pub(crate) fn forked(&mut self, alone: bool) -> Guest {
        Guest {
            random: self.random.split(),
            redirects: self.redirects.clone(),
            emulator: self.emulator.forked(),
            had_threads: self.had_threads || !alone,
            handlers: self.handlers,
        }
    }

    /// Whether this process, or one that it was forked from, was forked while several threads ran.
    pub(crate) fn is_child_of_threads(&self) -> bool {
        self.had_threads
    }

    /// The guest asks for a handler of a signal, described at `action`.
    pub(crate) fn note_handler(&mut self, signal: u64, action: u64) {
        let handler = usize::try_from(signal)
            .ok()
            .and_then(|signal| self.handlers.get_mut(signal));
        if action != 0
            && let Some(handler) = handler
            && let Some([found]) = memory::read_words(action)
        {
            *handler = found;
        }
    }

    /// Whether the signal, sent to this process, ends it. (A signal that is blocked does so later, or never.)
    pub(crate) fn is_fatal(&self, signal: u64) -> bool {
        const KILL: u64 = 9;
        // Those that are ignored by default, or stop and continue: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
        let harmless = matches!(signal, 17..=23 | 28);
        let handler = usize::try_from(signal)
            .ok()
            .and_then(|signal| self.handlers.get(signal));
        signal == KILL || (signal != 0 && !harmless && handler == Some(&0))
    }
}

/// Bytes in a mask of the machine's processors: whole words.
fn mask_length(machine: &Machine) -> u64 {
    machine.processors().div_ceil(64) as u64 * 8
}

/// The thread that a call means by its number; 0 is the caller.
fn thread_of(sim: &Simulator, number: i32) -> Option<usize> {
    if number == 0 {
        return Some(sim.current());
    }
    sim.threads.iter().position(|thread| thread.tid == number)
}

/// `sched_getaffinity`
pub(crate) fn get_affinity(sim: &Simulator, call: &Call) -> Step {
    let [number, length, to, ..] = call.arguments;
    let Some(thread) = thread_of(sim, number as i32) else {
        return Step::Quick;
    };
    let machine = &sim.settings.machine;
    let length = length as u32 as u64;
    if length * 8 < machine.processors() as u64 || !length.is_multiple_of(8) {
        return Step::Done(EINVAL);
    }
    let mask = mask(machine, sim.threads[thread].affinity.as_ref());
    if memory::write(to, &mask) {
        Step::Done(mask.len() as i64)
    } else {
        Step::Done(EFAULT)
    }
}

fn mask(machine: &Machine, set: Option<&CoreSet>) -> Vec<u8> {
    let mut mask = vec![0_u8; mask_length(machine) as usize];
    for processor in 0..machine.processors() {
        if set.is_none_or(|set| set.contains(processor as Processor)) {
            mask[processor / 8] |= 1 << (processor % 8);
        }
    }
    mask
}

/// `sched_setaffinity`
pub(crate) fn set_affinity(sim: &mut Simulator, call: &Call) -> Step {
    let [number, length, from, ..] = call.arguments;
    let Some(thread) = thread_of(sim, number as i32) else {
        return Step::Quick;
    };
    let mut bytes =
        vec![0; (length as u32 as u64).min(mask_length(&sim.settings.machine)) as usize];
    if !memory::read(from, &mut bytes) {
        return Step::Done(EFAULT);
    }
    let set: CoreSet = (0..sim.settings.machine.processors())
        .filter(|processor| {
            bytes
                .get(processor / 8)
                .is_some_and(|byte| byte & 1 << (processor % 8) != 0)
        })
        .map(|processor| processor as Processor)
        .collect();
    if set.is_empty() {
        return Step::Done(EINVAL);
    }
    let now = sim.now();
    if thread != sim.current() {
        sim.schedule.rebind(&mut sim.threads, thread, set, now);
        sim.update_limit();
        return Step::Done(0);
    }
    let state = &mut sim.threads[thread];
    let stays = state
        .processor
        .is_none_or(|processor| set.contains(processor));
    state.affinity = Some(set);
    if !stays {
        // It leaves its processor, and is ready for another at once.
        sim.sleep(Sleep::Time, Some(now));
    }
    Step::Done(0)
}

fn current_processor(sim: &Simulator) -> Processor {
    sim.threads[sim.current()].processor.unwrap_or(0)
}

/// The processor and the chip on which the thread that has the turn runs.
pub(crate) fn here(sim: &Simulator) -> (u32, u32) {
    let processor = current_processor(sim);
    let machine = &sim.settings.machine;
    (
        processor.into(),
        machine.chip_of(machine.core_of(processor)) as u32,
    )
}

/// `getcpu`: chips are nodes.
pub(crate) fn getcpu(sim: &Simulator, call: &Call) -> Step {
    let [core_to, chip_to, ..] = call.arguments;
    let (processor, chip) = here(sim);
    let written = [(core_to, processor), (chip_to, chip)]
        .iter()
        .all(|&(to, number)| to == 0 || memory::write(to, &number.to_le_bytes()));
    Step::Done(if written { 0 } else { EFAULT })
}

/// `getrandom`
pub(crate) fn getrandom(sim: &mut Simulator, call: &Call) -> Step {
    const KNOWN_FLAGS: u64 = 7;
    /// The kernel gives at most this many at once.
    const MOST: u64 = 1 << 25;
    let [to, length, flags, ..] = call.arguments;
    if flags as u32 as u64 & !KNOWN_FLAGS != 0 {
        return Step::Done(EINVAL);
    }
    let mut bytes = vec![0; length.min(MOST) as usize];
    sim.guest().random.fill(&mut bytes);
    if memory::write(to, &bytes) {
        Step::Done(bytes.len() as i64)
    } else {
        Step::Done(EFAULT)
    }
}

/// After a `cpuid` instruction: makes its result agree with the machine.
pub(crate) fn cpuid(sim: &Simulator, leaf: u32, subleaf: u32, regs: &mut Registers) {
    const RESULTS: [Register; 4] = [Register::Rax, Register::Rbx, Register::Rcx, Register::Rdx];
    let found = RESULTS.map(|register| regs.get(register) as u32);
    let shown = identity(
        &sim.settings.machine,
        current_processor(sim),
        leaf,
        subleaf,
        found,
    );
    for (register, value) in RESULTS.into_iter().zip(shown) {
        regs.set(register, u64::from(value));
    }
}

/// What `cpuid` says on a processor, given what the emulator says. Features stay: they are what the emulator can do.
fn identity(
    machine: &Machine,
    processor: Processor,
    leaf: u32,
    subleaf: u32,
    found: [u32; 4],
) -> [u32; 4] {
    /// The highest leaf that is shown: frequencies.
    const LAST: u32 = 0x16;
    let [mut eax, mut ebx, mut ecx, mut edx] = found;
    let per_chip = machine.cores_per_chip.min(machine.cores) as u32;
    let threads = machine.threads_per_core as u32;
    let all = per_chip * threads;
    // Numbers of threads within a core, and of both within a chip, take so many bits of an APIC number.
    let thread_bits = threads.next_power_of_two().trailing_zeros();
    let bits = thread_bits + per_chip.next_power_of_two().trailing_zeros();
    let core = machine.core_of(processor);
    let chip = machine.chip_of(core) as u32;
    let in_chip = u32::from(core) - chip * machine.cores_per_chip as u32;
    let thread = u32::from(processor) / machine.cores as u32;
    let apic = (chip << bits) | (in_chip << thread_bits) | thread;
    match leaf {
        0 => eax = eax.max(LAST),
        1 => {
            const HYPER_THREADING: u32 = 1 << 28;
            let line = (machine.line_size / 8).min(255) as u32;
            ebx = (apic & 0xff) << 24 | all.min(255) << 16 | line << 8 | ebx & 0xff;
            // "More than one logical processor in a package".
            edx = if all > 1 {
                edx | HYPER_THREADING
            } else {
                edx & !HYPER_THREADING
            };
        }
        4 if eax & 31 != 0 => {
            let level = eax >> 5 & 7;
            let sharing = if level < 3 { threads } else { all };
            eax = (per_chip - 1).min(63) << 26 | (sharing - 1).min(4095) << 14 | eax & 0x3fff;
            ebx = ebx & !0xfff | (machine.line_size - 1).min(0xfff) as u32;
        }
        0xb | 0x1f => {
            const THREADS: u32 = 1;
            const CORES: u32 = 2;
            (eax, ebx, ecx) = match subleaf {
                0 => (thread_bits, threads, THREADS << 8),
                1 => (bits, all, CORES << 8 | 1),
                _ => (0, 0, subleaf & 0xff),
            };
            edx = apic;
        }
        0xe..=0x14 => [eax, ebx, ecx, edx] = [0; 4],
        // The time-stamp counter's frequency, as a multiple of one of 1 MHz.
        0x15 => [eax, ebx, ecx, edx] = [1, machine.megahertz, 1_000_000, 0],
        0x16 => [eax, ebx, ecx, edx] = [machine.megahertz, machine.megahertz, 100, 0],
        0x8000_0001 if all > 1 && threads == 1 => {
            /// AMD's "the package's logical processors are cores, not threads of one".
            const CORES_NOT_THREADS: u32 = 2;
            ecx |= CORES_NOT_THREADS;
        }
        // The time-stamp counter runs at one rate in all states.
        0x8000_0007 => edx |= 1 << 8,
        0x8000_0008 => ecx = ecx & !0xf0ff | bits << 12 | (all - 1).min(255),
        _ => {}
    }
    [eax, ebx, ecx, edx]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let mut machine = Machine::flat("guest", 48);
        machine.chips = 8;
        machine.cores_per_chip = 6;
        machine.hops = vec![vec![1; 8]; 8];
        machine.megahertz = 2400;
        machine
    }

    #[test]
    fn every_core_has_a_number_of_its_own_that_names_its_chip() {
        let machine = machine();
        let mut seen = std::collections::HashSet::new();
        for core in 0..48 {
            let [shift, one, level, apic] = identity(&machine, core, 0xb, 0, [0; 4]);
            assert_eq!((shift, one, level), (0, 1, 0x100));
            assert!(seen.insert(apic));
            let [shift, cores, level, same] = identity(&machine, core, 0xb, 1, [0; 4]);
            assert_eq!((cores, level, same), (6, 0x201, apic));
            assert_eq!(apic >> shift, u32::from(core) / 6);
            assert_eq!(identity(&machine, core, 0xb, 2, [9; 4]), [0, 0, 2, apic]);
            let [_, ebx, _, edx] = identity(&machine, core, 1, 0, [0; 4]);
            assert_eq!((ebx >> 24, ebx >> 16 & 0xff, edx >> 28 & 1), (apic, 6, 1));
            assert_eq!(ebx >> 8 & 0xff, 8, "flushes 64 bytes");
        }
    }

    #[test]
    fn the_threads_of_a_core_have_neighbouring_numbers() {
        let mut machine = machine();
        machine.threads_per_core = 2;
        let topology = |processor, level| identity(&machine, processor, 0xb, level, [0; 4]);
        for core in 0..48 {
            let [shift, two, _, apic] = topology(core, 0);
            assert_eq!((shift, two), (1, 2));
            assert_eq!(topology(core + 48, 0)[3], apic + 1);
            let [shift, twelve, ..] = topology(core + 48, 1);
            assert_eq!((apic >> shift, twelve), (u32::from(core) / 6, 12));
        }
        let cache = |level: u32| identity(&machine, 0, 4, 0, [level << 5 | 1, 63, 0, 0])[0];
        assert_eq!([cache(1), cache(3)].map(|eax| eax >> 14 & 0xfff), [1, 11]);
        assert_eq!(identity(&machine, 0, 0x8000_0001, 0, [0; 4])[2], 0);
    }

    #[test]
    fn the_clock_is_invariant_and_its_frequency_is_told() {
        let machine = machine();
        assert_eq!(identity(&machine, 0, 0x8000_0007, 0, [0; 4])[3], 0x100);
        assert!(identity(&machine, 0, 0, 0, [0xd, 1, 2, 3]) == [0x16, 1, 2, 3]);
        let [below, above, crystal, _] = identity(&machine, 0, 0x15, 0, [7; 4]);
        assert_eq!(
            u64::from(crystal) * u64::from(above) / u64::from(below),
            2_400_000_000
        );
        assert_eq!(identity(&machine, 0, 0x10, 0, [7; 4]), [0; 4]);
    }

    #[test]
    fn caches_below_the_last_are_private() {
        let machine = machine();
        let shown = |level: u32| identity(&machine, 0, 4, 0, [level << 5 | 1, 63, 0, 0])[0];
        assert_eq!((shown(1) >> 26, shown(1) >> 14 & 0xfff), (5, 0));
        assert_eq!((shown(3) >> 26, shown(3) >> 14 & 0xfff), (5, 5));
        assert_eq!(
            identity(&machine, 0, 4, 4, [0; 4]),
            [0; 4],
            "the end of the list stays its end"
        );
    }

    #[test]
    fn features_stay_as_the_emulator_has_them() {
        let machine = machine();
        assert_eq!(identity(&machine, 0, 7, 0, [1, 2, 3, 4]), [1, 2, 3, 4]);
        let [eax, _, ecx, edx] = identity(&machine, 0, 1, 0, [1, 2, 3, 4]);
        assert_eq!((eax, ecx, edx & !(1 << 28)), (1, 3, 4));
    }

    #[test]
    fn masks_are_whole_words() {
        let mut machine = Machine::flat("guest", 70);
        assert_eq!(mask_length(&machine), 16);
        let all = mask(&machine, None);
        assert_eq!((all.len(), all[8]), (16, 0b11_1111));
        let some: CoreSet = [1, 69].into_iter().collect();
        let some = mask(&machine, Some(&some));
        assert_eq!((some[0], some[8]), (2, 0b10_0000));
        machine.cores = 64;
        assert_eq!(mask_length(&machine), 8);
    }
}
