//! What is validated: which workloads on which machine with how many cores, and what was published about them.
//!
//! Machine files say what the machine is; the parameters of a workload come from the paper that describes it, and where it is
//! silent, from other figures of the same paper, as said at each of them.
//!
//! These were chosen with results in view, so that the rows they concern prove less than they seem to:
//!
//! * Cores start two cycles apart in the order of their numbers (`APART` in [`crew`](super::crew)), in every row. With other orders a store of 48
//!   writers took 14,700 to 20,700 cycles (before cores kept lines), with this one 8253; published are 8182. With `cpuid` and `chip_directory` in the
//!   machine's file, both ends of Figure 4-3 are therefore fitted.
//! * The time of a transfer on K42's bus was derived from the slowdowns of the atomic and the packed counter.
//! * How long a core keeps a line that others wait for (`probe`) is an estimate, but not more than leaves Figure 4-3 as published:
//!   a core that came back to the line after 80 or 100 cycles did not find it there.
//! * `fork` pushes to three lists, and the rest of it is as long as makes 40 cores wait for 35 % of the time: one point is fitted,
//!   and the plateau tested. A push is a load and an atomic addition, so that none has to be repeated.
//! * `stat` takes 770 cycles besides its references, which is what Figure 4-4 gives for `close`. Its lock-free count is there a
//!   second time with additions in place of compare-and-exchanges, which is how it comes to level off.
//! * The elements of the lists belong to threads, and a log's hard limit is its limit.

mod k42;
mod lists;
mod locks;
mod sharing;
mod stores;
#[cfg(test)]
mod tests;

use super::crew::{Shift, Work};
use super::guest::Guest;
use super::rows::{Curve, Row};

/// A machine that figures have been published of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// 48 cores on 8 chips: the thesis.
    Opteron48,
    /// 24 processors on one bus: K42.
    S85,
}

impl Machine {
    /// The name of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Opteron48 => "opteron-48",
            Self::S85 => "s85-24",
        }
    }
}

/// What a simulated guest did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Its own account.
    pub work: Work,
    /// The share of the threads' time in which they waited for lines.
    pub waiting: f64,
}

/// A request for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To read it.
    Read,
    /// To write it.
    Write,
}

/// What a machine's file says about requests for one line that many cores want, on average over its cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Cycles from the request to its completion, when nobody else asks.
    pub latency: f64,
    /// Cycles for which the line's home (or the bus) can serve nobody else.
    pub busy: f64,
}

/// Who can simulate.
pub trait Laboratory {
    /// Why it could not.
    type Error;

    /// Runs a guest.
    ///
    /// # Errors
    /// The simulation failed.
    fn measure(
        &mut self,
        machine: Machine,
        guest: Guest,
        shift: Shift,
    ) -> Result<Measured, Self::Error>;

    /// Requests for a line that the first `cores` cores of a machine pass round.
    fn service(&self, machine: Machine, request: Request, cores: u32) -> Service;

    /// Millions of cycles in a second.
    fn megahertz(&self, machine: Machine) -> f64;
}

/// Rows, and what else there is to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The rows.
    pub rows: Vec<Row>,
    /// Sentences about them.
    pub notes: Vec<String>,
}

/// A figure that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Figure 4-3.
    Stores,
    /// Figures.
    Locks,
    /// Figure 4-2.
    References,
    /// Figure 4-1.
    Pushes,
    /// Figure 8-4.
    Lists,
    /// K42, Figure 1.
    Requests,
}

impl Experiment {
    /// All of them, the one that machine files are calibrated with first.
    pub const ALL: [Self; 6] = [
        Self::Stores,
        Self::Locks,
        Self::References,
        Self::Pushes,
        Self::Lists,
        Self::Requests,
    ];

    /// What it is called on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stores => "stores",
            Self::Locks => "locks",
            Self::References => "references",
            Self::Pushes => "pushes",
            Self::Lists => "lists",
            Self::Requests => "requests",
        }
    }

    /// What it is.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Stores => "Stores to one line (thesis, Figure 4-3)",
            Self::Locks => "Ticket and MCS locks (thesis, Figures A-2, A-3, A-6)",
            Self::References => "References to one name: stat (thesis, Figures 3-3 and 4-2)",
            Self::Pushes => "A lock-free list head: fork (thesis, Figure 4-1)",
            Self::Lists => "Lists, operations a millisecond (thesis, Figure 8-4)",
            Self::Requests => "Counted requests (K42, Figure 1)",
        }
    }

    /// Simulates it; with `quick`, at few numbers of cores and for a shorter time.
    ///
    /// # Errors
    /// A simulation failed.
    pub fn run<L: Laboratory>(self, bench: &mut Bench<'_, L>) -> Result<Findings, L::Error> {
        match self {
            Self::Stores => stores::stores(bench),
            Self::Locks => locks::locks(bench),
            Self::References => sharing::references(bench),
            Self::Pushes => sharing::pushes(bench),
            Self::Lists => lists::lists(bench),
            Self::Requests => k42::requests(bench),
        }
    }
}

/// A laboratory, and how much time to spend in it.
#[derive(Debug)]
pub struct Bench<'a, L> {
    /// Who simulates.
    pub laboratory: &'a mut L,
    /// Few numbers of cores, shorter times.
    pub quick: bool,
}

impl<L: Laboratory> Bench<'_, L> {
    fn measure(
        &mut self,
        machine: Machine,
        guest: Guest,
        threads: u32,
        (warm_up, cycles): (u64, u64),
    ) -> Result<Measured, L::Error> {
        let share = if self.quick { 2 } else { 1 };
        let shift = Shift {
            threads: threads as usize,
            warm_up: warm_up / share,
            cycles: cycles / share,
        };
        self.laboratory.measure(machine, guest, shift)
    }

    /// Operations in a thousand cycles, at some numbers of cores: all of them, or those marked as quick.
    fn curve(
        &mut self,
        guest: Guest,
        cores: &[u32],
        quick: &[u32],
        times: impl Fn(u32) -> (u64, u64),
    ) -> Result<Curve, L::Error> {
        let cores = if self.quick { quick } else { cores };
        let mut points = Vec::with_capacity(cores.len());
        for &cores in cores {
            let measured = self.measure(Machine::Opteron48, guest, cores, times(cores))?;
            points.push((cores, measured.work.rate()));
        }
        Ok(Curve(points))
    }
}

const OPTERON: Machine = Machine::Opteron48;
