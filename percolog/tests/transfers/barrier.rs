//! Where simulated threads meet, and wait for each other to prepare something.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often threads can meet at one barrier.
const MEETINGS: usize = 64;

/// How often each can do something alone.
const ROUNDS: usize = 8;

/// `std::sync::Barrier` for threads that are simulated, all of which begin at nearly the same moment.
///
/// That of the standard library has a lock. Whom it wakes takes that lock before going on, so that the last one goes on when all others have
/// had it; and of 256 who want it most go back to sleep again and again. Each time the simulator hands a turn from thread to
/// thread, and that is what simulating takes time for. Here each comes, sleeps, and is woken once; all are woken by one call.
#[derive(Debug)]
pub(crate) struct Barrier {
    threads: usize,
    arrived: OwnLine<AtomicUsize>,
    /// Each is used once: nobody who is slow to leave one finds the next one's state in it.
    meetings: [OwnLine<Once>; MEETINGS],
    /// Those who have come to do something alone, in all rounds.
    entered: OwnLine<AtomicUsize>,
    /// Those who have done it.
    done: Box<[OwnLine<Once>]>,
}

/// Threads that leave a meeting read what they have slept on, while others come to the next one.
#[derive(Debug)]
#[repr(align(128))]
struct OwnLine<T>(T);

/// How a thread has left a [`Barrier`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    leads: bool,
}

impl Left {
    /// Whether it was the last to come: one of those who meet is.
    pub(crate) fn is_leader(self) -> bool {
        self.leads
    }
}

impl Barrier {
    /// For that many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: OwnLine(AtomicUsize::new(0)),
            meetings: [const { OwnLine(Once::new()) }; MEETINGS],
            entered: OwnLine(AtomicUsize::new(0)),
            done: (0..threads * ROUNDS)
                .map(|_| OwnLine(Once::new()))
                .collect(),
        }
    }

    /// Waits until all threads are here. Panics if they have met [`MEETINGS`] times.
    pub(crate) fn wait(&self) -> Left {
        // AcqRel: what each did before it came, whoever comes last has seen, and with the meeting's end it is passed on to all.
        let before = self.arrived.0.fetch_add(1, Ordering::AcqRel);
        let OwnLine(meeting) = &self.meetings[before / self.threads];
        let leads = before % self.threads == self.threads - 1;
        if leads {
            meeting.call_once(|| ());
        } else {
            meeting.wait();
        }
        Left { leads }
    }

    /// Does what is not counted while all others sleep: one thread after the other, as they come. What all do at the same time to the
    /// same lines takes as many turns to simulate as there are pairs of threads. Panics if each has done so [`ROUNDS`] times.
    pub(crate) fn alone(&self, work: impl FnOnce()) {
        // Relaxed: it says only who comes after whom; what those before have done, their `Once` passes on.
        let place = self.entered.0.fetch_add(1, Ordering::Relaxed);
        if let Some(before) = place.checked_sub(1) {
            self.done[before].0.wait();
        }
        work();
        self.done[place].0.call_once(|| ());
    }
}
