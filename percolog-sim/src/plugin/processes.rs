//! The processes that run on the machine: one, and those that are forked from it and from one another.
//!
//! They have one simulation: its turn goes from process to process as from thread to thread. A fork is prepared by the
//! thread that makes it, which has the turn; the child waits for its own before it does anything. A process leaves the
//! machine when it ends, when it executes another program (which is simulated on a machine of its own), and when it is found
//! dead.

use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

use crate::plugin::common::Common;
use crate::plugin::guest::Guest;
use crate::plugin::hot;
use crate::plugin::report::{Ending, OnMachine};
use crate::plugin::simulator::{self, Gate, Simulator, gate};
use crate::plugin::thread::{State, Thread};
use crate::plugin::{arrivals, baton, code, killed, qemu};

/// A process on the machine, or one that was there.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number, in the host and in the guest; 0 until it has begun.
    pub(crate) pid: u32,
    /// That of the process which made it.
    pub(crate) parent: u32,
    /// The program that it runs.
    pub(crate) program: String,
    /// What it sees of the machine.
    pub(crate) guest: Guest,
    /// Threads that have not ended.
    pub(crate) alive: usize,
    /// Threads that there were.
    pub(crate) threads: u64,
    /// Whether QEMU translates for several threads already.
    pub(crate) prepared_for_threads: bool,
    /// What was mapped when it ended.
    maps: String,
    /// Its thread, while it becomes another program.
    executing: Option<Thread>,
    /// Whether it has left to become a program that is simulated.
    pub(crate) has_executed: bool,
    /// Whether it has left the machine.
    pub(crate) is_over: bool,
    /// Whether it has left to become another program, simulated or not.
    pub(crate) left_for_another: bool,
    /// The signal that killed it; 0 if none did.
    signal: i32,
    /// When it ended, among all processes.
    pub(crate) ended: u64,
    /// Whether its parent has been told.
    pub(crate) is_reaped: bool,
}

/// A process that is being forked, by the place in lists that it will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    /// Its number.
    pub(crate) process: usize,
    /// That of its thread.
    pub(crate) thread: usize,
}

/// How many processes the machine has.
static LIVE: Common<AtomicUsize> = Common::new(AtomicUsize::new(1));

/// How many numbers of threads have been given out.
static NUMBERED: Common<AtomicU32> = Common::new(AtomicU32::new(0));

/// The status with which all processes are to end; negative if they are not.
static ALL_END: Common<AtomicI32> = Common::new(AtomicI32::new(-1));

/// Whether this process has left the machine to become another program, and is not known to have failed.
static EXECUTING: AtomicBool = AtomicBool::new(false);

/// Whether this process has left the machine.
static OVER: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The process that the calling thread is about to fork: who it is itself, and the child, if that is simulated.
    static FORKS: Cell<Option<(u32, Option<Child>)>> = const { Cell::new(None) };
}

/// The number of this process on the machine.
static THIS: AtomicUsize = AtomicUsize::new(0);

/// Has what is counted here shared with forked processes.
pub(crate) fn share() {
    ALL_END.share();
    LIVE.share();
    NUMBERED.share();
}

/// Whether other processes run on the machine.
pub(crate) fn are_several() -> bool {
    // Relaxed: asked by who has the turn, or by a process that is about to end, which takes the turn then.
    LIVE.load(Ordering::Relaxed) > 1
}

/// Whether this process has left the machine: it simulates nothing any more.
pub(crate) fn is_over() -> bool {
    // Relaxed: what it leaves behind is told by passing the turn on.
    OVER.load(Ordering::Relaxed)
}

/// The number of this process.
pub(crate) fn this() -> usize {
    // Relaxed: set before the process runs.
    THIS.load(Ordering::Relaxed)
}

/// Gives QEMU's thread `vcpu` of this process a number among all threads of the machine, unless it has one, and prepares its place.
pub(crate) fn number(vcpu: c_uint) -> usize {
    let thread = hot::number_of(vcpu).unwrap_or_else(|| {
        // Relaxed: the numbers need only differ. They are given out in the order in which threads are made.
        let number = NUMBERED.fetch_add(1, Ordering::Relaxed);
        hot::set_number(vcpu, number);
        number
    });
    baton::prepare(thread as usize, vcpu);
    thread as usize
}

/// A block begins after a system call. If that was a fork and this is the child, it becomes a process of the machine; it does not have the
/// turn.
pub(crate) fn arrive(vcpu: c_uint) {
    let Some((parent, child)) = FORKS.take() else {
        return;
    };
    if std::process::id() == parent {
        return;
    }
    baton::set_draining(false);
    baton::set_ending(false);
    hot::set_turn(hot::NOBODY);
    hot::forget_numbers();
    arrivals::forget();
    let Some(Child { process, thread }) = child else {
        code::not_simulated();
        set_over();
        baton::set_draining(true);
        return;
    };
    code::forked();
    // Relaxed: no other thread runs here yet.
    THIS.store(process, Ordering::Relaxed);
    hot::set_number(vcpu, thread as u32);
    baton::set_process(thread, std::process::id());
    killed::forked();
}

/// The calling thread, which is let go, is about to fork its process: the child is not simulated.
pub(crate) fn fork_unsimulated() {
    FORKS.set(Some((std::process::id(), None)));
    Simulator::outside(|simulator| {
        simulator.unsimulated("a process that was forked while QEMU needed the thread".to_owned());
    });
}

/// Ends the process, if all of the machine's are to end.
pub(crate) fn look_whether_all_end() {
    // Acquire: pairs with the store in `end_all`: the result is written.
    let status = ALL_END.load(Ordering::Acquire);
    if status >= 0 {
        crate::plugin::leave(status);
    }
}

/// Obtains the turn for a thread that comes from a system call, also for one whose process has left the machine to become another
/// program, and has not become one.
pub(crate) fn gate_of_survivor(vcpu: c_uint, state: *const u64) -> Gate {
    // Relaxed: the thread itself has set it.
    if !EXECUTING.swap(false, Ordering::Relaxed) {
        return gate(vcpu, state);
    }
    OVER.store(false, Ordering::Relaxed);
    baton::set_draining(false);
    hot::forget_numbers();
    simulator::come_back(number(vcpu), state)
}

impl Process {
    /// The first one.
    pub(crate) fn first(guest: Guest) -> Process {
        Process {
            pid: std::process::id(),
            parent: std::os::unix::process::parent_id(),
            program: String::new(),
            guest,
            alive: 0,
            threads: 0,
            prepared_for_threads: false,
            maps: String::new(),
            executing: None,
            has_executed: false,
            is_over: false,
            left_for_another: false,
            signal: 0,
            ended: 0,
            is_reaped: false,
        }
    }

    fn forked(&mut self) -> Process {
        Process {
            pid: 0,
            parent: self.pid,
            program: self.program.clone(),
            guest: self.guest.forked(self.alive == 1),
            alive: 0,
            threads: 0,
            prepared_for_threads: self.prepared_for_threads,
            maps: String::new(),
            executing: None,
            has_executed: false,
            is_over: false,
            left_for_another: false,
            signal: 0,
            ended: 0,
            is_reaped: false,
        }
    }

    /// What is written of it.
    pub(crate) fn on_machine(&self) -> OnMachine {
        OnMachine {
            pid: self.pid,
            parent: self.parent,
            threads: self.threads,
            has_executed: self.has_executed,
            signal: self.signal,
        }
    }

    /// Notes what can be found out in the process only. It is the calling one.
    fn look(&mut self) {
        self.maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        self.name();
    }

    /// Finds out which program it runs. It is the calling one.
    pub(crate) fn name(&mut self) {
        self.program = qemu::program()
            .unwrap_or_else(|| String::from_utf8_lossy(&self.guest.emulator.program).into_owned());
    }
}

impl Simulator {
    /// The process of the thread that has the turn.
    pub(crate) fn process(&self) -> usize {
        self.threads
            .get(self.current())
            .map_or(0, |thread| thread.process)
    }

    /// What it sees of the machine.
    pub(crate) fn guest(&mut self) -> &mut Guest {
        let process = self.process();
        &mut self.processes[process].guest
    }

    /// How many of its threads have not ended.
    pub(crate) fn alive(&self) -> usize {
        self.processes[self.process()].alive
    }

    /// The numbers of the threads of a process.
    pub(crate) fn threads_of(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        let threads = self.threads.iter().enumerate();
        let of: Vec<usize> = threads
            .filter(|(_, thread)| thread.process == process && thread.state != State::Gone)
            .map(|(number, _)| number)
            .collect();
        of.into_iter()
    }

    /// The process on the machine that has this number in the host.
    pub(crate) fn process_of(&self, pid: u32) -> Option<usize> {
        self.processes
            .iter()
            .rposition(|process| process.pid == pid && !process.is_over)
    }

    /// The thread that has the turn forks its process: the child is prepared.
    pub(crate) fn begin_fork(&mut self) -> Child {
        let parent = self.process();
        let process = self.processes.len();
        self.processes[parent].name();
        baton::expect_processes();
        let child = self.processes[parent].forked();
        self.processes.push(child);
        self.spaces.begin(Some(parent));
        // A process that is gone leaves its threads' numbers.
        let thread = self.unused.pop().unwrap_or_else(|| {
            // Relaxed: see `number`.
            NUMBERED.fetch_add(1, Ordering::Relaxed) as usize
        });
        baton::prepare(thread, baton::vcpu(self.current()));
        baton::set_process(thread, 0);
        self.room_for(thread);
        self.threads[thread] = Thread::new(0, process);
        self.threads[thread].state = State::Gone;
        code::fork();
        let child = Child { process, thread };
        FORKS.set(Some((std::process::id(), Some(child))));
        child
    }

    /// The fork is over, and this is the parent: the child has this number, unless there is none. It finds what is left to be done of the
    /// call as its parent has it.
    pub(crate) fn end_fork(&mut self, child: Child, pid: Option<u32>) {
        let Child { process, thread } = child;
        let Some(pid) = pid else {
            code::not_forked();
            self.processes[process].is_over = true;
            self.spaces.end(process);
            self.unused.push(thread);
            return;
        };
        code::has_forked();
        baton::set_process(thread, pid);
        // Relaxed: see `are_several`.
        LIVE.fetch_add(1, Ordering::Relaxed);
        let held = self.chaos.as_mut().map_or(0, |chaos| chaos.birth(thread));
        let (me, now) = (self.current(), self.now() + held);
        let parent = self.process();
        self.processes[process].pid = pid;
        self.processes[process].alive = 1;
        self.processes[process].threads = 1;
        self.created += 1;
        let after = std::mem::take(&mut self.threads[thread].after);
        let affinity = self.threads[me].affinity.clone();
        let mut new = Thread::new(now, process);
        (new.after, new.affinity, new.tid) = (after, affinity, pid as i32);
        (new.place, new.lead) = (self.threads[me].place, self.threads[me].lead);
        self.tally.lead(thread, new.lead);
        self.threads[thread] = new;
        self.free_inherited(parent, process);
        self.inherit_calls(me, thread);
        self.schedule.place(&mut self.threads, thread, now);
        self.tally.inherit(me, thread, now);
        self.update_limit();
    }

    /// The process of the thread that has the turn is about to end, or to become another program. Returns whether others go on; then
    /// the caller has the turn no longer.
    pub(crate) fn end_this_process(&mut self, how: Ending) -> bool {
        self.save();
        self.settle();
        let process = self.process();
        self.processes[process].look();
        if !are_several() {
            self.finish(how);
            return false;
        }
        self.end_process(process, how);
        set_over();
        baton::set_ending(how != Ending::Exec);
        baton::set_draining(true);
        self.hand_over();
        true
    }

    /// The process of the thread that has the turn, which is let go, ends.
    pub(crate) fn end_with_turn(&mut self, how: Ending) {
        if are_several() {
            self.end_process(self.process(), how);
            self.hand_over();
        } else {
            self.finish(how);
        }
    }

    /// The process of the thread that has the turn becomes another program. What is left to be done should it not is kept.
    pub(crate) fn execute(&mut self, is_simulated: bool) {
        let (process, me) = (self.process(), self.current());
        if are_several() {
            let mut kept = Thread::new(0, process);
            kept.after = self.threads[me].after.clone();
            kept.affinity = self.threads[me].affinity.clone();
            kept.tid = self.threads[me].tid;
            self.processes[process].executing = Some(kept);
        }
        self.processes[process].has_executed = is_simulated;
        if self.end_this_process(Ending::Exec) {
            // Relaxed: see `gate_of_survivor`.
            EXECUTING.store(true, Ordering::Relaxed);
        }
    }

    /// It has not become one, and is back with a thread of this number.
    pub(crate) fn not_executed(&mut self, process: usize, thread: usize) {
        let Some(kept) = self.processes[process].executing.take() else {
            return;
        };
        // Relaxed: see `are_several`.
        LIVE.fetch_add(1, Ordering::Relaxed);
        self.processes[process].is_over = false;
        self.processes[process].left_for_another = false;
        self.processes[process].has_executed = false;
        self.processes[process].alive = 1;
        self.room_for(thread);
        self.threads[thread] = kept;
        let now = self.latest();
        self.schedule.place(&mut self.threads, thread, now);
    }

    /// The simulation is over, and so are all processes; this one at once.
    pub(crate) fn end_all(&mut self, status: i32) -> ! {
        // Release: pairs with the load in `look_whether_all_end`.
        ALL_END.store(status, Ordering::Release);
        let this = self.process();
        for (number, process) in self.processes.iter().enumerate() {
            let waits = |thread: usize| matches!(self.threads[thread].state, State::Host(_));
            // Who is in the kernel does not look; the first one hears of its children, and its status is what is asked for.
            let is_away = self.threads_of(number).any(waits);
            if number != this && !process.is_over && process.pid != 0 && (number > 0 && is_away) {
                kill(process.pid);
            }
        }
        crate::plugin::leave(status);
    }

    /// A process of the machine, which others go on without, has ended.
    pub(crate) fn end_process(&mut self, process: usize, how: Ending) {
        if std::mem::replace(&mut self.processes[process].is_over, true) {
            return;
        }
        // Relaxed: see `are_several`.
        LIVE.fetch_sub(1, Ordering::Relaxed);
        for thread in self.threads_of(process) {
            self.remove_thread(thread);
            self.unused.push(thread);
        }
        let before = self.processes.iter().map(|process| process.ended).max();
        let ending = &mut self.processes[process];
        ending.alive = 0;
        ending.ended = before.unwrap_or(0) + 1;
        ending.left_for_another = how == Ending::Exec;
        if let Ending::Signal(signal) = how {
            ending.signal = signal;
        }
        self.wake_parent_of(process);
        if process == 0 && how != Ending::Exec {
            // Who has started it may wait for no other.
            self.root_ending = Some(how);
            self.finish(how);
            self.finished = false;
        }
        self.discard_space(process, how != Ending::Exec);
    }

    /// What is mapped in any process: of what lies at the same addresses, what the first has there.
    pub(crate) fn all_maps(&self) -> String {
        let this = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        if self.processes.len() == 1 {
            return this;
        }
        let current = self.process();
        let mut known: Vec<(u64, u64)> = Vec::new();
        let mut all = String::new();
        for (number, process) in self.processes.iter().enumerate() {
            let text = if number == current {
                &this
            } else {
                &process.maps
            };
            let before = known.len();
            for line in text.lines() {
                let Some(mapping) = crate::maps::parse(line).next() else {
                    continue;
                };
                let is_new = known[..before]
                    .iter()
                    .all(|&(start, end)| mapping.end <= start || end <= mapping.start);
                if is_new {
                    known.push((mapping.start, mapping.end));
                    all.push_str(line);
                    all.push('\n');
                }
            }
        }
        all
    }
}

/// Notes that this process has left the machine.
pub(crate) fn set_over() {
    // Relaxed: the process itself reads it.
    OVER.store(true, Ordering::Relaxed);
}

/// Kills a process of the host.
fn kill(pid: u32) {
    unsafe extern "C" {
        fn kill(process: c_int, signal: c_int) -> c_int;
    }
    // SAFETY: it takes numbers. The process is a child of this one, or of one that was.
    let _ = unsafe { kill(pid as c_int, simulator::KILLED) };
}

/// Whether a process of the host is dead, though its parent may not have heard of it.
pub(crate) fn is_dead(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name of the program is in parentheses, and may contain anything.
        Ok(text) => text.rsplit_once(')').is_some_and(|(_, rest)| {
            matches!(rest.trim_start().as_bytes().first(), Some(b'Z' | b'X'))
        }),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
