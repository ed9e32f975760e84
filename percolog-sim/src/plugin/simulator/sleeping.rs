//! Threads that leave their cores: to sleep, for the host, for another thread, or because QEMU needs them.

use super::turn::{Gate, wait_for_turn};
use super::{Simulator, simulator};
use crate::model::{CoreSet, Ticks};
use crate::plugin::baton;
use crate::plugin::common::Common;
use crate::plugin::hot::{self, HOT, NOBODY};
use crate::plugin::latch::Latch;
use crate::plugin::processes;
use crate::plugin::thread::{Sleep, State, Woken};

/// Held by a thread that acts without the turn because QEMU needs it.
pub(super) static OUTSIDE: Common<Latch> = Common::new(Latch::new());

impl Simulator {
    /// Takes a sleeper off what it waits for.
    pub(super) fn forget_sleep(&mut self, thread: usize) {
        if let State::Sleeping(Sleep::Futex(_)) = self.threads[thread].state {
            self.futexes.forget(thread);
        }
    }

    /// The calling thread leaves its core until it is woken or the deadline comes. Returns with the turn, except when
    /// it was drained: then the caller must touch nothing but its own thread's state, and let the guest go on.
    pub(crate) fn sleep(&mut self, why: Sleep, deadline: Option<Ticks>) -> Woken {
        let me = self.me;
        self.save();
        self.schedule.sleep(&mut self.threads, me, why, deadline);
        let passed = self.pass_on(false);
        if passed == Some(me) || wait_for_turn(me, baton::state()) == Gate::Open {
            self.threads[me].forced = false;
            return self.threads[me].woken;
        }
        // Let go without the turn. The one that has it is waiting for this thread inside QEMU, or drains.
        OUTSIDE.close();
        self.outside = Some(me);
        self.forget_sleep(me);
        if !baton::is_draining() {
            let now = self.latest();
            self.schedule
                .wake(&mut self.threads, me, now, Woken::Drained);
        }
        Woken::Drained
    }

    /// The thread that acts without the turn since [`Simulator::sleep`] has let it go.
    pub(crate) fn is_let_go(&self) -> Option<usize> {
        self.outside
    }

    /// Ends what a thread did without the turn after [`Simulator::sleep`] had let it go.
    pub(crate) fn outside_over(&mut self, thread: usize) {
        if !processes::is_over() && self.outside == Some(thread) {
            self.outside = None;
            OUTSIDE.open();
        }
    }

    /// Does something with the simulator without the turn, while all threads are let go.
    pub(crate) fn outside(action: impl FnOnce(&mut Simulator)) {
        if processes::is_over() {
            return;
        }
        OUTSIDE.close();
        // SAFETY: `OUTSIDE` is held.
        action(unsafe { simulator() });
        OUTSIDE.open();
    }

    /// Does something that a thread would do in its turn, without the turn, while the thread that has it waits for this
    /// one inside QEMU, or all are let go.
    pub(crate) fn outside_as(thread: usize, action: impl FnOnce(&mut Simulator)) {
        Simulator::outside(|simulator| {
            let before = std::mem::replace(&mut simulator.me, thread);
            action(simulator);
            simulator.me = before;
        });
    }

    /// A sleeper is ready from now on.
    pub(crate) fn wake(&mut self, thread: usize) {
        let (now, asleep) = (self.now(), self.threads[thread].time);
        self.schedule
            .wake(&mut self.threads, thread, now, Woken::Woken);
        self.depends(thread, asleep, now);
        self.update_limit();
    }

    /// The calling thread makes a system call of the host that may block: it gives the turn away and goes on.
    pub(crate) fn leave(&mut self, why: Sleep) {
        let me = self.me;
        let Sleep::Host(_) = why else {
            unreachable!("only the host's calls are made without the turn");
        };
        self.save();
        self.schedule.sleep(&mut self.threads, me, why, None);
        baton::set_away(true);
        self.pass_on(false);
    }

    /// The thread `me`, which is let go, makes a system call of the host that may block. The one that has the turn waits for this thread:
    /// nothing is passed on. It must not be given the turn before it is back.
    pub(crate) fn leave_let_go(&mut self, me: usize, call: u64) {
        self.forget_sleep(me);
        self.stop_spin(me);
        let why = Sleep::Host(call as i64);
        self.schedule.sleep(&mut self.threads, me, why, None);
        self.threads[me].forced = false;
        baton::set_away(true);
    }

    /// The calling thread gives its processor to another that wants one.
    pub(crate) fn yield_core(&mut self) {
        let me = self.me;
        if self.schedule.slice_end(&self.threads[me]).is_none() {
            return;
        }
        self.save();
        // The time without a core is not a round of a spin.
        self.interrupt_observation();
        self.schedule.preempt(&mut self.threads, me);
        self.threads[me].forced = false;
        let _ = self.yield_turn(baton::state());
    }

    /// The calling thread may run on these processors only, from now on.
    pub(crate) fn bind(&mut self, processors: CoreSet) {
        let me = self.me;
        let stays = self.threads[me]
            .processor
            .is_some_and(|processor| processors.contains(processor));
        self.threads[me].affinity = Some(processors);
        if !stays {
            self.save();
            self.schedule.preempt(&mut self.threads, me);
            let _ = self.yield_turn(baton::state());
            self.threads[me].forced = false;
        }
    }

    /// Lets all threads of the process go to the end of their blocks, unsimulated: QEMU is about to need them outside.
    pub(crate) fn drain(&mut self) {
        if self.alive() <= 1 {
            return;
        }
        self.save();
        for thread in self.threads_of(self.process()) {
            if thread == self.me {
                continue;
            }
            match self.threads[thread].state {
                State::Sleeping(_) => {
                    self.forget_sleep(thread);
                    let now = self.latest();
                    self.schedule
                        .wake(&mut self.threads, thread, now, Woken::Drained);
                }
                State::Spinning => {
                    self.stop_spin(thread);
                    let time = self.threads[thread].time;
                    self.schedule.make_ready(&mut self.threads, thread, time);
                }
                _ => {}
            }
        }
        HOT.set_holder(NOBODY);
        hot::set_turn(NOBODY);
        baton::set_draining(true);
    }

    /// Ends [`Simulator::drain`]. If a result was written because the process seemed to end, another will be.
    pub(crate) fn resume(&mut self) {
        self.finished = false;
        if baton::is_draining() {
            baton::set_draining(false);
            HOT.set_holder(self.me as u32);
            baton::keep(self.me);
            self.update_limit();
        }
    }
}
