//! Which thread has which processor, and which is next.
//!
//! A processor is what Linux calls so: a core, or one of its hardware threads. A pure data structure: it knows simulated time
//! only. A thread with a processor waits in `ready` for its turn, ordered by
//! the time at which it wants to go on; equal times are ordered by the threads' numbers, so that a run is repeatable.
//! More threads than processors share them by a time slice: a thread whose slice is over gives its processor to the one that has
//! waited longest.

use std::collections::{BTreeSet, VecDeque};

use crate::model::{Core, CoreSet, Processor, Ticks, core_of};
use crate::plugin::thread::{Sleep, State, Thread, Woken};

/// What is to happen next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This thread has the earliest time.
    Run(usize),
    /// Every thread waits for the host, or for a deadline that must not come before the host had its chance.
    Idle {
        /// The next deadline.
        deadline: Option<Ticks>,
    },
    /// Every thread waits for another.
    Deadlock,
}

#[derive(Clone, Debug, Default)]
struct Seat {
    thread: Option<usize>,
    last: Option<usize>,
    free_at: Ticks,
}

/// Processors, the threads on them, and the threads that want one.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// The first hardware thread of each core, then the second one of each, and so on.
    seats: Vec<Seat>,
    /// How many cores there are.
    cores: usize,
    ready: BTreeSet<(Ticks, usize)>,
    timers: BTreeSet<(Ticks, usize)>,
    waiting: VecDeque<usize>,
    in_host: usize,
    slice: Ticks,
    switch: Ticks,
    changes: Vec<Change>,
}

/// A thread has been given a core, or has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The thread.
    pub(crate) thread: usize,
    /// The core that it was given; none if it left one.
    pub(crate) core: Option<Core>,
    /// When.
    pub(crate) at: Ticks,
}

impl Schedule {
    /// So many cores of so many hardware threads, which nobody has yet.
    pub(crate) fn new(cores: usize, threads: usize, slice: Ticks, switch: Ticks) -> Self {
        Schedule {
            seats: vec![Seat::default(); cores * threads],
            cores,
            ready: BTreeSet::new(),
            timers: BTreeSet::new(),
            waiting: VecDeque::new(),
            in_host: 0,
            slice,
            switch,
            changes: Vec::new(),
        }
    }

    /// What has changed since this was asked last.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// When something other than the running thread wants to happen, and the number that orders it among equals.
    pub(crate) fn horizon(&self) -> Option<(Ticks, usize)> {
        let ready = self.ready.first().copied();
        let timer = self.timers.first().copied();
        match (ready, timer) {
            (Some(ready), Some(timer)) => Some(ready.min(timer)),
            (ready, timer) => ready.or(timer),
        }
    }

    /// The threads that have this core: one for each of its hardware threads at most.
    pub(crate) fn threads_on(&self, core: Core) -> impl Iterator<Item = usize> + '_ {
        let seats = self.seats[usize::from(core)..].iter();
        seats.step_by(self.cores).filter_map(|seat| seat.thread)
    }

    /// Whether cores have several hardware threads.
    pub(crate) fn has_siblings(&self) -> bool {
        self.seats.len() > self.cores
    }

    /// Whether a thread wants a core and has none.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Gives a thread a processor from `at` on, or lets it wait for one. Returns whether it has one.
    pub(crate) fn place(&mut self, threads: &mut [Thread], thread: usize, at: Ticks) -> bool {
        let wanted = &threads[thread];
        let allowed = |seat: usize| {
            wanted
                .affinity
                .as_ref()
                .is_none_or(|set| set.contains(seat as Processor))
        };
        let free = |seat: usize| self.seats[seat].thread.is_none() && allowed(seat);
        let last = wanted.processor.map(usize::from).filter(|&seat| free(seat));
        // One whose clock is not ahead delays nobody; among these the lowest, so that a run is repeatable, and threads come to
        // cores of their own first.
        let chosen = last
            .or_else(|| {
                (0..self.seats.len()).find(|&seat| free(seat) && self.seats[seat].free_at <= at)
            })
            .or_else(|| {
                (0..self.seats.len())
                    .filter(|&seat| free(seat))
                    .min_by_key(|&seat| (self.seats[seat].free_at, seat))
            });
        threads[thread].time = threads[thread].time.max(at);
        match chosen {
            Some(seat) => {
                self.seat(threads, thread, seat);
                true
            }
            None => {
                threads[thread].state = State::Waiting;
                self.waiting.push_back(thread);
                if self.waiting.len() == 1 {
                    self.limit_spinners(threads, at);
                }
                false
            }
        }
    }

    fn seat(&mut self, threads: &mut [Thread], thread: usize, seat: usize) {
        let processor = seat as Processor;
        let slot = &mut self.seats[seat];
        let mut time = threads[thread].time.max(slot.free_at);
        if slot.last.is_some_and(|last| last != thread) {
            time += self.switch;
        }
        slot.thread = Some(thread);
        slot.last = Some(thread);
        let thread_state = &mut threads[thread];
        thread_state.processor = Some(processor);
        thread_state.time = time;
        thread_state.since = time;
        thread_state.slice_end = time + self.slice;
        thread_state.evicted = false;
        self.changes.push(Change {
            thread,
            core: Some(core_of(processor, self.cores)),
            at: time,
        });
        self.make_ready(threads, thread, time);
    }

    /// A thread with a core wants its turn at this time.
    pub(crate) fn make_ready(&mut self, threads: &mut [Thread], thread: usize, key: Ticks) {
        self.unready(threads, thread);
        threads[thread].state = State::Ready(key);
        self.ready.insert((key, thread));
    }

    /// A thread no longer waits for its turn (it has it, or does something else).
    pub(crate) fn unready(&mut self, threads: &[Thread], thread: usize) {
        let key = match threads[thread].state {
            State::Ready(key) => key,
            State::Spinning => slice_over(&threads[thread]),
            _ => return,
        };
        self.ready.remove(&(key, thread));
    }

    /// From `at` on a thread waits for a core, as none did before. Those that spin keep theirs only until their slice is over; if it is
    /// already, until then.
    fn limit_spinners(&mut self, threads: &mut [Thread], at: Ticks) {
        for number in 0..threads.len() {
            if threads[number].state == State::Spinning {
                self.unready(threads, number);
                let thread = &mut threads[number];
                thread.slice_end = thread.slice_end.max(at);
                self.ready.insert((slice_over(thread), number));
            }
        }
    }

    /// A thread spins: it needs no turn until a line of its is taken, or its slice is over and others wait.
    pub(crate) fn spin(&mut self, threads: &mut [Thread], thread: usize) {
        self.unready(threads, thread);
        threads[thread].state = State::Spinning;
        if self.is_crowded() {
            self.ready.insert((slice_over(&threads[thread]), thread));
        }
    }

    /// A thread leaves its processor at its own time; whoever has waited longest for this one gets it.
    pub(crate) fn leave(&mut self, threads: &mut [Thread], thread: usize) {
        self.unready(threads, thread);
        let Some(seat) = threads[thread].processor.map(usize::from) else {
            return;
        };
        if self.seats[seat].thread != Some(thread) {
            return;
        }
        let state = &mut threads[thread];
        state.busy += state.time.saturating_sub(state.since);
        self.changes.push(Change {
            thread,
            core: None,
            at: state.time,
        });
        self.seats[seat].thread = None;
        self.seats[seat].free_at = state.time;
        state.state = State::Waiting;
        let next = self.waiting.iter().position(|&waiting| {
            threads[waiting]
                .affinity
                .as_ref()
                .is_none_or(|set| set.contains(seat as Processor))
        });
        if let Some(next) = next.and_then(|index| self.waiting.remove(index)) {
            self.seat(threads, next, seat);
        }
    }

    /// A thread goes to sleep, on no core.
    pub(crate) fn sleep(
        &mut self,
        threads: &mut [Thread],
        thread: usize,
        why: Sleep,
        deadline: Option<Ticks>,
    ) {
        self.leave(threads, thread);
        self.waiting.retain(|&waiting| waiting != thread);
        let state = &mut threads[thread];
        state.deadline = deadline;
        state.state = match why {
            Sleep::Host(number) => State::Host(number),
            why => State::Sleeping(why),
        };
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, thread));
        }
        if matches!(why, Sleep::Host(_)) {
            self.in_host += 1;
        }
    }

    /// A sleeper is woken at this time. Nothing happens to a thread that does not sleep.
    pub(crate) fn wake(&mut self, threads: &mut [Thread], thread: usize, at: Ticks, how: Woken) {
        match threads[thread].state {
            State::Sleeping(_) => {}
            State::Host(_) => self.in_host -= 1,
            _ => return,
        }
        if let Some(deadline) = threads[thread].deadline.take() {
            self.timers.remove(&(deadline, thread));
        }
        threads[thread].woken = how;
        threads[thread].state = State::Waiting;
        self.place(threads, thread, at);
    }

    /// A thread ends.
    pub(crate) fn end(&mut self, threads: &mut [Thread], thread: usize) {
        self.leave(threads, thread);
        self.waiting.retain(|&waiting| waiting != thread);
        if let Some(deadline) = threads[thread].deadline.take() {
            self.timers.remove(&(deadline, thread));
        }
        threads[thread].state = State::Gone;
    }

    /// What is next. `fire` says whether deadlines may come although threads are in the host.
    pub(crate) fn next(&mut self, threads: &mut [Thread], fire: bool) -> Next {
        loop {
            let ready = self.ready.first().copied();
            match (ready, self.timers.first().copied()) {
                (Some(ready), timer) if timer.is_none_or(|timer| ready < timer) => {
                    let (key, thread) = ready;
                    self.ready.remove(&ready);
                    // Also if it spun until now: it is not to be found among those that do.
                    threads[thread].state = State::Ready(key);
                    return Next::Run(thread);
                }
                (ready, Some((deadline, thread)))
                    if ready.is_some() || self.in_host == 0 || fire =>
                {
                    self.wake(threads, thread, deadline, Woken::Deadline);
                }
                (_, timer) if self.in_host > 0 => {
                    return Next::Idle {
                        deadline: timer.map(|(deadline, _)| deadline),
                    };
                }
                _ => return Next::Deadlock,
            }
        }
    }

    /// The end of the thread's time on its core; none if nobody waits for one.
    pub(crate) fn slice_end(&self, thread: &Thread) -> Option<Ticks> {
        if thread.evicted {
            return Some(0);
        }
        self.is_crowded().then_some(thread.slice_end)
    }

    /// Another thread may run elsewhere from `at` on than before: where it is not any more, or where it could not.
    pub(crate) fn rebind(
        &mut self,
        threads: &mut [Thread],
        thread: usize,
        set: CoreSet,
        at: Ticks,
    ) {
        let state = &mut threads[thread];
        let holds = |seat: Processor| self.seats[usize::from(seat)].thread == Some(thread);
        let has = state.processor.filter(|&seat| holds(seat));
        state.evicted = has.is_some_and(|seat| !set.contains(seat));
        state.affinity = Some(set);
        if state.evicted && state.state == State::Spinning {
            let now = state.time.max(at);
            self.make_ready(threads, thread, now);
        } else if let Some(index) = self.waiting.iter().position(|&waiting| waiting == thread) {
            self.waiting.remove(index);
            self.place(threads, thread, at);
        }
    }

    /// A thread whose slice is over gives its core away and waits for another.
    pub(crate) fn preempt(&mut self, threads: &mut [Thread], thread: usize) {
        self.leave(threads, thread);
        let now = threads[thread].time;
        self.place(threads, thread, now);
    }
}

/// When a thread that spins has to look whether others wait for its core.
fn slice_over(thread: &Thread) -> Ticks {
    thread.slice_end.max(thread.time)
}

#[cfg(test)]
mod tests;
