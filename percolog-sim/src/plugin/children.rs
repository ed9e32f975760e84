//! A process waits for those that it has forked.
//!
//! As long as they are on the machine they end in simulated time, and so does the wait for them: the host is asked only for
//! those that have ended there, which it does not keep anybody waiting for. Children that have become other programs end when the
//! host says so.

use std::ffi::{c_int, c_long};

use crate::plugin::numbers as n;
use crate::plugin::report::Ending;
use crate::plugin::simulator::{KILLED, Simulator};
use crate::plugin::syscalls::{Call, Change, Step, Then};
use crate::plugin::thread::{Sleep, Woken};

const SYS_WAIT4: c_long = 61;
/// The caller does not want to wait.
const NO_HANG: u64 = 1;
const ECHILD: i32 = 10;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

const ELSEWHERE: &str = "waiting for other processes";

/// The arguments of `wait4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// A process; or any, or any of a group, which is taken for any.
    of: i32,
    status: u64,
    options: u64,
    usage: u64,
}

/// `wait4`
pub(crate) fn wait4(sim: &mut Simulator, call: &Call) -> Step {
    let [of, status, options, usage, ..] = call.arguments;
    let wait = Wait {
        of: of as i32,
        status,
        options,
        usage,
    };
    match sim.wait_for_child(wait) {
        Waited::For(result) => Step::Done(result),
        Waited::Interrupted => {
            sim.unreproducible(ELSEWHERE);
            match sim.is_let_go() {
                Some(me) => sim.leave_let_go(me, call.number),
                None => return elsewhere(sim, Then::Reaped { information: 0 }),
            }
            Step::Changed(Change::followed_by(Then::Reaped { information: 0 }))
        }
        // It knows of no child, or of one that is elsewhere.
        Waited::HostKnows if options & NO_HANG != 0 => Step::Quick,
        Waited::HostKnows => elsewhere(sim, Then::Reaped { information: 0 }),
    }
}

/// `waitid`, which the host makes.
pub(crate) fn waitid(sim: &mut Simulator, call: &Call) -> Step {
    let information = call.arguments[2];
    elsewhere(sim, Then::Reaped { information })
}

fn elsewhere(sim: &mut Simulator, then: Then) -> Step {
    sim.unreproducible(ELSEWHERE);
    Step::Changed(Change {
        blocks: true,
        ..Change::followed_by(then)
    })
}

/// What a wait has come to.
enum Waited {
    /// This is the call's result.
    For(i64),
    /// QEMU needed the thread.
    Interrupted,
    /// There is nobody on the machine to wait for.
    HostKnows,
}

/// Asks the host for a child that has ended on the machine. Returns the result of the call.
fn ask_host(wait: Wait, child: u32) -> i64 {
    // SAFETY: the kernel checks the guest's pointers, which are the host's.
    let result = unsafe {
        syscall(
            SYS_WAIT4,
            child as c_int,
            wait.status,
            (wait.options & !NO_HANG) as c_int,
            wait.usage,
        )
    };
    if result >= 0 {
        return result;
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    -i64::from(error.unwrap_or(ECHILD))
}

impl Simulator {
    /// The children of the calling process that it may mean, and that it has not been told of.
    fn children(&self, of: i32) -> impl Iterator<Item = usize> + '_ {
        let parent = std::process::id();
        let all = self.processes.iter().enumerate();
        let children = all.filter(move |(_, child)| {
            let means = of <= 0 || child.pid == of as u32;
            child.parent == parent && child.pid != 0 && !child.is_reaped && means
        });
        children.map(|(number, _)| number)
    }

    fn has_children_elsewhere(&self, of: i32) -> bool {
        self.children(of)
            .any(|child| self.processes[child].left_for_another)
    }

    /// The calling process waits for a child.
    fn wait_for_child(&mut self, wait: Wait) -> Waited {
        loop {
            let ended = self
                .children(wait.of)
                .filter(|&child| {
                    let child = &self.processes[child];
                    child.is_over && !child.left_for_another
                })
                .min_by_key(|&child| self.processes[child].ended);
            if let Some(child) = ended {
                self.processes[child].is_reaped = true;
                let result = ask_host(wait, self.processes[child].pid);
                if result == -i64::from(ECHILD) {
                    // Nobody is told of the children of a process that ignores their end.
                    continue;
                }
                return Waited::For(result);
            }
            if self.has_children_elsewhere(wait.of) || self.children(wait.of).next().is_none() {
                return Waited::HostKnows;
            }
            if wait.options & NO_HANG != 0 {
                return Waited::For(0);
            }
            if self.sleep(Sleep::Child, None) == Woken::Drained {
                return Waited::Interrupted;
            }
        }
    }

    /// A process has ended: its parent may be waiting for it.
    pub(crate) fn wake_parent_of(&mut self, process: usize) {
        let parent = self.processes[process].parent;
        let Some(parent) = self.process_of(parent) else {
            return;
        };
        for thread in self.threads_of(parent) {
            if self.threads[thread].waits_for_child() {
                self.wake(thread);
            }
        }
    }

    /// The host has told the calling process of a child of this number. If it was on the machine, it was killed without a word.
    pub(crate) fn reaped(&mut self, pid: u32) {
        let known = self
            .processes
            .iter()
            .rposition(|process| process.pid == pid && !process.is_reaped);
        if let Some(process) = known {
            self.processes[process].is_reaped = true;
            if !self.processes[process].is_over {
                self.end_process(process, Ending::Signal(KILLED));
            }
        }
    }
}

const _: () = assert!(n::WAIT4 == SYS_WAIT4 as u64);
