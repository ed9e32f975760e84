//! Futexes, kept inside the simulator: a wake-up happens at the simulated time of its waker.
//!
//! The host's futexes cannot be used: who is woken first would depend on the host, and a thread that waits there could
//! not be seen. The turn makes everything here atomic: while a thread compares the word and queues itself, no other
//! guest thread runs. Waiters are woken in the order in which they came.
//!
//! Two kinds stay with the host, and make a run not reproducible: those that hand priorities on (`FUTEX_LOCK_PI` and
//! its like, which need the kernel's scheduler), and those in memory that other processes share. Robust lists stay with
//! the host too: it walks them when a thread dies, and wakes host waiters only; a process whose threads die holding a
//! robust mutex is the one case that loses a wake-up.

use std::collections::{HashMap, VecDeque};

use crate::model::Ticks;
use crate::plugin::clock;
use crate::plugin::memory;
use crate::plugin::numbers::{EAGAIN, EFAULT, EINVAL, ETIMEDOUT};
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::{Call, Step};
use crate::plugin::thread::{Sleep, Woken};

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
const PRIVATE: u64 = 128;
const REALTIME: u64 = 256;
const ANY: u32 = u32::MAX;

#[derive(Debug)]
struct Waiter {
    thread: usize,
    bits: u32,
}

/// Who waits where.
#[derive(Debug, Default)]
pub(crate) struct Futexes {
    queues: HashMap<u64, VecDeque<Waiter>>,
    /// The address that each waiter waits at: it changes when waiters are moved.
    places: HashMap<usize, u64>,
}

impl Futexes {
    fn wait(&mut self, thread: usize, address: u64, bits: u32) {
        self.places.insert(thread, address);
        self.queues
            .entry(address)
            .or_default()
            .push_back(Waiter { thread, bits });
    }

    /// Takes a thread that has given up out of its queue.
    pub(crate) fn forget(&mut self, thread: usize) {
        let Some(address) = self.places.remove(&thread) else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(&address) {
            queue.retain(|waiter| waiter.thread != thread);
            if queue.is_empty() {
                self.queues.remove(&address);
            }
        }
    }

    /// Takes up to `count` waiters with one of `bits` out of a queue, the first that came first.
    fn wake(&mut self, address: u64, count: usize, bits: u32) -> Vec<usize> {
        let mut woken = Vec::new();
        if let Some(queue) = self.queues.get_mut(&address) {
            queue.retain(|waiter| {
                let wakes = woken.len() < count && waiter.bits & bits != 0;
                if wakes {
                    woken.push(waiter.thread);
                }
                !wakes
            });
            if queue.is_empty() {
                self.queues.remove(&address);
            }
        }
        for thread in &woken {
            self.places.remove(thread);
        }
        woken
    }

    /// Moves up to `count` waiters to the end of another queue, in their order. Returns how many.
    fn requeue(&mut self, from: u64, to: u64, count: usize) -> usize {
        let Some(mut queue) = self.queues.remove(&from) else {
            return 0;
        };
        let rest = queue.split_off(count.min(queue.len()));
        let moved = queue.len();
        for waiter in &queue {
            self.places.insert(waiter.thread, to);
        }
        if !rest.is_empty() {
            self.queues.insert(from, rest);
        }
        if moved > 0 {
            self.queues.entry(to).or_default().extend(queue);
        }
        moved
    }
}

/// What the call comes to.
pub(crate) fn call(sim: &mut Simulator, call: &Call) -> Step {
    let [address, operation, value, fourth, second, last] = call.arguments;
    let (operation, value, last) = (operation as u32 as u64, value as u32, last as u32);
    let command = operation & !(PRIVATE | REALTIME);
    let emulated = matches!(
        command,
        WAIT | WAKE | REQUEUE | CMP_REQUEUE | WAKE_OP | WAIT_BITSET | WAKE_BITSET
    );
    if !emulated {
        sim.unreproducible("futexes that hand priorities on");
        return Step::Blocks;
    }
    if address % 4 != 0 {
        return Step::Done(EINVAL);
    }
    match command {
        WAIT | WAIT_BITSET => {
            let bits = if command == WAIT { ANY } else { last };
            let deadline = match deadline(sim, command, operation & REALTIME != 0, fourth) {
                Ok(deadline) => deadline,
                Err(error) => return Step::Done(error),
            };
            if bits == 0 {
                return Step::Done(EINVAL);
            }
            Step::Done(wait(sim, address, value, bits, deadline))
        }
        WAKE => Step::Done(wake(sim, address, at_least_one(value), ANY)),
        WAKE_BITSET if last == 0 => Step::Done(EINVAL),
        WAKE_BITSET => Step::Done(wake(sim, address, at_least_one(value), last)),
        WAKE_OP => Step::Done(wake_op(sim, address, value, second, fourth as u32, last)),
        _ => {
            let expected = (command == CMP_REQUEUE).then_some(last);
            Step::Done(requeue(
                sim,
                address,
                second,
                value as i32,
                fourth as i32,
                expected,
            ))
        }
    }
}

/// The kernel wakes a waiter before it looks at how many it was asked to wake.
fn at_least_one(count: u32) -> usize {
    usize::try_from(count as i32).unwrap_or(1).max(1)
}

/// `FUTEX_WAIT` waits for so long, `FUTEX_WAIT_BITSET` until then.
fn deadline(
    sim: &Simulator,
    command: u64,
    realtime: bool,
    timeout: u64,
) -> Result<Option<Ticks>, i64> {
    if timeout == 0 {
        return Ok(None);
    }
    let nanoseconds = clock::read_timespec(timeout)?;
    let machine = &sim.settings.machine;
    Ok(Some(match (command, realtime) {
        (WAIT, _) => sim.now().saturating_add(clock::ticks(machine, nanoseconds)),
        (_, true) => clock::ticks(machine, nanoseconds.saturating_sub(clock::WALL_START)),
        (_, false) => clock::ticks(machine, nanoseconds.saturating_sub(clock::MONOTONIC_START)),
    }))
}

fn wait(
    sim: &mut Simulator,
    address: u64,
    expected: u32,
    bits: u32,
    deadline: Option<Ticks>,
) -> i64 {
    match memory::read_u32(address) {
        None => return EFAULT,
        Some(found) if found != expected => return EAGAIN,
        Some(_) => {}
    }
    if deadline.is_some_and(|deadline| deadline <= sim.now()) {
        return ETIMEDOUT;
    }
    let (thread, place) = (sim.current(), sim.place(address));
    sim.sleep_for_lock(address);
    sim.futexes.wait(thread, place, bits);
    match sim.sleep(Sleep::Futex(place), deadline) {
        Woken::Woken => 0,
        // Whoever wakes a thread takes it out of its queue: then it is woken, whatever else came at the same time.
        Woken::Deadline if !sim.futexes.places.contains_key(&thread) => 0,
        Woken::Deadline => {
            sim.futexes.forget(thread);
            ETIMEDOUT
        }
        // A wake-up without a cause, which every user of futexes has to expect. The thread may not have the turn, so
        // the simulator has taken it out of its queue.
        Woken::Drained => 0,
    }
}

fn wake(sim: &mut Simulator, address: u64, count: usize, bits: u32) -> i64 {
    wake_at(sim, sim.place(address), count, bits)
}

fn wake_at(sim: &mut Simulator, place: u64, count: usize, bits: u32) -> i64 {
    let woken = sim.futexes.wake(place, count, bits);
    for &thread in &woken {
        sim.wake(thread);
    }
    woken.len() as i64
}

fn requeue(
    sim: &mut Simulator,
    from: u64,
    to: u64,
    wakes: i32,
    moves: i32,
    expected: Option<u32>,
) -> i64 {
    let (Ok(wakes), Ok(moves)) = (usize::try_from(wakes), usize::try_from(moves)) else {
        return EINVAL;
    };
    if !to.is_multiple_of(4) {
        return EINVAL;
    }
    if let Some(expected) = expected {
        match memory::read_u32(from) {
            None => return EFAULT,
            Some(found) if found != expected => return EAGAIN,
            Some(_) => {}
        }
    }
    let woken = wake(sim, from, wakes, ANY);
    let (from, to) = (sim.place(from), sim.place(to));
    woken + sim.futexes.requeue(from, to, moves) as i64
}

/// An operation on a second word, and wake-ups there that depend on what it held.
#[derive(Debug, PartialEq, Eq)]
struct Operation {
    code: u32,
    operand: i32,
    comparison: u32,
    compared: i32,
}

impl Operation {
    fn decode(word: u32) -> Operation {
        let signed = |field: u32| (field as i32) << 20 >> 20;
        let code = word >> 28;
        let operand = signed(word >> 12 & 0xfff);
        Operation {
            code: code & 7,
            operand: if code & 8 != 0 {
                1_i32.wrapping_shl(operand as u32)
            } else {
                operand
            },
            comparison: word >> 24 & 15,
            compared: signed(word & 0xfff),
        }
    }

    fn result(&self, old: u32) -> Option<u32> {
        let operand = self.operand as u32;
        Some(match self.code {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            4 => old ^ operand,
            _ => return None,
        })
    }

    fn holds(&self, old: u32) -> Option<bool> {
        let old = old as i32;
        Some(match self.comparison {
            0 => old == self.compared,
            1 => old != self.compared,
            2 => old < self.compared,
            3 => old <= self.compared,
            4 => old > self.compared,
            5 => old >= self.compared,
            _ => return None,
        })
    }
}

fn wake_op(
    sim: &mut Simulator,
    first: u64,
    count: u32,
    second: u64,
    others: u32,
    word: u32,
) -> i64 {
    const ENOSYS: i64 = -38;
    if !second.is_multiple_of(4) {
        return EINVAL;
    }
    let Some(old) = memory::read_u32(second) else {
        return EFAULT;
    };
    let operation = Operation::decode(word);
    let (Some(new), Some(holds)) = (operation.result(old), operation.holds(old)) else {
        return ENOSYS;
    };
    if !memory::write(second, &new.to_le_bytes()) {
        return EFAULT;
    }
    let mut woken = wake(sim, first, at_least_one(count), ANY);
    if holds {
        woken += wake(sim, second, at_least_one(others), ANY);
    }
    woken
}

/// A thread has ended: who joins it waits for the word at this address.
pub(crate) fn thread_exited(sim: &mut Simulator, thread: usize, clear_tid: u64) {
    if clear_tid == 0 {
        return;
    }
    let process = sim.threads[thread].process;
    // Nobody else does: the emulator was not told of it. An address that cannot be written is no thread's word any more,
    // and nobody's concern.
    let _ = memory::write_to(sim.processes[process].pid, clear_tid, &[0; 4]);
    wake_at(sim, sim.spaces.place(process, clear_tid), usize::MAX, ANY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_come_is_the_first_to_be_woken() {
        let mut futexes = Futexes::default();
        for thread in 0..5 {
            futexes.wait(thread, 64, ANY);
        }
        assert_eq!(futexes.wake(64, 2, ANY), [0, 1]);
        assert_eq!(futexes.wake(64, usize::MAX, ANY), [2, 3, 4]);
        assert!(futexes.wake(64, 1, ANY).is_empty());
        assert!(futexes.queues.is_empty() && futexes.places.is_empty());
    }

    #[test]
    fn only_waiters_with_a_common_bit_are_woken() {
        let mut futexes = Futexes::default();
        for (thread, bits) in [(0, 1), (1, 2), (2, 3)] {
            futexes.wait(thread, 64, bits);
        }
        assert_eq!(futexes.wake(64, 9, 2), [1, 2]);
        assert_eq!(futexes.wake(64, 9, ANY), [0]);
    }

    #[test]
    fn moved_waiters_keep_their_order_behind_those_that_are_there() {
        let mut futexes = Futexes::default();
        for thread in 0..4 {
            futexes.wait(thread, 64, ANY);
        }
        futexes.wait(9, 128, ANY);
        assert_eq!(futexes.requeue(64, 128, 3), 3);
        assert_eq!(futexes.wake(64, 9, ANY), [3]);
        // One that gives up after it was moved is found where it is.
        futexes.forget(1);
        assert_eq!(futexes.wake(128, 9, ANY), [9, 0, 2]);
        assert!(futexes.queues.is_empty() && futexes.places.is_empty());
    }

    #[test]
    fn moving_to_the_same_word_turns_the_queue() {
        let mut futexes = Futexes::default();
        for thread in 0..3 {
            futexes.wait(thread, 64, ANY);
        }
        assert_eq!(futexes.requeue(64, 64, 1), 1);
        assert_eq!(futexes.wake(64, 9, ANY), [1, 2, 0]);
    }

    #[test]
    fn operations_are_decoded_as_the_kernel_has_them() {
        // FUTEX_OP(FUTEX_OP_SET, 0, FUTEX_OP_CMP_GT, 1), as C libraries use it.
        let unlock = Operation::decode(4 << 24 | 1);
        assert_eq!(
            (unlock.result(2), unlock.holds(2), unlock.holds(1)),
            (Some(0), Some(true), Some(false))
        );
        // Operands are signed.
        let add = Operation::decode(1 << 28 | 0xfff << 12 | 2 << 24);
        assert_eq!((add.result(5), add.holds(u32::MAX)), (Some(4), Some(true)));
        // Or a shift.
        let bit = Operation::decode(10 << 28 | 5 << 12);
        assert_eq!(bit.result(1), Some(33));
        assert_eq!(Operation::decode(7 << 28).result(0), None);
        assert_eq!(Operation::decode(9 << 24).holds(0), None);
    }

    #[test]
    fn a_count_of_none_wakes_one() {
        assert_eq!(at_least_one(0), 1);
        assert_eq!(at_least_one(u32::MAX), 1);
        assert_eq!(at_least_one(i32::MAX as u32), i32::MAX as usize);
    }
}
