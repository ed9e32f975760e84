//! A workload for a fixed number of cycles, between marks: as the simulator looks at it.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Cell, RunError, Workload};
use percolog_validation::clock::Stopwatch;
use percolog_validation::crew::{self, Call, CrewError, Shift, Watch};

/// Runs one cell.
///
/// # Errors
/// As those of a cell that runs for a fixed time.
pub(super) fn run<W: Workload>(
    structure: &'static str,
    workload: &W,
    shift: Shift,
) -> Result<Cell, RunError> {
    /// A thread's worker, which leaves when the thread has ended its work.
    struct Present<'w, W: Workload> {
        workload: &'w W,
        worker: Option<W::Worker>,
        left: &'w Mutex<Vec<W::Left>>,
    }
    impl<W: Workload> Drop for Present<'_, W> {
        fn drop(&mut self) {
            if let Some(worker) = self.worker.take() {
                let left = self.workload.leave(worker);
                let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(left);
            }
        }
    }

    let left = Mutex::new(Vec::new());
    let time = Stopwatch::start();
    let prepare = |thread| {
        let mut present = Present {
            workload,
            worker: Some(workload.worker(thread)),
            left: &left,
        };
        move || {
            let worker = present.worker.as_mut();
            worker.map_or(0, |worker| workload.step(worker))
        }
    };
    let (_, shares) =
        crew::run_watched(shift, Shares::default, prepare).map_err(|error| match error {
            CrewError::Spawn(source) => RunError::Spawn {
                threads: shift.threads,
                source,
            },
            CrewError::Panicked => RunError::Panicked { structure },
            CrewError::WrongState { found, expected } => RunError::WrongState {
                structure,
                detail: format!("{found} instead of {expected}"),
            },
        })?;
    let per_cycle = time.nanoseconds_of_a_cycle();
    workload.settle();
    let left = left.into_inner().unwrap_or_else(PoisonError::into_inner);
    workload
        .check(&left)
        .map_err(|detail| RunError::WrongState { structure, detail })?;
    let halves = shares.iter().fold([0.0; 2], |[first, second], shares| {
        [first + shares.halves[0], second + shares.halves[1]]
    });
    Ok(Cell {
        // Less than one operation of all threads together is still not nothing.
        operations: (halves[0] + halves[1]).round().max(1.0) as u64,
        elapsed: Duration::from_secs_f64(shift.cycles as f64 * per_cycle / 1e9),
        drift: Some(halves[1] / halves[0]),
    })
}

/// What a thread did in each half of the time. A call that reaches over an end of a half counts with the share of it that is inside, as if its
/// operations were spread evenly over it: whoever waits for a lock all the time then counts as what that is, a small part of a call, and not
/// as nothing, nor as the next call that happens to be fast.
#[derive(Debug, Default)]
struct Shares {
    halves: [f64; 2],
    times: [Range<u64>; 2],
}

impl Watch for Shares {
    fn begins(&mut self, counted: Range<u64>) {
        let middle = counted.start.midpoint(counted.end);
        self.times = [counted.start..middle, middle..counted.end];
    }

    fn across_the_beginning(&mut self, call: Call) {
        self.took(call);
    }

    fn took(&mut self, call: Call) {
        for (half, time) in self.halves.iter_mut().zip(&self.times) {
            let inside = call
                .to
                .min(time.end)
                .saturating_sub(call.from.max(time.start));
            if inside > 0 {
                *half += call.operations as f64 * inside as f64 / call.cycles() as f64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(from: u64, to: u64, operations: u64) -> Call {
        Call {
            from,
            to,
            operations,
        }
    }

    #[test]
    fn calls_count_with_the_part_of_them_that_is_inside() {
        let mut shares = Shares::default();
        shares.begins(1000..3000);
        shares.across_the_beginning(call(800, 1200, 4));
        shares.took(call(1200, 1900, 7));
        shares.took(call(1900, 2100, 2));
        shares.took(call(2100, 5100, 30));
        assert_eq!(shares.halves, [2.0 + 7.0 + 1.0, 1.0 + 9.0]);
    }

    #[test]
    fn one_that_waits_all_the_time_counts_as_a_small_part_of_a_call() {
        let mut shares = Shares::default();
        shares.begins(1000..3000);
        shares.across_the_beginning(call(0, 20_000, 20));
        assert_eq!(shares.halves, [1.0, 1.0]);
    }
}
