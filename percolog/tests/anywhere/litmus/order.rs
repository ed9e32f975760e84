//! Which instruction of a thread waits for which earlier one.
//!
//! This is all that distinguishes the two processors: given these rules, `machine` lets the instructions
//! of a thread happen in every order that the rules leave open.

use crate::litmus::program::{Act, Order, Place, Register};

/// The processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Processor {
    X86,
    Arm,
}

/// For each instruction of a straight path, a bit for each earlier one that has to have happened.
///
/// What depends on values is left to `machine`: a load takes its value from an earlier store of its
/// thread that is not in memory yet, and two loads of one place may not see its history backwards.
pub(crate) fn waits(processor: Processor, path: &[Act]) -> Vec<u64> {
    let reads_clock = path
        .iter()
        .any(|act| matches!(act, Act::Stamp { .. } | Act::Lfence));
    assert!(
        !reads_clock || processor == Processor::X86,
        "ARM's counter is not modelled"
    );
    (0..path.len())
        .map(|later| {
            (0..later)
                .filter(|&earlier| must_precede(processor, path, earlier, later))
                .fold(0, |bits, earlier| bits | 1 << earlier)
        })
        .collect()
}

fn must_precede(processor: Processor, path: &[Act], earlier: usize, later: usize) -> bool {
    let (first, second) = (&path[earlier], &path[later]);
    depends(first, second)
        || same_place(processor, first, second)
        || fenced(first, second)
        || match processor {
            Processor::X86 => x86(first, second),
            Processor::Arm => arm(path, earlier, later),
        }
}

/// An instruction needs the registers that it computes with.
fn depends(first: &Act, second: &Act) -> bool {
    let (Act::Load { into, .. } | Act::Stamp { into }) = first else {
        return false;
    };
    match second {
        Act::Load { address, .. } => *address == Some(*into),
        Act::Store { value, locked, .. } => value.from.contains(into) || *locked == Some(*into),
        Act::Assume { value, .. } => value.from.contains(into),
        Act::Fence | Act::Lfence | Act::Membarrier | Act::Stamp { .. } => false,
    }
}

/// Accesses to one place are in order, with two exceptions: a load need not wait for a store before
/// it, nor, on ARM, for a load, if both then see the same store. `machine` sees to the values.
fn same_place(processor: Processor, first: &Act, second: &Act) -> bool {
    let (Some(one), Some(other)) = (accesses(first), accesses(second)) else {
        return false;
    };
    one == other
        && match (is_load(first), is_load(second)) {
            (_, false) => true,
            (false, true) => false,
            (true, true) => processor == Processor::X86,
        }
}

/// Full fences order accesses and each other. Only `lfence` orders reading the clock: Intel's manual
/// asks for `mfence; lfence` before `rdtsc` if earlier stores are to be visible, and for `lfence`
/// after it if later instructions are to wait.
///
/// A system call is never speculative: it waits for branches.
fn fenced(first: &Act, second: &Act) -> bool {
    let is_barrier = |act: &Act| matches!(act, Act::Fence | Act::Lfence | Act::Membarrier);
    let full = |act: &Act| matches!(act, Act::Fence | Act::Membarrier);
    match (first, second) {
        (Act::Lfence, _) => true,
        (Act::Store { locked: None, .. }, Act::Lfence) => false,
        (_, Act::Lfence) | (Act::Assume { .. }, Act::Membarrier) => true,
        (one, other) if full(one) || full(other) => {
            let ordered = |act: &Act| accesses(act).is_some() || is_barrier(act);
            ordered(one) && ordered(other)
        }
        _ => false,
    }
}

/// x86-TSO: only a store followed by a load is out of order; read-modify-writes are full fences.
fn x86(first: &Act, second: &Act) -> bool {
    match (first, second) {
        // A store is in memory only after the branches before it are decided.
        (Act::Assume { .. }, Act::Store { .. }) => true,
        (one, other) if accesses(one).is_some() && accesses(other).is_some() => {
            is_load(one) || !is_load(other) || is_locked(one) || is_locked(other)
        }
        _ => false,
    }
}

/// ARMv8, by the names of "Simplifying ARM Concurrency", section 6: `dob`, `aob` and `bob`.
/// Dependencies of values and addresses, `dmb ish` and order at one place are above.
fn arm(path: &[Act], earlier: usize, later: usize) -> bool {
    let (first, second) = (&path[earlier], &path[later]);
    match (first, second) {
        // dob: a store happens after the branches before it, …
        (Act::Assume { .. }, Act::Store { .. }) => true,
        // … and after the addresses of all accesses before it are known.
        (Act::Load { into, .. }, Act::Store { .. })
            if (earlier..later).any(|between| address(&path[between]) == Some(*into)) =>
        {
            true
        }
        // bob: everything after an acquiring load, everything before a releasing store, …
        (Act::Load { order, .. }, other) if accesses(other).is_some() && order.acquires() => true,
        (one, Act::Store { order, .. }) if accesses(one).is_some() && order.releases() => true,
        // … and LDAR after STLR. Acquire is LDAPR, the weaker one: Rust uses it where it may.
        (Act::Store { order: stored, .. }, Act::Load { order: loaded, .. }) => {
            stored.releases() && *loaded == Order::SeqCst
        }
        _ => false,
    }
}

fn accesses(act: &Act) -> Option<Place> {
    match act {
        Act::Load { place, .. } | Act::Store { place, .. } => Some(*place),
        _ => None,
    }
}

fn address(act: &Act) -> Option<Register> {
    if let Act::Load { address, .. } = act {
        *address
    } else {
        None
    }
}

fn is_load(act: &Act) -> bool {
    matches!(act, Act::Load { .. })
}

fn is_locked(act: &Act) -> bool {
    matches!(
        act,
        Act::Load { locked: true, .. }
            | Act::Store {
                locked: Some(_),
                ..
            }
    )
}
