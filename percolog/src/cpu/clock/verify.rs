//! Measuring one-way deltas between the processors' clocks.

use super::stamp;
use crate::cpu::topology::{AffinityError, allowed_cpus, set_affinity};
// Not a seam of any algorithm: two threads that play ping-pong to measure the machine.
use crate::sync::global::{AtomicU64, Ordering};
use core::fmt;
use std::time::Instant;
use std::vec::Vec;

/// The measured clock difference of a pair of processors, in ticks.
///
/// The true time is the same in both directions, so half the difference between the two estimates how
/// far one clock is ahead. A negative number is a hand-off that arrived before it was sent: stamps
/// from these two processors cannot be trusted to order updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockPair {
    /// One processor, by the operating system's number.
    pub from: usize,
    /// The other.
    pub to: usize,
    /// Smallest delta from `from` to `to`, in ticks.
    pub forth: i64,
    /// Smallest delta from `to` to `from`, in ticks.
    pub back: i64,
}

impl ClockPair {
    /// How far `to`'s clock is ahead of `from`'s, in ticks, if both ways take equally long.
    #[must_use]
    pub const fn skew(&self) -> i64 {
        (self.forth - self.back) / 2
    }

    /// Returns whether every hand-off arrived later than it was sent, by these clocks.
    #[must_use]
    pub const fn is_causal(&self) -> bool {
        self.forth > 0 && self.back > 0
    }
}

/// The result of [`verify`]: the clock differences of all pairs of processors.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Skew {
    /// Every pair of processors the process may run on.
    pub pairs: Vec<ClockPair>,
    /// Ticks of the clock in a second, measured meanwhile.
    pub ticks_per_second: f64,
}

impl Skew {
    /// Returns whether every hand-off between every two processors arrived later than it was sent.
    #[must_use]
    pub fn is_causal(&self) -> bool {
        self.pairs.iter().all(ClockPair::is_causal)
    }

    /// The largest skew of any pair, in ticks, without its sign.
    #[must_use]
    pub fn worst(&self) -> u64 {
        self.pairs
            .iter()
            .map(|pair| pair.skew().unsigned_abs())
            .max()
            .unwrap_or(0)
    }
}

/// An error of [`verify`]: the clocks could not be compared.
#[derive(Debug)]
#[non_exhaustive]
pub enum VerifyError {
    /// Threads could not be pinned to processors.
    Affinity(AffinityError),
    /// A thread could not be started.
    Thread(std::io::Error),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affinity(cause) => cause.fmt(f),
            Self::Thread(cause) => write!(f, "a thread could not be started: {cause}"),
        }
    }
}

impl core::error::Error for VerifyError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Affinity(cause) => Some(cause),
            Self::Thread(cause) => Some(cause),
        }
    }
}

/// Measures one-way deltas of the clock that [`stamp`] uses, `rounds` hand-offs for each pair of
/// processors the process may run on.
///
/// Takes well under a millisecond a pair at 1,000 rounds, once the two threads run. With one
/// processor there are no pairs, and nothing to measure. Pins threads of its own only.
///
/// # Errors
/// Where threads cannot be pinned or started.
pub fn verify(rounds: u32) -> Result<Skew, VerifyError> {
    let cpus = allowed_cpus().map_err(VerifyError::Affinity)?;
    let begin = (Instant::now(), stamp());
    let mut pairs = Vec::new();
    for (at, from) in cpus.iter().enumerate() {
        for to in &cpus[at + 1..] {
            pairs.push(measure(*from, *to, rounds)?);
        }
    }
    // Long enough for a frequency within a fraction of a per cent.
    while begin.0.elapsed().as_millis() < 5 {
        core::hint::spin_loop();
    }
    let ticks = stamp().saturating_sub(begin.1);
    Ok(Skew {
        pairs,
        ticks_per_second: ticks as f64 / begin.0.elapsed().as_secs_f64(),
    })
}

/// Two words on lines of their own: the stamp sent, 0 when it has been taken.
#[derive(Default)]
#[repr(align(128))]
struct Wire(AtomicU64);

/// Stops the other side if this one fails.
const CLOSED: u64 = u64::MAX;

fn measure(from: usize, to: usize, rounds: u32) -> Result<ClockPair, VerifyError> {
    let wires = [Wire::default(), Wire::default()];
    std::thread::scope(|scope| {
        let start = |cpu: usize, first: bool| {
            let wires = &wires;
            std::thread::Builder::new()
                .name(std::format!("percolog-verify-{cpu}"))
                .spawn_scoped(scope, move || -> Result<i64, AffinityError> {
                    let (send, receive) = if first {
                        (&wires[0], &wires[1])
                    } else {
                        (&wires[1], &wires[0])
                    };
                    if let Err(refused) = set_affinity(cpu) {
                        send.0.store(CLOSED, Ordering::Release);
                        return Err(refused);
                    }
                    Ok(play(send, receive, first, rounds))
                })
                .map_err(VerifyError::Thread)
        };
        let one = start(from, true)?;
        let other = match start(to, false) {
            Ok(other) => other,
            Err(failed) => {
                wires[1].0.store(CLOSED, Ordering::Release);
                return Err(failed);
            }
        };
        // A panic in either thread is a defect of this file; it is passed on as one.
        let back = one
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let forth = other
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(ClockPair {
            from,
            to,
            forth: forth.map_err(VerifyError::Affinity)?,
            back: back.map_err(VerifyError::Affinity)?,
        })
    })
}

/// Sends a stamp, takes the other's, for `rounds` rounds; the smallest delta on this side.
fn play(send: &Wire, receive: &Wire, mut my_turn: bool, rounds: u32) -> i64 {
    let mut smallest = i64::MAX;
    // Both sides send and receive `rounds` times.
    let mut left = rounds.max(1) * 2;
    while left > 0 {
        if my_turn {
            // Release and the Acquire below make this a hand-off: who reads the stamp knows it.
            // `max(1)`: 0 means that nothing is there.
            send.0
                .store(stamp().clamp(1, CLOSED - 1), Ordering::Release);
        } else {
            let mut spins = 0u32;
            let sent = loop {
                match receive.0.load(Ordering::Acquire) {
                    0 => {
                        spins += 1;
                        if spins.is_multiple_of(1 << 12) {
                            std::thread::yield_now();
                        }
                        core::hint::spin_loop();
                    }
                    CLOSED => return smallest,
                    sent => break sent,
                }
            };
            let now = stamp();
            receive.0.store(0, Ordering::Relaxed);
            smallest = smallest.min(now.wrapping_sub(sent).cast_signed());
        }
        my_turn = !my_turn;
        left -= 1;
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", not(percolog_loom)))]
    fn measures_every_pair() {
        let cpus = allowed_cpus().expect("Linux says").len();
        let skew = verify(200).expect("threads may be pinned where the process may run");
        assert_eq!(skew.pairs.len(), cpus * (cpus - 1) / 2);
        assert!(skew.ticks_per_second > 0.0);
        if super::super::health().sick {
            return;
        }
        assert!(skew.is_causal(), "{:?}", skew.pairs);
    }
}
