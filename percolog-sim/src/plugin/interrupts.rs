//! System calls with which one core interrupts the others that run threads of the process: what a `membarrier` does to make them
//! pass a barrier, and a change of mappings to make them forget translations (a TLB shootdown).
//!
//! The kernel spares cores that have not used the memory; here all are interrupted that have a thread.

use crate::model::Core;
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::{Call, Step};

/// `membarrier`: the commands that do not wait for the scheduler.
pub(crate) fn barrier(sim: &mut Simulator, call: &Call) -> Step {
    const GLOBAL_EXPEDITED: u64 = 1 << 1;
    const PRIVATE_EXPEDITED: u64 = 1 << 3;
    const PRIVATE_EXPEDITED_SYNC_CORE: u64 = 1 << 5;
    const PRIVATE_EXPEDITED_RSEQ: u64 = 1 << 7;
    if let GLOBAL_EXPEDITED
    | PRIVATE_EXPEDITED
    | PRIVATE_EXPEDITED_SYNC_CORE
    | PRIVATE_EXPEDITED_RSEQ = call.arguments[0]
    {
        sim.interrupt_others();
    }
    Step::Quick
}

/// `madvise`: advice by which pages are taken away.
pub(crate) fn advise(sim: &mut Simulator, call: &Call) -> Step {
    const DONT_NEED: u64 = 4;
    const FREE: u64 = 8;
    if let DONT_NEED | FREE = call.arguments[2] {
        sim.interrupt_others();
    }
    Step::Quick
}

impl Simulator {
    /// The thread that has the turn interrupts all cores that have a thread, and waits until all have answered.
    pub(crate) fn interrupt_others(&mut self) {
        let cost = self.settings.machine.costs.interrupt;
        let me = self.current();
        if cost == 0 || self.part.is_skipping() {
            return;
        }
        let mut is_alone = true;
        let process = self.process();
        for core in 0..self.settings.machine.cores {
            for thread in self.schedule.threads_on(core as Core) {
                if thread != me && self.threads[thread].process == process {
                    self.threads[thread].interrupted += cost;
                    is_alone = false;
                }
            }
        }
        if !is_alone {
            self.charge(cost);
        }
    }
}
