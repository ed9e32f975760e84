//! What time it is for the guest.
//!
//! The wall clock begins at a fixed date and the monotonic clock an hour after a machine's start; both then show
//! simulated time. A thread's CPU-time clock shows the simulated time during which it had a core.

use crate::model::{Machine, TICKS_PER_CYCLE, Ticks};
use crate::plugin::memory;
use crate::plugin::numbers::{EFAULT, EINTR, EINVAL};
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::{Call, Change, Step, Then};
use crate::plugin::thread::{Sleep, State, Thread, Woken};

const SECOND: u64 = 1_000_000_000;
/// Midnight at the beginning of 2020, in nanoseconds since 1970.
pub(crate) const WALL_START: u64 = 1_577_836_800 * SECOND;
/// An hour: no program takes it for a machine that has not started yet, and none can count back beyond zero.
pub(crate) const MONOTONIC_START: u64 = 3600 * SECOND;

const REALTIME: i32 = 0;
const MONOTONIC: i32 = 1;
const PROCESS_CPU: i32 = 2;
const THREAD_CPU: i32 = 3;
const MONOTONIC_RAW: i32 = 4;
const REALTIME_COARSE: i32 = 5;
const MONOTONIC_COARSE: i32 = 6;
const BOOT: i32 = 7;
const ATOMIC: i32 = 11;

/// Simulated time in nanoseconds.
pub(crate) fn nanoseconds(machine: &Machine, ticks: Ticks) -> u64 {
    let ticks = u128::from(ticks) * 1000;
    (ticks / u128::from(TICKS_PER_CYCLE) / u128::from(machine.megahertz)) as u64
}

/// Nanoseconds in simulated time: not less, so that a sleeper wakes when its clock says that it may.
pub(crate) fn ticks(machine: &Machine, nanoseconds: u64) -> Ticks {
    let ticks =
        u128::from(nanoseconds) * u128::from(TICKS_PER_CYCLE) * u128::from(machine.megahertz);
    Ticks::try_from(ticks.div_ceil(1000)).unwrap_or(Ticks::MAX)
}

/// A `struct timespec` of the guest, in nanoseconds; the error that a call makes of a bad one.
pub(crate) fn read_timespec(address: u64) -> Result<u64, i64> {
    let [seconds, nanoseconds] = memory::read_words(address).ok_or(EFAULT)?;
    if seconds > i64::MAX as u64 || nanoseconds >= SECOND {
        return Err(EINVAL);
    }
    Ok(seconds.saturating_mul(SECOND).saturating_add(nanoseconds))
}

/// The simulated time during which a thread has had a core.
fn cpu_time(thread: &Thread) -> Ticks {
    let seated = matches!(thread.state, State::Ready(_) | State::Spinning);
    thread.busy
        + if seated {
            thread.time.saturating_sub(thread.since)
        } else {
            0
        }
}

fn process_time(sim: &Simulator) -> Ticks {
    let current = sim.current();
    let others = sim
        .threads
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != current);
    own_time(sim) + others.map(|(_, thread)| cpu_time(thread)).sum::<Ticks>()
}

/// The running thread's: it has a core, whatever its state says of waiting for a turn.
fn own_time(sim: &Simulator) -> Ticks {
    let thread = &sim.threads[sim.current()];
    thread.busy + sim.now().saturating_sub(thread.since)
}

/// What a clock shows, in nanoseconds; `None` for a clock that only the host has.
fn read(sim: &Simulator, clock: i32) -> Option<u64> {
    let machine = &sim.settings.machine;
    let now = nanoseconds(machine, sim.now());
    Some(match clock {
        REALTIME | REALTIME_COARSE | ATOMIC => WALL_START + now,
        MONOTONIC | MONOTONIC_RAW | MONOTONIC_COARSE | BOOT => MONOTONIC_START + now,
        PROCESS_CPU => nanoseconds(machine, process_time(sim)),
        THREAD_CPU => nanoseconds(machine, own_time(sim)),
        // A clock of a given thread or process: its number is complemented above the kind.
        _ if clock < 0 && clock & 3 != 3 => {
            let (number, one_thread) = (!(clock >> 3), clock & 4 != 0);
            let found = sim.threads.iter().position(|thread| thread.tid == number);
            let time = match found {
                _ if !one_thread => process_time(sim),
                Some(thread) if thread != sim.current() => cpu_time(&sim.threads[thread]),
                _ if number == 0 || found.is_some() => own_time(sim),
                _ => return None,
            };
            nanoseconds(machine, time)
        }
        _ => return None,
    })
}

/// `clock_gettime`
pub(crate) fn clock_gettime(sim: &Simulator, call: &Call) -> Step {
    let [clock, to, ..] = call.arguments;
    match read(sim, clock as i32) {
        Some(time) => done(memory::write_words(to, &[time / SECOND, time % SECOND]), 0),
        None => Step::Quick,
    }
}

/// `gettimeofday`
pub(crate) fn gettimeofday(sim: &Simulator, call: &Call) -> Step {
    let [to, zone, ..] = call.arguments;
    let time = WALL_START + nanoseconds(&sim.settings.machine, sim.now());
    let written = (to == 0 || memory::write_words(to, &[time / SECOND, time % SECOND / 1000]))
        && (zone == 0 || memory::write(zone, &[0; 8]));
    done(written, 0)
}

/// `time`
pub(crate) fn time(sim: &Simulator, call: &Call) -> Step {
    let [to, ..] = call.arguments;
    let seconds = (WALL_START + nanoseconds(&sim.settings.machine, sim.now())) / SECOND;
    done(
        to == 0 || memory::write_words(to, &[seconds]),
        seconds as i64,
    )
}

/// `times`: all of it is time in user mode, since the kernel is not simulated.
pub(crate) fn times(sim: &Simulator, call: &Call) -> Step {
    const HUNDREDTH: u64 = SECOND / 100;
    let [to, ..] = call.arguments;
    let machine = &sim.settings.machine;
    let used = nanoseconds(machine, process_time(sim)) / HUNDREDTH;
    let now = (MONOTONIC_START + nanoseconds(machine, sim.now())) / HUNDREDTH;
    done(
        to == 0 || memory::write_words(to, &[used, 0, 0, 0]),
        now as i64,
    )
}

/// `getrusage`: simulated time, and zero for all that is not simulated.
pub(crate) fn getrusage(sim: &Simulator, call: &Call) -> Step {
    const SELF: i32 = 0;
    const THREAD: i32 = 1;
    const CHILDREN: i32 = -1;
    let [who, to, ..] = call.arguments;
    let used = match who as i32 {
        SELF => process_time(sim),
        THREAD => own_time(sim),
        CHILDREN => 0,
        _ => return Step::Done(EINVAL),
    };
    let used = nanoseconds(&sim.settings.machine, used);
    let mut usage = [0; 18];
    (usage[0], usage[1]) = (used / SECOND, used % SECOND / 1000);
    done(memory::write_words(to, &usage), 0)
}

fn done(written: bool, result: i64) -> Step {
    Step::Done(if written { result } else { EFAULT })
}

/// `nanosleep`
pub(crate) fn nanosleep(sim: &mut Simulator, call: &Call) -> Step {
    let [request, rest, ..] = call.arguments;
    match read_timespec(request) {
        Ok(time) => {
            let deadline = sim.now().saturating_add(ticks(&sim.settings.machine, time));
            sleep_until(sim, deadline, Rest::Timespec(rest))
        }
        Err(error) => Step::Done(error),
    }
}

/// `clock_nanosleep`
pub(crate) fn clock_nanosleep(sim: &mut Simulator, call: &Call) -> Step {
    const ABSOLUTE: u64 = 1;
    let [clock, flags, request, rest, ..] = call.arguments;
    let start = match clock as i32 {
        REALTIME | ATOMIC => WALL_START,
        MONOTONIC | BOOT => MONOTONIC_START,
        // Sleeps on CPU time are left to the host, as are its errors for clocks that nobody can sleep on.
        _ => {
            sim.unreproducible("sleeps on a clock of the host");
            return Step::Blocks;
        }
    };
    let time = match read_timespec(request) {
        Ok(time) => time,
        Err(error) => return Step::Done(error),
    };
    let machine = &sim.settings.machine;
    if flags & ABSOLUTE == 0 {
        let deadline = sim.now().saturating_add(ticks(machine, time));
        sleep_until(sim, deadline, Rest::Timespec(rest))
    } else {
        let deadline = ticks(machine, time.saturating_sub(start));
        sleep_until(sim, deadline, Rest::None)
    }
}

/// Where a sleep that is interrupted says how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nowhere.
    None,
    /// In a `struct timespec`, unless the address is zero.
    Timespec(u64),
    /// In a `struct timeval`, unless the address is zero.
    Timeval(u64),
}

/// Sleeps. A thread that QEMU needs meanwhile goes on sleeping when it is back, unless a signal came.
pub(crate) fn sleep_until(sim: &mut Simulator, deadline: Ticks, rest: Rest) -> Step {
    if deadline > sim.now() && sim.sleep(Sleep::Time, Some(deadline)) == Woken::Drained {
        return Step::Changed(Change::nothing(Then::Sleep { deadline, rest }));
    }
    Step::Done(0)
}

/// The second half of a sleep that was cut short. Returns the call's result.
pub(crate) fn sleep_on(sim: &mut Simulator, deadline: Ticks, rest: Rest) -> i64 {
    if deadline <= sim.now() || sim.sleep(Sleep::Time, Some(deadline)) != Woken::Drained {
        return 0;
    }
    // Cut short once more: it wakes early, as if by a signal, which is better than never. What it slept is not known
    // without the turn.
    interrupted(&sim.settings.machine, 0, rest)
}

/// The result of a sleep that a signal ended, with so much of it left.
pub(crate) fn interrupted(machine: &Machine, left: Ticks, rest: Rest) -> i64 {
    let left = nanoseconds(machine, left);
    let written = match rest {
        Rest::None | Rest::Timespec(0) | Rest::Timeval(0) => true,
        Rest::Timespec(to) => memory::write_words(to, &[left / SECOND, left % SECOND]),
        Rest::Timeval(to) => memory::write_words(to, &[left / SECOND, left % SECOND / 1000]),
    };
    if written { EINTR } else { EFAULT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_and_ticks_agree() {
        let mut machine = Machine::flat("clock", 1);
        for megahertz in [600, 2400, 3300] {
            machine.megahertz = megahertz;
            assert_eq!(nanoseconds(&machine, ticks(&machine, SECOND)), SECOND);
            for time in [0, 1, 7, 999_999_999, 86_400 * SECOND + 3] {
                // A sleeper's clock has reached its deadline when it wakes, and is not a tick late.
                let ticks = ticks(&machine, time);
                assert_eq!(nanoseconds(&machine, ticks), time);
                assert!(ticks == 0 || nanoseconds(&machine, ticks - 1) < time);
            }
        }
        assert_eq!(ticks(&machine, u64::MAX), Ticks::MAX);
    }

    #[test]
    fn bad_times_are_refused() {
        let spec = |seconds: i64, nanoseconds: i64| {
            let spec = [seconds, nanoseconds];
            read_timespec(spec.as_ptr() as u64)
        };
        assert_eq!(spec(1, 5), Ok(SECOND + 5));
        assert_eq!(spec(i64::MAX, 0), Ok(u64::MAX));
        assert_eq!(spec(-1, 0), Err(EINVAL));
        assert_eq!(spec(0, 1_000_000_000), Err(EINVAL));
        assert_eq!(spec(0, -1), Err(EINVAL));
        assert_eq!(read_timespec(8), Err(EFAULT));
    }
}
