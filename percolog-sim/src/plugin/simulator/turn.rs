//! Who has the turn, and how it goes from thread to thread.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::messages::{MESSAGES, Message, Sender};
use super::{DEADLOCK_STATUS, Simulator, simulator};
use crate::model::Ticks;
use crate::plugin::baton::{self, Waited};
use crate::plugin::clock;
use crate::plugin::common::Common;
use crate::plugin::hot::{self, HOT, NOBODY};
use crate::plugin::processes;
use crate::plugin::report::Ending;
use crate::plugin::schedule::Next;
use crate::plugin::thread::{Ask, State, Woken};

/// The thread that has the turn, plus one; 0 if all wait for the host.
pub(super) static OWNER: Common<AtomicU32> = Common::new(AtomicU32::new(0));
/// In the place of the owner: a thread that has ended is passing the turn on.
const ENDING: u32 = u32::MAX;

/// How a thread came to the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It has it.
    Open,
    /// It is let go without.
    LetGo,
}

/// Obtains the turn for a thread that has been outside translated code, or checks that it has it.
pub(crate) fn gate(vcpu: c_uint, state: *const u64) -> Gate {
    let thread = hot::thread_of(vcpu) as usize;
    if baton::is_draining() {
        return Gate::LetGo;
    }
    if baton::is_away() {
        baton::set_away(false);
        processes::look_whether_all_end();
        if post(thread, Message::Returned(Sender::new(thread))) {
            return Gate::Open;
        }
        return wait_for_turn(thread, state);
    }
    if HOT.holder() == thread as u32 {
        // A thread that was let go may have been given the turn meanwhile.
        baton::take(thread);
        baton::keep(thread);
        return Gate::Open;
    }
    wait_for_turn(thread, state)
}

pub(super) fn wait_for_turn(thread: usize, state: *const u64) -> Gate {
    /// How often a thread waits in vain before it looks whether anybody is there to give it the turn.
    const PATIENCE: u32 = 25;
    let (mut asked, mut waits) = (false, 0);
    loop {
        match baton::wait(thread, state) {
            Waited::Turn => return Gate::Open,
            Waited::Draining => return Gate::LetGo,
            // Nobody of another process waits for this thread inside QEMU.
            Waited::Needed if asked && is_ours() => return Gate::LetGo,
            Waited::Needed if !asked => {
                asked = true;
                if post(thread, Message::Needed(Sender::new(thread))) {
                    return Gate::Open;
                }
            }
            Waited::Needed | Waited::Nothing => {
                processes::look_whether_all_end();
                waits += 1;
                let gate = look_after_deadlines(thread).or_else(|| {
                    let is_long = waits % PATIENCE == 0;
                    is_long.then(|| look_after_the_dead(thread)).flatten()
                });
                if let Some(gate) = gate {
                    return gate;
                }
            }
        }
    }
}

/// The thread that has the turn; nothing if nobody has it, or one that ends.
fn owner() -> Option<usize> {
    let owner = OWNER.load(Ordering::SeqCst);
    (owner != 0 && owner != ENDING).then(|| owner as usize - 1)
}

/// Whether a thread of this process has the turn.
fn is_ours() -> bool {
    owner().is_none_or(|owner| hot::own_threads().any(|own| own == owner))
}

/// If the thread that has the turn belongs to a process that is dead, takes the turn.
fn look_after_the_dead(thread: usize) -> Option<Gate> {
    let owner = owner()?;
    let process = baton::process_of(owner);
    let is_dead = process != 0 && process != std::process::id() && processes::is_dead(process);
    if !is_dead || !change_owner(owner, thread as u32 + 1) {
        return None;
    }
    // SAFETY: the caller has just taken the turn, from a thread that is no more.
    let simulator = unsafe { simulator() };
    simulator.me = thread;
    let process = simulator.threads[owner].process;
    simulator.end_process(process, Ending::Signal(KILLED));
    (simulator.pass_on(false) == Some(thread)).then_some(Gate::Open)
}

/// The signal of which nobody hears.
pub(crate) const KILLED: i32 = 9;

/// This process, the threads of which are let go, is ended by a signal, and others go on without it: it leaves the machine.
pub(crate) fn die(signal: i32) {
    const MOMENT: Duration = Duration::from_millis(1);
    const MOMENTS: u32 = 10_000;
    let Some(own) = hot::own_threads().next() else {
        return;
    };
    let mut has_said = false;
    for _ in 0..MOMENTS {
        let owner = owner();
        if owner.is_none() || is_ours() {
            let from = owner.map_or(0, |owner| owner as u32 + 1);
            let me = owner.unwrap_or(own);
            let taken = OWNER
                .compare_exchange(from, me as u32 + 1, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok();
            if taken {
                // SAFETY: the turn was nobody's, or that of a thread that is let go and will not use it.
                let simulator = unsafe { simulator() };
                simulator.me = me;
                if owner.is_some() {
                    simulator.save();
                }
                simulator.end_with_turn(Ending::Signal(signal));
                return;
            }
        } else if !has_said {
            has_said = true;
            MESSAGES.send(Message::Dies(Sender::new(own), signal));
            HOT.set_limit(0);
        } else if !MESSAGES.any() {
            // It was heard.
            return;
        }
        std::thread::sleep(MOMENT);
    }
}

/// The calling thread's process was about to become another program, and does not. It gets a new number, and waits for the turn.
pub(crate) fn come_back(thread: usize, state: *const u64) -> Gate {
    if post(thread, Message::Stays(Sender::new(thread))) {
        return Gate::Open;
    }
    wait_for_turn(thread, state)
}

/// Says something to the thread that has the turn, or takes the turn if nobody has it. Returns whether the caller has
/// the turn now.
fn post(thread: usize, message: Message) -> bool {
    MESSAGES.send(message);
    HOT.set_limit(0);
    claim(thread)
}

/// Takes the turn if nobody has it, and passes it to whom it belongs. Returns whether that is the caller.
fn claim(thread: usize) -> bool {
    // SeqCst: see `Messages::send`. It also acquires what the last owner did to the simulator.
    if OWNER
        .compare_exchange(0, thread as u32 + 1, Ordering::SeqCst, Ordering::SeqCst)
        .is_err()
    {
        return false;
    }
    // SAFETY: the caller has just taken the turn.
    let simulator = unsafe { simulator() };
    simulator.me = thread;
    simulator.pass_on(false) == Some(thread)
}

/// If all threads wait for the host or a deadline, and the deadline has come in the host's time too, fires it.
fn look_after_deadlines(thread: usize) -> Option<Gate> {
    if OWNER.load(Ordering::SeqCst) != 0 {
        return None;
    }
    if OWNER
        .compare_exchange(0, thread as u32 + 1, Ordering::SeqCst, Ordering::SeqCst)
        .is_err()
    {
        return None;
    }
    // SAFETY: the caller has just taken the turn.
    let simulator = unsafe { simulator() };
    simulator.me = thread;
    let due = simulator
        .fire_at
        .is_some_and(|(_, at)| at <= Instant::now());
    (simulator.pass_on(due) == Some(thread)).then_some(Gate::Open)
}

/// Takes the turn from a thread that has been given it. Fails if that is no longer so.
fn change_owner(from: usize, to: u32) -> bool {
    // SeqCst: see `Messages::send`.
    OWNER
        .compare_exchange(from as u32 + 1, to, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok()
}

/// A thread that was let go ends. It cannot wait for its turn: others may need what QEMU holds while a thread ends.
pub(crate) fn end_let_go(thread: usize) {
    if processes::is_over() {
        return;
    }
    if baton::is_draining() {
        Simulator::outside(|simulator| simulator.end_without_turn(thread));
        return;
    }
    baton::set_ended(thread);
    if post(thread, Message::Ended(Sender::new(thread))) {
        unreachable!("a thread that has ended is not ready");
    }
    // The turn may have been given to it before whoever gave it could know.
    if change_owner(thread, ENDING) {
        // SAFETY: the turn was this thread's, and nobody else has it now.
        let simulator = unsafe { simulator() };
        simulator.me = thread;
        simulator.pass_on(false);
    }
}

impl Simulator {
    /// Makes `thread` the one that has the turn, without telling it.
    pub(super) fn give_turn_to(&mut self, thread: usize) {
        self.me = thread;
        self.witness.stacks.in_process(self.threads[thread].process);
        let state = &mut self.threads[thread];
        state.kept = None;
        state.ask = None;
        if let Some(line) = state.pending.take() {
            self.waits.withdraw(line);
        }
        state.time += std::mem::take(&mut state.interrupted);
        HOT.set_cycles(state.time);
        self.paced = state.time;
        if let Some(processor) = state.processor {
            let process = self.threads[thread].process;
            HOT.set_rights(self.tables.of(processor, process));
        }
        HOT.set_holder(thread as u32);
        self.update_limit();
    }

    /// From when on accesses have to be looked at.
    pub(crate) fn update_limit(&mut self) {
        let me = &self.threads[self.me];
        let mut limit = match self.schedule.horizon() {
            Some((time, _)) => time.saturating_add(self.lead(self.settings.run_ahead)),
            None => Ticks::MAX,
        };
        limit = limit.min(self.part.limit(HOT.cycles()));
        if let Some(end) = self.schedule.slice_end(me) {
            limit = limit.min(end);
        }
        if me.observation.is_some() || me.suspect {
            limit = 0;
        }
        HOT.set_limit(self.unpaced(limit));
        // SeqCst: a message that came before is found here; the sender of a later one lowers the limit itself.
        if MESSAGES.any() {
            HOT.set_limit(0);
        }
    }

    /// Looks at what the threads without the turn have to say.
    pub(crate) fn read_messages(&mut self) {
        for message in MESSAGES.take() {
            let now = self.latest();
            match message {
                Message::Stays(sender) => self.not_executed(sender.process, sender.thread),
                Message::Dies(sender, signal) => {
                    self.end_process(sender.process, Ending::Signal(signal));
                }
                Message::Returned(sender) if self.is_here(sender) => {
                    if matches!(self.threads[sender.thread].state, State::Host(_)) {
                        self.schedule
                            .wake(&mut self.threads, sender.thread, now, Woken::Woken);
                    }
                }
                Message::Ended(sender) if self.is_here(sender) => {
                    self.end_without_turn(sender.thread);
                }
                Message::Needed(sender) if self.is_here(sender) => {
                    self.let_go_soon(sender.thread);
                }
                Message::Returned(_) | Message::Ended(_) | Message::Needed(_) => {}
            }
        }
    }

    /// Whether the number of who has said something is still its own.
    fn is_here(&self, sender: Sender) -> bool {
        self.threads[sender.thread].process == sender.process
    }

    pub(super) fn let_go_soon(&mut self, thread: usize) {
        match self.threads[thread].state {
            State::Sleeping(_) => {
                self.forget_sleep(thread);
                let now = self.latest();
                self.schedule
                    .wake(&mut self.threads, thread, now, Woken::Drained);
            }
            State::Spinning => {
                self.stop_spin(thread);
                self.threads[thread].forced = true;
                self.schedule.make_ready(&mut self.threads, thread, 0);
                return;
            }
            _ => {}
        }
        if let State::Ready(_) = self.threads[thread].state {
            self.threads[thread].forced = true;
            self.schedule.make_ready(&mut self.threads, thread, 0);
        }
    }

    /// Passes the turn to the thread with the earliest time. Returns it, or nothing if all wait for the host.
    pub(super) fn pass_on(&mut self, fire: bool) -> Option<usize> {
        let caller = self.me;
        // A thread that was let go may have been given the turn and gone on with it without taking it. It must not find
        // it a second time.
        baton::take(caller);
        hot::set_turn(NOBODY);
        loop {
            self.read_messages();
            self.settle();
            match self.schedule.next(&mut self.threads, fire) {
                Next::Run(thread) => {
                    // Whoever only waits for its line to come is not the first to have reached that time.
                    if self.threads[thread].answer.is_none() {
                        self.end_at(self.threads[thread].time);
                        if self.ask_for(thread) {
                            continue;
                        }
                    }
                    self.give_turn_to(thread);
                    // SeqCst: see `Messages::send`.
                    OWNER.store(thread as u32 + 1, Ordering::SeqCst);
                    if thread == caller {
                        baton::keep(thread);
                        return Some(thread);
                    }
                    if baton::has_ended(thread) && change_owner(thread, caller as u32 + 1) {
                        self.me = caller;
                        self.end_without_turn(thread);
                        continue;
                    }
                    baton::give(thread);
                    return Some(thread);
                }
                Next::Idle { deadline } => {
                    // Whoever looks whether it has come does not postpone it.
                    if self.fire_at.map(|(deadline, _)| deadline) != deadline {
                        self.fire_at =
                            deadline.map(|deadline| (deadline, self.host_time_of(deadline)));
                    }
                    HOT.set_holder(NOBODY);
                    // SeqCst: see `Messages::send`. Releases the simulator to whoever claims the turn.
                    OWNER.store(0, Ordering::SeqCst);
                    if !MESSAGES.any()
                        || OWNER
                            .compare_exchange(
                                0,
                                caller as u32 + 1,
                                Ordering::SeqCst,
                                Ordering::SeqCst,
                            )
                            .is_err()
                    {
                        return None;
                    }
                    self.me = caller;
                }
                Next::Deadlock => {
                    self.finish(Ending::Deadlock);
                    self.end_all(DEADLOCK_STATUS);
                }
            }
        }
    }

    /// When a deadline comes in the host's time, for threads that wait beside others that are in the host: simulated
    /// time must not rush ahead of input that is on its way.
    pub(super) fn host_time_of(&self, deadline: Ticks) -> Instant {
        let wait = deadline.saturating_sub(self.latest);
        Instant::now() + Duration::from_nanos(clock::nanoseconds(&self.settings.machine, wait))
    }

    /// A thread without the turn, which is the first, asks for its line without being given it: it is not woken only to
    /// wait again. Returns whether it has asked; if not, it has to see for itself.
    fn ask_for(&mut self, thread: usize) -> bool {
        let asking = &self.threads[thread];
        let (Some(core), Some(Ask { site, line }), State::Ready(now)) =
            (self.core_of(thread), asking.ask, asking.state)
        else {
            return false;
        };
        let is_over = self
            .schedule
            .slice_end(asking)
            .is_some_and(|end| now >= end);
        let (wants, time) = (site.wants(), asking.time);
        if asking.forced
            || is_over
            || self.part.is_skipping()
            || self.directory.rights_at(core, line, now) >= wants
        {
            return false;
        }
        let (me, cycles, paced) = (self.me, self.now(), self.paced);
        self.me = thread;
        self.paced = time;
        HOT.set_cycles(time);
        self.interrupt_observation();
        let takes = self.request(core, line, site.access, site.place, now);
        self.save();
        self.threads[thread].ask = None;
        self.me = me;
        self.paced = paced;
        HOT.set_cycles(cycles);
        self.schedule
            .make_ready(&mut self.threads, thread, takes.max(now));
        true
    }

    /// A thread that has ended passes the turn on. Afterwards the simulation is others'.
    pub(crate) fn hand_over(&mut self) {
        let me = self.me;
        if self.pass_on(false) == Some(me) {
            unreachable!("a thread that has ended is not ready");
        }
    }

    /// Passes the turn on, and waits until it comes back. The state of the caller says what it waits for.
    pub(crate) fn yield_turn(&mut self, state: *const u64) -> Gate {
        let me = self.me;
        self.save();
        if self.pass_on(false) == Some(me) {
            return Gate::Open;
        }
        wait_for_turn(me, state)
    }

    /// The calling thread waits for its turn at `key`.
    pub(crate) fn wait_until(&mut self, key: Ticks, state: *const u64) -> Gate {
        self.save();
        self.schedule.make_ready(&mut self.threads, self.me, key);
        self.yield_turn(state)
    }
}
