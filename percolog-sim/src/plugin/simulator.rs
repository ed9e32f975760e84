//! The simulation: who has the turn, what time it is for whom, and what becomes of an access.
//!
//! Each guest thread is a host thread of QEMU. One of them runs at a time: it *has the turn*, and only it may touch the
//! [`Simulator`]. It keeps the turn as long as nothing that others want to do comes before its own next step in
//! simulated time, with one exception that makes the whole affordable: on lines that its core holds and that nobody
//! has asked for, it may run ahead of the others by a bounded time. An access that needs the directory is made in
//! exact order, *before* the guest makes it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use std::collections::HashMap;

use crate::model::{Core, Directory, Rights, Ticks};
use crate::plugin::arrivals;
use crate::plugin::baton;
use crate::plugin::chaos::Chaos;
use crate::plugin::free::Free;
use crate::plugin::functions::Functions;
use crate::plugin::futex::Futexes;
use crate::plugin::guest::Guest;
use crate::plugin::hot::HOT;
use crate::plugin::lock_waits::Writes;
use crate::plugin::processes::Process;
use crate::plugin::region::Part;
use crate::plugin::report::{self, Ending, Tally};
use crate::plugin::schedule::Schedule;
use crate::plugin::settings::Settings;
use crate::plugin::spaces::Spaces;
use crate::plugin::syscalls::Expected;
use crate::plugin::tables::Tables;
use crate::plugin::thread::{Sleep, State, Thread, Woken};
use crate::plugin::waits::Pending;
use crate::plugin::witness::Witness;

mod messages;
mod sleeping;
mod turn;

use messages::MESSAGES;
use sleeping::OUTSIDE;
use turn::OWNER;
pub(crate) use turn::{Gate, KILLED, come_back, die, end_let_go, gate};

/// The state of the simulation.
#[derive(Debug)]
pub(crate) struct Simulator {
    /// The coherence protocol.
    pub(crate) directory: Directory,
    /// What the launcher asked for.
    pub(crate) settings: Settings,
    /// The threads, by QEMU's number.
    pub(crate) threads: Vec<Thread>,
    /// Who has which core.
    pub(crate) schedule: Schedule,
    /// Threads that wait for futexes.
    pub(crate) futexes: Futexes,
    /// The processes, in the order in which they came to the machine.
    pub(crate) processes: Vec<Process>,
    /// Which memory lies where in them.
    pub(crate) spaces: Spaces,
    /// Numbers of threads that are nobody's any more.
    pub(crate) unused: Vec<usize>,
    /// How the first process has ended, if others went on.
    pub(crate) root_ending: Option<Ending>,
    /// What is counted.
    pub(crate) tally: Tally,
    /// Calls of the guest's functions that have not returned.
    pub(crate) functions: Functions,
    /// Which part of the program counts.
    pub(crate) part: Part,
    /// Objects and callers.
    pub(crate) witness: Witness,
    /// Requests that wait for their turn, and threads that watch lines.
    pub(crate) waits: Pending,
    /// Lines that cost nothing.
    pub(crate) free: Free,
    /// Who is held back where; nobody unless that was asked for.
    pub(crate) chaos: Option<Box<Chaos>>,
    /// What each core may do to which line.
    pub(crate) tables: Tables,
    /// The thread that has the turn.
    me: usize,
    /// Until when what it has executed is counted as its siblings let it.
    pub(crate) paced: Ticks,
    /// What is known of the next thread, while one is being made.
    expected: Option<Expected>,
    /// Accesses that were let go unsimulated because QEMU needed the thread.
    pub(crate) forced: u64,
    /// Accesses that were counted after they were made.
    pub(crate) unordered: u64,
    /// The latest time of any thread.
    latest: Ticks,
    /// Who wrote to locks that are free.
    pub(crate) lock_writes: HashMap<u64, Writes>,
    /// The instructions that released them, and how often.
    pub(crate) releases: HashMap<u64, u64>,
    not_reproducible: Vec<&'static str>,
    unsimulated: Vec<String>,
    pub(crate) finished: bool,
    /// When, in the host's time, the next deadline may come although threads are in the host.
    fire_at: Option<(Ticks, std::time::Instant)>,
    /// The thread that acts without the turn.
    outside: Option<usize>,
    /// Threads that there were.
    pub(crate) created: u64,
    /// The thread that was created last.
    newest: usize,
    /// The cores from which a prefetcher took rights; a buffer.
    pub(crate) prefetched_from: Vec<(Core, Rights)>,
}

/// Has who has the turn, and what is said to him, shared with forked processes.
pub(crate) fn share() {
    OWNER.share();
    MESSAGES.share();
    OUTSIDE.share();
}

static SIMULATOR: AtomicPtr<Simulator> = AtomicPtr::new(ptr::null_mut());
/// The simulation, for the thread that has the turn.
///
/// # Safety
///
/// The caller must have the turn, or hold `OUTSIDE`, or be the only thread.
pub(crate) unsafe fn simulator() -> &'static mut Simulator {
    // Acquire: pairs with the store in `start`.
    let simulator = SIMULATOR.load(Ordering::Acquire);
    // SAFETY: `start` was called when the plugin was loaded, and the simulator is never freed.
    unsafe { &mut *simulator }
}

impl Simulator {
    /// Prepares a simulation, and makes it the one of this process.
    pub(crate) fn start(settings: Settings) {
        let machine = settings.machine.clone();
        let cores = machine.cores;
        HOT.set_line_size(machine.line_size);
        let mut simulator = Box::new(Simulator {
            schedule: Schedule::new(
                cores,
                machine.threads_per_core,
                machine.time_slice,
                machine.costs.switch,
            ),
            directory: {
                let mut directory = Directory::new(machine.clone());
                if settings.free_waits {
                    directory.allow_any_order();
                }
                directory
            },
            threads: Vec::new(),
            futexes: Futexes::default(),
            processes: vec![Process::first(Guest::new(&settings))],
            spaces: Spaces::default(),
            unused: Vec::new(),
            root_ending: None,
            tally: Tally::new(cores),
            functions: Functions::default(),
            part: Part::new(&settings),
            witness: Witness::new(settings.objects),
            waits: Pending::default(),
            free: Free::new(&settings.free),
            chaos: settings
                .chaos
                .then(|| Box::new(Chaos::new(settings.seed, machine.time_slice))),
            tables: Tables::new(cores, machine.threads_per_core),
            me: 0,
            paced: 0,
            expected: None,
            forced: 0,
            unordered: 0,
            latest: 0,
            lock_writes: HashMap::new(),
            releases: HashMap::new(),
            not_reproducible: Vec::new(),
            unsimulated: Vec::new(),
            finished: false,
            fire_at: None,
            outside: None,
            created: 0,
            newest: 0,
            prefetched_from: Vec::new(),
            settings,
        });
        simulator.spaces.begin(None);
        simulator.free_addresses();
        // Release: pairs with the load in `simulator`.
        SIMULATOR.store(Box::into_raw(simulator), Ordering::Release);
    }

    /// The thread that has the turn.
    pub(crate) fn current(&self) -> usize {
        self.me
    }

    /// The core that a thread has, or had last.
    pub(crate) fn core_of(&self, thread: usize) -> Option<Core> {
        let processor = self.threads[thread].processor?;
        Some(self.settings.machine.core_of(processor))
    }

    /// Its clock.
    pub(crate) fn now(&self) -> Ticks {
        HOT.cycles()
    }

    /// It waits for so long.
    pub(crate) fn charge(&mut self, ticks: Ticks) {
        HOT.set_cycles(HOT.cycles() + ticks);
        self.paced += ticks;
    }

    /// The latest time that any thread has reached.
    pub(crate) fn latest(&self) -> Ticks {
        self.latest.max(HOT.cycles())
    }

    /// A thread is about to be created by the one that has the turn, or is the first. Its seat is prepared.
    pub(crate) fn begin_thread(&mut self, thread: usize) {
        // The number may be that of a thread that has ended.
        self.read_messages();
        let first = self.threads.is_empty();
        let held = self.chaos.as_mut().map_or(0, |chaos| chaos.birth(thread));
        let now = if first { 0 } else { self.now() + held };
        let process = self.process();
        self.room_for(thread);
        let affinity = self.threads[self.me].affinity.clone();
        self.threads[thread] = Thread::new(now, process);
        self.threads[thread].affinity = affinity;
        let lead = self.threads[self.me].lead;
        self.threads[thread].lead = lead;
        self.tally.lead(thread, lead);
        let Expected { clear_tid, after } = self.expected.take().unwrap_or_default();
        self.threads[thread].clear_tid = clear_tid;
        self.threads[thread].after = after;
        self.processes[process].alive += 1;
        self.processes[process].threads += 1;
        self.created += 1;
        self.newest = thread;
        self.schedule.place(&mut self.threads, thread, now);
        if first {
            self.threads[thread].tid = std::process::id() as i32;
            self.schedule.unready(&self.threads, thread);
            self.threads[thread].in_call = false;
            self.give_turn_to(thread);
            baton::keep(thread);
            OWNER.store(thread as u32 + 1, Ordering::SeqCst);
        } else {
            self.update_limit();
        }
    }

    /// There is a place for a thread of this number.
    pub(crate) fn room_for(&mut self, thread: usize) {
        while self.threads.len() <= thread {
            let mut none = Thread::new(0, 0);
            none.state = State::Gone;
            self.threads.push(none);
        }
    }

    /// The next thread will be this one.
    pub(crate) fn expect_thread(&mut self, thread: Expected) {
        self.expected = Some(thread);
    }

    /// The thread that was created last got the number `tid`: its maker, who still has the turn, is told it.
    pub(crate) fn name_thread(&mut self, tid: i32) {
        if self.expected.is_some() {
            let Some(thread) = arrivals::next() else {
                return;
            };
            self.begin_thread(thread);
        }
        self.threads[self.newest].tid = tid;
    }

    /// The next thread could not be made.
    pub(crate) fn expect_no_thread(&mut self) {
        self.expected = None;
    }

    /// The calling thread has ended.
    pub(crate) fn end_thread(&mut self, thread: usize) {
        self.save();
        self.schedule.end(&mut self.threads, thread);
        self.settle();
        self.tally.gone(thread, self.threads[thread].time);
        self.forget_calls(thread);
        let process = &mut self.processes[self.threads[thread].process];
        process.alive = process.alive.saturating_sub(1);
        if self
            .threads
            .iter()
            .any(|thread| thread.state != State::Gone)
        {
            self.hand_over();
        }
    }

    /// A thread has ended while it was let go.
    fn end_without_turn(&mut self, thread: usize) {
        if self.threads[thread].state == State::Gone {
            return;
        }
        let (clear_tid, process) = (self.threads[thread].clear_tid, self.threads[thread].process);
        self.remove_thread(thread);
        let alive = &mut self.processes[process].alive;
        *alive = alive.saturating_sub(1);
        crate::plugin::futex::thread_exited(self, thread, clear_tid);
    }

    /// A thread is no more, wherever it stands.
    pub(crate) fn remove_thread(&mut self, thread: usize) {
        self.forget_sleep(thread);
        self.stop_spin(thread);
        if let State::Host(_) = self.threads[thread].state {
            let now = self.latest();
            self.schedule
                .wake(&mut self.threads, thread, now, Woken::Woken);
        }
        self.schedule.end(&mut self.threads, thread);
        if let Some(line) = self.threads[thread].pending.take() {
            self.waits.withdraw(line);
        }
        self.settle();
        self.tally.gone(thread, self.threads[thread].time);
        self.forget_calls(thread);
    }

    /// Notes the clock of the thread that has the turn.
    pub(crate) fn save(&mut self) {
        self.pace();
        let now = HOT.cycles();
        self.threads[self.me].time = now;
        self.latest = self.latest.max(now);
    }

    /// Tells the tally which threads have come to a core or left it.
    pub(crate) fn settle(&mut self) {
        for change in self.schedule.changes() {
            match change.core {
                Some(core) => self.tally.on(change.thread, core, change.at),
                None => self.tally.off(change.thread, change.at),
            }
        }
    }

    /// When the program would end if it ended now: the latest time, or if waiting for locks does not count, the one that it
    /// would be by then.
    fn elapsed(&self) -> Ticks {
        if !self.settings.free_waits {
            return self.latest();
        }
        let ahead = HOT.cycles().saturating_sub(self.threads[self.me].lead);
        self.tally.last().max(ahead)
    }

    /// Notes, once, why a second run may come out differently.
    pub(crate) fn unreproducible(&mut self, why: &'static str) {
        if !self.not_reproducible.contains(&why) {
            self.not_reproducible.push(why);
        }
    }

    /// Notes what ran outside the simulator.
    pub(crate) fn unsimulated(&mut self, what: String) {
        if !self.unsimulated.contains(&what) {
            self.unsimulated.push(what);
        }
    }

    /// Writes the result, once, or twice if the first time it was not known how the process ends.
    pub(crate) fn finish(&mut self, how: Ending) {
        if self.finished {
            return;
        }
        self.finished = how != Ending::Signal(0);
        self.save();
        self.settle();
        for thread in 0..self.threads.len() {
            if self.threads[thread].state != State::Gone {
                self.tally.settle(thread, self.threads[thread].time);
            }
        }
        let how = match how {
            Ending::Exit(_) | Ending::Signal(_) => self.root_ending.unwrap_or(how),
            how => how,
        };
        let exit_code = match how {
            Ending::Exit(status) => status,
            Ending::Signal(number) => 128 + number,
            Ending::Deadlock => DEADLOCK_STATUS,
            Ending::Exec => -1,
            Ending::Stopped => 0,
        };
        let sleepers = match how {
            Ending::Deadlock => self.sleepers(),
            _ => Vec::new(),
        };
        let free_lines: Vec<u64> = self.free.lines().collect();
        let maps = self.all_maps();
        if self.processes[0].program.is_empty() {
            // There is no other process: it would have the name.
            self.processes[0].name();
        }
        let root = &self.processes[0];
        let processes: Vec<_> = self.processes.iter().map(Process::on_machine).collect();
        let written = report::write(
            &self.settings.result,
            &report::Snapshot {
                pid: root.pid,
                parent: root.parent,
                program: &root.program,
                processes: &processes,
                machine: &self.settings.machine.name,
                cores: self.settings.machine.cores,
                megahertz: self.settings.machine.megahertz,
                line_size: self.settings.machine.line_size,
                ending: how,
                exit_code,
                threads: self.created,
                instructions: HOT.instructions(),
                began: self.part.began,
                skipped: self.part.skipped,
                is_skipping: self.part.is_skipping(),
                looked_at: self.part.looked_at,
                elapsed: self.elapsed(),
                maps: &maps,
                sleepers: &sleepers,
                unsimulated: &self.unsimulated,
                not_reproducible: &self.not_reproducible,
                forced: self.forced,
                unordered: self.unordered,
                interleaving: self.chaos.as_ref().map(|chaos| chaos.interleaving()),
                top_lines: self.settings.top_lines,
                free: self.free.met(),
                free_lines: &free_lines,
                spaces: &self.spaces,
                tally: &self.tally,
                witness: &self.witness,
            },
        );
        // Whoever wanted it may have gone when the first process ended.
        if let (Err(error), None) = (written, self.root_ending) {
            crate::plugin::fatal(&format!(
                "cannot write the result to {}: {error}",
                self.settings.result.display()
            ));
        }
    }

    /// Who waits for what, when nobody can go on.
    fn sleepers(&self) -> Vec<report::Sleeper> {
        let describe = |thread: usize| {
            let state = &self.threads[thread];
            let (why, address) = match state.state {
                State::Sleeping(Sleep::Futex(place)) => {
                    ("futex".to_owned(), self.spaces.shown(place).0)
                }
                State::Sleeping(Sleep::Child) => ("the end of a child".to_owned(), 0),
                State::Sleeping(_) => ("time".to_owned(), 0),
                State::Host(number) => (format!("system call {number}"), 0),
                State::Spinning => {
                    let line = state.spin.as_ref().and_then(|spin| spin.lines.first());
                    let size = self.settings.machine.line_size;
                    let shown = |line: &u64| self.spaces.shown(line * size).0;
                    ("spinning".to_owned(), line.map_or(0, shown))
                }
                State::Ready(_) | State::Waiting | State::Gone => return None,
            };
            Some(report::Sleeper {
                thread,
                why,
                pc: state.place,
                address,
            })
        };
        (0..self.threads.len()).filter_map(describe).collect()
    }

    /// A thread whose core has lost a line that it watched, or that is needed otherwise, spins no longer.
    pub(crate) fn stop_spin(&mut self, thread: usize) {
        if let Some(spin) = self.threads[thread].spin.take() {
            for &line in &spin.lines {
                self.waits.unwatch(line, thread);
            }
        }
    }
}

/// The status with which a program ends that cannot go on.
const DEADLOCK_STATUS: i32 = 4;
